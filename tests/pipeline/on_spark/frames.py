"""Small frames for the stages: a row is written as what differs from a usual one."""

import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from holdfast.ledger import tables
from holdfast.usage import schema

UTC = datetime.UTC
DAY = datetime.datetime(2026, 11, 15, tzinfo=UTC)
RUN = "run-1"
BUCKETS = 32


def at(hour: int, minute: int = 0, *, day: int = 0) -> datetime.datetime:
    return DAY + datetime.timedelta(days=day, hours=hour, minutes=minute)


def histogram(**counts: int) -> list[int]:
    """`histogram(b10=5)`: five calls in bucket 10."""
    found = [0] * BUCKETS
    for name, count in counts.items():
        found[int(name[1:])] = count
    return found


USUAL: dict[str, dict[str, Any]] = {
    "hourly": {
        "hour": at(9),
        "account": "A",
        "queue": "jobs",
        "queue_type": "standard",
        "action": "SendMessage",
        "outcome": "success",
        "error_code": "",
        **dict.fromkeys(tables.MEASURES, 0),
        "latency": histogram(),
        "nodes": ["n"],
        "run_id": "r",
        "schema_version": 1,
    },
    schema.QUEUE_STATE: {
        "time": at(9),
        "account": "A",
        "queue": "jobs",
        "queue_type": "standard",
        "visible": 0,
        "in_flight": 0,
        "delayed": 0,
        "bytes": 0,
        "oldest_age_s": 0,
        "retention_s": 345_600,
        "in_flight_max": 120_000,
        "messages_max": 0,
        "bytes_max": 0,
        "receives_max": 0,
        "dead_letter_queue": "",
        "expired": 0,
        "redriven": 0,
        "tags": "",
    },
    schema.DEAD_LETTER: {
        "time": at(9),
        "account": "A",
        "queue": "jobs",
        "target": "dead",
        "message_id": "m",
        "cause": "MaxReceiveCount",
        "receives": 3,
        "bytes": 10,
        "reason": "",
        "shape": "",
        "consumer": "",
    },
    schema.AUDIT: {
        "time": at(9),
        "account": "A",
        "principal": "arn:aws:iam::A:user/ana",
        "plane": "management",
        "action": "CreateQueue",
        "queue": "jobs",
        "outcome": "success",
        "error_code": "",
        "status": 200,
        "source_ip": "10.0.0.1",
        "user_agent": "cli",
        "request_id": "q",
    },
}
ORIGIN = {"node": "n", "epoch": 1, "seq": 0, "row": 0, "hour": at(9), "fault": None, "run_id": "r", "schema_version": 1}


def hourly(spark: SparkSession, *rows: dict[str, Any]) -> DataFrame:
    return frame(spark, tables.USAGE_HOURLY, [{**USUAL["hourly"], **row} for row in rows])


def ledger(spark: SparkSession, kind: str, *rows: dict[str, Any]) -> DataFrame:
    numbered = [{**USUAL[kind], **ORIGIN, "row": number, **row} for number, row in enumerate(rows)]
    return frame(spark, tables.LEDGERS[kind], numbered)


def frame(spark: SparkSession, table: tables.Table, rows: list[dict[str, Any]]) -> DataFrame:
    """Through Arrow: rows of Python take Spark several times as long."""
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=table.schema), tables.ddl(table.schema))


def collected(made: DataFrame) -> list[dict[str, Any]]:
    """Times as they are in tables: in UTC, and they say so. Spark hands them out without a zone."""
    return [{name: _aware(value) for name, value in row.asDict().items()} for row in made.collect()]


def _aware(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime.datetime) else value


def types(schema: StructType) -> list[tuple[str, str]]:
    """What a table sees of a frame: whether Spark thinks that a value can be null is its own affair."""
    return [(field.name, field.dataType.simpleString()) for field in schema]
