"""Checks that block: while one of them fails, no hour closes. Plain Arrow, no Spark, so `check` needs no JVM.

    gaps          every node's segments are contiguous, whole and chained
    rows          rows in the ledger = rows that the nodes say they handed over
    counters      units in the ledger = the nodes' own lifetime counters, node by node
    rollups       units by minute, hour and day = units of good rows in the ledger, hour by hour
    measures      none is null or negative
    billed        units recorded for closed hours = units of these hours
    record_ids    unique

Cost: reads a few columns of every file, one at a time; ten million rows take half a minute. Files never change, so that
whoever checks again and again (`Sums`) reads only those that are new.
"""

import functools
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

import msgspec
import pyarrow.compute as pc

from holdfast.ledger import tables
from holdfast.ledger.files import DataFile
from holdfast.ledger.positions import from_transactions
from holdfast.ledger.spool import Problem
from holdfast.ledger.store import Snapshot, TableStore, hour_name
from holdfast.ledger.tables import Table
from holdfast.pipeline import rollup
from holdfast.usage import schema

DAY_US: Final = 24 * 3_600_000_000
ROLLUPS: Final = (tables.USAGE_MINUTE, tables.USAGE_HOURLY, tables.USAGE_DAILY)


class Check(msgspec.Struct, frozen=True):
    check: str
    subject: str
    is_good: bool
    expected: str = ""
    found: str = ""
    detail: str = ""


class Summed(msgspec.Struct, frozen=True):
    """What is in a file: units, by node in the ledger, and rows with a measure that is null or negative."""

    units: dict[str, int]
    wrong: int = 0


class Sums:
    """Of the files of tables, each read once. One that is no part of its table any more is forgotten."""

    def __init__(self, store: TableStore) -> None:
        self._store = store
        self._known: dict[str, dict[DataFile, Summed]] = {}

    def of(self, seen: Snapshot, read: Callable[[TableStore, Snapshot, DataFile], Summed]) -> dict[DataFile, Summed]:
        known = self._known.get(seen.table.name, {})
        found = {file: known.get(file) or read(self._store, seen, file) for file in seen.files}
        self._known[seen.table.name] = found
        return found


def all_checks(store: TableStore, problems: Collection[Problem]) -> list[Check]:
    sums = Sums(store)
    return [*gaps(problems), *before_closing(store, sums), *billed(store, sums), *record_ids(store)]


def before_closing(store: TableStore, sums: Sums) -> list[Check]:
    """Those whose failure says that a bill would be wrong. Gaps are no such: they keep their own hours open."""
    return [*rows(store), *counters(store, sums), *rollups(store, sums), *measures(store, sums)]


def gaps(problems: Collection[Problem]) -> Iterator[Check]:
    if not problems:
        yield Check("gaps", "all nodes", is_good=True)
    for each in problems:
        yield Check("gaps", f"{each.kind}/{each.node}", is_good=False, found=each.what, detail=each.detail)


def rows(store: TableStore) -> Iterator[Check]:
    for kind in schema.KINDS:
        ledger = store.snapshot(tables.LEDGERS[kind])
        positions = from_transactions(kind, ledger.transactions)
        wanted = sum(each.lifetime.get("rows", 0) for each in positions.values())
        yield _equal("rows", f"ledger.{kind}", expected=wanted, found=ledger.rows)


def counters(store: TableStore, sums: Sums) -> Iterator[Check]:
    """The second and third part of the balance: what nodes counted is what the ledger has."""
    ledger = store.snapshot(tables.LEDGERS[schema.METER])
    found: dict[str, int] = {}
    for summed in sums.of(ledger, _ledger_file).values():
        for node, units in summed.units.items():
            found[node] = found.get(node, 0) + units
    for node, at in from_transactions(schema.METER, ledger.transactions).items():
        yield _equal("counters", node, expected=at.lifetime.get("units", 0), found=found.get(node, 0))


def rollups(store: TableStore, sums: Sums) -> Iterator[Check]:
    """Of hours and days that are up to date; the others are about to be computed anew."""
    ledger = store.snapshot(tables.LEDGERS[schema.METER])
    wanted = _units_by(sums.of(ledger, _ledger_file))
    current = rollup.ledger_numbers(ledger)
    for table in (tables.USAGE_MINUTE, tables.USAGE_HOURLY):
        seen = store.snapshot(table)
        fresh = [hour for hour, number in rollup.numbers(seen).items() if current.get(hour) == number]
        found = _units_by(sums.of(seen, _usage_file))
        yield _compare(table, {each: wanted.get(each, 0) for each in fresh}, found)
    daily = store.snapshot(tables.USAGE_DAILY)
    made_of = rollup.numbers(daily)
    stale = {hour - hour % DAY_US for hour in current if made_of.get(hour) != current[hour]}
    days: dict[int, int] = {}
    for hour in current:
        days[hour - hour % DAY_US] = days.get(hour - hour % DAY_US, 0) + wanted.get(hour, 0)
    found = _units_by(sums.of(daily, _usage_file))
    yield _compare(tables.USAGE_DAILY, {day: units for day, units in days.items() if day not in stale}, found)


def measures(store: TableStore, sums: Sums) -> Iterator[Check]:
    for table in ROLLUPS:
        found = sums.of(store.snapshot(table), _usage_file)
        yield _equal("measures", table.name, expected=0, found=sum(each.wrong for each in found.values()))


def billed(store: TableStore, sums: Sums) -> Iterator[Check]:
    """The first part of the balance: what is recorded for closed hours is what these hours have."""
    hourly, billing = store.snapshot(tables.USAGE_HOURLY), store.snapshot(tables.BILLING_USAGE)
    recorded = rollup.numbers(billing)
    closed = [hour for hour, number in rollup.numbers(hourly).items() if recorded.get(hour) == number]
    wanted, found = _units_by(sums.of(hourly, _usage_file)), _units_by(sums.of(billing, _billing_file))
    yield _compare(tables.BILLING_USAGE, {each: wanted.get(each, 0) for each in closed}, found)


def record_ids(store: TableStore) -> Iterator[Check]:
    ids = store.read(store.snapshot(tables.BILLING_USAGE), columns=["record_id"]).column("record_id")
    yield _equal("record_ids", "report.billing_usage", expected=len(ids), found=len(pc.unique(ids)))


def _equal(check: str, subject: str, *, expected: int, found: int) -> Check:
    return Check(check, subject, is_good=expected == found, expected=str(expected), found=str(found))


def _compare(table: Table, wanted: Mapping[int, int], found: Mapping[Any, int]) -> Check:
    check = "billed" if table is tables.BILLING_USAGE else "rollups"
    wrong = [each for each in sorted(wanted) if wanted[each] != found.get(each, 0)]
    expected, summed = sum(wanted.values()), sum(found.get(each, 0) for each in wanted)
    detail = f"differs first in {hour_name(wrong[0])}" if wrong else ""
    return Check(check, table.name, is_good=not wrong, expected=str(expected), found=str(summed), detail=detail)


def _units_by(found: Mapping[DataFile, Summed]) -> dict[int, int]:
    """By hour or day, in µs: a file has the rows of one."""
    total: dict[int, int] = {}
    for file, summed in found.items():
        total[file.by_us or 0] = total.get(file.by_us or 0, 0) + sum(summed.units.values())
    return total


def _ledger_file(store: TableStore, seen: Snapshot, file: DataFile) -> Summed:
    part = store.read_file(seen, file, columns=["node", "units"])
    summed = part.group_by("node").aggregate([("units", "sum")])
    return Summed({row["node"]: row["units_sum"] or 0 for row in summed.to_pylist()})


def _usage_file(store: TableStore, seen: Snapshot, file: DataFile) -> Summed:
    part = store.read_file(seen, file, columns=list(tables.MEASURES))
    bad = [pc.or_kleene(pc.is_null(each), pc.less(each, 0)) for each in part.columns]
    return Summed(
        {"": pc.sum(part.column("billed_units")).as_py() or 0},
        wrong=pc.sum(functools.reduce(pc.or_kleene, bad)).as_py() or 0,
    )


def _billing_file(store: TableStore, seen: Snapshot, file: DataFile) -> Summed:
    part = store.read_file(seen, file, columns=["quantity"])
    return Summed({"": int(pc.sum(part.column("quantity")).as_py() or 0)})
