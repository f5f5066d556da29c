"""Alerts: hours that are not as they usually are, and budgets that burn too fast.

Unusual is what lies far above the median of the same hour of the week, measured in deviations from that median (a
robust z-score: a single outage moves neither). While fewer than HISTORY_MIN weeks are known, the queue's other hours
stand in for them, and the alert says so; what rises and falls with every day is then not judged.

Hours in a row that say the same are one alert, which lasts.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, IntegerType, StringType, StructField, StructType, TimestampType

VERSION = 1
Z_MIN = 6.0
Z_MAX = 999.0  # where nothing ever changed, the score says nothing more
HISTORY_MIN = 4  # hours of the same kind before they can be called usual
HOURS_MIN = 8  # of any kind, as the fallback
MAD_TO_SIGMA = 1.4826  # makes the median deviation of normal values their standard deviation
FAST_BURN, SLOW_BURN = 14.4, 6.0  # the month's budget in two days, in five
CRITICAL, WARNING, NOTICE = "critical", "warning", "notice"
WEEKLY, ANY_HOUR, BY_TARGET, FIRST_SEEN = "hour of week", "all hours", "target", "first seen"
DEATHS_MIN = 20  # messages; a new cause with fewer is in the list of causes only

# A series, and how far above its median a value has to be at least: ten calls more are not worth a word.
SERIES = {"requests": 1000.0, "dead_lettered": 20.0, "throttled": 100.0, "depth": 1000.0, "p99_ms": 50.0}
RHYTHMIC = ("requests",)  # follow the time of day: judged only when weeks are known
SEVERE = ("dead_lettered", "p99_ms")
TITLES = {
    "requests": "calls, usually about",
    "dead_lettered": "messages died, usually about",
    "throttled": "calls were throttled, usually about",
    "depth": "messages wait, usually about",
    "p99_ms": "ms for the slowest of a hundred calls, usually about",
}
KEY = ("account", "queue", "kind", "baseline", "severity")  # of an alert, with the day

SCHEMA = StructType(
    [
        StructField("day", TimestampType()),
        StructField("hour", TimestampType()),
        StructField("until", TimestampType()),
        *[StructField(name, StringType()) for name in ("account", "queue", "kind", "severity")],
        *[StructField(name, DoubleType()) for name in ("value", "usual", "score")],
        *[StructField(name, StringType()) for name in ("baseline", "title")],
        StructField("run_id", StringType()),
        StructField("schema_version", IntegerType()),
    ]
)


def alerts(flow: DataFrame, levels: DataFrame, causes: DataFrame, *, run_id: str) -> DataFrame:
    """Of every day that is given; the others are its history."""
    found = unusual(series(flow, levels)).unionByName(burning(levels))
    lasting = episodes(found).unionByName(new_causes(causes))
    values = {
        "day": F.date_trunc("day", "hour"),
        "title": F.coalesce("title", _title()),
        "run_id": F.lit(run_id),
        "schema_version": F.lit(VERSION),
    }
    return lasting.select(
        *[values.get(each.name, F.col(each.name)).cast(each.dataType).alias(each.name) for each in SCHEMA]
    )


def series(flow: DataFrame, levels: DataFrame) -> DataFrame:
    """hour, account, queue, kind, value"""
    key = ["hour", "account", "queue"]
    by_queue = levels.groupBy(*key).agg(F.sum("throttled").alias("throttled"), F.max("p99_ms").alias("p99_ms"))
    wide = flow.select(*key, "requests", "dead_lettered", "depth").join(by_queue, on=key, how="left")
    one = [F.struct(F.lit(name).alias("kind"), F.col(name).cast("double").alias("value")) for name in SERIES]
    return wide.select(*key, F.explode(F.array(*one)).alias("one")).select(*key, "one.*").where("value IS NOT NULL")


def unusual(values: DataFrame) -> DataFrame:
    """hour, value, usual, score and KEY of the hours that are far above what is usual."""
    queue = ["account", "queue", "kind"]
    weekly = Window.partitionBy(*queue, F.dayofweek("hour") * 24 + F.hour("hour"))
    all_hours = Window.partitionBy(*queue)
    # Once, for all windows; and most series are far too low all the time: what never gets there needs no median.
    values = values.repartition(*queue).withColumn("most", F.max("value").over(all_hours))
    values = values.where(F.col("most") >= _by_kind(SERIES))
    has_weeks = F.count("*").over(weekly) >= HISTORY_MIN
    usual = F.when(has_weeks, F.median("value").over(weekly)).otherwise(F.median("value").over(all_hours))
    centred = values.withColumn("has_weeks", has_weeks).withColumn("usual", usual)
    away = F.abs(F.col("value") - F.col("usual"))
    spread = F.when(F.col("has_weeks"), F.median(away).over(weekly)).otherwise(F.median(away).over(all_hours))
    # Where nothing ever changes the spread is 0: a thousandth of the usual value stands in for it.
    sigma = F.greatest(spread * MAD_TO_SIGMA, F.col("usual") / 1000, F.lit(1e-9))
    scored = centred.withColumn("score", F.least((F.col("value") - F.col("usual")) / sigma, F.lit(Z_MAX)))
    is_known = F.col("has_weeks") | ((F.count("*").over(all_hours) >= HOURS_MIN) & ~F.col("kind").isin(*RHYTHMIC))
    is_far = (F.col("score") >= Z_MIN) & (F.col("value") - F.col("usual") >= _by_kind(SERIES))
    return scored.withColumn("is_alert", is_known & is_far).where("is_alert").select(*_columns())


def _columns() -> list[Column]:
    return [
        F.col("hour"),
        *[F.col(name) for name in ("account", "queue", "kind", "value", "usual", "score")],
        F.when(F.col("has_weeks"), WEEKLY).otherwise(ANY_HOUR).alias("baseline"),
        F.when(F.col("kind").isin(*SEVERE), WARNING).otherwise(NOTICE).alias("severity"),
    ]


def burning(levels: DataFrame) -> DataFrame:
    """Budgets of a queue, all actions together."""
    rate = F.sum("bad") / F.sum("requests") / F.max(1 - F.col("target"))
    by_queue = levels.groupBy("hour", "account", "queue").agg(rate.alias("value"))
    return by_queue.where(F.col("value") >= SLOW_BURN).select(
        "hour",
        "account",
        "queue",
        F.lit("error_budget").alias("kind"),
        "value",
        F.lit(1.0).alias("usual"),
        F.col("value").alias("score"),
        F.lit(BY_TARGET).alias("baseline"),
        F.when(F.col("value") >= FAST_BURN, CRITICAL).otherwise(WARNING).alias("severity"),
    )


def episodes(found: DataFrame) -> DataFrame:
    """Hours in a row, of one day, become one, with its worst value."""
    day = F.date_trunc("day", "hour")
    order = Window.partitionBy(*KEY, day).orderBy("hour")
    number = F.col("hour").cast("bigint") / 3600 - F.row_number().over(order)  # the same within a row of hours
    return (
        found.withColumn("row", number)
        .groupBy(*KEY, day, "row")
        .agg(
            F.min("hour").alias("hour"),
            (F.max("hour") + F.expr("INTERVAL 1 HOUR")).alias("until"),
            F.max("value").alias("value"),
            F.max_by("usual", "value").alias("usual"),
            F.max("score").alias("score"),
            F.lit(None).cast("string").alias("title"),
        )
        .select(*KEY, "hour", "until", "value", "usual", "score", "title")
    )


def new_causes(causes: DataFrame) -> DataFrame:
    """What messages began to die of."""
    count = F.format_number("count", 0)
    return causes.where(F.col("is_new") & (F.col("count") >= DEATHS_MIN)).select(
        "account",
        F.array_join("queues", ", ").alias("queue"),
        F.lit("new_cause").alias("kind"),
        F.lit(FIRST_SEEN).alias("baseline"),
        F.lit(WARNING).alias("severity"),
        F.date_trunc("hour", "first_seen").alias("hour"),
        F.date_trunc("hour", F.col("last_seen") + F.expr("INTERVAL 1 HOUR")).alias("until"),
        F.col("count").cast("double").alias("value"),
        F.lit(0.0).alias("usual"),
        F.lit(None).cast("double").alias("score"),
        F.concat(count, F.lit(" messages died of something new: "), F.col("title")).alias("title"),
    )


def _title() -> Column:
    value, usual = F.format_number("value", 0), F.format_number("usual", 0)
    unusual_ = F.concat(value, F.lit(" "), _by_kind(TITLES), F.lit(" "), usual, F.lit("."))
    burns = F.concat(F.lit("The error budget burns "), value, F.lit(" times as fast as the target allows."))
    return F.when(F.col("kind") == "error_budget", burns).otherwise(unusual_)


def _by_kind(values: dict[str, float] | dict[str, str]) -> Column:
    """Null for a kind that is not in it."""
    return F.get(F.array(*[F.lit(each) for each in values.values()]), _place(list(values)))


def _place(kinds: list[str]) -> Column:
    return F.array_position(F.array(*[F.lit(each) for each in kinds]), F.col("kind")).cast("int") - 1
