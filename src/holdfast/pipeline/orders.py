"""What a task does: an order goes in, files of tables are written, and the answer says which. Plain Python and Arrow.

    TakeOver   segments of the spool ──▶ ledger.<kind>
    RollUp     hours of the ledger   ──▶ rollup.usage_minute and rollup.usage_hourly
    AddDays    hours that are rolled up ──▶ rollup.usage_daily

Laws
- An order names all that it reads: exact segments, exact files. Doing it again, here or elsewhere, makes the same rows.
- Files belong to no table before the job commits them. An order that dies, or is done twice, leaves files behind that
  nobody knows.
- Rows do not leave the process that read them. What goes through Spark is orders and names of files.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.ledger import spool, tables
from holdfast.ledger.errors import BadFile
from holdfast.ledger.files import DataFile, FileWriter
from holdfast.ledger.spool import Range
from holdfast.ledger.store import Snapshot
from holdfast.pipeline import rows, usage

BATCH_ROWS: Final = 65_536
PIECE_ROWS: Final = 50_000  # added up at a time: fits the caches, and makes little of what each step costs once
ROWS_PER_ORDER: Final = 100_000  # a second of work, in which the start of a task does not matter
ORDERS_MAX: Final = 64

Made = dict[str, list[DataFile]]  # by name of the table


class Source(msgspec.Struct, frozen=True):
    """An hour of a table, or a day, and where its rows are."""

    by_us: int
    paths: tuple[str, ...]
    rows: int


class TakeOver(msgspec.Struct, frozen=True, tag=True):
    root: str  # of the ledger
    run_id: str
    spool: str
    kind: str
    ranges: tuple[Range, ...]
    now_us: int


class RollUp(msgspec.Struct, frozen=True, tag=True):
    root: str
    run_id: str
    hours: tuple[Source, ...]


class AddDays(msgspec.Struct, frozen=True, tag=True):
    root: str
    run_id: str
    days: tuple[Source, ...]


Order = TakeOver | RollUp | AddDays


def carry_out(order: Order) -> Made:
    match order:
        case TakeOver():
            return _take_over(order)
        case RollUp():
            return _roll_up(order)
        case AddDays():
            return _add_days(order)


def encode(order: Order) -> bytes:
    return msgspec.json.encode(order)


def carry_out_encoded(order: bytes) -> bytes:
    """As bytes, which survive any pickler."""
    return msgspec.json.encode(carry_out(msgspec.json.decode(order, type=Order)))


def decode_made(made: bytes) -> Made:
    return msgspec.json.decode(made, type=Made)


# --- making orders -----------------------------------------------------------------------------------------


def sources(seen: Snapshot, by_us: Iterable[int]) -> list[Source]:
    """Of a snapshot, in order of time. An hour that has no files, because all its rows went, is there as well."""
    paths: dict[int, list[str]] = {each: [] for each in sorted(by_us)}
    counted = dict.fromkeys(paths, 0)
    for file in seen.files:
        if file.by_us in paths:
            paths[file.by_us].append(str(seen.folder / file.path))
            counted[file.by_us] += file.rows
    return [Source(each, tuple(paths[each]), counted[each]) for each in paths]


def shared(many: Sequence[Source]) -> list[tuple[Source, ...]]:
    """For several orders, of about equal rows."""
    share = max(ROWS_PER_ORDER, sum(each.rows for each in many) // ORDERS_MAX)
    return list(_pieces(many, rows_max=share))


def count(rows_wanted: int) -> int:
    """How many orders that many rows are worth."""
    return max(1, min(ORDERS_MAX, rows_wanted // ROWS_PER_ORDER))


def _pieces(many: Sequence[Source], *, rows_max: int) -> Iterator[tuple[Source, ...]]:
    """Neighbours together, up to so many rows; one that has more comes alone."""
    piece: list[Source] = []
    for each in many:
        if piece and sum(one.rows for one in piece) + each.rows > rows_max:
            yield tuple(piece)
            piece = []
        piece.append(each)
    if piece:
        yield tuple(piece)


# --- carrying them out -------------------------------------------------------------------------------------


def _take_over(order: TakeOver) -> Made:
    table = tables.LEDGERS[order.kind]
    writer = FileWriter(table.folder(Path(order.root)), table)
    for batch in spool.read(Path(order.spool), order.kind, order.ranges, batch_rows=BATCH_ROWS):
        source = pa.Table.from_batches([batch])
        writer.add(rows.ledger_rows(source, kind=order.kind, run_id=order.run_id, now_us=order.now_us))
    return {table.name: writer.close()}


_NEEDED: Final = ("time", "hour", "fault", "node", *tables.KEYS, "units", *tables.MEASURES, "latency")
LEDGER_COLUMNS: Final = [name for name in _NEEDED if name in tables.LEDGERS["meter"].schema.names]


def _roll_up(order: RollUp) -> Made:
    root = Path(order.root)
    writers = {each: FileWriter(each.folder(root), each) for each in (tables.USAGE_MINUTE, tables.USAGE_HOURLY)}
    for piece in _pieces(order.hours, rows_max=PIECE_ROWS):
        parts = [usage.minutes(some, run_id=order.run_id) for some in _read(piece, LEDGER_COLUMNS)]
        if not parts:
            continue
        is_whole = len(parts) == 1
        by_minute = parts[0] if is_whole else usage.merged(parts, into=tables.USAGE_MINUTE, run_id=order.run_id)
        writers[tables.USAGE_MINUTE].add(by_minute)
        writers[tables.USAGE_HOURLY].add(usage.hours(by_minute, run_id=order.run_id))
    return {table.name: writer.close() for table, writer in writers.items()}


def _add_days(order: AddDays) -> Made:
    table = tables.USAGE_DAILY
    writer = FileWriter(table.folder(Path(order.root)), table)
    columns = [name for name in tables.USAGE_HOURLY.schema.names if name not in ("run_id", "schema_version")]
    for day in order.days:
        parts = [usage.days(some, run_id=order.run_id) for some in _read([day], columns)]
        writer.add(usage.merged(parts, into=table, run_id=order.run_id))
    return {table.name: writer.close()}


def _read(many: Sequence[Source], columns: list[str]) -> Iterator[Any]:
    """Tables of about PIECE_ROWS rows."""
    waiting: list[Any] = []
    for path in (path for each in many for path in each.paths):
        waiting.append(_file(path, columns))
        if sum(each.num_rows for each in waiting) >= PIECE_ROWS:
            yield from _slices(waiting)
            waiting = []
    if waiting:
        yield from _slices(waiting)


def _slices(parts: list[Any]) -> Iterator[Any]:
    whole = pa.concat_tables(parts)
    for begin in range(0, max(whole.num_rows, 1), 2 * PIECE_ROWS):
        yield whole.slice(begin, 2 * PIECE_ROWS)


def _file(path: str, columns: list[str]) -> Any:
    try:
        return pq.ParquetFile(path).read(columns=columns, use_threads=False).select(columns)
    except (OSError, pa.ArrowException) as problem:
        raise BadFile(f"{path} cannot be read: {problem}") from None
