"""One numbered Parquet file: how it is written so that it is there whole or not at all, and how a reader trusts it.

    write to a temporary name ──▶ fsync ──▶ rename ──▶ fsync the folder

Besides its rows a segment says, in the metadata of its footer under `holdfast.segment`, what it is (Footer). The digest
of the segment before it makes a chain: over the numbers of an epoch, and from the last of an epoch to the first of the
next. A segment without rows is a heartbeat: until then nothing happened, which differs from nothing being known.

Needs pyarrow, and is the only file of the server that does: import it where segments are really written or read.
"""

import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from holdfast.runtime.failpoint import failpoint
from holdfast.usage import places, schema
from holdfast.usage.folders import make_folders, replace_file
from holdfast.usage.places import Place, Stream
from holdfast.usage.rows import Row
from holdfast.usage.schema import Type

KEY: Final = b"holdfast.segment"
NO_DIGEST: Final = "0" * 64  # before a node's first segment

_TYPES: Final[dict[Type, Any]] = {
    Type.TEXT: pa.string(),
    Type.NUMBER: pa.int64(),
    Type.NUMBERS: pa.list_(pa.field("item", pa.int64(), nullable=False)),
    Type.TIME: pa.timestamp("us", tz="UTC"),
}


class SegmentError(Exception):
    """The file is not what it should be; the text names the file and what is wrong."""


class Damaged(SegmentError):
    pass


class UnknownVersion(SegmentError):
    pass


class Gap(SegmentError):
    """A number is missing while a later one is there."""


class BrokenChain(SegmentError):
    """The segment before was changed, or is another one."""


class Footer(msgspec.Struct, frozen=True):
    version: int  # of the schema
    kind: str
    node: str
    epoch: int
    seq: int
    rows: int
    min_time: int  # of the rows, µs; 0 without rows
    max_time: int
    until: int  # µs: all that this node has of this kind before then is in this segment or an earlier one
    previous: str  # BLAKE2b-256 of the file before, hexadecimal
    is_final: bool  # the last one of its epoch
    lifetime: dict[str, int]  # rows, and the sum of each measure, since the node's first start, this segment included

    @property
    def place(self) -> Place:
        return Place(Stream(self.kind, self.node, self.epoch), self.seq)


def arrow_schema(kind: str, version: int = schema.VERSION) -> Any:
    """Without metadata."""
    columns = schema.columns(kind, version)
    return pa.schema([pa.field(each.name, _TYPES[each.type], nullable=False) for each in columns])


def totals(kind: str, rows: Sequence[Row]) -> dict[str, int]:
    """What these rows add to a lifetime."""
    summed = {"rows": len(rows)}
    for number, column in enumerate(schema.columns(kind)):
        if column.is_measure and column.type is Type.NUMBER:
            summed[column.name] = sum(row[number] for row in rows)
    return summed


def write(
    root: Path,
    place: Place,
    rows: Sequence[Row],
    *,
    previous: str,
    until: int,
    lifetime: Mapping[str, int],
    is_final: bool = False,
) -> str:
    """Answers the file's digest. Refuses a place that is taken: a number is never given twice."""
    stream, seq = place
    path = stream.path(root, seq)
    times = [row[0] for row in rows]
    footer = Footer(
        schema.VERSION,
        *stream,
        seq,
        len(rows),
        min(times, default=0),
        max(times, default=0),
        until,
        previous,
        is_final,
        dict(lifetime),
    )
    data = _encode(footer, rows)
    make_folders(path.parent)
    if path.exists():
        raise SegmentError(f"{path} is there already; a number is never given twice")
    replace_file(path, data)
    failpoint("usage segment written")
    return hashlib.blake2b(data, digest_size=32).hexdigest()


def _encode(footer: Footer, rows: Sequence[Row]) -> bytes:
    described = arrow_schema(footer.kind)
    values = list(zip(*rows, strict=True)) or [()] * len(described)
    arrays = [pa.array(each, type=field.type) for each, field in zip(values, described, strict=True)]
    table = pa.Table.from_arrays(arrays, schema=described.with_metadata({KEY: msgspec.json.encode(footer)}))
    written = io.BytesIO()
    pq.write_table(table, written, compression="zstd", write_page_checksum=True)
    return written.getvalue()


def read_footer(path: Path) -> Footer:
    """Checked against the file's name, and the version against ours. Reads the end of the file, not the rows."""
    with _open(path) as file:
        return _footer(path, file.metadata)


def _open(path: Path) -> Any:
    try:
        return pq.ParquetFile(path, page_checksum_verification=True)
    except (pa.ArrowException, OSError) as problem:
        raise Damaged(f"{path} cannot be read as a segment: {problem}") from None


def _footer(path: Path, metadata: Any) -> Footer:
    try:
        footer = msgspec.json.decode((metadata.metadata or {})[KEY], type=Footer)
    except (KeyError, ValueError) as problem:
        raise Damaged(f"{path} cannot be read as a segment: {problem}") from None
    if not 1 <= footer.version <= schema.VERSION:
        raise UnknownVersion(
            f"{path} has schema version {footer.version}, and this Holdfast knows {schema.VERSION}: use a newer one"
        )
    if footer.place != places.place_of(path):
        raise Damaged(f"{path} says that it is number {footer.seq} of {footer.kind}/{footer.node}/{footer.epoch}")
    if footer.rows != metadata.num_rows:
        raise Damaged(f"{path} has {metadata.num_rows} rows, and its footer says {footer.rows}")
    return footer


def read(path: Path) -> tuple[Footer, Any]:
    """The footer and the rows as an Arrow table of exactly `arrow_schema`. Checks columns and times."""
    with _open(path) as file:
        footer = _footer(path, file.metadata)
        try:
            table = file.read(use_threads=False).replace_schema_metadata(None)  # threads cost more than a segment
        except (pa.ArrowException, OSError) as problem:
            raise Damaged(f"{path} cannot be read: {problem}") from None
    wanted = arrow_schema(footer.kind, footer.version)
    if table.schema.names != wanted.names or table.schema.types != wanted.types:
        raise Damaged(f"{path} has other columns than {footer.kind} of version {footer.version}")
    table = pa.Table.from_arrays(table.columns, schema=wanted)
    times = pc.min_max(table.column("time").cast(pa.int64())).as_py()
    if (times["min"] or 0, times["max"] or 0) != (footer.min_time, footer.max_time):
        raise Damaged(f"{path} has rows of other times than its footer says")
    return footer, _completed(table, footer.kind)


def _completed(table: Any, kind: str) -> Any:
    """With the columns that its version did not have yet."""
    missing = schema.columns(kind)[table.num_columns :]
    for each in missing:
        field = pa.field(each.name, _TYPES[each.type], nullable=False)
        table = table.append_column(field, pa.repeat(pa.scalar(each.default, field.type), table.num_rows))
    return table


def digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=32)).hexdigest()


def check(root: Path, kind: str, node: str) -> Iterator[SegmentError]:
    """What is wrong with the segments of a node: names, footers, holes, the chain. Those at the beginning may have been
    removed after they were taken over. Reads all files."""
    previous, after = "", None  # digest, and the footer, of the segment before; none before the first that is there
    for stream in (each for each in places.streams(root, kind) if each.node == node):
        for seq in places.numbers(root, stream):
            path = stream.path(root, seq)
            try:
                footer, _ = read(path)
            except SegmentError as problem:
                yield problem
                previous, after = "", None
                continue
            if after is not None and not _follows(footer, after):
                yield Gap(f"before {path} segments are missing: the one before it is {after.epoch}/{after.seq}")
            elif previous and footer.previous != previous:
                yield BrokenChain(f"{path} does not follow the segment that lies before it, which was changed")
            previous, after = digest(path), footer


def _follows(footer: Footer, before: Footer) -> bool:
    if footer.epoch == before.epoch:
        return footer.seq == before.seq + 1 and not before.is_final
    return footer.epoch == before.epoch + 1 and footer.seq == 0 and before.is_final
