"""Stages are functions from rows to rows. Each is tried on rows that fit on a page."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from holdfast.ledger import spool as spools
from holdfast.ledger import tables
from holdfast.pipeline import rows, usage
from holdfast.usage import schema
from tests.pipeline.emitter import DAY, HOUR, MINUTE, SECOND, T0, audit, meter

NOW = T0 + DAY


def source(spark: SparkSession, many: Iterable[tuple[Any, ...]], *, kind: str = "meter", node: str = "a") -> DataFrame:
    columns = tables.source_schema(kind)
    origin = [(node, 1, 0, number) for number, _ in enumerate(many)]
    plain = [(*row, *place) for row, place in zip(many, origin, strict=True)]
    ddl = tables.ddl(columns).replace("`time` TIMESTAMP", "`time` BIGINT")
    made = spark.createDataFrame(plain, ddl)
    return made.selectExpr("timestamp_micros(time) AS time", *columns.names[1:])


def ledger(spark: SparkSession, many: Iterable[tuple[Any, ...]], *, kind: str = "meter", node: str = "a") -> DataFrame:
    return rows.ledger_rows(source(spark, many, kind=kind, node=node), kind=kind, run_id="r", now_us=NOW)


def columns_of(table: tables.Table) -> list[tuple[str, str]]:
    return [(field.name, tables.ddl([field]).split("` ")[1].lower().replace(" ", "")) for field in table.schema]


def types_of(made: DataFrame) -> list[tuple[str, str]]:
    return [(name, kind.lower()) for name, kind in made.dtypes]


@pytest.mark.parametrize("kind", schema.KINDS)
def test_ledger_rows_have_the_declared_columns(spark: SparkSession, kind: str) -> None:
    assert types_of(ledger(spark, [], kind=kind)) == columns_of(tables.LEDGERS[kind])


def test_rollups_have_the_declared_columns(spark: SparkSession) -> None:
    by_minute = usage.minutes(ledger(spark, []), run_id="r")
    by_hour = usage.hours(by_minute, run_id="r")
    assert types_of(by_minute) == columns_of(tables.USAGE_MINUTE)
    assert types_of(by_hour) == columns_of(tables.USAGE_HOURLY)
    assert types_of(usage.days(by_hour, run_id="r")) == columns_of(tables.USAGE_DAILY)


def test_a_row_that_cannot_be_right_is_kept_and_says_why(spark: SparkSession) -> None:
    many = [
        meter(T0 + 61 * MINUTE),
        meter(T0, requests=-1),
        meter(NOW + 11 * MINUTE),
        meter(NOW + 9 * MINUTE),
        meter(86_400_000_000),
        meter(T0, latency=[1, 2, 3]),
        meter(T0, latency=[7] * 32),
    ]
    made = ledger(spark, many).selectExpr("fault", "unix_micros(hour) AS hour").collect()
    assert [row.fault for row in made] == [
        None,
        rows.NEGATIVE,
        rows.FUTURE,
        None,
        rows.UNSET,
        rows.HISTOGRAM,
        rows.HISTOGRAM,
    ]
    assert [row.hour for row in made] == [T0 + HOUR, 0, 0, NOW, 0, 0, 0]


def test_kinds_without_measures_are_checked_for_their_times(spark: SparkSession) -> None:
    made = ledger(spark, [audit(T0), audit(NOW + DAY)], kind="audit")
    assert [row.fault for row in made.collect()] == [None, rows.FUTURE]


def test_usage_adds_up_by_minute_hour_and_day(spark: SparkSession) -> None:
    one = ledger(spark, [meter(T0, requests=3), meter(T0 + 50 * SECOND, requests=4), meter(T0 + MINUTE, requests=5)])
    other = ledger(spark, [meter(T0 + SECOND, requests=10), meter(T0 + 2 * HOUR, requests=20)], node="b")
    bad = ledger(spark, [meter(T0, requests=-100)])
    by_minute = usage.minutes(one.union(other).union(bad), run_id="r")
    by_hour = usage.hours(by_minute, run_id="r")
    by_day = usage.days(by_hour, run_id="r")
    found = [
        (row.requests, row.billed_units, row.latency[9], row.nodes) for row in by_minute.orderBy("minute").collect()
    ]
    assert found == [(17, 17, 17, ["a", "b"]), (5, 5, 5, ["a"]), (20, 20, 20, ["b"])]
    assert [(row.requests, row.nodes) for row in by_hour.orderBy("hour").collect()] == [(22, ["a", "b"]), (20, ["b"])]
    assert [(row.requests, row.bytes_in, row.nodes) for row in by_day.collect()] == [(42, 4200, ["a", "b"])]


def test_what_differs_in_any_key_is_kept_apart(spark: SparkSession) -> None:
    many = [
        meter(T0),
        meter(T0, account="222222222222"),
        meter(T0, queue="other"),
        meter(T0, queue_type="fifo"),
        meter(T0, action="ReceiveMessage"),
        meter(T0, outcome="refused"),
    ]
    assert usage.minutes(ledger(spark, many), run_id="r").count() == len(many)


def test_no_principal_gets_into_a_rollup() -> None:
    assert "principal" not in tables.USAGE_MINUTE.schema.names


def test_an_empty_spool_has_the_columns_of_its_kind(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "meter").mkdir()
    made = spark.read.format("holdfast-usage").load(str(tmp_path))
    assert made.columns == list(tables.source_schema("meter").names)
    assert made.count() == 0
    assert spools.nodes(tmp_path, "meter") == []
