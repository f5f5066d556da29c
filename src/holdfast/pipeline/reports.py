"""Publishing: the report tables are brought up to date with the ledger. A step like the others, after closing.

    billing_usage ───────────────▶ focus_cost           by month
    usage_hourly, queue_state, ──▶ service_levels, queue_flow, causes, forecast, hot queues, then alerts   by day
    dead_letter, audit       ────▶ audit_ocsf ──▶ sealed audit files and their digests                     plain Python

What a day of a report was made of is one number: the rows that the ledger has of it. It only ever grows, and it is the
transaction id `day/<day>` of the commit that replaces the day; where it differs, the day is computed anew, with all
that follow it, for budgets look back. So publishing has no state of its own, and a run that dies is repeated by the
next.
"""

import datetime
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from holdfast.ledger import tables
from holdfast.ledger.closing import HOUR_US
from holdfast.ledger.store import Snapshot, TableStore
from holdfast.ledger.tables import Table
from holdfast.pipeline import digests, rollup
from holdfast.pipeline import rates as rate_files
from holdfast.pipeline.close import moment
from holdfast.pipeline.digests import Entry, Event
from holdfast.pipeline.job import Job
from holdfast.pipeline.publish import alerts, audit, capacity, causes, flow, focus, levels
from holdfast.pipeline.publish import tables as reports
from holdfast.pipeline.rates import Rates
from holdfast.usage import schema

DAY_US: Final = 24 * HOUR_US
# Of the ledger, in one commit: bounds what Spark sorts and writers hold.
ROWS_MAX: Final = 10_000_000
HISTOGRAM_ROWS_MAX: Final = 1_000_000  # each is a third of a kilobyte
LOOK_BACK_US: Final = 35 * DAY_US  # budgets of 30 days, and five of each hour of the week
DAY, MONTH, RATES = "day/", "month/", "rates"

Numbers = dict[int, int]  # day or month, in µs: rows of the ledger that it was made of


class Terms(msgspec.Struct, frozen=True):
    """What an operator may say about reports."""

    rates: Rates
    region: str
    version: str  # of Holdfast, as audit events name it
    target: float = levels.TARGET


class Published(msgspec.Struct):
    days: int = 0
    months: int = 0
    sealed: int = 0  # audit files

    @property
    def did_something(self) -> bool:
        return bool(self.days or self.months or self.sealed)


# --- what is due: plain Python -----------------------------------------------------------------------------


def day_numbers(store: TableStore) -> Numbers:
    found = _by(rollup.numbers(store.snapshot(tables.USAGE_HOURLY)), _day)
    for kind in (schema.QUEUE_STATE, schema.DEAD_LETTER, schema.AUDIT):
        for day, rows in _by(rollup.ledger_numbers(store.snapshot(tables.LEDGERS[kind])), _day).items():
            found[day] = found.get(day, 0) + rows
    return found


def due_days(source: Numbers, seen: Snapshot) -> list[int]:
    """From the first day that differs on, because later ones look back at it."""
    known = {day_of(name): number for name, number in seen.numbers(DAY).items()}
    changed = [day for day, number in source.items() if known.get(day) != number]
    return sorted(day for day in source if changed and day >= min(changed))


def due_months(store: TableStore, rates: Rates) -> Numbers:
    current = by_month(store.snapshot(tables.BILLING_USAGE).rows_by())
    seen = store.snapshot(reports.FOCUS_COST)
    if seen.transactions.get(RATES) != rates_number(rates):
        return current
    known = {day_of(name): number for name, number in seen.numbers(MONTH).items()}
    return {month: rows for month, rows in current.items() if known.get(month) != rows}


def rates_number(rates: Rates) -> int:
    """Tells one rates file from another."""
    return int.from_bytes(hashlib.sha256(msgspec.json.encode(rates)).digest()[:6], "big")


def is_due(store: TableStore, terms: Terms) -> bool:
    source = day_numbers(store)
    return bool(due_months(store, terms.rates)) or any(
        due_days(source, store.snapshot(table)) for table in reports.DAILY
    )


def by_month(numbers: Numbers) -> Numbers:
    return _by(numbers, month_of)


def _by(numbers: Numbers, period: Callable[[int], int]) -> Numbers:
    summed: Numbers = {}
    for at_us, count in numbers.items():
        summed[period(at_us)] = summed.get(period(at_us), 0) + count
    return summed


def _day(at_us: int) -> int:
    return at_us - at_us % DAY_US


def month_of(at_us: int) -> int:
    return int(moment(at_us).replace(day=1, hour=0, minute=0, second=0, microsecond=0).timestamp()) * 1_000_000


def _name(day_us: int) -> str:
    return f"{moment(day_us):%Y-%m-%d}"


def day_of(name: str) -> int:
    return int(datetime.datetime.fromisoformat(f"{name}T00:00:00+00:00").timestamp()) * 1_000_000


# --- publishing --------------------------------------------------------------------------------------------


class Daily(NamedTuple):
    """A report that is made by day: from what, and how."""

    table: Table
    make: Callable[["Inputs"], DataFrame]
    rows_max: int = ROWS_MAX


class Inputs:
    """What stages of some days read. Frames are lazy: nothing is read before a stage asks for rows."""

    def __init__(self, job: Job, days: Sequence[int], terms: Terms) -> None:
        self.run_id, self.terms = job.run_id, terms
        self._job, self._days = job, days

    def hourly(self, back_us: int = 0) -> DataFrame:
        return self._read(tables.USAGE_HOURLY, back_us)

    def ledger(self, kind: str, back_us: int = 0) -> DataFrame:
        return self._read(tables.LEDGERS[kind], back_us).where(F.col("fault").isNull())

    def report(self, table: Table) -> DataFrame:
        return self._read(table, LOOK_BACK_US)

    def _read(self, table: Table, back_us: int) -> DataFrame:
        seen = self._job.store.snapshot(table)
        begin, end = min(self._days) - back_us, max(self._days) + DAY_US
        return self._job.read(seen, [by for by in seen.rows_by() if begin <= by < end])


FIRST = (
    Daily(
        reports.SERVICE_LEVELS,
        lambda i: levels.service_levels(i.hourly(), i.hourly(LOOK_BACK_US), run_id=i.run_id, target=i.terms.target),
        HISTOGRAM_ROWS_MAX,
    ),
    Daily(
        reports.QUEUE_FLOW,
        lambda i: flow.queue_flow(
            i.hourly(), i.ledger(schema.QUEUE_STATE), i.ledger(schema.DEAD_LETTER), run_id=i.run_id
        ),
    ),
    Daily(
        reports.DEAD_LETTER_CAUSES,
        lambda i: causes.dead_letter_causes(i.ledger(schema.DEAD_LETTER, LOOK_BACK_US), run_id=i.run_id),
    ),
    Daily(
        reports.CAPACITY_FORECAST,
        lambda i: capacity.capacity_forecast(i.ledger(schema.QUEUE_STATE), run_id=i.run_id),
    ),
    Daily(reports.HOT_QUEUES, lambda i: capacity.hot_queues(i.hourly(), run_id=i.run_id)),
    Daily(
        reports.AUDIT_OCSF,
        lambda i: audit.audit_ocsf(i.ledger(schema.AUDIT), product_version=i.terms.version, run_id=i.run_id),
    ),
)
# Made of the others.
THEN = (
    Daily(
        reports.ALERTS,
        lambda i: alerts.alerts(
            i.report(reports.QUEUE_FLOW),
            i.report(reports.SERVICE_LEVELS),
            i.report(reports.DEAD_LETTER_CAUSES),
            run_id=i.run_id,
        ),
    ),
)


def publish(job: Job, terms: Terms, *, progress: Callable[[str], None] = lambda _: None) -> Published:
    """Brings every report up to date. Costs come last: a rate that is missing keeps nobody from seeing an outage."""
    done, source = Published(), day_numbers(job.store)

    def bring(report: Daily) -> list[int]:
        progress(report.table.name)
        return _replace_days(job, report, source, terms)

    days = {day for report in (*FIRST, *THEN) for day in bring(report)}
    done.days = len(days)
    done.sealed = len(seal(job, days))
    progress(reports.FOCUS_COST.name)
    done.months = len(_price(job, terms))
    return done


def _replace_days(job: Job, report: Daily, source: Numbers, terms: Terms) -> list[int]:
    """Some days at a time, in order: each commit leaves those that follow due."""
    days = due_days(source, job.look(report.table))
    for some in _pieces(days, source, rows_max=report.rows_max):
        seen = job.look(report.table)
        made = report.make(Inputs(job, some, terms)).where(F.col("day").isin([moment(day) for day in some]))
        numbers = {DAY + _name(day): source[day] for day in some}
        job.commit(made, seen, transactions=numbers, replace=some, rows_max=sum(source[day] for day in some))
    return days


def _pieces(days: Sequence[int], source: Numbers, *, rows_max: int) -> Iterator[list[int]]:
    """Neighbours together, up to so many rows of the ledger; a day that has more comes alone."""
    piece: list[int] = []
    for day in days:
        if piece and sum(source[each] for each in [*piece, day]) > rows_max:
            yield piece
            piece = []
        piece.append(day)
    if piece:
        yield piece


def _price(job: Job, terms: Terms) -> Numbers:
    months = due_months(job.store, terms.rates)
    if months:
        seen, billing = job.look(reports.FOCUS_COST), job.look(tables.BILLING_USAGE)
        hours = [hour for hour in billing.rows_by() if month_of(hour) in months]
        rate_files.require(terms.rates, _first_used(job.store, hours))
        made = focus.costs(job.read(billing, hours), rates=terms.rates, region=terms.region, run_id=job.run_id)
        numbers = {**{MONTH + _name(month): rows for month, rows in months.items()}, RATES: rates_number(terms.rates)}
        job.commit(made, seen, transactions=numbers, replace=months, rows_max=2 * sum(months.values()))
    return months


def _first_used(store: TableStore, hours: Iterable[int]) -> dict[str, datetime.datetime]:
    """By sku. What has no price is found before Spark prices it, where the error names what to do."""
    seen = store.snapshot(tables.BILLING_USAGE)
    used = store.read(seen, columns=["sku", "start"], by_us=hours).group_by("sku").aggregate([("start", "min")])
    return {row["sku"]: row["start_min"] for row in used.to_pylist()}


# --- sealing audit files: plain Python ---------------------------------------------------------------------


def audit_folder(root: Path) -> Path:
    return root / "audit"


def entries(store: TableStore) -> list[Entry]:
    rows = store.read(store.snapshot(reports.AUDIT_DIGEST)).to_pylist()
    return sorted((digests.entry_of(row) for row in rows), key=lambda entry: entry.number)


def seal(job: Job, days: Iterable[int]) -> list[Entry]:
    """Files for closed hours that have none yet, and for events that came late to `days`."""
    known = entries(job.store)
    sealed, changed = {entry.hour for entry in known}, set(days)
    closed = rollup.numbers(job.store.snapshot(tables.BILLING_USAGE))
    hours = [hour for hour in closed if moment(hour) not in sealed or _day(hour) in changed]
    if not hours:
        return []
    events = _events(job.store, hours)
    added = digests.seal(audit_folder(job.store.root), known, hours=events)
    if added:
        stamp = {"run_id": job.run_id, "schema_version": tables.VERSION}
        rows = [{**msgspec.structs.asdict(entry), **stamp} for entry in added]
        job.store.insert(reports.AUDIT_DIGEST, rows, run_id=job.run_id)
    return added


def _events(store: TableStore, hours: Iterable[int]) -> dict[datetime.datetime, list[Event]]:
    found: dict[datetime.datetime, list[Event]] = {moment(hour): [] for hour in hours}
    seen = store.snapshot(reports.AUDIT_OCSF)
    days = {_day(int(hour.timestamp()) * 1_000_000) for hour in found}
    rows = store.read(seen, columns=["hour", "time", "uid", "event"], by_us=days).to_pylist()
    for row in rows:
        if row["hour"] in found:
            found[row["hour"]].append(Event(row["time"], row["uid"], row["event"]))
    return found


def verify(store: TableStore) -> tuple[list[Entry], list[digests.Finding]]:
    """All sealed files against their chain, and against the events of the ledger."""
    known = entries(store)
    rows = store.read(store.snapshot(reports.AUDIT_OCSF), columns=["uid", "event"]).to_pylist()
    events = {row["uid"]: row["event"] for row in rows}
    return known, digests.verify(audit_folder(store.root), known, events=events)
