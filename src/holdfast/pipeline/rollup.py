"""Usage by minute, hour and day: hours are computed anew from the ledger when the ledger has changed.

    ledger ── rows of an hour ──▶ usage_minute, usage_hourly ── hours of a day ──▶ usage_daily

What an hour was computed from is the number of its rows in the ledger, kept as the transaction id `hour/<hour>` of each
table, in the commit that replaces the hour. Rows are only ever added to the ledger, so an hour whose numbers are equal
is up to date. There is no state and no watermark: a row that comes a week late is the same work as one that is on time.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from holdfast.ledger import tables
from holdfast.ledger.store import Snapshot, TableStore, hour_name, hour_of
from holdfast.pipeline import orders
from holdfast.pipeline.job import Job
from holdfast.pipeline.orders import AddDays, RollUp, Source

PREFIX: Final = "hour/"
HOURS_MAX: Final = 720  # in one commit: bounds what a crash repeats
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
    source = ledger_numbers(ledger)
    due = {
        **_stale(source, numbers(job.look(tables.USAGE_MINUTE)), forced),
        **_stale(source, numbers(job.look(tables.USAGE_HOURLY)), forced),
    }
    for some in _pieces(dict(sorted(due.items()))):
        _advance(job, ledger, some)
    _advance_days(job, forced=forced)
    return len(due)


def _stale(source: Numbers, target: Numbers, forced: Collection[int] = ()) -> Numbers:
    return {hour: rows for hour, rows in sorted(source.items()) if target.get(hour) != rows or hour in forced}


def _advance(job: Job, ledger: Snapshot, due: Numbers) -> None:
    """Minutes and hours, one commit each. A run that dies between them leaves hours that are still due."""
    seen = [job.look(tables.USAGE_MINUTE), job.look(tables.USAGE_HOURLY)]
    root, run_id = str(job.store.root), job.run_id
    wanted = [RollUp(root, run_id, some) for some in orders.shared(orders.sources(ledger, due))]
    made = job.carry_out(wanted, rows=sum(due.values()))
    for each in seen:
        job.settle(each, made.get(each.table.name, []), transactions=transactions(due), replace=due)


def _advance_days(job: Job, *, forced: Collection[int]) -> None:
    hourly, seen = job.store.snapshot(tables.USAGE_HOURLY), job.look(tables.USAGE_DAILY)
    known = numbers(hourly)
    days = sorted({_day(hour) for hour in _stale(known, numbers(seen), forced)})
    if not days:
        return
    hours = {hour: rows for hour, rows in known.items() if _day(hour) in days}
    many = _by_day(orders.sources(hourly, hours))
    wanted = [AddDays(str(job.store.root), job.run_id, some) for some in orders.shared(many)]
    made = job.carry_out(wanted, rows=sum(each.rows for each in many))
    job.settle(seen, made.get(seen.table.name, []), transactions=transactions(hours), replace=days)


def _by_day(hours: Iterable[Source]) -> list[Source]:
    found: dict[int, Source] = {}
    for each in hours:
        day = _day(each.by_us)
        known = found.get(day, Source(day, (), 0))
        found[day] = Source(day, (*known.paths, *each.paths), known.rows + each.rows)
    return list(found.values())


def _day(hour_us: int) -> int:
    return hour_us - hour_us % DAY_US


def _pieces(due: Numbers) -> Iterable[Numbers]:
    hours = list(due)
    for begin in range(0, len(hours), HOURS_MAX):
        yield {hour: due[hour] for hour in hours[begin : begin + HOURS_MAX]}
