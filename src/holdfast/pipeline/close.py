"""Closing: an hour that every node has passed is recorded for billing; a closed hour that changes is corrected.

    usage_hourly ── hours that are closed, and not yet recorded as they are now ──▶ billing_usage

What an hour was recorded from is its number of ledger rows, as in the rollups: the transaction id `hour/<hour>`. When a
late row changes it, the hour is recorded again, and only then: what stands is taken back (RETRACTION) and said anew
(RESTATEMENT). No record is ever edited. Checks come first, and none is recorded while one of them fails.
"""

import datetime
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

import msgspec
from pyspark.sql import DataFrame

from holdfast.ledger import closing, tables
from holdfast.ledger.positions import from_transactions
from holdfast.ledger.spool import Problem
from holdfast.ledger.store import Snapshot, TableStore
from holdfast.pipeline import rollup
from holdfast.pipeline.job import Job
from holdfast.usage import schema

ROWS_MAX: Final = 200_000  # of hours in one commit: what Spark, and this process, hold of them at a time
Records = Callable[..., DataFrame]  # publish.billing.records


class Terms(msgspec.Struct, frozen=True):
    """What an operator may say about closing."""

    grace_us: int = closing.GRACE_US
    abandoned: frozenset[str] = frozenset()  # nodes that never come back


def due(store: TableStore, *, problems: Collection[Problem], terms: Terms, now_us: int) -> rollup.Numbers:
    """Hours to record, with what they are made of. Starts no JVM."""
    hourly = rollup.numbers(store.snapshot(tables.USAGE_HOURLY))
    recorded = rollup.numbers(store.snapshot(tables.BILLING_USAGE))
    passed = passed_us(store, problems=problems, terms=terms, now_us=now_us)
    closed = {*closing.closable(hourly, passed, grace_us=terms.grace_us), *recorded}
    return {hour: number for hour, number in sorted(hourly.items()) if hour in closed and recorded.get(hour) != number}


def passed_us(store: TableStore, *, problems: Collection[Problem], terms: Terms, now_us: int) -> int:
    ledger = store.snapshot(tables.LEDGERS[schema.METER])
    positions = from_transactions(schema.METER, ledger.transactions)
    troubled = {each.node for each in problems if each.kind == schema.METER}
    return closing.passed_us(positions, troubled=troubled, abandoned=terms.abandoned, now_us=now_us)


def record(job: Job, hours: rollup.Numbers, *, records: Records) -> int:
    """Appends what `records` makes of these hours, and their numbers: some hours at a time, in one commit each. An hour
    that was computed anew since it was found due stays due, for nobody has checked it. Answers how many hours."""
    hourly, states = job.look(tables.USAGE_HOURLY), job.look(tables.LEDGERS[schema.QUEUE_STATE])
    known = rollup.numbers(hourly)
    current = {hour: number for hour, number in hours.items() if known.get(hour) == number}
    for some in _pieces(current, hourly):
        seen = job.look(tables.BILLING_USAGE)
        made = records(
            job.read(hourly, some),
            job.read(seen, some),
            states=job.read(states, some),
            run_id=job.run_id,
            recorded_at=moment(job.now_us),
        )
        used, recorded = hourly.rows_by(), seen.rows_by()
        rows_max = sum(used.get(hour, 0) + 2 * recorded.get(hour, 0) for hour in some)  # a correction is two
        job.commit(made, seen, transactions=rollup.transactions(some), rows_max=rows_max)
    return len(current)


def _pieces(hours: rollup.Numbers, hourly: Snapshot) -> Iterator[rollup.Numbers]:
    """Neighbours together, up to ROWS_MAX rows; an hour that has more comes alone."""
    rows: Mapping[int, int] = hourly.rows_by()
    piece: rollup.Numbers = {}
    held = 0
    for hour, number in hours.items():
        if piece and held + rows.get(hour, 0) > ROWS_MAX:
            yield piece
            piece, held = {}, 0
        piece[hour] = number
        held += rows.get(hour, 0)
    if piece:
        yield piece


def moment(time_us: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(time_us // 1_000_000, datetime.UTC) + datetime.timedelta(
        microseconds=time_us % 1_000_000
    )
