"""Stage: rows of the ledger become usage by minute, hour and day. Faulty rows are left out.

Laws
- Each step only adds up, so a day is the sum of its hours, and those of their minutes, to the unit. So parts of an hour
  may also be added up one by one, and then together: `merged`.
- Rows leave in the order of their keys: the same rows in always give the same rows out.
- A sum that 64 bits cannot hold is an error, not another number.

Cost: about a microsecond per row. Rows are sorted by one number that stands for all their keys, then each measure and
each bucket of the histogram is summed up over stretches of equal keys. (decisions/0024 says why not by Spark itself.)
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.ledger import tables
from holdfast.ledger.errors import LedgerError
from holdfast.ledger.tables import Table

BUCKETS: Final = 32
MINUTE_US: Final = 60_000_000
DAY_US: Final = 24 * 3_600_000_000
KEYS: Final = list(tables.KEYS)
MEASURES: Final = list(tables.MEASURES)
TIMES: Final = {tables.USAGE_MINUTE: ["hour", "minute"], tables.USAGE_HOURLY: ["hour"], tables.USAGE_DAILY: ["day"]}
_SUM_MAX: Final = 9.2e18  # just below 2^63
_CODE_MAX: Final = 2**62
_WORD: Final = 62  # nodes in one number of a set


def minutes(ledger: Any, *, run_id: str) -> Any:
    good = ledger.filter(pc.is_null(ledger.column("fault"))).combine_chunks()
    micros = good.column("time").cast(pa.int64()).to_numpy()
    columns: dict[str, Any] = {
        "hour": good.column("hour"),
        "minute": pa.array(micros - micros % MINUTE_US).cast(tables.TIME),
        **{name: good.column(name) for name in KEYS},
        **{name: good.column("units" if name == "billed_units" else name) for name in MEASURES},
        "latency": good.column("latency"),
        "nodes": _singles(good.column("node")),
    }
    return merged([pa.table(columns)], into=tables.USAGE_MINUTE, run_id=run_id)


def hours(by_minute: Any, *, run_id: str) -> Any:
    return merged([by_minute], into=tables.USAGE_HOURLY, run_id=run_id)


def days(by_hour: Any, *, run_id: str) -> Any:
    micros = by_hour.column("hour").cast(pa.int64()).to_numpy()
    dated = by_hour.append_column("day", pa.array(micros - micros % DAY_US).cast(tables.TIME))
    return merged([dated], into=tables.USAGE_DAILY, run_id=run_id)


def merged(parts: Sequence[Any], *, into: Table, run_id: str) -> Any:
    """Rows of equal times and keys become one. Answers rows of the table `into`."""
    keys = [*TIMES[into], *KEYS]
    needed = [*keys, *MEASURES, "latency", "nodes"]
    rows = pa.concat_tables([part.select(needed) for part in parts]).combine_chunks()
    if not rows.num_rows:
        return into.schema.empty_table()
    order, starts = stretches(rows, keys)
    made = dict(zip(needed, rows.take(pa.array(order[starts])).columns, strict=True))
    if len(starts) < len(order):  # otherwise there is nothing to add up
        made |= {name: pa.array(_sums(rows.column(name), order, starts)) for name in MEASURES}
        made["latency"] = histograms(rows.column("latency"), order, starts)
        made["nodes"] = _unions(rows.column("nodes"), order, starts)
    made["run_id"] = pa.repeat(run_id, len(starts))
    made["schema_version"] = pa.repeat(pa.scalar(tables.VERSION, pa.int32()), len(starts))
    return pa.table([made[name] for name in into.schema.names], schema=into.schema)


def stretches(rows: Any, keys: Sequence[str]) -> tuple[Any, Any]:
    """The rows in the order of their keys, and where in it each stretch of equal keys starts."""
    codes = _codes(rows, keys)
    order = np.argsort(codes, kind="stable")
    return order, _starts(codes[order])


def _codes(rows: Any, keys: Sequence[str]) -> Any:
    """A number per row: equal where all keys are equal, and in the order of the keys."""
    codes, span = np.zeros(rows.num_rows, np.int64), 1
    for name in keys:
        ranks, count = _ranks(rows.column(name))
        if span * count > _CODE_MAX:
            codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
            span = int(codes.max()) + 1
        codes = codes * count + ranks
        span *= count
    return codes


def _ranks(column: Any) -> tuple[Any, int]:
    """The place of each value among the distinct ones, in order; and how many there are."""
    encoded = column.combine_chunks().dictionary_encode()
    places = np.empty(len(encoded.dictionary), np.int64)
    places[pc.array_sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(places))
    return places[encoded.indices.to_numpy()], len(places)


def _starts(ordered: Any) -> Any:
    return np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))


def _sums(column: Any, order: Any, starts: Any) -> Any:
    values = column.to_numpy()
    _require_room(values, rows=len(values))
    return np.add.reduceat(values[order], starts)


def _require_room(values: Any, *, rows: int) -> None:
    """No sum of so many of these values may be too large; what is certainly small is not added up for that."""
    largest = max(int(values.max()), -int(values.min()))
    if largest * rows > _SUM_MAX and float(np.abs(values).sum(dtype=np.float64)) > _SUM_MAX:
        raise LedgerError(f"a sum of {rows} rows, some as large as {largest}, does not fit into 64 bits")


def histograms(column: Any, order: Any, starts: Any) -> Any:
    """Added up over each stretch, bucket by bucket."""
    lists = column.combine_chunks()
    counts = lists.flatten().to_numpy()
    if len(counts) != BUCKETS * len(lists):
        raise LedgerError(f"a histogram has other than {BUCKETS} buckets; nothing was committed")
    _require_room(counts, rows=len(lists))
    matrix = counts.reshape(-1, BUCKETS)
    summed = np.empty((len(starts), BUCKETS), np.int64)
    for number in range(BUCKETS):  # by column: half as long as by row
        summed[:, number] = np.add.reduceat(matrix[:, number][order], starts)
    offsets = pa.array(np.arange(len(starts) + 1, dtype=np.int32) * BUCKETS)
    return pa.ListArray.from_arrays(offsets, pa.array(summed.ravel()))


def _singles(column: Any) -> Any:
    values = column.combine_chunks()
    return pa.ListArray.from_arrays(pa.array(np.arange(len(values) + 1, dtype=np.int32)), values)


def _unions(column: Any, order: Any, starts: Any) -> Any:
    """Sets of names, united over each stretch. A set is a number with a bit for each name, one number per 62 names."""
    lists = column.combine_chunks()
    encoded = lists.flatten().dictionary_encode()
    names = encoded.dictionary.to_pylist()
    members, offsets = encoded.indices.to_numpy(), lists.offsets.to_numpy() - lists.offsets[0].as_py()
    words = []
    for first in range(0, len(names), _WORD):
        place = members - first
        bits = np.where((place >= 0) & (place < _WORD), np.left_shift(1, np.clip(place, 0, _WORD - 1)), 0)
        words.append(np.bitwise_or.reduceat(np.bitwise_or.reduceat(bits, offsets[:-1])[order], starts))
    distinct, which = _distinct(words)
    sets = [[name for name, has in zip(names, _bits(each), strict=False) if has] for each in distinct]
    return pa.array([sorted(each) for each in sets], pa.list_(pa.string())).take(pa.array(which))


def _distinct(words: Sequence[Any]) -> tuple[list[list[int]], Any]:
    """The different rows of these columns, and which of them each row is."""
    if len(words) == 1:  # a tenth of the time of the other way
        values, which = np.unique(words[0], return_inverse=True)
        return [[each] for each in values.tolist()], which
    rows, which = np.unique(np.stack(words, axis=1), axis=0, return_inverse=True)
    return rows.tolist(), which.ravel()


def _bits(words: Sequence[int]) -> Iterator[int]:
    return (word >> number & 1 for word in words for number in range(_WORD))
