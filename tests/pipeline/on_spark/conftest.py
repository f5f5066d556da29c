"""One small session for all tests on Spark: starting one takes longer than most of them."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from holdfast.ledger.store import TableStore
from holdfast.pipeline.job import Job
from holdfast.spark.session import SMALL, session
from tests.pipeline.emitter import DAY, T0

# make test-spark-full: `full`, and for the oldest Spark `old`, which has all of it but the kills at random moments.
MODE = os.environ.get("HOLDFAST_SPARK_TESTS", "")
IS_FULL = MODE in ("full", "old")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    made: Any = session(master="local[2]", settings=SMALL)
    yield made
    made.stop()


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "usage"


@pytest.fixture
def new_job(spark: SparkSession, tmp_path: Path, spool: Path) -> Callable[[], Job]:
    """A job as a run makes it, with all its work done by tasks; the store is new each time, as in a new process."""
    return lambda: Job(
        TableStore(tmp_path / "ledger"),
        spool,
        session=lambda: spark,
        run_id="run-1",
        now_us=T0 + 30 * DAY,
        rows_here_max=0,
    )
