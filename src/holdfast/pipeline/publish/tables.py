"""The report tables: what stages make, declared once as Spark's types, and here as tables of the ledger.

Most are kept apart by day, because that is what is computed anew; costs by month, because tiers are climbed by month.
"""

from typing import Any, Final

import pyarrow as pa
from pyspark.sql import types as t

from holdfast.ledger.tables import STAMP, TIME, Table
from holdfast.pipeline.publish import alerts, audit, capacity, causes, flow, focus, levels

_PLAIN: Final = {
    t.StringType: pa.string(),
    t.LongType: pa.int64(),
    t.IntegerType: pa.int32(),
    t.DoubleType: pa.float64(),
    t.BooleanType: pa.bool_(),
    t.TimestampType: TIME,
}


def arrow(kind: Any) -> Any:
    match kind:
        case t.DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case t.ArrayType():
            return pa.list_(arrow(kind.elementType))
        case t.MapType():
            return pa.map_(arrow(kind.keyType), arrow(kind.valueType))
    return _PLAIN[type(kind)]


def _table(name: str, columns: Any, by: str) -> Table:
    return Table(f"report.{name}", pa.schema([(each.name, arrow(each.dataType)) for each in columns]), by=by)


FOCUS_COST: Final = _table("focus_cost", focus.SCHEMA, by="x_UsageMonth")
SERVICE_LEVELS: Final = _table("service_levels", levels.SCHEMA, by="day")
QUEUE_FLOW: Final = _table("queue_flow", flow.SCHEMA, by="day")
DEAD_LETTER_CAUSES: Final = _table("dead_letter_causes", causes.SCHEMA, by="day")
CAPACITY_FORECAST: Final = _table("capacity_forecast", capacity.FORECAST, by="day")
HOT_QUEUES: Final = _table("hot_queues", capacity.HOT, by="day")
ALERTS: Final = _table("alerts", alerts.SCHEMA, by="day")
AUDIT_OCSF: Final = _table("audit_ocsf", audit.SCHEMA, by="day")
AUDIT_DIGEST: Final = Table(
    "report.audit_digest",
    pa.schema(
        [
            *[
                ("number", pa.int64()),
                ("hour", TIME),
                ("part", pa.int64()),
                ("path", pa.string()),
                ("lines", pa.int64()),
            ],
            *[("sha256", pa.string()), ("previous", pa.string()), ("digest", pa.string())],
            *STAMP,
        ]
    ),
)

DAILY: Final = (
    SERVICE_LEVELS,
    QUEUE_FLOW,
    DEAD_LETTER_CAUSES,
    CAPACITY_FORECAST,
    HOT_QUEUES,
    ALERTS,
    AUDIT_OCSF,
)
REPORTS: Final = {each.name: each for each in (FOCUS_COST, *DAILY, AUDIT_DIGEST)}
