"""Checks that block: while one of them fails, no hour closes. Plain Arrow, no Spark, so `check` needs no JVM.

    gaps          every node's segments are contiguous, whole and chained
    rows          rows in the ledger = rows that the nodes say they handed over
    counters      units in the ledger = the nodes' own lifetime counters, node by node
    rollups       units by minute, hour and day = units of good rows in the ledger, hour by hour
    measures      none is null or negative
    billed        units recorded for closed hours = units of these hours
    record_ids    unique

Cost: reads a few columns of every row; ten million rows take seconds.
"""

import functools
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.ledger import tables
from holdfast.ledger.positions import from_transactions
from holdfast.ledger.spool import Problem
from holdfast.ledger.store import Snapshot, TableStore, hour_name
from holdfast.ledger.tables import Table
from holdfast.pipeline import rollup
from holdfast.usage import schema

DAY_US = 24 * 3_600_000_000


class Check(msgspec.Struct, frozen=True):
    check: str
    subject: str
    is_good: bool
    expected: str = ""
    found: str = ""
    detail: str = ""


def all_checks(store: TableStore, problems: Collection[Problem]) -> list[Check]:
    return [
        *gaps(problems),
        *rows(store),
        *counters(store),
        *rollups(store),
        *measures(store),
        *billed(store),
        *record_ids(store),
    ]


def before_closing(store: TableStore) -> list[Check]:
    """Those whose failure says that a bill would be wrong. Gaps are no such: they keep their own hours open."""
    return [*rows(store), *counters(store), *rollups(store), *measures(store)]


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


def counters(store: TableStore) -> Iterator[Check]:
    """The second and third part of the balance: what nodes counted is what the ledger has."""
    ledger = store.snapshot(tables.LEDGERS[schema.METER])
    found = _sums(store, ledger, by="node", measure="units")
    for node, at in from_transactions(schema.METER, ledger.transactions).items():
        yield _equal("counters", node, expected=at.lifetime.get("units", 0), found=found.get(node, 0))


def rollups(store: TableStore) -> Iterator[Check]:
    """Of hours and days that are up to date; the others are about to be computed anew."""
    ledger = store.snapshot(tables.LEDGERS[schema.METER])
    wanted = _sums(store, ledger, by="hour", measure="units")
    current = rollup.ledger_numbers(ledger)
    for table in (tables.USAGE_MINUTE, tables.USAGE_HOURLY):
        seen = store.snapshot(table)
        fresh = [hour for hour, number in rollup.numbers(seen).items() if current.get(hour) == number]
        found = _sums(store, seen, by="hour", measure="billed_units")
        yield _compare(table, {each: wanted.get(each, 0) for each in fresh}, found)
    daily = store.snapshot(tables.USAGE_DAILY)
    days: dict[int, int] = {}
    stale = {hour - hour % DAY_US for hour in current if rollup.numbers(daily).get(hour) != current[hour]}
    for hour in current:
        days[hour - hour % DAY_US] = days.get(hour - hour % DAY_US, 0) + wanted.get(hour, 0)
    found = _sums(store, daily, by="day", measure="billed_units")
    yield _compare(tables.USAGE_DAILY, {day: units for day, units in days.items() if day not in stale}, found)


def measures(store: TableStore) -> Iterator[Check]:
    for table in (tables.USAGE_MINUTE, tables.USAGE_HOURLY, tables.USAGE_DAILY):
        seen = store.snapshot(table)
        wrong = 0
        for part in _parts(store, seen, list(tables.MEASURES)):
            bad = [
                pc.or_kleene(pc.is_null(part.column(each)), pc.less(part.column(each), 0)) for each in part.schema.names
            ]
            wrong += pc.sum(functools.reduce(pc.or_kleene, bad)).as_py() or 0
        yield _equal("measures", table.name, expected=0, found=wrong)


def billed(store: TableStore) -> Iterator[Check]:
    """The first part of the balance: what is recorded for closed hours is what these hours have."""
    hourly, billing = store.snapshot(tables.USAGE_HOURLY), store.snapshot(tables.BILLING_USAGE)
    recorded = rollup.numbers(billing)
    closed = [hour for hour, number in rollup.numbers(hourly).items() if recorded.get(hour) == number]
    wanted = _sums(store, hourly, by="hour", measure="billed_units")
    found = _sums(store, billing, by="hour", measure="quantity")
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


def _sums(store: TableStore, seen: Snapshot, *, by: str, measure: str) -> dict[Any, int]:
    """Sums of a measure per node, or per hour in µs. One file at a time, so memory does not grow with the table."""
    total: dict[Any, int] = {}
    for part in _parts(store, seen, [by, measure]):
        keys = part.column(by)
        plain = keys.cast(pa.int64()) if pa.types.is_timestamp(keys.type) else keys
        summed = pa.table({"key": plain, "value": part.column(measure)}).group_by("key").aggregate([("value", "sum")])
        for each in summed.to_pylist():
            total[each["key"]] = total.get(each["key"], 0) + int(each["value_sum"] or 0)
    return total


def _parts(store: TableStore, seen: Snapshot, columns: list[str]) -> Iterator[Any]:
    for file in seen.files:
        yield store.read_file(seen, file, columns=columns)
