"""The formats `holdfast-usage` and `holdfast-table`, which Spark finds without being told."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from holdfast.ledger import spool as spools
from holdfast.ledger import tables
from holdfast.ledger.errors import Conflict, Unbalanced
from holdfast.ledger.store import TableStore
from holdfast.pipeline import ingest, rows
from holdfast.pipeline.job import Job
from holdfast.spark.usage_source import UsageSource
from tests.pipeline.emitter import HOUR, MINUTE, T0, Emitter, meter
from tests.pipeline.on_spark.test_spark_kills import killing


def emit(spool: Path, node: str, *, begin: int = 0, count: int = 4, emitter: Emitter | None = None) -> Emitter:
    made = emitter or Emitter(spool, node)
    for number in range(begin, begin + count):
        made.emit([meter(T0 + number * MINUTE, requests=number + 1)], until=T0 + (number + 1) * MINUTE)
    return made


def units(made: DataFrame) -> int:
    return int(made.selectExpr("sum(units) AS n").collect()[0].n or 0)


def test_a_batch_reads_every_row_once(spark: SparkSession, spool: Path) -> None:
    emitters = [emit(spool, "a"), emit(spool, "b", count=7)]
    made = spark.read.format("holdfast-usage").option("partitions", "3").load(str(spool))
    assert made.count() == sum(each.rows for each in emitters)
    assert units(made) == sum(each.units for each in emitters)


def test_an_empty_spool_has_the_columns_of_its_kind(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "meter").mkdir()
    made = spark.read.format("holdfast-usage").load(str(tmp_path))
    assert made.columns == list(tables.source_schema("meter").names)
    assert made.count() == 0
    assert spools.nodes(tmp_path, "meter") == []


def test_a_hole_is_an_error_that_names_the_file(spark: SparkSession, spool: Path) -> None:
    emit(spool, "a").path(1).unlink()
    with pytest.raises(PySparkException, match=r"0000000001\.parquet is missing"):
        spark.read.format("holdfast-usage").load(str(spool)).count()


def test_an_unknown_kind_is_told_what_there_is(spark: SparkSession, spool: Path) -> None:
    with pytest.raises(PySparkException, match="is none of meter, audit"):
        spark.read.format("holdfast-usage").option("kind", "meters").load(str(spool)).count()


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
    assert units(spark.read.parquet(str(out))) == sum(each.units for each in emitters)


def _store(some: DataFrame, out: Path) -> int:
    some.write.mode("append").parquet(str(out))
    return int(some.count())


def test_a_commit_on_an_old_version_or_of_too_few_rows_adds_nothing(new_job: Callable[[], Job], spool: Path) -> None:
    emitter = emit(spool, "a")
    job = new_job()
    seen = job.look(tables.LEDGERS["meter"])
    plan = spools.plan(spool, "meter", positions={})
    batches = spools.read(spool, "meter", plan.ranges, batch_rows=100)
    own = rows.ledger_rows(pa.Table.from_batches(batches), kind="meter", run_id="r", now_us=job.now_us)
    made = job.spark.createDataFrame(own, tables.ddl(own.schema))
    with pytest.raises(Unbalanced, match="4 rows were written, and the segments have 5"):
        job.commit(made, seen, transactions={}, rows_expected=5)
    assert new_job().store.snapshot(tables.LEDGERS["meter"]).rows == 0
    ingest.ingest(new_job())  # somebody else was faster
    with pytest.raises(Conflict):
        job.commit(made, seen, transactions={"meter/a/1": 4}, rows_expected=4)
    assert new_job().store.snapshot(tables.LEDGERS["meter"]).rows == emitter.rows


def test_overwriting_a_table_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    options: dict[str, Any] = {"path": str(tmp_path), "table": "ledger.meter"}
    with pytest.raises(PySparkException, match="never overwrites"):
        spark.range(1).write.format("holdfast-table").options(**options).mode("overwrite").save()
    with pytest.raises(PySparkException, match="needs the options schema, version, run_id"):
        spark.range(1).write.format("holdfast-table").options(**options).mode("append").save()


def test_heartbeats_need_no_spark(spool: Path, tmp_path: Path) -> None:
    def no_session() -> SparkSession:
        raise AssertionError("a session was started")

    emitter = Emitter(spool)
    emitter.emit([], until=T0 + HOUR)
    job = Job(TableStore(tmp_path / "ledger"), spool, session=no_session, run_id="r", now_us=T0 + HOUR)
    done = ingest.ingest(job)
    assert (done.segments, done.rows) == (1, 0)
    assert not ingest.has_new(job.store, spool)
    numbers = job.store.snapshot(tables.LEDGERS["meter"]).transactions
    assert numbers["until/meter/node-1"] == T0 + HOUR
    assert msgspec.json.encode(numbers)
