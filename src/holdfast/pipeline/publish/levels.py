"""Service levels: how many calls were answered well, how fast, and how much of the error budget is left.

Bad is what failed by our fault. What was refused or throttled is the caller's, and is counted apart. A burn rate of 1
uses up the budget exactly at the end of its time; 14.4 uses 2 % of a month's budget in one hour.

Rates look back over hours that had calls; an hour without calls is neither good nor bad.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from holdfast.pipeline.publish import histogram

TARGET = 0.999
BUDGET_HOURS = 30 * 24
VERSION = 1
QUANTILES = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99, "p999_ms": 0.999}
BURNS = {"burn_1h": 1, "burn_6h": 6, "burn_24h": 24, "burn_72h": 72}
KEY = ("account", "queue", "action")

SCHEMA = StructType(
    [
        StructField("day", TimestampType()),
        StructField("hour", TimestampType()),
        *[StructField(name, StringType()) for name in KEY],
        *[StructField(name, LongType()) for name in ("requests", "good", "bad", "refused", "throttled")],
        *[StructField(name, DoubleType()) for name in QUANTILES],
        *[StructField(name, DoubleType()) for name in ("target", "availability", *BURNS, "budget_left")],
        StructField("latency", ArrayType(LongType())),  # quantiles do not add up; their histogram does
        StructField("run_id", StringType()),
        StructField("schema_version", IntegerType()),
    ]
)


def service_levels(hourly: DataFrame, past: DataFrame, *, run_id: str, target: float = TARGET) -> DataFrame:
    """Of the hours in `hourly`. `past` has them and those before, as far as budgets look back: of these only calls are
    counted. Their histograms, thirty times as large, would be sorted along for nothing."""
    values = {
        "day": F.date_trunc("day", "hour"),
        "good": F.col("requests") - F.col("bad"),
        "target": F.lit(target),
        "availability": 1 - F.col("bad") / F.col("requests"),
        "run_id": F.lit(run_id),
        "schema_version": F.lit(VERSION),
    }
    made = _latencies(hourly).join(_counts(past, target), on=["hour", *KEY], how="inner")
    return made.select(
        *[values.get(each.name, F.col(each.name)).cast(each.dataType).alias(each.name) for each in SCHEMA]
    )


def _latencies(hourly: DataFrame) -> DataFrame:
    """An hour at a time: its rows are together anyway."""
    keys = ["hour", *KEY]
    made = StructType([SCHEMA[name] for name in (*keys, "latency", *QUANTILES)])
    return (
        hourly.select(*keys, "latency")
        .where(F.col("queue") != "")
        .groupBy("hour")
        .applyInArrow(histogram.merged(keys, "latency", shares=QUANTILES), made)
    )


def _counts(past: DataFrame, target: float) -> DataFrame:
    return (
        past.select("hour", *KEY, "outcome", "requests")
        .where(F.col("queue") != "")
        .groupBy("hour", *KEY)
        .agg(
            F.sum("requests").alias("requests"),
            *[_count_of(outcome).alias(name) for outcome, name in OUTCOMES.items()],
        )
        .withColumns({name: _burn(hours, target) for name, hours in BURNS.items()})
        .withColumn("budget_left", 1 - _burn(BUDGET_HOURS, target))
    )


OUTCOMES = {"failed": "bad", "refused": "refused", "throttled": "throttled"}


def _count_of(outcome: str) -> Column:
    return F.sum(F.when(F.col("outcome") == outcome, F.col("requests")).otherwise(F.lit(0)))


def _burn(hours: int, target: float) -> Column:
    """Share of bad calls in the last `hours`, in units of the share that the target allows."""
    return _in_last(hours, "bad") / _in_last(hours, "requests") / F.lit(1 - target)


def _in_last(hours: int, measure: str) -> Column:
    """All so far but what was before: one step per row, where a sum that slides would add up its window for each."""
    so_far = Window.partitionBy(*KEY).orderBy(F.col("hour").cast("bigint"))
    begin = Window.unboundedPreceding
    before = F.sum(measure).over(so_far.rangeBetween(begin, -hours * 3600))
    return F.sum(measure).over(so_far.rangeBetween(begin, 0)) - F.coalesce(before, F.lit(0))
