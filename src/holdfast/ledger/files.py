"""Data files of a table: Parquet under names that are never used twice, synced before anyone is told of them.

    data/<uuid>.parquet

Laws
- A file holds one value of the table's `by` column, so that replacing an hour replaces whole files.
- Nothing is overwritten. What a run that died has left behind is no part of the table, and vacuum removes it.
- Statistics say row and null counts, and the least and greatest whole number and time. Of nothing else: a decimal
  written as a float would hide rows from readers that trust it.
"""

import datetime
import json
import os
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from holdfast.ledger.errors import BadFile, LedgerError
from holdfast.ledger.tables import Table
from holdfast.runtime.failpoint import failpoint

FOLDER: Final = "data"
GROUP_ROWS: Final = 65_536  # of a row group: large enough to compress, small enough to hold several in memory
RUNS_MAX: Final = 256  # stretches of one hour in a batch; more are sorted first
WAITING_MAX: Final = 2 * GROUP_ROWS  # rows that one task keeps for all its files; those of the fullest are written
OPEN_MAX: Final = 64  # files that one task writes at a time; the oldest is finished when another hour comes


class DataFile(msgspec.Struct, frozen=True):
    path: str  # below the table's folder
    size: int
    rows: int
    by_us: int | None  # the value of the `by` column; None in tables without one, and for null
    statistics: str = ""  # as Delta writes them


class FileWriter:
    """Splits batches by the `by` column into files. `close` answers them; until then nothing may be relied upon."""

    def __init__(self, folder: Path, table: Table) -> None:
        self._folder = folder
        self._table = table
        self._open: dict[int | None, _OpenFile] = {}
        self._done: list[DataFile] = []

    def write(self, batch: Any) -> None:
        """`batch` has the table's columns, in order; their types are made exactly those that are declared."""
        self.add(pa.Table.from_batches([batch]))

    def add(self, rows: Any) -> None:
        """The same with an Arrow table."""
        rows = rows.cast(self._table.schema)
        failpoint("mid_task")
        for value, part in self._split(rows):
            file = self._open.get(value)
            if file is None:
                file = self._begin(value)
            file.add(part)
        while sum(each.waiting_rows for each in self._open.values()) > WAITING_MAX:
            max(self._open.values(), key=lambda each: each.waiting_rows).flush()

    def close(self) -> list[DataFile]:
        for value in list(self._open):
            self._finish(value)
        if self._done:
            _sync(self._folder / FOLDER)
        return self._done

    def _split(self, rows: Any) -> Iterable[tuple[int | None, Any]]:
        if not self._table.by:
            return [(None, rows)]
        runs = _runs(rows, self._table.by)
        if len(runs) > RUNS_MAX:
            rows = rows.sort_by(self._table.by)
            runs = _runs(rows, self._table.by)
        return [(value, rows.slice(begin, end - begin)) for value, begin, end in runs]

    def _begin(self, value: int | None) -> "_OpenFile":
        if not self._open and not self._done:
            (self._folder / FOLDER).mkdir(parents=True, exist_ok=True)
        if len(self._open) >= OPEN_MAX:
            self._finish(next(iter(self._open)))
        file = self._open[value] = _OpenFile(self._folder, self._table)
        return file

    def _finish(self, value: int | None) -> None:
        self._done.append(self._open.pop(value).close(value))


def _runs(rows: Any, by: str) -> list[tuple[int | None, int, int]]:
    """Stretches of rows with the same value: segments are written in order of time, so they are few, and cost a slice
    each where picking the rows of every hour would read all rows once per hour."""
    encoded = pc.run_end_encode(rows.column(by).cast(pa.int64()).combine_chunks())
    ends = encoded.run_ends.to_pylist()
    return list(zip(encoded.values.to_pylist(), [0, *ends], ends, strict=False))


class _OpenFile:
    def __init__(self, folder: Path, table: Table) -> None:
        self._table = table
        self._folder = folder
        self._path = f"{FOLDER}/{uuid.uuid4().hex}.parquet"
        self._writer = pq.ParquetWriter(folder / self._path, table.schema, compression="zstd")
        self._waiting: list[Any] = []
        self.waiting_rows = 0

    def add(self, rows: Any) -> None:
        self._waiting.append(rows)
        self.waiting_rows += rows.num_rows
        if self.waiting_rows >= GROUP_ROWS:
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.concat_tables(self._waiting), row_group_size=GROUP_ROWS * 2)
        self._waiting, self.waiting_rows = [], 0

    def close(self, value: int | None) -> DataFile:
        self.flush()
        self._writer.close()
        _sync(self._folder / self._path)
        return describe(self._folder, self._path, table=self._table, by_us=value)


def describe(folder: Path, path: str, *, table: Table, by_us: int | None) -> DataFile:
    """Reads the footer of a file, and refuses one that does not have the table's columns."""
    metadata = _metadata(folder, path, table=table)
    return DataFile(path, (folder / path).stat().st_size, metadata.num_rows, by_us, _statistics(metadata, table))


def _metadata(folder: Path, path: str, *, table: Table) -> Any:
    try:
        metadata = pq.read_metadata(folder / path)
    except (OSError, pa.ArrowException) as problem:
        raise BadFile(f"{folder / path} cannot be read: {problem}") from None
    found = metadata.schema.to_arrow_schema()
    if found.names != table.schema.names or found.types != table.schema.types:
        raise BadFile(f"{folder / path} has other columns than {table.name}")
    return metadata


def verify(folder: Path, file: DataFile, *, table: Table) -> None:
    """Before a commit: what the writer said is what lies there."""
    found = _metadata(folder, file.path, table=table).num_rows
    if (found, (folder / file.path).stat().st_size) != (file.rows, file.size):
        raise BadFile(f"{folder / file.path} has {found} rows, and its writer counted {file.rows}")


def _statistics(metadata: Any, table: Table) -> str:
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    for number in range(metadata.num_columns):
        name = metadata.schema.column(number).path
        parts = [group.column(number).statistics for group in groups]
        if name == table.by or name not in table.schema.names or any(each is None for each in parts):
            continue  # a part of a list or map, or not known
        nulls[name] = sum(each.null_count or 0 for each in parts)
        bounds = [each for each in parts if each.has_min_max]
        kind = table.schema.field(name).type
        if bounds and pa.types.is_int64(kind):
            least[name] = min(each.min for each in bounds)
            greatest[name] = max(each.max for each in bounds)
        elif bounds and pa.types.is_timestamp(kind):
            least[name] = _milliseconds(min(each.min for each in bounds), up=False)
            greatest[name] = _milliseconds(max(each.max for each in bounds), up=True)
    return json.dumps({"numRecords": metadata.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls})


def _milliseconds(time: datetime.datetime, *, up: bool) -> str:
    """Delta keeps milliseconds; bounds are widened to the next, so that they still hold."""
    rest = datetime.timedelta(microseconds=time.microsecond % 1000)
    rounded = time - rest + datetime.timedelta(milliseconds=1 if up and rest else 0)
    return rounded.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{rounded.microsecond // 1000:03d}Z"


def partition_value(by_us: int | None) -> str | None:
    """As Delta writes a time in the log. Hours and days are whole seconds."""
    if by_us is None:
        return None
    if by_us % 1_000_000:
        raise LedgerError(f"{by_us} µs is no whole second, and cannot keep files apart")
    return datetime.datetime.fromtimestamp(by_us // 1_000_000, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")


def _sync(path: Path) -> None:
    """A file or a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
