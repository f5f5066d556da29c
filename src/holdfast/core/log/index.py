"""The index of one segment: where each message's bytes are, and the headers to load a window from.

Per lane one packed array in log order, so `at` ascends and a message is found by bisection; no Python object
per message, neither while the segment grows nor when the index comes from disk.

    file    head | lanes × (lane u64, entry count u64) | columns | BLAKE2b-256 of all before
    head     0  magic       8 bytes         28  used bytes   u32, of the segment
             8  version     u32             32  first lsn    u64, of the segment
            12  lane count  u32             40  last lsn     u64
            16  shard       u64             48  file length  u64
            24  epoch       u32             56  crc          u32, CRC-32C of bytes 0–55
    entry    0  header, as codec.pack_header has it (77 bytes) | offset u32 | length u32
    columns  the entries, lane after lane: of all of them the first byte, then the second, and so on; compressed by
             zlib. Most columns are the same throughout: a byte or two are left of an entry. Version 1: plain entries.
"""

import struct
import zlib
from bisect import bisect_left
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, Final

import google_crc32c

from holdfast.core.limits import INDEX_CHUNK, SECOND
from holdfast.core.queue.codec import HEADER_BYTES, pack_header, unpack_header
from holdfast.core.queue.command import Need
from holdfast.core.queue.record import Sent
from holdfast.core.types import Epoch, Header, Instant, LaneId, Lsn, ShardId
from holdfast.core.values import Value

MAGIC: Final = b"HFINDEX\0"
VERSION: Final = 2
_PLAIN: Final = 1  # the version without compression, which is still read
_LEVEL: Final = 1  # of zlib: the others take more time and save next to nothing
DIGEST_BYTES: Final = 32
_HEAD: Final = struct.Struct("<8sIIQIIQQQ")
_CRC: Final = struct.Struct("<I")
_ROW: Final = struct.Struct("<QQ")
_ENTRY: Final = struct.Struct("<QQIQQIqqqIQ?II")
_FIELDS: Final = 12  # of a header
_BLOCK: Final = struct.Struct("<" + "QQIQQIqqqIQ?8x" * INDEX_CHUNK)  # headers of entries, without their places
_PLACE: Final = struct.Struct("<II")
_U64: Final = struct.Struct("<Q")
_AT: Final = 20  # where an entry has its `at`
ENTRY_BYTES: Final = _ENTRY.size
_EMPTY: Final = memoryview(b"")
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


class SegmentIndex:
    """Appended to while the segment grows; read-only when it was decoded from a file."""

    __slots__ = ("_lanes", "_next")

    def __init__(self) -> None:
        self._lanes: dict[LaneId, bytearray | memoryview] = {}
        self._next = 0  # behind the entry that was found last: messages are mostly read in order

    def add(self, lane: LaneId, header: Header, offset: int, length: int) -> None:
        self._entries(lane).extend(pack_header(header) + _PLACE.pack(offset, length))

    def add_sent(self, sent: Sent, place: tuple[Epoch, Lsn, Instant], offset: int, length: int) -> None:
        """As `add` of the record's header, without building one: this is in the path of every send."""
        epoch, lsn, now = place
        visible = now + sent.delay_s * SECOND if sent.delay_s else now
        deadline = now + sent.time_to_live_s * SECOND if sent.time_to_live_s else 0
        entries = self._lanes.get(sent.lane)
        if entries is None:
            entries = self._entries(sent.lane)
        entries += _ENTRY.pack(  # type: ignore[operator]  # a growing index holds bytearrays only
            sent.seq,
            lsn,
            epoch,
            lsn,
            sent.group,
            sent.size,
            now,
            visible,
            deadline,
            0,
            0,
            sent.is_aside,
            offset,
            length,
        )

    def _entries(self, lane: LaneId) -> bytearray:
        entries = self._lanes.get(lane)
        if entries is None:
            entries = self._lanes[lane] = bytearray()
        assert isinstance(entries, bytearray), "an index that was read from a file does not grow"
        return entries

    def lanes(self) -> list[LaneId]:
        return list(self._lanes)

    def count(self, lane: LaneId) -> int:
        return len(self._lanes.get(lane, _EMPTY)) // ENTRY_BYTES

    def find(self, lane: LaneId, at: Lsn) -> tuple[int, int] | None:
        """Offset and length of the message whose bytes stand at log position `at`. O(log n), O(1) for one that stands
        behind the last."""
        entries = self._lanes.get(lane, _EMPTY)
        place = self._next
        if place >= len(entries) or _U64.unpack_from(entries, place + _AT)[0] != at:
            place = self._position(lane, at) * ENTRY_BYTES
            if place >= len(entries) or _U64.unpack_from(entries, place + _AT)[0] != at:
                return None
        self._next = place + ENTRY_BYTES
        return _PLACE.unpack_from(entries, place + HEADER_BYTES)

    def collect(self, need: Need, found: list[Header]) -> bool:
        """Adds the headers of `need` that are in this segment, in log order. True: no later segment has more.

        A lane's own records ascend by seq, so the first one beyond `need.last` ends the search; copies that
        compaction made may lie between. O(entries of the lane from need.lsn on) when it does not end earlier.
        """
        entries = self._lanes.get(need.lane, _EMPTY)
        start = self._position(need.lane, need.lsn) * ENTRY_BYTES
        step = max(need.count_max, INDEX_CHUNK) * ENTRY_BYTES
        for at in range(start, len(entries), step):  # no generator: compiled, it would copy all that follows at once
            chunk = bytes(entries[at : at + step])
            if _collect_copies(chunk, need, found) if need.end else _collect(chunk, need, found):
                return True
        return False

    def walk(self, lane: LaneId, start: int, count: int) -> Iterator[tuple[Header, int, int]]:
        """(header, offset, length) of `count` entries from the `start`th on."""
        entries = self._lanes.get(lane, _EMPTY)
        for place in range(start * ENTRY_BYTES, min(len(entries), (start + count) * ENTRY_BYTES), ENTRY_BYTES):
            offset, length = _PLACE.unpack_from(entries, place + HEADER_BYTES)
            yield unpack_header(entries, place), offset, length

    def _position(self, lane: LaneId, at: Lsn) -> int:
        entries = self._lanes.get(lane, _EMPTY)
        return bisect_left(
            range(len(entries) // ENTRY_BYTES),
            at,
            key=lambda number: Lsn(_U64.unpack_from(entries, number * ENTRY_BYTES + _AT)[0]),
        )


def _collect(chunk: bytes, need: Need, found: list[Header]) -> bool:
    at = 0
    while at + _BLOCK.size <= len(chunk) and _collect_block(_BLOCK.unpack_from(chunk, at), need, found):
        at += _BLOCK.size
    if len(found) >= need.count_max or (found and found[-1].seq == need.last):
        return True
    return _collect_each(chunk[at:], need, found)


def _collect_block(fields: tuple[Any, ...], need: Need, found: list[Header]) -> bool:
    """Entries that are all wanted and in order, by columns, which is quicker. False: they are not, nothing was done."""
    seqs, lsns = fields[0::_FIELDS], fields[1::_FIELDS]
    is_wanted = need.first <= seqs[0] and seqs[-1] <= need.last and len(found) + INDEX_CHUNK <= need.count_max
    if not is_wanted or fields[3::_FIELDS] != lsns:  # copies do not ascend
        return False
    sizes, times, visibles = fields[5::_FIELDS], fields[6::_FIELDS], fields[7::_FIELDS]
    # Equal numbers share one object: less memory when the messages are leased.
    share: Any = {}.setdefault
    is_delayed = visibles != times
    times = tuple(map(share, times, times))
    found.extend(
        map(
            Header,
            seqs,
            lsns,
            fields[2::_FIELDS],
            lsns,
            fields[4::_FIELDS],
            map(share, sizes, sizes),
            times,
            visibles if is_delayed else times,
            fields[8::_FIELDS],
            fields[9::_FIELDS],
            fields[10::_FIELDS],
            fields[11::_FIELDS],
        )
    )
    return True


def _collect_each(chunk: bytes, need: Need, found: list[Header]) -> bool:
    first, last, count_max = need.first, need.last, need.count_max
    time: Any = 0  # not declared as numbers: compiled code would make a new object at each use
    length: Any = 0
    for entry in _ENTRY.iter_unpack(chunk):
        seq, lsn, epoch, at, group, size, queued, visible, deadline, count, origin, is_aside, _, _ = entry
        if first <= seq <= last:
            time = time if queued == time else queued
            size = length = length if size == length else size
            at = lsn if at == lsn else at
            visible = time if visible == time else visible
            found.append(Header(seq, lsn, epoch, at, group, size, time, visible, deadline, count, origin, is_aside))
            if seq == last or len(found) >= count_max:
                return True
        elif seq > last and lsn == at:
            return True
    return False


def _collect_copies(chunk: bytes, need: Need, found: list[Header]) -> bool:
    """All of them up to need.end: a message may have been copied more than once, and the last copy counts."""
    for seq, lsn, epoch, at, *fields, _, _ in _ENTRY.iter_unpack(chunk):
        if at > need.end:
            return True
        if lsn != at and need.first <= seq <= need.last:
            found.append(Header(seq, lsn, epoch, at, *fields))
    return False


def encode_index(index: SegmentIndex, head: IndexHead) -> bytes:
    """The index file. O(its length): tens of milliseconds for a full segment, so not in the loop."""
    lanes = index._lanes
    table = b"".join(_ROW.pack(lane, index.count(lane)) for lane in lanes)
    columns = zlib.compress(_columns(b"".join(lanes.values())), _LEVEL)
    length = HEAD_BYTES + len(table) + len(columns) + DIGEST_BYTES
    start = _HEAD.pack(MAGIC, VERSION, len(lanes), head.shard, head.epoch, head.used, head.first, head.last, length)
    data = b"".join((start, _CRC.pack(google_crc32c.value(start)), table, columns))
    return data + blake2b(data, digest_size=DIGEST_BYTES).digest()


def _columns(entries: bytes) -> bytes:
    return b"".join(entries[column::ENTRY_BYTES] for column in range(ENTRY_BYTES))


def _rows(columns: bytes) -> bytearray:
    entries, count = bytearray(len(columns)), len(columns) // ENTRY_BYTES
    for column in range(ENTRY_BYTES):
        entries[column::ENTRY_BYTES] = columns[column * count : (column + 1) * count]
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
        index._lanes[LaneId(lane)] = view[at : at + count * ENTRY_BYTES]
        at += count * ENTRY_BYTES
    return index, head
