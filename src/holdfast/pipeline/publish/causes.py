"""Dead-letter causes, day by day: messages that died of the same thing, counted together.

What a consumer said is the best evidence: it is normalised (numbers, ids and quoted text become placeholders), so that
"order 4711 not found" and "order 4712 not found" are one cause. Without it the form of the body tells messages of one
kind apart, and without that only queue and rule are left.

Consumers are those that gave such messages back and said why; who lets a message time out is not known.

A cause is new on the day on which it is first seen, if the account had dead letters for some hours before.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
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
EXAMPLES_MAX = 5
TITLE_MAX = 160
HOURS = 24
PAST_HOURS = 6  # of dead letters before a cause that was not among them is called new

SCHEMA = StructType(
    [
        StructField("day", TimestampType()),
        StructField("account", StringType()),
        StructField("fingerprint", StringType()),
        StructField("title", StringType()),
        StructField("evidence", StringType()),
        StructField("count", LongType()),
        StructField("share", DoubleType()),
        StructField("first_seen", TimestampType()),
        StructField("last_seen", TimestampType()),
        StructField("is_new", BooleanType()),
        StructField("queues", ArrayType(StringType())),
        StructField("consumers", ArrayType(StringType())),
        StructField("examples", ArrayType(StringType())),
        StructField("trend", ArrayType(LongType())),
        StructField("run_id", StringType()),
        StructField("schema_version", IntegerType()),
    ]
)

# In this order: the widest first, so that a part of an id is not taken for a number.
PLACEHOLDERS = (
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<id>"),
    (r"'[^']*'|\"[^\"]*\"", "<text>"),
    (r"https?://[^ ]+", "<url>"),
    (r"\b[0-9a-f]{12,}\b", "<id>"),
    (r"\d+(\.\d+)*", "<n>"),
    (r"\s+", " "),
)


def dead_letter_causes(letters: DataFrame, *, run_id: str) -> DataFrame:
    """`letters` reach back as far as a cause is remembered; a day's counts are of that day alone."""
    key = ["account", "fingerprint", "title", "evidence"]
    by_hour = (
        _named(letters)
        .groupBy(*key, "hour")
        .agg(
            F.count("*").alias("count"),
            F.min("time").alias("first_seen"),
            F.max("time").alias("last_seen"),
            F.collect_set("queue").alias("queues"),
            F.collect_set(F.when(F.col("consumer") != "", F.col("consumer"))).alias("consumers"),
            F.slice(F.sort_array(F.collect_set("message_id")), 1, EXAMPLES_MAX).alias("examples"),
        )
    )
    by_day = by_hour.groupBy(F.date_trunc("day", "hour").alias("day"), *key).agg(
        F.sum("count").alias("count"),
        F.min("first_seen").alias("first_of_day"),
        F.max("last_seen").alias("last_seen"),
        *[
            F.array_sort(F.array_distinct(F.flatten(F.collect_set(each)))).alias(each)
            for each in ("queues", "consumers")
        ],
        F.slice(F.array_sort(F.flatten(F.collect_set("examples"))), 1, EXAMPLES_MAX).alias("examples"),
        F.map_from_entries(F.collect_list(F.struct(F.hour("hour"), "count"))).alias("by_hour"),
    )
    first_seen = F.min("first_of_day").over(Window.partitionBy("account", "fingerprint"))
    dated = by_day.withColumn("first_seen", first_seen)
    had_letters = F.min("first_seen").over(Window.partitionBy("account")) + F.expr(f"INTERVAL {PAST_HOURS} HOURS")
    hours = F.sequence(F.lit(0), F.lit(HOURS - 1))
    values = {
        "share": F.col("count") / F.sum("count").over(Window.partitionBy("day", "account")),
        "is_new": (F.col("first_seen") >= F.col("day")) & (F.col("first_seen") >= had_letters),
        "trend": F.transform(hours, lambda hour: F.coalesce(F.try_element_at("by_hour", hour), F.lit(0))),
        "run_id": F.lit(run_id),
        "schema_version": F.lit(VERSION),
    }
    return dated.select(
        *[values.get(each.name, F.col(each.name)).cast(each.dataType).alias(each.name) for each in SCHEMA]
    )


def _named(letters: DataFrame) -> DataFrame:
    has_reason, has_shape = F.col("reason") != "", F.col("shape") != ""
    evidence = F.when(has_reason, "reason").when(has_shape, "shape").otherwise("rule")
    shape = F.concat(F.lit("bodies of form "), F.substring("shape", 1, 12), F.lit(" in "), F.col("queue"))
    rule = F.concat(F.col("cause"), F.lit(" in "), F.col("queue"))
    title = F.when(has_reason, normalised(F.col("reason"))).when(has_shape, shape).otherwise(rule)
    named = letters.select(
        F.date_trunc("hour", "time").alias("hour"),
        *["time", "account", "queue", "message_id", "consumer"],
        evidence.alias("evidence"),
        title.alias("title"),
    )
    fingerprint = F.substring(F.sha2(F.concat_ws("/", "evidence", "title"), 256), 1, 16)
    return named.withColumn("fingerprint", fingerprint)


def normalised(reason: Column) -> Column:
    text = F.lower(reason)
    for pattern, placeholder in PLACEHOLDERS:
        text = F.regexp_replace(text, pattern, placeholder)
    return F.substring(F.trim(text), 1, TITLE_MAX)
