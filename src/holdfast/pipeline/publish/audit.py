"""Audit events in the form of OCSF: class 6003, API Activity, of the Open Cybersecurity Schema Framework 1.6.

The whole event is one JSON text; what is searched for most is in columns of its own beside it. Message bodies, secrets
and parameters are in neither, because nodes do not hand them over.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType, TimestampType

VERSION = 1
OCSF_VERSION = "1.6.0"
CATEGORY, CLASS = 6, 6003
CREATE, READ, UPDATE, DELETE, OTHER = 1, 2, 3, 4, 99
SUCCESS, FAILURE = 1, 2
INFORMATIONAL, LOW = 1, 2
NAMES = {CREATE: "Create", READ: "Read", UPDATE: "Update", DELETE: "Delete", OTHER: "Other"}

# An action begins with a verb; the longest that fits decides.
VERBS = {
    CREATE: ("Create", "Send"),
    READ: ("Get", "List", "Receive", "Peek"),
    UPDATE: ("Set", "Add", "Remove", "Tag", "Untag", "Change", "Start", "Cancel"),
    DELETE: ("Delete", "Purge"),
}

SCHEMA = StructType(
    [
        StructField("day", TimestampType()),
        StructField("hour", TimestampType()),
        StructField("time", TimestampType()),
        StructField("uid", StringType()),
        *[StructField(name, IntegerType()) for name in ("class_uid", "activity_id", "status_id", "severity_id")],
        StructField("type_uid", LongType()),
        *[StructField(name, StringType()) for name in ("account", "principal", "action", "queue", "error_code")],
        *[StructField(name, StringType()) for name in ("source_ip", "node", "event")],
        StructField("run_id", StringType()),
        StructField("schema_version", IntegerType()),
    ]
)


def audit_ocsf(audit: DataFrame, *, product_version: str, run_id: str) -> DataFrame:
    is_done = F.col("outcome") == "success"
    # The place in the ledger is what no other event has; a request id is what the client was told.
    uid = F.concat_ws("/", "node", F.col("epoch"), F.col("seq"), F.col("row"))
    known = audit.withColumn("activity_id", _activity(F.col("action"))).withColumn("uid", uid)
    values = {
        "day": F.date_trunc("day", "time"),
        "hour": F.date_trunc("hour", "time"),
        "class_uid": F.lit(CLASS),
        "status_id": F.when(is_done, SUCCESS).otherwise(FAILURE),
        "severity_id": F.when(is_done, INFORMATIONAL).otherwise(LOW),
        "type_uid": F.lit(CLASS * 100) + F.col("activity_id"),
        "run_id": F.lit(run_id),
        "schema_version": F.lit(VERSION),
    }
    placed = known.withColumns({name: value for name, value in values.items() if name not in ("run_id",)})
    values["event"] = F.to_json(_event(product_version))
    return placed.select(
        *[values.get(each.name, F.col(each.name)).cast(each.dataType).alias(each.name) for each in SCHEMA]
    )


def _activity(action: Column) -> Column:
    found = F.when(F.lit(False), OTHER)
    for activity, verbs in VERBS.items():
        is_one = action.startswith(verbs[0])
        for verb in verbs[1:]:
            is_one = is_one | action.startswith(verb)
        found = found.when(is_one, activity)
    return found.otherwise(OTHER)


def _event(product_version: str) -> Column:
    names = F.create_map(*[F.lit(each) for pair in NAMES.items() for each in pair])
    product = F.struct(
        F.lit("Holdfast").alias("name"),
        F.lit("Holdfast").alias("vendor_name"),
        F.lit(product_version).alias("version"),
    )
    account = F.struct(F.col("account").alias("uid"), F.lit("AWS Account").alias("type"), F.lit(10).alias("type_id"))
    resource = F.struct(F.col("queue").alias("name"), F.lit("Queue").alias("type"))
    return F.struct(
        F.lit(CATEGORY).alias("category_uid"),
        F.lit("Application Activity").alias("category_name"),
        "class_uid",
        F.lit("API Activity").alias("class_name"),
        "activity_id",
        F.element_at(names, F.col("activity_id")).alias("activity_name"),
        "type_uid",
        F.unix_millis("time").alias("time"),
        "severity_id",
        "status_id",
        F.when(F.col("status_id") == SUCCESS, "Success").otherwise("Failure").alias("status"),
        F.col("status").cast("string").alias("status_code"),
        F.when(F.col("error_code") != "", F.col("error_code")).alias("status_detail"),
        F.struct(F.lit(OCSF_VERSION).alias("version"), product.alias("product"), "uid").alias("metadata"),
        F.struct(F.struct(F.col("principal").alias("uid"), account.alias("account")).alias("user")).alias("actor"),
        _api().alias("api"),
        F.struct(F.col("source_ip").alias("ip")).alias("src_endpoint"),
        F.when(F.col("queue") != "", F.array(resource)).alias("resources"),
        F.when(F.col("user_agent") != "", F.struct(F.col("user_agent"))).alias("http_request"),
    )


def _api() -> Column:
    return F.struct(
        F.col("action").alias("operation"),
        F.struct(F.lit("sqs").alias("name")).alias("service"),
        F.struct(F.col("request_id").alias("uid")).alias("request"),
        F.when(F.col("error_code") != "", F.struct(F.col("error_code").alias("error"))).alias("response"),
    )
