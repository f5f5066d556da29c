"""A run of the ledger: take over what is new, roll up, check, close. `once` until nothing is left, `watch` for ever.

    is anything new? ──no──▶ done, and no JVM was started
          │yes
          ▼
       ingest ──▶ rollup ──▶ checks ──▶ close ──▶ upkeep

Laws
- One run at a time works on a ledger; a second one is refused.
- Each step commits by itself, and finds by itself what is left to do. So a run may die between and inside any of them,
  and the next one goes on from there.
- Problems of a node are told and recorded, and stop that node and its hours. Failed checks stop closing.
"""

import contextlib
import errno
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import msgspec
from pyspark.sql import SparkSession

from holdfast.ledger import lock, spool, tables
from holdfast.ledger.errors import Conflict, LedgerError, Unbalanced
from holdfast.ledger.positions import from_transactions
from holdfast.ledger.spool import Problem
from holdfast.ledger.store import TableStore
from holdfast.pipeline import checks, close, ingest, rollup
from holdfast.pipeline.checks import Check
from holdfast.pipeline.close import Records, Terms, moment
from holdfast.pipeline.job import ROWS_HERE_MAX, Job
from holdfast.usage import schema

POLL_S: Final = 0.5
CONFLICTS_MAX: Final = 5  # restarts of a run because somebody else committed
RESTED_S: Final = 10.0  # after an error, before `watch` tries again
DAY_US: Final = 24 * 3_600_000_000


def explain(problem: LedgerError | OSError) -> LedgerError:
    if isinstance(problem, LedgerError):
        return problem
    if problem.errno in (errno.ENOSPC, errno.EDQUOT):
        return LedgerError(f"the disk is full; nothing was committed. Make room and run it again. ({problem})")
    return LedgerError(f"{problem}; nothing was committed")


class Outcome(msgspec.Struct):
    """What a run did."""

    run_id: str
    segments: int = 0
    rows: int = 0
    hours_rolled_up: int = 0
    hours_closed: int = 0
    problems: list[Problem] = []
    failed: list[Check] = []

    @property
    def did_something(self) -> bool:
        return bool(self.segments or self.hours_rolled_up or self.hours_closed)

    @property
    def is_good(self) -> bool:
        return not self.problems and not self.failed


class Ledger:
    """A ledger's folder and the spool that feeds it. `progress` is told what a run is doing."""

    def __init__(
        self,
        root: Path,
        spool_root: Path,
        *,
        session: Callable[[], SparkSession],
        records: Records,
        terms: Terms | None = None,
        now_us: Callable[[], int] = lambda: time.time_ns() // 1000,
        progress: Callable[[str], None] = lambda _: None,
        rows_here_max: int = ROWS_HERE_MAX,
    ) -> None:
        self.store = TableStore(root)
        self.spool = spool_root
        self.terms = terms or Terms()
        self._session = session
        self._records = records
        self._now_us = now_us
        self._progress = progress
        self._rows_here_max = rows_here_max

    def job(self) -> Job:
        return Job(
            self.store,
            self.spool,
            session=self._session,
            run_id=uuid.uuid4().hex,
            now_us=self._now_us(),
            rows_here_max=self._rows_here_max,
        )

    def once(self) -> Outcome:
        """Everything there is to do. Raises LedgerError when it cannot be done."""
        self._require_spool()
        with lock.only_run(self.store.root):
            return self._run("once")

    def watch(self, *, stop: Callable[[float], bool], on_run: Callable[[Outcome | LedgerError], None]) -> None:
        """Until `stop`, which waits that many seconds or less. Tells every run that did something, or could not."""
        self._require_spool()
        with lock.only_run(self.store.root):
            troubles: list[Problem] = []
            pause_s = POLL_S
            while not stop(pause_s):
                pause_s = POLL_S
                try:
                    found = self._run("watch")
                except LedgerError as problem:
                    on_run(problem)
                    pause_s = RESTED_S
                    continue
                if found.did_something or found.problems != troubles:
                    on_run(found)
                troubles = found.problems

    def check(self, *, more: Iterable[Check] = ()) -> list[Check]:
        """All checks on what is there, and `more` of them. Changes nothing but `ops.quality_checks`; starts no JVM."""
        found = [*checks.all_checks(self.store, self.problems()), *more]
        self._note(found, run_id=uuid.uuid4().hex)
        return found

    def problems(self) -> list[Problem]:
        """Of all nodes, as they are now."""
        found: list[Problem] = []
        for kind in schema.KINDS:
            positions = from_transactions(kind, self.store.snapshot(tables.LEDGERS[kind]).transactions)
            found.extend(spool.plan(self.spool, kind, positions=positions).problems)
        return found

    def _require_spool(self) -> None:
        if not self.spool.is_dir():
            raise LedgerError(
                f"{self.spool} is no folder; the spool of a server is the folder `usage` in its data folder"
            )

    def _run(self, command: str) -> Outcome:
        for _ in range(CONFLICTS_MAX):
            try:
                return self._attempt(command)
            except Conflict as problem:
                conflict = problem
        raise conflict

    def _attempt(self, command: str) -> Outcome:
        job = self.job()
        done = Outcome(job.run_id)
        started_us = job.now_us
        try:
            self._work(job, done)
        except (LedgerError, OSError) as problem:
            told = explain(problem)
            with contextlib.suppress(LedgerError, OSError):  # of the two, the first problem is the one to tell
                self._finish(job, done, command=command, started_us=started_us, problem=str(told))
            raise told from problem
        if done.did_something:
            self._finish(job, done, command=command, started_us=started_us)
        return done

    def _work(self, job: Job, done: Outcome) -> None:
        if ingest.has_new(self.store, self.spool):
            self._progress("taking over segments")
            taken = ingest.ingest(job)
            done.segments, done.rows, done.problems = taken.segments, taken.rows, taken.problems
        if rollup.is_due(self.store):
            self._progress("rolling up")
            done.hours_rolled_up = rollup.rollup(job)
        due = close.due(self.store, problems=done.problems, terms=self.terms, now_us=job.now_us)
        if due:
            self._progress("closing hours")
            self._close(job, due, done)

    def _close(self, job: Job, due: rollup.Numbers, done: Outcome) -> None:
        found = checks.before_closing(self.store)
        done.failed = [each for each in found if not each.is_good]
        self._note(found, run_id=job.run_id)
        if done.failed:
            told = "; ".join(f"{each.check} {each.subject}: {each.found}, not {each.expected}" for each in done.failed)
            raise Unbalanced(f"no hour is closed while checks fail: {told}")
        close.record(job, due, records=self._records)
        done.hours_closed = len(due)

    def _finish(self, job: Job, done: Outcome, *, command: str, started_us: int, problem: str = "") -> None:
        """Notes the run, and puts small files together where there are many."""
        if done.problems:
            self._note(list(checks.gaps(done.problems)), run_id=job.run_id)
        row = {
            "day": moment(started_us - started_us % DAY_US),
            "command": command,
            "started": moment(started_us),
            "ended": moment(self._now_us()),
            "outcome": "failed" if problem else ("troubled" if done.problems else "done"),
            "problem": problem or "; ".join(each.detail for each in done.problems),
            "segments": done.segments,
            "rows": done.rows,
            "hours_rolled_up": done.hours_rolled_up,
            "hours_closed": done.hours_closed,
            "run_id": job.run_id,
            "schema_version": tables.VERSION,
        }
        self.store.insert(tables.PIPELINE_RUNS, [row], run_id=job.run_id)
        for table in tables.TABLES.values():
            self.store.compact(table, run_id=job.run_id)

    def _note(self, found: list[Check], *, run_id: str) -> None:
        now_us = self._now_us()
        stamp: dict[str, Any] = {"run_id": run_id, "schema_version": tables.VERSION}
        times = {"day": moment(now_us - now_us % DAY_US), "time": moment(now_us)}
        rows = [{**msgspec.structs.asdict(each), **times, **stamp} for each in found]
        self.store.insert(tables.QUALITY_CHECKS, rows, run_id=run_id)
