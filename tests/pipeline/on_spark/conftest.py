"""One small session for all tests on Spark: starting one takes longer than most of them."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from holdfast.spark.session import SMALL, session

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
