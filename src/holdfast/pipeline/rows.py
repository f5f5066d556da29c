"""Stage: rows of the spool become rows of the ledger. A row that cannot be right is kept, and says why in `fault`.

Laws
- No row is dropped: as many leave as came in.
- A faulty row is counted nowhere. It has no hour of its own (1970), so it changes no hour.
"""

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from holdfast.ledger import tables
from holdfast.usage import schema
from holdfast.usage.schema import Type

CLOCK_TOLERANCE_US = 10 * 60 * 1_000_000  # a node may be so far ahead of the pipeline before its clock is not believed
EARLIEST_US = 1_577_836_800_000_000  # 2020: a clock that was never set
BUCKETS = 32

NULL, NEGATIVE, HISTOGRAM = "null_value", "negative_measure", "wrong_histogram"
FUTURE, UNSET = "clock_in_the_future", "clock_not_set"


def ledger_rows(source: DataFrame, *, kind: str, run_id: str, now_us: int) -> DataFrame:
    fault = _fault(kind, now_us)
    hour = F.when(fault.isNull(), F.date_trunc("hour", "time")).otherwise(F.timestamp_micros(F.lit(tables.NO_HOUR_US)))
    added = {
        "hour": hour,
        "fault": fault,
        "run_id": F.lit(run_id),
        "schema_version": F.lit(schema.VERSION).cast("int"),
    }
    columns = [added.get(name, F.col(name)).alias(name) for name in tables.LEDGERS[kind].schema.names]
    return source.select(*columns)


def _fault(kind: str, now_us: int) -> Column:
    """The first thing that is wrong with a row, or null."""
    columns = schema.columns(kind)
    measures = [each.name for each in columns if each.is_measure and each.type is Type.NUMBER]
    micros = F.unix_micros("time")
    faults = [
        (_any([F.col(each.name).isNull() for each in columns]), NULL),
        (micros > now_us + CLOCK_TOLERANCE_US, FUTURE),
        (micros < EARLIEST_US, UNSET),
    ]
    if measures:
        faults.append((_any([F.col(each) < 0 for each in measures]), NEGATIVE))
    if kind == schema.METER:
        counted = F.aggregate("latency", F.lit(0).cast("bigint"), lambda so_far, each: so_far + each)
        faults.append(((F.size("latency") != BUCKETS) | (counted != F.col("requests")), HISTOGRAM))
    found = F.when(faults[0][0], F.lit(faults[0][1]))
    for is_wrong, name in faults[1:]:
        found = found.when(is_wrong, F.lit(name))
    return found


def _any(conditions: list[Column]) -> Column:
    return reduce(lambda left, right: left | right, conditions)
