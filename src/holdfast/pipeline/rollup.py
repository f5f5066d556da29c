"""Usage by minute, hour and day: hours are computed anew from the ledger when the ledger has changed.

    ledger ── rows of an hour ──▶ usage_minute ──▶ usage_hourly ──▶ usage_daily

What an hour was computed from is the number of its rows in the ledger, kept as the transaction id `hour/<hour>` of each
table, in the commit that replaces the hour. Rows are only ever added to the ledger, so an hour whose numbers are equal
is up to date. There is no state and no watermark: a row that comes a week late is the same work as one that is on time.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from holdfast.ledger import tables
from holdfast.ledger.store import Snapshot, TableStore, hour_name, hour_of
from holdfast.ledger.tables import Table
from holdfast.pipeline import usage
from holdfast.pipeline.job import Job

PREFIX: Final = "hour/"
HOURS_MAX: Final = 240  # in one commit: bounds what a crash repeats
DAY_US: Final = 24 * 3_600_000_000

Numbers = dict[int, int]  # hour, in µs: rows of the ledger that it was made of


def numbers(seen: Snapshot) -> Numbers:
    """What each hour of a rolled-up table was made of."""
    return {hour_of(name): number for name, number in seen.numbers(PREFIX).items()}


def ledger_numbers(ledger: Snapshot) -> Numbers:
    return {hour: count for hour, count in ledger.rows_by().items() if hour != tables.NO_HOUR_US}


def transactions(of: Mapping[int, int]) -> dict[str, int]:
    return {PREFIX + hour_name(hour): number for hour, number in of.items()}


def is_due(store: TableStore) -> bool:
    """Whether an hour is not up to date. Starts no JVM."""
    source = ledger_numbers(store.snapshot(tables.LEDGERS["meter"]))
    return any(
        _stale(source, numbers(store.snapshot(each)))
        for each in (tables.USAGE_MINUTE, tables.USAGE_HOURLY, tables.USAGE_DAILY)
    )


def rollup(job: Job, *, forced: Collection[int] = ()) -> int:
    """Brings all three tables up to date, and computes `forced` hours anew in any case. Answers how many hours."""
    ledger = job.look(tables.LEDGERS["meter"])
    done = _advance(job, ledger, tables.USAGE_MINUTE, source_numbers=ledger_numbers(ledger), forced=forced)
    minute = job.store.snapshot(tables.USAGE_MINUTE)
    _advance(job, minute, tables.USAGE_HOURLY, source_numbers=numbers(minute), forced=forced)
    _advance_days(job, forced=forced)
    return done


def _stale(source: Numbers, target: Numbers, forced: Collection[int] = ()) -> Numbers:
    return {hour: rows for hour, rows in sorted(source.items()) if target.get(hour) != rows or hour in forced}


def _advance(job: Job, source: Snapshot, target: Table, *, source_numbers: Numbers, forced: Collection[int]) -> int:
    stage = usage.minutes if target is tables.USAGE_MINUTE else usage.hours
    seen = job.look(target)
    due = _stale(source_numbers, numbers(seen), forced)
    for some in _pieces(due):
        seen = job.look(target)
        made = stage(job.read(source, some), run_id=job.run_id)
        job.commit(made, seen, transactions=transactions(some), replace=some)
    return len(due)


def _advance_days(job: Job, *, forced: Collection[int]) -> None:
    hourly, seen = job.store.snapshot(tables.USAGE_HOURLY), job.look(tables.USAGE_DAILY)
    known = numbers(hourly)
    days = sorted({_day(hour) for hour in _stale(known, numbers(seen), forced)})
    if not days:
        return
    hours = {hour: rows for hour, rows in known.items() if _day(hour) in days}
    made = usage.days(job.read(hourly, hours), run_id=job.run_id)
    job.commit(made, seen, transactions=transactions(hours), replace=days)


def _day(hour_us: int) -> int:
    return hour_us - hour_us % DAY_US


def _pieces(due: Numbers) -> Iterable[Numbers]:
    hours = list(due)
    for begin in range(0, len(hours), HOURS_MAX):
        yield {hour: due[hour] for hour in hours[begin : begin + HOURS_MAX]}
