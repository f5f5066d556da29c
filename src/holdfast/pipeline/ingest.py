"""From the spool into the ledger: each segment's rows once, together with the mark that they are there.

    look at the ledger ──▶ plan from its own marks ──▶ rows by Spark ──▶ one commit on the version looked at

There is no checkpoint: where to begin is written in the table that the rows are in, so nothing can disagree. A run that
dies anywhere leaves files that no commit names; the next one begins where the last commit ended.
"""

from pathlib import Path
from typing import Final

import msgspec
from pyspark.sql import DataFrame

from holdfast.ledger import spool, tables
from holdfast.ledger.positions import from_transactions, to_transactions
from holdfast.ledger.spool import Plan, Problem
from holdfast.ledger.store import TableStore
from holdfast.pipeline import rows
from holdfast.pipeline.job import Job
from holdfast.spark import usage_source
from holdfast.usage import schema

ROUNDS_MAX: Final = 1_000_000  # of one kind in one run; each takes at least one segment
ROWS_PER_TASK: Final = 20_000  # reading them takes about as long as starting a task
TASKS_MAX: Final = 64


class Ingested(msgspec.Struct):
    segments: int = 0
    rows: int = 0
    problems: list[Problem] = []


def has_new(store: TableStore, root: Path) -> bool:
    """Whether there is anything to take over. Starts no JVM."""
    return any(
        spool.has_new(root, kind, from_transactions(kind, store.snapshot(tables.LEDGERS[kind]).transactions))
        for kind in schema.KINDS
    )


def ingest(job: Job, *, segments_max: int = spool.SEGMENTS_MAX) -> Ingested:
    """All that is there, in as many commits as that takes. Problems stop their nodes, not the others."""
    done = Ingested()
    for kind in schema.KINDS:
        for _ in range(ROUNDS_MAX):
            plan = _ingest_some(job, kind, segments_max=segments_max)
            done.segments += plan.segments
            done.rows += plan.rows
            if not plan.ranges or plan.segments < segments_max:
                done.problems.extend(plan.problems)
                break
    return done


def _ingest_some(job: Job, kind: str, *, segments_max: int) -> Plan:
    seen = job.look(tables.LEDGERS[kind])
    positions = from_transactions(kind, seen.transactions)
    plan = spool.plan(job.spool, kind, positions=positions, segments_max=segments_max)
    transactions = to_transactions(kind, plan.after)
    if plan.rows:
        made = rows.ledger_rows(source(job, plan), kind=kind, run_id=job.run_id, now_us=job.now_us)
        job.commit(made, seen, transactions=transactions, rows_expected=plan.rows)
    elif plan.ranges:  # heartbeats: time has passed, and nothing was used
        job.store.append(seen, [], transactions=transactions, run_id=job.run_id)
    return plan


def source(job: Job, plan: Plan) -> DataFrame:
    return (
        job.spark.read.format(usage_source.FORMAT)
        .option("kind", plan.kind)
        .option("ranges", msgspec.json.encode(plan.ranges).decode())
        .option("partitions", str(_tasks(plan.rows)))
        .load(str(job.spool))
    )


def _tasks(count: int) -> int:
    return max(1, min(TASKS_MAX, count // ROWS_PER_TASK))
