"""Stage: rows of the spool become rows of the ledger. A row that cannot be right is kept, and says why in `fault`.

Laws
- No row is dropped: as many leave as came in.
- A faulty row is counted nowhere. It has no hour of its own (1970), so it changes no hour.
"""

from functools import reduce
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.ledger import tables
from holdfast.usage import schema
from holdfast.usage.schema import Type

CLOCK_TOLERANCE_US: Final = 10 * 60 * 1_000_000  # so far may a node be ahead of the pipeline before we doubt its clock
EARLIEST_US: Final = 1_577_836_800_000_000  # 2020: a clock that was never set
HOUR_US: Final = 3_600_000_000
BUCKETS: Final = 32

NULL, NEGATIVE, HISTOGRAM = "null_value", "negative_measure", "wrong_histogram"
FUTURE, UNSET = "clock_in_the_future", "clock_not_set"


def ledger_rows(source: Any, *, kind: str, run_id: str, now_us: int) -> Any:
    """Arrow tables: of `tables.source_schema` in, of the ledger's table out."""
    fault = _fault(source, kind, now_us)
    micros = pc.fill_null(source.column("time").cast(pa.int64()), 0).to_numpy()
    hours = np.where(pc.is_null(fault).to_numpy(zero_copy_only=False), micros - micros % HOUR_US, tables.NO_HOUR_US)
    count = source.num_rows
    added = {
        "hour": pa.array(hours).cast(tables.TIME),
        "fault": fault,
        "run_id": pa.repeat(run_id, count),
        "schema_version": pa.repeat(pa.scalar(schema.VERSION, pa.int32()), count),
    }
    wanted = tables.LEDGERS[kind].schema
    return pa.table([added[name] if name in added else source.column(name) for name in wanted.names], schema=wanted)


def _fault(source: Any, kind: str, now_us: int) -> Any:
    """The first thing that is wrong with a row, or null."""
    columns = schema.columns(kind)
    measures = [each.name for each in columns if each.is_measure and each.type is Type.NUMBER]
    micros = source.column("time").cast(pa.int64())
    faults = [
        (_any([pc.is_null(source.column(each.name)) for each in columns]), NULL),
        (pc.greater(micros, now_us + CLOCK_TOLERANCE_US), FUTURE),
        (pc.less(micros, EARLIEST_US), UNSET),
    ]
    if measures:
        faults.append((_any([pc.less(source.column(each), 0) for each in measures]), NEGATIVE))
    if kind == schema.METER:
        faults.append((_has_wrong_histogram(source), HISTOGRAM))
    conditions = pc.make_struct(*[pc.fill_null(is_wrong, False) for is_wrong, _ in faults])
    names = [pa.scalar(name) for _, name in faults]
    return pc.case_when(conditions, *names, pa.scalar(None, pa.string()))


def _has_wrong_histogram(source: Any) -> Any:
    """Not of 32 buckets, or with another sum than there were requests."""
    counts = source.column("latency").combine_chunks()
    offsets = counts.offsets.to_numpy() - counts.offsets[0].as_py()
    upto = np.concatenate(([0], np.cumsum(counts.flatten().to_numpy(zero_copy_only=False))))
    summed = pa.array(upto[offsets[1:]] - upto[offsets[:-1]])
    has_other_size = pa.array(np.diff(offsets) != BUCKETS)
    return pc.or_(has_other_size, pc.not_equal(summed, pc.fill_null(source.column("requests").combine_chunks(), 0)))


def _any(conditions: list[Any]) -> Any:
    return reduce(pc.or_kleene, conditions)
