"""Queue flow: what went in, what came out, what stayed, and which calls could have been saved.

Counts come from the calls (meter) and, of what no call does, from the states that nodes report each minute. Depth and
age are those of the last state of the hour, summed over nodes. Advice is one code per queue and hour, the one that
would save most; the page sums it up.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, IntegerType, LongType, StringType, StructField, StructType, TimestampType

VERSION = 1
KEY = ("hour", "account", "queue")

LONG_POLL, BATCH_SENDS, BATCH_DELETES, ADD_CONSUMERS, NOTHING = (
    "LONG_POLL",
    "BATCH_SENDS",
    "BATCH_DELETES",
    "ADD_CONSUMERS",
    "",
)
POLLS_MIN = 180  # an hour of empty receives that each wait 20 s: what one patient consumer makes on an empty queue
BATCH_MAX = 10
WORTH_SAYING = 1000  # calls in an hour that could have been saved; below this advice is noise
OLD_AGE_S = 900  # a message that has waited so long while others arrive: consumers do not keep up

COUNTS = ("sent", "received", "deleted", "expired", "dead_lettered", "redriven", "empty_receives", "requests")
SENDS, RECEIVES, DELETES = (
    ("SendMessage", "SendMessageBatch"),
    ("ReceiveMessage",),
    ("DeleteMessage", "DeleteMessageBatch"),
)

SCHEMA = StructType(
    [
        StructField("day", TimestampType()),
        StructField("hour", TimestampType()),
        StructField("account", StringType()),
        StructField("queue", StringType()),
        StructField("queue_type", StringType()),
        *[StructField(name, LongType()) for name in COUNTS],
        *[StructField(name, LongType()) for name in ("depth", "in_flight", "delayed", "bytes", "oldest_age_s")],
        *[StructField(name, DoubleType()) for name in ("empty_receive_ratio", "batch_size")],
        StructField("wasted_requests", LongType()),
        StructField("advice", StringType()),
        StructField("run_id", StringType()),
        StructField("schema_version", IntegerType()),
    ]
)


def queue_flow(hourly: DataFrame, states: DataFrame, letters: DataFrame, *, run_id: str) -> DataFrame:
    joined = (
        _calls(hourly)
        .join(last_states(states), on=[*KEY, "queue_type"], how="full")
        .join(_letters(letters), on=list(KEY), how="left")
    )
    values = {
        "day": F.date_trunc("day", "hour"),
        **{name: F.coalesce(F.col(name), F.lit(0)) for name in COUNTS},
        "empty_receive_ratio": _ratio(F.col("empty_receives"), F.col("receive_calls")),
        "batch_size": _ratio(F.col("sent"), F.col("send_calls")),
        "wasted_requests": F.greatest(_wasted_polls(), _wasted_sends(), _wasted_deletes(), F.lit(0)),
        "advice": _advice(),
        "run_id": F.lit(run_id),
        "schema_version": F.lit(VERSION),
    }
    return joined.select(
        *[values.get(each.name, F.col(each.name)).cast(each.dataType).alias(each.name) for each in SCHEMA]
    )


def last_states(states: DataFrame) -> DataFrame:
    """The last state of each hour: of each node, then summed over nodes, because each has lanes of its own."""
    measures = ("visible", "in_flight", "delayed", "bytes", "oldest_age_s")
    since_before = ("expired", "redriven")
    keys = [*KEY, "queue_type"]
    by_node = (
        states.select(F.date_trunc("hour", "time").alias("hour"), "time", "node", *keys[1:], *measures, *since_before)
        .groupBy(*keys, "node")
        .agg(
            *[F.max_by(name, "time").alias(name) for name in measures],
            *[F.sum(name).alias(name) for name in since_before],
        )
    )
    return by_node.groupBy(*keys).agg(
        F.sum("visible").alias("depth"),
        *[F.sum(name).alias(name) for name in ("in_flight", "delayed", "bytes", *since_before)],
        F.max("oldest_age_s").alias("oldest_age_s"),
    )


def _calls(hourly: DataFrame) -> DataFrame:
    return (
        hourly.select(*KEY, "queue_type", "action", "outcome", "requests", "messages", "empty_receives")
        .where(F.col("queue") != "")
        .groupBy(*KEY, "queue_type")
        .agg(
            F.sum("requests").alias("requests"),
            F.sum("empty_receives").alias("empty_receives"),
            _of("messages", SENDS).alias("sent"),
            _of("messages", RECEIVES).alias("received"),
            _of("messages", DELETES).alias("deleted"),
            _of("requests", SENDS).alias("send_calls"),
            _of("requests", RECEIVES).alias("receive_calls"),
            _of("requests", DELETES).alias("delete_calls"),
        )
    )


def _letters(letters: DataFrame) -> DataFrame:
    hour = F.date_trunc("hour", "time").alias("hour")
    return letters.select(hour, "account", "queue").groupBy(*KEY).agg(F.count("*").alias("dead_lettered"))


def _of(measure: str, actions: tuple[str, ...]) -> Column:
    """Of calls that succeeded: a throttled send is no send that could have been part of a batch."""
    is_one = F.col("action").isin(*actions) & (F.col("outcome") == "success")
    return F.sum(F.when(is_one, F.col(measure)).otherwise(F.lit(0)))


def _ratio(part: Column, whole: Column) -> Column:
    return F.when(whole > 0, part / whole)


def _known(name: str) -> Column:
    return F.coalesce(F.col(name), F.lit(0))


def _wasted_polls() -> Column:
    return _known("empty_receives") - POLLS_MIN


def _wasted_sends() -> Column:
    return _known("send_calls") - F.ceil(_known("sent") / BATCH_MAX)


def _wasted_deletes() -> Column:
    return _known("delete_calls") - F.ceil(_known("deleted") / BATCH_MAX)


def _advice() -> Column:
    polls, sends, deletes = _wasted_polls(), _wasted_sends(), _wasted_deletes()
    is_behind = (_known("oldest_age_s") > OLD_AGE_S) & (_known("sent") > _known("deleted")) & (_known("deleted") > 0)
    return (
        F.when(is_behind, F.lit(ADD_CONSUMERS))
        .when((polls >= WORTH_SAYING) & (polls >= F.greatest(sends, deletes)), F.lit(LONG_POLL))
        .when((sends >= WORTH_SAYING) & (sends >= deletes), F.lit(BATCH_SENDS))
        .when(deletes >= WORTH_SAYING, F.lit(BATCH_DELETES))
        .otherwise(F.lit(NOTHING))
    )
