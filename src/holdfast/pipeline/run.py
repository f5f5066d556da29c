"""A run of the ledger: take over what is new, roll up, check, close. (watch.py does the same for ever.)

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
import copy
import errno
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
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

CONFLICTS_MAX: Final = 5  # restarts of a run because somebody else committed
DAY_US: Final = 24 * 3_600_000_000

Work = Callable[[Job, "Outcome"], None]


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
        self._session = _one_at_a_time(session)
        self._records = records
        self._now_us = now_us
        self._progress = progress
        self._rows_here_max = rows_here_max
        self._sums = checks.Sums(self.store)

    def beside(self) -> "Ledger":
        """The same ledger for a second thread: it shares the session, and nothing that changes."""
        other = copy.copy(self)
        other.store = TableStore(self.store.root)
        other._sums = checks.Sums(other.store)
        return other

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
        with self.alone():
            return self._run("once", self._work)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """No other run works on this ledger meanwhile."""
        if not self.spool.is_dir():
            raise LedgerError(
                f"{self.spool} is no folder; the spool of a server is the folder `usage` in its data folder"
            )
        with lock.only_run(self.store.root):
            yield

    def advance(self) -> Outcome:
        """The part of a run that users wait for. For whoever is alone; so is `settle`."""
        return self._run("watch", self._advance)

    def settle(self, problems: Sequence[Problem]) -> Outcome:
        """The part that takes longer: checks, and closes what can be closed."""
        return self._run("watch", lambda job, done: self._settle(job, done, problems=problems))

    def closable(self, problems: Sequence[Problem]) -> rollup.Numbers:
        """Hours to close. `problems` are those that the last look at the spool found."""
        return close.due(self.store, problems=problems, terms=self.terms, now_us=self._now_us())

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

    def _run(self, command: str, work: Work) -> Outcome:
        for _ in range(CONFLICTS_MAX):
            try:
                return self._attempt(command, work)
            except Conflict as problem:
                conflict = problem
        raise conflict

    def _attempt(self, command: str, work: Work) -> Outcome:
        job = self.job()
        done = Outcome(job.run_id)
        started_us = job.now_us
        try:
            work(job, done)
        except (LedgerError, OSError) as problem:
            told = explain(problem)
            with contextlib.suppress(LedgerError, OSError):  # of the two, the first problem is the one to tell
                self._finish(job, done, command=command, started_us=started_us, problem=str(told))
            raise told from problem
        if done.did_something:
            self._finish(job, done, command=command, started_us=started_us)
        return done

    def _work(self, job: Job, done: Outcome) -> None:
        self._advance(job, done)
        self._settle(job, done, problems=done.problems)

    def _advance(self, job: Job, done: Outcome) -> None:
        if ingest.has_new(self.store, self.spool):
            self._progress("taking over segments")
            taken = ingest.ingest(job)
            done.segments, done.rows, done.problems = taken.segments, taken.rows, taken.problems
        if rollup.is_due(self.store):
            self._progress("rolling up")
            done.hours_rolled_up = rollup.rollup(job)

    def _settle(self, job: Job, done: Outcome, *, problems: Sequence[Problem]) -> None:
        due = self.closable(problems)
        if not due:
            return
        self._progress("closing hours")
        found = checks.before_closing(self.store, self._sums)
        done.failed = [each for each in found if not each.is_good]
        self._note(found, run_id=job.run_id)
        if done.failed:
            told = "; ".join(f"{each.check} {each.subject}: {each.found}, not {each.expected}" for each in done.failed)
            raise Unbalanced(f"no hour is closed while checks fail: {told}")
        done.hours_closed = close.record(job, due, records=self._records)

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
            with contextlib.suppress(Conflict):  # somebody was faster; there is a next time
                self.store.compact(table, run_id=job.run_id)

    def _note(self, found: list[Check], *, run_id: str) -> None:
        now_us = self._now_us()
        stamp: dict[str, Any] = {"run_id": run_id, "schema_version": tables.VERSION}
        times = {"day": moment(now_us - now_us % DAY_US), "time": moment(now_us)}
        rows = [{**msgspec.structs.asdict(each), **times, **stamp} for each in found]
        self.store.insert(tables.QUALITY_CHECKS, rows, run_id=run_id)


def _one_at_a_time(start: Callable[[], SparkSession]) -> Callable[[], SparkSession]:
    """Threads that need the session at the same moment must not both start it."""
    starting = threading.Lock()

    def session() -> SparkSession:
        with starting:
            return start()

    return session
