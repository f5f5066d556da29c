"""What is billed: one record per account, queue and closed hour, and the corrections that follow. Nothing is edited.

Laws:
- An hour that closed is recorded once, as ORIGINAL. When its units change later, a RETRACTION takes back what was
  recorded and a RESTATEMENT says what is right. So the records of an hour always add up to its units.
- Record ids are a function of what is recorded: publishing again makes the same records, and nothing new.
"""

import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from holdfast.pipeline import rates
from holdfast.pipeline.publish import money

ORIGINAL, RETRACTION, RESTATEMENT = "ORIGINAL", "RETRACTION", "RESTATEMENT"
UNIT = "Requests"
COMPLETE = "COMPLETE"
VERSION = 1

KEY = ("hour", "account", "queue", "sku")
TAGS = MapType(StringType(), StringType())

SCHEMA = StructType(
    [
        StructField("record_id", StringType()),
        StructField("hour", TimestampType()),
        StructField("account", StringType()),
        StructField("queue", StringType()),
        StructField("sku", StringType()),
        StructField("start", TimestampType()),
        StructField("end", TimestampType()),
        StructField("unit", StringType()),
        StructField("quantity", money.QUANTITY),
        StructField("breakdown", MapType(StringType(), LongType())),
        StructField("tags", TAGS),
        StructField("record_type", StringType()),
        StructField("correction_of", StringType()),
        StructField("revision", IntegerType()),
        StructField("completeness", StringType()),
        StructField("recorded_at", TimestampType()),
        StructField("run_id", StringType()),
        StructField("schema_version", IntegerType()),
    ]
)


def records(
    hourly: DataFrame,
    recorded: DataFrame,
    *,
    states: DataFrame,
    run_id: str,
    recorded_at: datetime.datetime,
) -> DataFrame:
    """What has to be appended to `recorded` so that it says what `hourly` says: all rows of some closed hours, both.
    `states` are those of the queues in these hours: they tell their tags."""
    now, before = current(hourly), standing(recorded)
    differs = F.coalesce(F.col("quantity"), F.lit(0)) != F.coalesce(F.col("recorded"), F.lit(0))
    changed = now.join(before, on=list(KEY), how="full").where(differs)
    lines = changed.select(*KEY, F.explode(_lines()).alias("line")).select(*KEY, "line.*")
    tagged = lines.where(F.col("quantity") != 0).join(tags(states), on=["hour", "account", "queue"], how="left")
    return tagged.select(
        _record_id().alias("record_id"),
        *KEY,
        F.col("hour").alias("start"),
        (F.col("hour") + F.expr("INTERVAL 1 HOUR")).alias("end"),
        F.lit(UNIT).alias("unit"),
        money.quantity(F.col("quantity")).alias("quantity"),
        "breakdown",
        F.coalesce("tags", F.create_map().cast(TAGS)).alias("tags"),
        "record_type",
        "correction_of",
        "revision",
        F.lit(COMPLETE).alias("completeness"),
        F.lit(recorded_at).alias("recorded_at"),
        F.lit(run_id).alias("run_id"),
        F.lit(VERSION).alias("schema_version"),
    )


def current(hourly: DataFrame) -> DataFrame:
    """The units of an hour as they are known now, with their breakdown by action."""
    sku = F.when(F.col("queue_type") == "fifo", F.lit(rates.FIFO)).otherwise(F.lit(rates.STANDARD))
    by_action = (
        hourly.select("hour", "account", "queue", sku.alias("sku"), "action", "billed_units")
        .groupBy(*KEY, "action")
        .agg(F.sum("billed_units").alias("units"))
        .where(F.col("units") != 0)
    )
    entries = F.sort_array(F.collect_list(F.struct("action", "units")))
    return by_action.groupBy(*KEY).agg(
        money.quantity(F.sum("units")).alias("quantity"), F.map_from_entries(entries).alias("breakdown")
    )


def tags(states: DataFrame) -> DataFrame:
    """As they were at the end of the hour."""
    return (
        states.where(F.col("tags") != "")
        .groupBy(F.date_trunc("hour", "time").alias("hour"), "account", "queue")
        .agg(F.from_json(F.max_by("tags", "time"), TAGS).alias("tags"))
    )


def standing(recorded: DataFrame) -> DataFrame:
    """What the records of an hour add up to, and the one a correction would correct."""
    standing_record = F.col("record_type") != RETRACTION
    return recorded.groupBy(*KEY).agg(
        money.quantity(F.sum("quantity")).alias("recorded"),
        F.max("revision").alias("last_revision"),
        F.max_by("record_id", F.when(standing_record, F.col("revision"))).alias("last_id"),
        F.max_by("breakdown", F.when(standing_record, F.col("revision"))).alias("last_breakdown"),
    )


def _lines() -> Column:
    is_known = F.col("recorded").isNotNull()
    following = F.coalesce(F.col("last_revision"), F.lit(-1)) + 1
    quantity = F.coalesce(F.col("quantity"), money.quantity(F.lit(0)))
    back = F.transform_values("last_breakdown", lambda _, units: -units)
    nothing = F.lit(None).cast(StringType())
    original = _line(ORIGINAL, quantity, F.col("breakdown"), nothing, F.lit(0))
    taken_back = _line(RETRACTION, -F.col("recorded"), back, F.col("last_id"), following)
    right = _line(RESTATEMENT, quantity, F.col("breakdown"), F.col("last_id"), following)
    return F.when(is_known, F.array(taken_back, right)).otherwise(F.array(original))


def _line(kind: str, quantity: Column, breakdown: Column, correction_of: Column, revision: Column) -> Column:
    return F.struct(
        F.lit(kind).alias("record_type"),
        money.quantity(quantity).alias("quantity"),
        breakdown.cast(MapType(StringType(), LongType())).alias("breakdown"),
        correction_of.alias("correction_of"),
        revision.cast(IntegerType()).alias("revision"),
    )


def _record_id() -> Column:
    parts = (F.date_format("hour", "yyyyMMddHH"), "account", "queue", "sku", "record_type", F.col("revision"))
    return F.substring(F.sha2(F.concat_ws("/", *parts), 256), 1, 32)
