"""Processes of a run on Spark die by SIGKILL: a task in the middle of a file, the sink's commit of what is billed
before and after it counts. (tests/pipeline/test_kills.py kills the job itself, at each of its commits.)

With `make test-spark-full` at every fault point, and whole runs at random moments.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

from holdfast.ledger import tables
from holdfast.ledger.errors import LedgerError
from holdfast.ledger.store import TableStore
from holdfast.pipeline.publish import billing
from holdfast.pipeline.run import Ledger
from holdfast.spark.table_sink import TableSink
from tests.pipeline.emitter import HOUR, MINUTE, T0, Emitter
from tests.pipeline.on_spark.conftest import IS_FULL, MODE
from tests.pipeline.on_spark.one_run import now_us

POINTS = ["mid_task", "after_commit"] if not IS_FULL else ["mid_task", "after_stage", "before_commit", "after_commit"]
RANDOM_KILLS = 20
Finish = Callable[[Path, Path], Ledger]


def start(spool: Path, root: Path) -> "subprocess.Popen[bytes]":
    program = [sys.executable, "-m", "tests.pipeline.on_spark.one_run", str(spool), str(root)]
    with (root.parent / "run.log").open("ab") as log:
        return subprocess.Popen(program, stdout=log, stderr=log, start_new_session=True)


@pytest.fixture
def finish(spark: SparkSession) -> Finish:
    """The run that follows: in the session of the other tests."""

    def run(spool: Path, root: Path) -> Ledger:
        made = Ledger(root, spool, session=lambda: spark, records=billing.records, now_us=now_us, rows_here_max=0)
        made.once()
        return made

    return run


def emit(spool: Path) -> list[Emitter]:
    emitters = [Emitter(spool, name) for name in ("a", "b")]
    for each in emitters:
        each.traffic(T0, T0 + HOUR, step=10 * MINUTE)
        each.emit([], until=T0 + 2 * HOUR)
    return emitters


def require_exact(ledger: Ledger, emitters: list[Emitter]) -> None:
    assert [each for each in ledger.check() if not each.is_good] == []
    store = TableStore(ledger.store.root)
    rows = store.read(store.snapshot(tables.LEDGERS["meter"]), columns=["node", "seq", "row", "units"]).to_pylist()
    assert len({(row["node"], row["seq"], row["row"]) for row in rows}) == len(rows) == sum(e.rows for e in emitters)
    billed = store.read(store.snapshot(tables.BILLING_USAGE), columns=["quantity"]).column("quantity").to_pylist()
    assert sum(billed) == sum(each.units for each in emitters)


@contextmanager
def killing(spark: SparkSession, point: str, source: type[DataSource] = TableSink) -> Iterator[None]:
    """Python workers that start in here die at a fault point. Registering a source or sink anew hands its workers the
    session's environment; as Spark finds it by itself they have that of the JVM."""
    environment = spark.sparkContext.environment
    environment["HOLDFAST_FAILPOINT"] = point
    spark.dataSource.register(source)
    try:
        yield
    finally:
        del environment["HOLDFAST_FAILPOINT"]
        spark.dataSource.register(source)


@pytest.mark.parametrize("point", POINTS)
def test_totals_are_exact_after_a_kill_at(spark: SparkSession, tmp_path: Path, finish: Finish, point: str) -> None:
    emitters = emit(tmp_path / "usage")
    with killing(spark, point), pytest.raises(LedgerError, match="Spark failed"):
        finish(tmp_path / "usage", tmp_path / "ledger")
    store = TableStore(tmp_path / "ledger")
    assert bool(store.snapshot(tables.LEDGERS["meter"]).rows) == (point != "mid_task")
    assert bool(store.snapshot(tables.BILLING_USAGE).rows) == (point == "after_commit")
    require_exact(finish(tmp_path / "usage", tmp_path / "ledger"), emitters)


def killed(running: "subprocess.Popen[bytes]", *, after_s: float) -> bool:
    """Whether it had to be; not when it came to its end before."""
    try:
        assert running.wait(after_s) == 0
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        return True
    return False


@pytest.mark.skipif(MODE != "full", reason="twenty runs: make test-spark-full")
def test_totals_are_exact_after_kills_of_whole_runs_at_random_moments(finish: Finish, tmp_path: Path) -> None:
    chance = random.Random(6)
    emitters = emit(tmp_path / "usage")
    began = time.monotonic()
    assert start(tmp_path / "usage", tmp_path / "once").wait() == 0
    whole_s, kills = time.monotonic() - began, 0
    while kills < RANDOM_KILLS:
        began = time.monotonic()
        if killed(start(tmp_path / "usage", tmp_path / "ledger"), after_s=chance.uniform(0.1, 1) * whole_s):
            kills += 1
        else:  # it was done sooner than the ones before: kills come before then, on machines of any speed
            whole_s = time.monotonic() - began
        for each in emitters:
            each.traffic(each_begin(each), each_begin(each) + MINUTE)
    for each in emitters:
        each.emit([], until=T0 + 10 * HOUR, is_final=True)
    require_exact(finish(tmp_path / "usage", tmp_path / "ledger"), emitters)


def each_begin(emitter: Emitter) -> int:
    return T0 + 2 * HOUR + emitter.seq * MINUTE
