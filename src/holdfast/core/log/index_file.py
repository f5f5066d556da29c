"""The file of a segment's index, written when the segment is sealed.

    file    head | lanes × (lane u64, entry count u64) | columns | BLAKE2b-256 of all before
    head     0  magic       8 bytes         28  used bytes   u32, of the segment
             8  version     u32             32  first lsn    u64, of the segment
            12  lane count  u32             40  last lsn     u64
            16  shard       u64             48  file length  u64
            24  epoch       u32             56  crc          u32, CRC-32C of bytes 0–55
    columns  the entries (index.py), lane after lane: of all of them the first byte, then the second, and so on;
             compressed by zlib. Most columns are the same throughout: a byte or two are left of an entry. Version 1:
             plain entries.

Never compiled: a full segment takes tens of milliseconds, in a thread. Interpreted code lets the loop go on between two
columns; compiled code would keep the interpreter's lock until the last.
"""

import struct
import zlib
from hashlib import blake2b
from typing import Final

import google_crc32c

from holdfast.core.limits import INDEX_STEP_BYTES
from holdfast.core.log.index import ENTRY_BYTES, SegmentIndex
from holdfast.core.types import Epoch, LaneId, Lsn, ShardId
from holdfast.core.values import Value

MAGIC: Final = b"HFINDEX\0"
VERSION: Final = 2
_PLAIN: Final = 1  # the version without compression, which is still read
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
    """Makes an index file, column by column. O(its length): tens of milliseconds for a full segment, so not in the
    loop, and whoever makes it beside the loop should rest between two columns. The index must not grow meanwhile."""

    def __init__(self, index: SegmentIndex, head: IndexHead) -> None:
        lanes = index.entries
        self._head = head
        self._count = len(lanes)
        self._table = b"".join(_ROW.pack(lane, index.count(lane)) for lane in lanes)
        self._rows = next(iter(lanes.values())) if len(lanes) == 1 else b"".join(lanes.values())
        self._deflate = zlib.compressobj(_LEVEL)
        self._columns: list[bytes] = []  # compressed; most of them add nothing

    def add_columns(self) -> bool:
        """Some more, which takes a fraction of a millisecond; of a small index all. False when there are no more."""
        done = len(self._columns)
        some = max(1, INDEX_STEP_BYTES * ENTRY_BYTES // max(1, len(self._rows)))
        for number in range(done, min(done + some, ENTRY_BYTES)):
            self._columns.append(self._deflate.compress(self._rows[number::ENTRY_BYTES]))
        return len(self._columns) < ENTRY_BYTES

    def data(self) -> bytes:
        """Once: the whole file. Adds what is missing."""
        while self.add_columns():
            pass
        columns = b"".join((*self._columns, self._deflate.flush()))
        length = HEAD_BYTES + len(self._table) + len(columns) + DIGEST_BYTES
        head = self._head
        start = _HEAD.pack(
            MAGIC, VERSION, self._count, head.shard, head.epoch, head.used, head.first, head.last, length
        )
        data = b"".join((start, _CRC.pack(google_crc32c.value(start)), self._table, columns))
        return data + blake2b(data, digest_size=DIGEST_BYTES).digest()


def _rows(columns: bytes) -> bytearray:
    entries, count = bytearray(len(columns)), len(columns) // ENTRY_BYTES
    zeros = bytes(count)
    for number in range(ENTRY_BYTES):
        column = columns[number * count : (number + 1) * count]
        if column != zeros:  # most are just zeros
            entries[number::ENTRY_BYTES] = column
    return entries


def decode_index_head(data: bytes) -> IndexHead:
    """Raises ValueError. Proves nothing about the entries."""
    if len(data) < HEAD_BYTES:
        raise ValueError("the file is shorter than an index's head")
    if google_crc32c.value(data[: _HEAD.size]) != _CRC.unpack_from(data, _HEAD.size)[0]:
        raise ValueError("the checksum of the index's head does not match")
    magic, version, lanes, shard, epoch, used, first, last, length = _HEAD.unpack_from(data)
    if magic != MAGIC or version not in (_PLAIN, VERSION):
        raise ValueError(f"this is no index of version {VERSION}: {magic!r} {version}")
    return IndexHead(shard, epoch, used, first, last, length, lanes, version)


def decode_index(data: bytes) -> tuple[SegmentIndex, IndexHead]:
    """Raises ValueError unless every byte is as it was written."""
    head = decode_index_head(data)
    if len(data) != head.length:
        raise ValueError(f"the index has {len(data)} bytes instead of {head.length}")
    if blake2b(memoryview(data)[:-DIGEST_BYTES], digest_size=DIGEST_BYTES).digest() != data[-DIGEST_BYTES:]:
        raise ValueError("the digest of the index does not match")
    index, at = SegmentIndex(), HEAD_BYTES + head.lanes * _ROW.size
    rest = data[at:-DIGEST_BYTES]
    view, at = memoryview(rest if head.version == _PLAIN else _rows(zlib.decompress(rest))), 0
    for row in range(head.lanes):
        lane, count = _ROW.unpack_from(data, HEAD_BYTES + row * _ROW.size)
        index.entries[LaneId(lane)] = view[at : at + count * ENTRY_BYTES]
        at += count * ENTRY_BYTES
    return index, head
