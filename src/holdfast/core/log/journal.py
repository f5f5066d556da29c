"""The log of a shard that this host leads: takes records, makes frames, says what to write in which order.

    append ──▶ open frame ──flush──▶ operations ──synced──▶ durable
               (encoded, placed)     (at most one flush under way; the next frame fills meanwhile)

Laws
- A record is sealed under its segment's key, so its place is fixed when it is appended: segment and offset
  are known at once, and so is its entry in the index.
- Leaving a segment: its frames are written and synced; only then the spare is renamed (key first, each rename
  made durable) and written. So a segment has its final name only when everything before it is durable.
- A frame says how far the log was committed when it was closed. On one host that is what is durable; with members it is
  what all of them have, so that it is true on every disk the frame is written to.
- A record that does not fit is a mistake of the owner, who has to ask `has_room` and `is_exhausted` first.
- Each start and each epoch opens a new segment: the pair (key, epoch ‖ lsn) never comes twice.
"""

from collections.abc import Callable, Sequence
from typing import Final

from librt.strings import read_i32_le

from holdfast.core.limits import FRAME_BYTES_MAX, IDLE_AFTER, RESERVE_BYTES, SEGMENT_BYTES, SPARE_LAG_SHARE, SPARE_LEAD
from holdfast.core.log.archive import Archive
from holdfast.core.log.files import FileOp, Rename, Sync, SyncDir, Write
from holdfast.core.log.index import SegmentIndex
from holdfast.core.log.segment import (
    HEAD_BYTES,
    SECTOR,
    SegmentHeader,
    align,
    encode_frame,
    encode_header,
    key_path,
    segment_path,
    stem_of,
)
from holdfast.core.log.segment_files import Segment
from holdfast.core.queue.cipher import Cipher
from holdfast.core.queue.codec import encode
from holdfast.core.queue.headers import header_of
from holdfast.core.queue.plain import SentAll, encode_all
from holdfast.core.queue.record import Arrived, Moved, Record, Sent
from holdfast.core.types import Epoch, Instant, Lsn, ShardId, WallMs
from holdfast.core.values import Cell

_FIRST, _NONE, _START = Lsn(1), Lsn(0), Instant(0)
_SLACK: Final = 2 * SECTOR  # what a send takes besides its content: clear part, seal, frame's head, padding


class _Draft(Cell):
    """A frame whose place is fixed and whose bytes are not."""

    segment: Segment
    start: int
    first: Lsn
    count: int  # of records
    parts: list[bytes]
    stamp: Instant
    wall: WallMs


class Journal(Archive):
    def __init__(
        self,
        shard: ShardId,
        epoch: Epoch,
        *,
        segments: Sequence[Segment] = (),
        next_lsn: Lsn = _FIRST,
        declared: Lsn = _NONE,
        crc: int = 0,
        stamp: Instant = _START,
        segment_bytes: int = SEGMENT_BYTES,
        reserve_bytes: int = RESERVE_BYTES,
        is_replicated: bool = False,
    ) -> None:
        super().__init__(shard, segments, Lsn(next_lsn - 1))
        self.is_replicated = is_replicated  # `committed` is moved by whoever hears the members
        self.epoch = epoch
        self.next_lsn = next_lsn
        self.durable = Lsn(next_lsn - 1)
        self.stamp = stamp  # of the open frame, or of the last one
        self.keys: dict[str, bytes] = {}  # of the same segments, wrapped, for the members
        self._crc = crc
        self._wall = WallMs(0)
        self._segment_bytes = segment_bytes
        self._reserve_bytes = reserve_bytes
        self._content_max = segment_bytes - SECTOR - reserve_bytes - _SLACK  # what fits while a spare is there
        self._index = SegmentIndex()
        self._cipher: Cipher | None = None
        self._spare: tuple[int, Cipher, bytes] | None = None
        self._spare_number = 0
        self._is_preparing = False
        self.is_full = False  # the last try to make a spare has failed
        self._renames: dict[str, int] = {}  # stem of a segment not yet written -> its number as a spare
        # the open frame
        self._start = 0
        self._fill = 0  # where in the segment the next record begins
        self._limit = 0  # and where it has to end
        self._first = next_lsn
        self._parts: list[bytes] = []
        self._drafts: list[_Draft] = []
        self._is_left = False  # the last segment takes nothing more, and another one has to begin
        self._under_way: Lsn | None = None  # last lsn of the flush that is being written
        self.ends: list[tuple[str, int, Lsn, int]] = []  # of the last flush, per segment: stem, bytes, lsn, crc there
        self._declared = declared  # highest committed lsn that stands in the log itself
        self._written = stamp  # of the last frame that was closed
        self.on_turn: Callable[[], None] | None = None  # told when a segment follows another, between two records

    @property
    def appended(self) -> Lsn:
        return Lsn(self.next_lsn - 1)

    @property
    def is_flushing(self) -> bool:
        return self._under_way is not None

    # Taking records

    def begin(self, own: Instant, wall: WallMs) -> Instant:
        """The stamp that records get now."""
        if own > self.stamp:  # a new frame: a stamp that stood still while a disk is slow would shorten leases
            if self._parts:
                self._close_frame()
            self.stamp = own
            self._wall = wall
        elif not self._parts and not self._drafts:
            self._wall = wall
        return self.stamp

    def is_open(self, own: Instant) -> bool:
        """Has `begin` nothing to do? A frame has records, and time has not moved since."""
        return own <= self.stamp and bool(self._parts)

    def append(self, record: Record) -> Lsn:
        lsn = self.next_lsn
        fill, size = self._put(record)
        if type(record) is Sent:
            self._index.add_sent(record, (self.epoch, lsn, self.stamp), fill + 4, size - 4)
        elif type(record) is Arrived or type(record) is Moved:
            header = header_of(record, self.epoch, lsn, self.stamp)
            self._index.add(record.lane, header, fill + 4, size - 4)
        return lsn

    def append_plain(self, sent: SentAll) -> None:
        """As `append` of each; `holds_all` has to be asked before. So no segment is left on the way: whoever is told of
        that has to find a state with all records before it."""
        assert self._cipher is not None, "the owner has to ask holds_all first"
        first, fill, limit = self.next_lsn, self._fill, self._limit
        data = encode_all(sent, self.epoch, first, cipher=self._cipher)
        offsets: list[int] = []
        lengths: list[int] = []
        start = at = 0  # what is before `start` has its place
        while at < len(data):
            length = read_i32_le(data, at)
            if fill + 4 + length > limit:
                if start < at:
                    self._parts.append(data[start:at])
                self._fill, self.next_lsn, start = fill, Lsn(first + len(offsets)), at
                self._close_frame()
                self._open_frame(4 + length)
                fill, limit = self._fill, self._limit
            offsets.append(fill + 4)
            lengths.append(length)
            fill += 4 + length
            at += 4 + length
        self._parts.append(data[start:] if start else data)
        self._fill, self.next_lsn = fill, Lsn(first + len(offsets))
        self._index.add_plain(sent, (self.epoch, first, self.stamp), offsets, lengths)

    def _put(self, record: Record) -> tuple[int, int]:
        """Into the open frame; answers where in the segment the record's bytes begin, and how many they are."""
        lsn, cipher = self.next_lsn, self._cipher
        data = encode(record, self.epoch, lsn, cipher=cipher) if cipher is not None else b""
        if not data or self._fill + len(data) > self._limit:
            data = self._place_elsewhere(record, data)
        fill, size = self._fill, len(data)
        self._fill = fill + size
        self._parts.append(data)
        self.next_lsn = Lsn(lsn + 1)
        return fill, size

    def _place_elsewhere(self, record: Record, data: bytes) -> bytes:
        """Opens a frame, or a segment and a frame, where the record fits. Answers its bytes for there."""
        self._close_frame()
        if not data or self._start + HEAD_BYTES + len(data) > self._segment_bytes:
            self._turn()
            assert self._cipher is not None
            data = encode(record, self.epoch, self.next_lsn, cipher=self._cipher)
        self._open_frame(len(data))
        return data

    def _open_frame(self, size: int) -> None:
        """In the active segment, for a first record of so many bytes."""
        self._fill = self._start + HEAD_BYTES
        self._limit = min(self._segment_bytes, max(self._start + FRAME_BYTES_MAX, self._fill + size))
        assert self._fill + size <= self._limit, "the owner has to ask has_room or holds_all first"

    def _close_frame(self) -> None:
        if self._parts and self._active is not None:
            self._drafts.append(self._draft(self._first, self._parts))
            self._parts = []
            self._start = align(self._fill)
        self._fill = self._limit = self._start
        self._first = self.next_lsn

    def _draft(self, first: Lsn, parts: list[bytes]) -> _Draft:
        assert self._active is not None
        return _Draft(self._active, self._start, first, self.next_lsn - first, parts, self.stamp, self._wall)

    def _turn(self) -> None:
        """Leaves the active segment for the spare one."""
        assert self._spare is not None, "the owner has to ask has_room and is_exhausted first"
        number, self._cipher, key = self._spare
        self._spare = None
        self._is_left = False
        if self._active is not None:
            self._active.last = self.appended  # sealed, once that is durable
        self._index = SegmentIndex()
        stem = stem_of(self.epoch, self.next_lsn)
        self._active = Segment(stem, self.epoch, self.next_lsn, index=self._index)
        self._start = SECTOR
        self.segments.append(self._active)
        self.ciphers[stem] = self._cipher
        self.keys[stem] = key
        self._renames[stem] = number
        if self.on_turn is not None:
            self.on_turn()

    def leave(self, segment: Segment) -> None:
        """Another one begins behind this, the last one, also if nothing follows. Not before that can be."""
        if segment is self.segments[-1] and self._spare is not None:
            self._close_frame()
            self._start = self._fill = self._limit = self._segment_bytes if self._active is not None else 0
            self._is_left = True

    # Making them durable

    def flush(self, *, is_idle: bool = False) -> tuple[FileOp, ...]:
        """What to do, in this order, to make everything appended durable; then `synced` has to be called.

        `is_idle`: write an empty frame when nothing else is there. O(bytes appended).
        """
        assert self._under_way is None, "one flush at a time"
        if not (self._parts or self._drafts or is_idle):
            return ()
        self._close_frame()
        if is_idle and not self._drafts and self._has_place_for(SECTOR):
            if self._active is None or self._start + SECTOR > self._segment_bytes:
                self._turn()
            self._drafts.append(self._draft(self.next_lsn, []))
            self._start += SECTOR
            self._fill = self._limit = self._start
        if not self._drafts:
            return ()
        drafts, self._drafts, self.ends = self._drafts, [], []
        self._under_way = self.appended
        self._declared, self._written = self.committed, self.stamp
        operations: list[FileOp] = []
        while drafts:
            segment = drafts[0].segment
            here = [draft for draft in drafts if draft.segment is segment]
            operations += self._write(segment, here)
            drafts = drafts[len(here) :]
        return tuple(operations)

    def synced(self) -> None:
        assert self._under_way is not None, "nothing was to be synced"
        self.durable, self._under_way = self._under_way, None
        if not self.is_replicated:
            self.committed = self.durable

    def reign(self, epoch: Epoch) -> None:
        """What follows belongs to a new configuration, and so to a new segment. Everything before is durable."""
        assert epoch > self.epoch, "epochs rise"
        assert self.durable == self.appended, "a range is sealed at its end"
        assert self._under_way is None, "a range is sealed when it is written"
        if self._active is not None:
            self._active.last = self.appended
        self.epoch, self._active, self._cipher = epoch, None, None
        self._start = self._fill = self._limit = 0

    def _write(self, segment: Segment, drafts: list[_Draft]) -> list[FileOp]:
        path = segment_path(segment.stem)
        operations: list[FileOp] = []
        start = drafts[0].start
        frames: list[bytes] = []
        if segment.stem in self._renames:
            operations += self._put_into_use(segment, self._renames.pop(segment.stem))
            start, segment.previous = 0, self._crc
            frames.append(self._header(segment, drafts[0].stamp))
        for draft in drafts:
            frame, crc = encode_frame(
                b"".join(draft.parts),
                previous=self._crc,
                epoch=self.epoch,
                count=draft.count,
                first=draft.first,
                time=draft.stamp,
                wall=draft.wall,
                durable=self.committed,
            )
            frames.append(frame)
            if draft.count:  # an empty frame is no link of the chain
                self._crc = crc
                segment.last = Lsn(draft.first + draft.count - 1)
            segment.used = draft.start + len(frame)
        last = drafts[-1]
        self.ends.append((segment.stem, segment.used, Lsn(last.first + last.count - 1), self._crc))
        return [*operations, Write(path, start, b"".join(frames)), Sync(path)]

    def _put_into_use(self, segment: Segment, number: int) -> list[FileOp]:
        spare = f"spare-{number}"
        return [
            Rename(key_path(spare), key_path(segment.stem)),
            SyncDir("keys"),
            Rename(segment_path(spare), segment_path(segment.stem)),
            SyncDir("segments"),
        ]

    def _header(self, segment: Segment, stamp: Instant) -> bytes:
        synced = Lsn(segment.first - 1)  # by the operations before this one
        before = self.committed if self.is_replicated else synced
        return encode_header(SegmentHeader(self.shard, self.epoch, segment.first, self._crc, stamp, before))

    def idle_deadline(self) -> Instant | None:
        """When an empty frame is due: the log's end does not say yet that it is committed, or another segment is to
        begin, and nothing is coming."""
        is_busy = self._parts or self._drafts or self._under_way is not None
        is_said = self._declared >= self.committed and not self._is_left
        if is_busy or is_said or not self._has_place_for(SECTOR):
            return None
        return Instant(self._written + IDLE_AFTER)

    def idle_frame_due(self, own: Instant) -> bool:
        deadline = self.idle_deadline()
        return deadline is not None and own >= deadline

    # Room

    def has_room(self, size: int) -> bool:
        """May a send of `size` bytes of content be taken? Deletes and receives go on in the reserve."""
        if self._spare is not None:
            return size <= self._content_max
        return self._left() >= self._reserve_bytes + size + _SLACK

    def holds_all(self, sizes: Sequence[int]) -> bool:
        """May sends with so many bytes of content be taken, and do all of them find place in the active segment?"""
        reserve = self._reserve_bytes if self._spare is None else 0
        return self._left() >= reserve + sum(sizes) + len(sizes) * _SLACK

    def is_exhausted(self, size: int = 0) -> bool:
        """Even the reserve is nearly used up: nothing that writes, or that writes so many bytes, may be taken."""
        return self._spare is None and self._left() < self._reserve_bytes // 4 + size

    def _left(self) -> int:
        return max(0, self._segment_bytes - max(self._fill, self._start)) if self._active is not None else 0

    def _has_place_for(self, size: int) -> bool:
        return self._spare is not None or self._left() >= size

    @property
    def is_waiting(self) -> bool:
        """For the spare that becomes the first segment of an epoch: nothing can be taken for this short time."""
        return self._active is None and self.is_spare_coming

    @property
    def is_spare_coming(self) -> bool:
        """The next segment is not there yet, and nothing says that it could not be made."""
        return self._spare is None and not self.is_full

    def wants_spare(self) -> bool:
        return self._spare is None and not self._is_preparing

    def spare_lag(self, ready_bytes: int) -> int:
        """So many more bytes of the next segment, of which there are `ready_bytes`, should have been made by now: all
        of them if sends wait for it already."""
        size = self._segment_bytes
        due = self._fill * SPARE_LEAD if self.has_room(0) else size
        return max(0, min(size, due) - ready_bytes)

    def is_spare_urgent(self, lag_bytes: int) -> bool:
        """So much of the next segment is missing that whoever makes it should do nothing else."""
        return lag_bytes > self._segment_bytes // SPARE_LAG_SHARE or not self.has_room(0)

    def start_spare(self) -> int:
        """The number for `segment_files.prepare_segment`, whose outcome `end_spare` has to be told."""
        assert self.wants_spare(), "one spare at a time"
        self._is_preparing = True
        self._spare_number += 1
        return self._spare_number

    def end_spare(self, cipher: Cipher | None, key: bytes = b"") -> None:
        """None: it could not be made; `wants_spare` asks again. `key`: as it stands in its file, for the members."""
        self._is_preparing = False
        self.is_full = cipher is None
        if cipher is not None:
            self._spare = (self._spare_number, cipher, key)
