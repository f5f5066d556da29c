"""Stage: rows of the ledger become usage by minute, hour and day. Faulty rows are left out.

Laws
- Each step only adds up, so a day is the sum of its hours, and those of their minutes, to the unit.
- Rows leave in the order of their keys: the same rows in always give the same rows out.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from holdfast.ledger import tables

BUCKETS = 32
KEYS = list(tables.KEYS)
MEASURES = list(tables.MEASURES)


def minutes(ledger: DataFrame, *, run_id: str) -> DataFrame:
    # First per node, which is a plain sum; then the nodes of a minute are few rows to collect.
    good = ledger.where(F.col("fault").isNull()).select(
        "hour",
        F.date_trunc("minute", "time").alias("minute"),
        *KEYS,
        "node",
        *[F.col("units" if each == "billed_units" else each).alias(each) for each in MEASURES],
        "latency",
    )
    by_node = good.groupBy("hour", "minute", *KEYS, "node").agg(*_sums())
    return _by(by_node, ["hour", "minute"], nodes=F.array_sort(F.collect_set("node")), run_id=run_id)


def hours(by_minute: DataFrame, *, run_id: str) -> DataFrame:
    return _by(by_minute, ["hour"], nodes=_all_nodes(), run_id=run_id)


def days(by_hour: DataFrame, *, run_id: str) -> DataFrame:
    dated = by_hour.withColumn("day", F.date_trunc("day", "hour"))
    return _by(dated, ["day"], nodes=_all_nodes(), run_id=run_id)


def _by(rows: DataFrame, times: list[str], *, nodes: Column, run_id: str) -> DataFrame:
    summed = rows.groupBy(*times, *KEYS).agg(*_sums(), nodes.alias("nodes"))
    stamped = summed.select(
        *times,
        *KEYS,
        *MEASURES,
        "latency",
        "nodes",
        F.lit(run_id).alias("run_id"),
        F.lit(tables.VERSION).cast("int").alias("schema_version"),
    )
    return stamped.repartition(*times[:1]).sortWithinPartitions(*times, *KEYS)


def _sums() -> list[Column]:
    histogram = F.array(*[F.sum(F.col("latency")[number]) for number in range(BUCKETS)])
    return [*[F.sum(each).alias(each) for each in MEASURES], histogram.alias("latency")]


def _all_nodes() -> Column:
    return F.array_sort(F.array_distinct(F.flatten(F.collect_set("nodes"))))
