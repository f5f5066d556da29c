"""The formats `holdfast-usage` and `holdfast-table`, which Spark finds without being told. What they refuse, and how a
stream goes on where it was, is tested without Spark (tests/pipeline/test_formats.py)."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from holdfast.spark.usage_source import UsageSource
from tests.pipeline.emitter import HOUR, MINUTE, T0, Emitter, meter
from tests.pipeline.on_spark.conftest import IS_FULL
from tests.pipeline.on_spark.test_spark_kills import killing


def emit(spool: Path, node: str, *, begin: int = 0, count: int = 4, emitter: Emitter | None = None) -> Emitter:
    made = emitter or Emitter(spool, node)
    for number in range(begin, begin + count):
        made.emit([meter(T0 + number * MINUTE, requests=number + 1)], until=T0 + (number + 1) * MINUTE)
    return made


def rows_and_units(made: DataFrame) -> tuple[int, int]:
    (found,) = made.selectExpr("count(*) AS rows", "sum(units) AS units").collect()
    return int(found["rows"]), int(found["units"] or 0)


def test_a_batch_reads_every_row_once(spark: SparkSession, spool: Path) -> None:
    emitters = [emit(spool, "a"), emit(spool, "b", count=7)]
    made = spark.read.format("holdfast-usage").option("partitions", "3").load(str(spool))
    assert rows_and_units(made) == (sum(each.rows for each in emitters), sum(each.units for each in emitters))


@pytest.mark.skipif(not IS_FULL, reason="queries of a stream, and a kill: make test-spark-full")
def test_a_stream_reads_every_row_once_over_kills_and_restarts_and_within_its_limit(
    spark: SparkSession, tmp_path: Path
) -> None:
    spool, out, marks = tmp_path / "usage", tmp_path / "out", tmp_path / "marks"
    emitters = [emit(spool, "a"), emit(spool, "b", count=1)]

    def drain() -> list[int]:
        rows_of: list[int] = []
        query = (
            spark.readStream.format("holdfast-usage")
            .option("maxSegments", "2")
            .load(str(spool))
            .writeStream.foreachBatch(lambda some, _: rows_of.append(_store(some, out)))
            .option("checkpointLocation", str(marks))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [each for each in rows_of if each]

    with killing(spark, "in_latest_offset", UsageSource), pytest.raises(PySparkException):
        drain()
    assert list((marks / "offsets").glob("[0-9]*")) == []  # it had not got so far
    assert drain() == [2, 2, 1]  # two segments at a time, of both nodes in turn
    emitters[0].emit([meter(T0, requests=100)], until=T0 + HOUR, is_final=True)
    emit(spool, "a", begin=5, count=1, emitter=emitters[0])
    assert drain() == [2]
    assert rows_and_units(spark.read.parquet(str(out)))[1] == sum(each.units for each in emitters)


def _store(some: DataFrame, out: Path) -> int:
    some.write.mode("append").parquet(str(out))
    return int(some.count())
