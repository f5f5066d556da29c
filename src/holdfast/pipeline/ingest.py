"""From the spool into the ledger: each segment's rows once, together with the mark that they are there.

    look at the ledger ──▶ plan from its own marks ──▶ files by tasks ──▶ one commit on the version looked at

There is no checkpoint: where to begin is written in the table that the rows are in, so nothing can disagree. A run that
dies anywhere leaves files that no commit names; the next one begins where the last commit ended.
"""

from pathlib import Path
from typing import Final

import msgspec

from holdfast.ledger import spool, tables
from holdfast.ledger.errors import Unbalanced
from holdfast.ledger.files import DataFile
from holdfast.ledger.positions import from_transactions, to_transactions
from holdfast.ledger.spool import Plan, Problem
from holdfast.ledger.store import TableStore
from holdfast.pipeline import orders
from holdfast.pipeline.job import Job
from holdfast.pipeline.orders import TakeOver
from holdfast.usage import schema

ROUNDS_MAX: Final = 1_000_000  # of one kind in one run; each takes at least one segment


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


def ingest(job: Job, *, segments_max: int = spool.SEGMENTS_MAX, rounds_max: int = ROUNDS_MAX) -> Ingested:
    """All that is there, in as many commits as that takes. Problems stop their nodes, not the others."""
    done = Ingested()
    for kind in schema.KINDS:
        for _ in range(rounds_max):
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
    if plan.ranges:  # without rows they are heartbeats: time has passed, and nothing was used
        added = _files(job, plan) if plan.rows else []
        job.settle(seen, added, transactions=to_transactions(kind, plan.after))
    return plan


def _files(job: Job, plan: Plan) -> list[DataFile]:
    table = tables.LEDGERS[plan.kind]
    parts = spool.split(job.spool, plan.kind, plan.ranges, parts=orders.count(plan.rows))
    wanted = [
        TakeOver(str(job.store.root), job.run_id, str(job.spool), plan.kind, tuple(each), job.now_us) for each in parts
    ]
    added = job.carry_out(wanted, rows=plan.rows)[table.name]
    found = sum(each.rows for each in added)
    if found != plan.rows:
        raise Unbalanced(
            f"{table.name}: {found} rows were written, and the segments have {plan.rows}; nothing was committed"
        )
    return added
