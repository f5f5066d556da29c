"""The index of one segment: where each message's bytes are, and the headers to load a window from.

Per lane one packed array in log order, so `at` ascends and a message is found by bisection; no Python object
per message, neither while the segment grows nor when the index comes from its file (index_file.py).

    entry    0  header, as codec.pack_header has it (77 bytes) | offset u32 | length u32
"""

import struct
from bisect import bisect_left
from itertools import repeat
from typing import Any, Final

from librt.strings import BytesWriter, write_i32_le, write_i64_le

from holdfast.core.limits import INDEX_CHUNK, RECEIVE_COUNT_MAX, RUN_COUNT_MAX, SECOND
from holdfast.core.queue.cipher import Places
from holdfast.core.queue.command import Need
from holdfast.core.queue.headers import HEADER_BYTES, pack_header, unpack_header
from holdfast.core.queue.plain import SentAll
from holdfast.core.queue.record import Sent
from holdfast.core.types import Epoch, Header, Instant, LaneId, Lsn

_ENTRY_FORMAT: Final = "QQIQQIqqqIQ?II"
_ENTRY: Final = struct.Struct("<" + _ENTRY_FORMAT)
_PLAIN_END: Final = struct.Struct("<qqqIQ?")  # the last fields of a header, equal for all that are sent together
_FIELDS: Final = 12  # of a header
_BLOCK: Final = struct.Struct("<" + "QQIQQIqqqIQ?8x" * INDEX_CHUNK)  # headers of entries, without their places
_PLACE: Final = struct.Struct("<II")
_U64: Final = struct.Struct("<Q")
_AT: Final = 20  # where an entry has its `at`
_RUNS: Final = [struct.Struct("<" + "20xQ49xII" * count).unpack_from for count in range(RUN_COUNT_MAX + 1)]
ENTRY_BYTES: Final = _ENTRY.size
_EMPTY: Final = memoryview(b"")

Entry = tuple[Header, int, int]  # a message, and the offset and length of its bytes in the segment


class SegmentIndex:
    """Appended to while the segment grows; read-only when it was decoded from a file."""

    __slots__ = ("_next", "entries")

    def __init__(self) -> None:
        self.entries: dict[LaneId, bytearray | memoryview] = {}  # by lane, packed
        self._next: dict[LaneId, int] = {}  # behind what was found last: messages are mostly read in order

    def add(self, lane: LaneId, header: Header, offset: int, length: int) -> None:
        self._growing(lane).extend(pack_header(header) + _PLACE.pack(offset, length))

    def add_sent(self, sent: Sent, place: tuple[Epoch, Lsn, Instant], offset: int, length: int) -> None:
        """As `add` of the record's header, without building one: this is in the path of every send."""
        epoch, lsn, now = place
        visible = now + sent.delay_s * SECOND if sent.delay_s else now
        deadline = now + sent.time_to_live_s * SECOND if sent.time_to_live_s else 0
        entries = self.entries.get(sent.lane)
        if entries is None:
            entries = self._growing(sent.lane)
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

    def add_plain(
        self, sent: SentAll, place: tuple[Epoch, Lsn, Instant], offsets: list[int], lengths: list[int]
    ) -> None:
        """As `add_sent` of each, the first of which is at `place`."""
        epoch, lsn, now = place[0] + 0, place[1] + 0, place[2]
        entries, seq, end = BytesWriter(), sent.first + 0, _PLAIN_END.pack(now, now, 0, 0, 0, False)
        for size, offset, length in zip(sent.sizes, offsets, lengths, strict=True):
            write_i64_le(entries, seq)
            write_i64_le(entries, lsn)
            write_i32_le(entries, epoch)
            write_i64_le(entries, lsn)
            write_i64_le(entries, 0)
            write_i32_le(entries, size)
            entries.write(end)
            write_i32_le(entries, offset)
            write_i32_le(entries, length)
            seq += 1
            lsn += 1
        self._growing(sent.lane).extend(entries.getvalue())

    def _growing(self, lane: LaneId) -> bytearray:
        entries = self.entries.get(lane)
        if entries is None:
            entries = self.entries[lane] = bytearray()
        assert isinstance(entries, bytearray), "an index that was read from a file does not grow"
        return entries

    def lanes(self) -> list[LaneId]:
        return list(self.entries)

    def count(self, lane: LaneId) -> int:
        return len(self.entries.get(lane, _EMPTY)) // ENTRY_BYTES

    def find(self, lane: LaneId, at: Lsn) -> tuple[int, int] | None:
        """Offset and length of the message whose bytes stand at log position `at`. O(log n), O(1) for one that stands
        behind the last."""
        entries = self.entries.get(lane, _EMPTY)
        place = self._next.get(lane, 0)
        if place >= len(entries) or _U64.unpack_from(entries, place + _AT)[0] != at:
            place = self.position(lane, at) * ENTRY_BYTES
            if place >= len(entries) or _U64.unpack_from(entries, place + _AT)[0] != at:
                return None
        self._next[lane] = place + ENTRY_BYTES
        return _PLACE.unpack_from(entries, place + HEADER_BYTES)

    def find_run(self, lane: LaneId, ats: list[Any], bytes_max: int = 0) -> Places | None:
        """Places, as by `find`, of messages that stand one behind the other, as those of one receive mostly do. If they
        stand behind the last that were found, those that follow are found as well, while all together have no more than
        `bytes_max`. None: they do not stand so, or are more than a receive takes."""
        entries, count = self.entries.get(lane, _EMPTY), len(ats)
        place = self._next.get(lane, 0)
        more = RUN_COUNT_MAX - count
        if place >= len(entries) or _U64.unpack_from(entries, place + _AT)[0] != ats[0]:
            place, more = self.position(lane, ats[0]) * ENTRY_BYTES, 0
        there = (len(entries) - place) // ENTRY_BYTES
        if count > min(RECEIVE_COUNT_MAX, there):
            return None
        fields = _RUNS[min(count + more, there) if bytes_max else count](entries, place)
        found, offsets, lengths = fields[0::3], fields[1::3], fields[2::3]
        if found[:count] != tuple(ats):
            return None
        end = offsets[0] + bytes_max
        while count < len(found) and offsets[count] + lengths[count] <= end:
            count += 1
        self._next[lane] = place + count * ENTRY_BYTES
        return found[:count], offsets[:count], lengths[:count]

    def collect(self, need: Need, found: list[Header]) -> bool:
        """Adds the headers of `need` that are in this segment, in log order. True: no later segment has more.

        A lane's own records ascend by seq, so the first one beyond `need.last` ends the search; copies that
        compaction made may lie between. O(entries of the lane from need.lsn on) when it does not end earlier.
        """
        entries = self.entries.get(need.lane, _EMPTY)
        start = self.position(need.lane, need.lsn) * ENTRY_BYTES
        step = max(need.count_max, INDEX_CHUNK) * ENTRY_BYTES
        for at in range(start, len(entries), step):  # no generator: compiled, it would copy all that follows at once
            chunk = bytes(entries[at : at + step])
            if _collect_copies(chunk, need, found) if need.end else _collect(chunk, need, found):
                return True
        return False

    def entry(self, lane: LaneId, number: int) -> Entry | None:
        """The `number`th of the lane, if there is one."""
        entries, place = self.entries.get(lane, _EMPTY), number * ENTRY_BYTES
        if place >= len(entries):
            return None
        offset, length = _PLACE.unpack_from(entries, place + HEADER_BYTES)
        return unpack_header(entries, place), offset, length

    def position(self, lane: LaneId, at: Lsn) -> int:
        """The number of the first entry whose `at` is this or a later one. O(log n)."""
        entries = self.entries.get(lane, _EMPTY)
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
    length = repeat(sizes[0]) if sizes.count(sizes[0]) == len(sizes) else map(share, sizes, sizes)
    times = tuple(map(share, times, times))
    found.extend(
        map(
            Header,
            seqs,
            lsns,
            fields[2::_FIELDS],
            lsns,
            fields[4::_FIELDS],
            length,
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
