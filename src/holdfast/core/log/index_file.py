"""The file of a segment's index, written when the segment is sealed.

    file    head | lanes × (lane u64, entry count u64) | columns | BLAKE2b-256 of all before
    head     0  magic       8 bytes         28  used bytes   u32, of the segment
             8  version     u32             32  first lsn    u64, of the segment
            12  lane count  u32             40  last lsn     u64
            16  shard       u64             48  file length  u64
            24  epoch       u32             56  crc          u32, CRC-32C of bytes 0–55
    columns  of all entries (index.py), lane after lane, the first byte, then the second, and so on. Each column is
             u8 0 and its byte, if that is the same throughout, which most are, or u8 1 and all of them; compressed by
             zlib. Version 2: all columns whole. Version 1: plain entries. Both are read.

Never compiled: a full segment takes milliseconds, in a thread. Interpreted code lets the loop go on between two of its
steps; compiled code would keep the interpreter's lock until the last.
"""

import struct
import zlib
from collections.abc import Iterator
from hashlib import blake2b
from typing import Final

import google_crc32c

from holdfast.core.limits import INDEX_PACK_BYTES, INDEX_STEP_BYTES
from holdfast.core.log.index import ENTRY_BYTES, SegmentIndex
from holdfast.core.types import Epoch, LaneId, Lsn, ShardId
from holdfast.core.values import Value

MAGIC: Final = b"HFINDEX\0"
VERSION: Final = 3
_WHOLE: Final = 2  # the version with whole columns,
_PLAIN: Final = 1  # and the one without columns
_SAME, _VARIOUS = b"\0", b"\1"  # before a column
_BLOCK_BYTES: Final = INDEX_STEP_BYTES // ENTRY_BYTES * ENTRY_BYTES
_LEVEL: Final = 1  # of zlib: the others take more time and save next to nothing
DIGEST_BYTES: Final = 32
_HEAD: Final = struct.Struct("<8sIIQIIQQQ")
_CRC: Final = struct.Struct("<I")
_ROW: Final = struct.Struct("<QQ")
HEAD_BYTES: Final = _HEAD.size + _CRC.size


class IndexHead(Value, frozen=True):
    """What an index says of its segment; readable without the rest."""

    shard: ShardId
    epoch: Epoch
    used: int
    first: Lsn
    last: Lsn
    length: int = 0  # of the index file
    lanes: int = 0
    version: int = VERSION


class IndexFile:
    """Makes an index file, step by step. O(its length): milliseconds for a full segment, so not in the loop, and who
    makes it beside the loop should rest between two steps. The index must not grow meanwhile."""

    def __init__(self, index: SegmentIndex, head: IndexHead) -> None:
        lanes = index.entries
        self._head = head
        self._count = len(lanes)
        self._table = b"".join(_ROW.pack(lane, index.count(lane)) for lane in lanes)
        self._rows = next(iter(lanes.values())) if len(lanes) == 1 else b"".join(lanes.values())
        self._deflate = zlib.compressobj(_LEVEL)
        self._packed: list[bytes] = []
        self._steps = self._make()

    def go_on(self) -> bool:
        """A step, which takes a fraction of a millisecond. False when there are no more."""
        return next(self._steps, False)

    def _make(self) -> Iterator[bool]:
        """The entries are cut by blocks, each of which is read once: by columns, all of them would be read for each."""
        pieces: list[list[bytes]] = [[] for _ in range(ENTRY_BYTES)]
        for at in range(0, len(self._rows), _BLOCK_BYTES):
            block = bytes(self._rows[at : at + _BLOCK_BYTES])
            for number, column in enumerate(pieces):
                column.append(block[number::ENTRY_BYTES])
            yield True
        size = 0
        for column in pieces:
            packed = _packed(b"".join(column))
            for at in range(0, len(packed), INDEX_PACK_BYTES):
                part = packed[at : at + INDEX_PACK_BYTES]
                self._packed.append(self._deflate.compress(part))
                size += len(part)
                if size >= INDEX_PACK_BYTES:
                    size = 0
                    yield True

    def data(self) -> bytes:
        """Once: the whole file. Adds what is missing."""
        while self.go_on():
            pass
        columns = b"".join((*self._packed, self._deflate.flush()))
        length = HEAD_BYTES + len(self._table) + len(columns) + DIGEST_BYTES
        head = self._head
        start = _HEAD.pack(
            MAGIC, VERSION, self._count, head.shard, head.epoch, head.used, head.first, head.last, length
        )
        data = b"".join((start, _CRC.pack(google_crc32c.value(start)), self._table, columns))
        return data + blake2b(data, digest_size=DIGEST_BYTES).digest()


def _packed(column: bytes) -> bytes:
    first = column[:1]
    return _SAME + first if first and column == first * len(column) else _VARIOUS + column


def _columns(data: bytes, count: int) -> Iterator[bytes]:
    """Of so many entries. A column that is the same throughout is made whole again."""
    at = 0
    for _ in range(ENTRY_BYTES):
        kind, end = data[at : at + 1], at + 1 + count
        if kind == _SAME:
            yield data[at + 1 : at + 2] * count
            end = at + 2
        else:
            yield data[at + 1 : end]
        at = end


def _whole_columns(data: bytes, count: int) -> Iterator[bytes]:
    return (data[number * count : (number + 1) * count] for number in range(ENTRY_BYTES))


def _rows(columns: Iterator[bytes], count: int) -> bytearray:
    """The entries again, block by block."""
    entries, zeros, rows = bytearray(count * ENTRY_BYTES), bytes(count), _BLOCK_BYTES // ENTRY_BYTES
    filled = [(number, column) for number, column in enumerate(columns) if column != zeros]  # most are just zeros
    for first in range(0, count, rows):
        block = bytearray(min(rows, count - first) * ENTRY_BYTES)
        for number, column in filled:
            block[number::ENTRY_BYTES] = column[first : first + rows]
        entries[first * ENTRY_BYTES : first * ENTRY_BYTES + len(block)] = block
    return entries


def _entries(packed: bytes, version: int, count: int) -> bytes | bytearray:
    if version == _PLAIN:
        return packed
    data = zlib.decompress(packed)
    return _rows(_whole_columns(data, count) if version == _WHOLE else _columns(data, count), count)


def decode_index_head(data: bytes) -> IndexHead:
    """Raises ValueError. Proves nothing about the entries."""
    if len(data) < HEAD_BYTES:
        raise ValueError("the file is shorter than an index's head")
    if google_crc32c.value(data[: _HEAD.size]) != _CRC.unpack_from(data, _HEAD.size)[0]:
        raise ValueError("the checksum of the index's head does not match")
    magic, version, lanes, shard, epoch, used, first, last, length = _HEAD.unpack_from(data)
    if magic != MAGIC or not _PLAIN <= version <= VERSION:
        raise ValueError(f"this is no index of version {VERSION}: {magic!r} {version}")
    return IndexHead(shard, epoch, used, first, last, length, lanes, version)


def decode_index(data: bytes) -> tuple[SegmentIndex, IndexHead]:
    """Raises ValueError unless every byte is as it was written."""
    head = decode_index_head(data)
    if len(data) != head.length:
        raise ValueError(f"the index has {len(data)} bytes instead of {head.length}")
    if blake2b(memoryview(data)[:-DIGEST_BYTES], digest_size=DIGEST_BYTES).digest() != data[-DIGEST_BYTES:]:
        raise ValueError("the digest of the index does not match")
    lanes = list(_ROW.iter_unpack(data[HEAD_BYTES : HEAD_BYTES + head.lanes * _ROW.size]))
    packed = data[HEAD_BYTES + head.lanes * _ROW.size : -DIGEST_BYTES]
    view = memoryview(_entries(packed, head.version, sum(count for _, count in lanes)))
    index, at = SegmentIndex(), 0
    for lane, count in lanes:
        index.entries[LaneId(lane)] = view[at : at + count * ENTRY_BYTES]
        at += count * ENTRY_BYTES
    return index, head
