"""Capacity: which queues fill up and when, and which take more than their share.

The forecast is a straight line through the states of a queue on a day. It says when 80 % of a limit would be reached if
nothing changed; where the queue has no limit of its own, the messages it may have in flight are one. A line through
fewer than MINIMUM hours says nothing, and the status is UNDECIDED.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

VERSION = 1
FULL = 0.8  # of a limit; what is above is left for surprises
SOON_HOURS = 72
IDLE = 0.02  # a queue that never had more than this of its limit has more than it needs
MINIMUM_HOURS = 6
NOISY_SHARE = 0.5  # of all calls in the busiest hour: others feel it
UNDER, OVER, RIGHT, UNDECIDED = "UNDER_PROVISIONED", "OVER_PROVISIONED", "RIGHT_SIZED", "UNDECIDED"

FORECAST = StructType(
    [
        StructField("day", TimestampType()),
        StructField("account", StringType()),
        StructField("queue", StringType()),
        StructField("measure", StringType()),
        StructField("value", LongType()),
        StructField("limit", LongType()),
        StructField("fill_ratio", DoubleType()),
        StructField("slope_per_hour", DoubleType()),
        StructField("hours_to_80", DoubleType()),
        StructField("model", StringType()),
        StructField("status", StringType()),
        StructField("action", StringType()),
        StructField("run_id", StringType()),
        StructField("schema_version", IntegerType()),
    ]
)

HOT = StructType(
    [
        StructField("day", TimestampType()),
        StructField("rank", IntegerType()),
        StructField("account", StringType()),
        StructField("queue", StringType()),
        StructField("requests", LongType()),
        StructField("share", DoubleType()),
        StructField("peak_per_second", DoubleType()),
        StructField("peak_share", DoubleType()),
        StructField("throttled", LongType()),
        StructField("is_noisy", BooleanType()),
        StructField("run_id", StringType()),
        StructField("schema_version", IntegerType()),
    ]
)

# What can be full, and the limit it is measured against.
MEASURES = {
    "messages": ("stored", "messages_max"),
    "bytes": ("bytes", "bytes_max"),
    "messages in flight": ("in_flight", "in_flight_max"),
}


def capacity_forecast(states: DataFrame, *, run_id: str) -> DataFrame:
    line = _lines(states)
    is_known = F.col("hours") >= MINIMUM_HOURS
    to_full = (F.lit(FULL) * F.col("limit") - F.col("value")) / F.col("slope")
    hours = F.when(F.col("value") >= FULL * F.col("limit"), F.lit(0.0)).when(
        is_known & (F.col("slope") > 0), F.greatest(to_full, F.lit(0.0))
    )
    placed = line.withColumn("hours_to_80", hours).withColumn("fill", F.col("value") / F.col("limit"))
    status = (
        F.when(F.col("fill") >= FULL, UNDER)
        .when(~is_known, UNDECIDED)
        .when(F.col("hours_to_80") <= SOON_HOURS, UNDER)
        .when((F.col("peak") / F.col("limit") < IDLE) & (F.col("measure") != "messages in flight"), OVER)
        .otherwise(RIGHT)
    )
    values = {
        "fill_ratio": F.col("fill"),
        "slope_per_hour": F.col("slope"),
        "model": F.when(is_known, F.lit("linear")).otherwise(F.lit("none")),
        "action": _action(F.col("status")),
        "run_id": F.lit(run_id),
        "schema_version": F.lit(VERSION),
    }
    return placed.withColumn("status", status).select(
        *[values.get(each.name, F.col(each.name)).cast(each.dataType).alias(each.name) for each in FORECAST]
    )


def _lines(states: DataFrame) -> DataFrame:
    """Per day, queue and limit: the last value, the highest, and the slope of the line through all of them."""
    stored = F.col("visible") + F.col("in_flight") + F.col("delayed")
    measured = (
        states.withColumn("stored", stored)
        .select(F.date_trunc("minute", "time").alias("minute"), "account", "queue", F.explode(_measures()).alias("one"))
        .select("minute", "account", "queue", "one.*")
        .where(F.col("limit") > 0)
    )
    # Nodes report at times of their own: within a minute they are one observation.
    observed = (
        measured.groupBy("account", "queue", "measure", "minute")
        .agg(F.sum("value").alias("value"), F.max("limit").alias("limit"))
        .withColumn("at", F.col("minute").cast("bigint") / 3600)
    )
    return observed.groupBy(F.date_trunc("day", "minute").alias("day"), "account", "queue", "measure").agg(
        F.max_by("value", "at").alias("value"),
        F.max("value").alias("peak"),
        F.max_by("limit", "at").alias("limit"),
        F.regr_slope("value", "at").alias("slope"),
        (F.max("at") - F.min("at") + 1).alias("hours"),
    )


def _measures() -> Column:
    return F.array(
        *[
            F.struct(F.lit(name).alias("measure"), F.col(value).alias("value"), F.col(limit).alias("limit"))
            for name, (value, limit) in MEASURES.items()
        ]
    )


def _action(status: Column) -> Column:
    limit = F.concat(F.format_number("limit", 0), F.lit(" "), F.col("measure"))
    hours = F.format_number("hours_to_80", 0)
    return (
        F.when(F.col("fill") >= FULL, F.concat(F.lit("Raise the limit of "), limit, F.lit(" or add consumers now.")))
        .when(
            status == UNDER, F.concat(F.lit("Add consumers: 80 % of "), limit, F.lit(" in about "), hours, F.lit(" h."))
        )
        .when(status == OVER, F.concat(F.lit("The limit of "), limit, F.lit(" can be lowered.")))
        .when(status == UNDECIDED, F.lit("Wait for six hours of data."))
        .otherwise(F.lit("Nothing to do."))
    )


def hot_queues(hourly: DataFrame, *, run_id: str) -> DataFrame:
    busy = (
        hourly.select("hour", "account", "queue", "outcome", "requests")
        .where(F.col("queue") != "")
        .groupBy("hour", "account", "queue")
        .agg(F.sum("requests").alias("requests"), F.sum(_throttled()).alias("throttled"))
        .withColumn("hour_share", F.col("requests") / F.sum("requests").over(Window.partitionBy("hour")))
    )
    ranked = busy.groupBy(F.date_trunc("day", "hour").alias("day"), "account", "queue").agg(
        F.sum("requests").alias("requests"),
        F.max(F.col("requests") / 3600).alias("peak_per_second"),
        F.max("hour_share").alias("peak_share"),
        F.sum("throttled").alias("throttled"),
    )
    everything = Window.partitionBy("day")
    values = {
        "rank": F.row_number().over(everything.orderBy(F.desc("requests"), "account", "queue")),
        "share": F.col("requests") / F.sum("requests").over(everything),
        "is_noisy": F.col("peak_share") >= NOISY_SHARE,
        "run_id": F.lit(run_id),
        "schema_version": F.lit(VERSION),
    }
    return ranked.select(
        *[values.get(each.name, F.col(each.name)).cast(each.dataType).alias(each.name) for each in HOT]
    )


def _throttled() -> Column:
    return F.when(F.col("outcome") == "throttled", F.col("requests")).otherwise(F.lit(0))
