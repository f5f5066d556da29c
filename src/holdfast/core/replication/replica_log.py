"""The log of a shard on a host that does not lead it: takes bytes as the primary wrote them, applies what is committed.

    accept ──▶ received ──flush──▶ write + fdatasync ──▶ durable          (one write under way at most)
                   │
                   └── tail: frames not yet known to be committed ──commit──▶ state, index

Laws
- The bytes are the primary's, at the same place of a segment of the same name: equal logs are equal files.
- Nothing is taken that does not follow the end: segment, offset, lsn and checksum of what is there must be the same.
- State and index follow only what is committed, for they have no undo. What is cut off was in the tail.
- An empty frame is written and synced alone, so that damage to it can be told from a torn write (log/segment.py). For
  the same reason it counts as committed only when a frame with records behind it is: until then it may be cut off.
"""

from collections import deque
from typing import Any, Final

from holdfast.core.errors import CorruptLog
from holdfast.core.log.archive import Archive
from holdfast.core.log.files import Create, List, Read, Rename, Sync, SyncDir, Unlink, Work, Write, replace
from holdfast.core.log.index import SegmentIndex
from holdfast.core.log.segment import (
    SECTOR,
    Damaged,
    Frame,
    SegmentHeader,
    align,
    decode_frame,
    decode_header,
    frame_length,
    key_path,
    link_problem,
    parse_stem,
    segment_path,
    split_records,
)
from holdfast.core.log.segment_files import Segment, note_message
from holdfast.core.queue.codec import decode
from holdfast.core.queue.shard import Shard
from holdfast.core.replication.replica_message import Place
from holdfast.core.types import Epoch, Instant, Lsn
from holdfast.core.values import Value

SPARE: Final = "spare-0"  # a primary's have higher numbers


class Entry(Value, frozen=True):
    """A frame of the tail."""

    frame: Frame
    segment: Segment
    offset: int
    end: Place


class _Piece(Value, frozen=True):
    """To be written: a frame, with the header before it when it begins its segment."""

    stem: str
    offset: int
    data: bytes
    key: bytes | None  # not None: the segment is new
    is_empty: bool
    end: Place


class ReplicaLog(Archive):
    def __init__(
        self,
        state: Shard,
        *,
        segments: list[Segment],
        base: Place,
        tail: list[Entry],
        time: Instant,
        declared: Lsn,
        torn: Epoch,
        segment_bytes: int,
    ) -> None:
        super().__init__(state.shard, segments, state.lsn)
        self._active = self.segments[-1] if self.segments else None
        self.state = state
        self.base = base  # behind the last frame that was applied
        self.tail = deque(tail)
        self.end = tail[-1].end if tail else base  # received
        self.durable = self.end
        self.time = tail[-1].frame.time if tail else time  # of the last frame
        self._base_time = time
        self.declared = declared  # highest committed lsn that stands in the log
        self._torn = torn  # what was promised when a torn tail was last cut off; 0: never
        self._segment_bytes = segment_bytes
        self.has_spare = False  # of the next segment's length, made ahead of its use
        self._pending: deque[_Piece] = deque()

    @property
    def epoch(self) -> Epoch:
        """Of the last frame or header."""
        return parse_stem(self.end.stem)[0] if self.end.stem else Epoch(0)

    @property
    def has_async(self) -> bool:
        """Is any lane replicated asynchronously?"""
        return bool(self.state.asynchronous)

    @property
    def is_suspect(self) -> bool:
        """A torn tail was cut off that may have been acknowledged, and no later epoch has begun in this log."""
        return self._torn > 0 and self._torn >= self.epoch

    # Taking bytes

    def accept(self, stem: str, data: bytes, key: bytes) -> str:
        """Takes the whole frames of `data`, which follows `end`. Answers why there is none; "" when there is."""
        at, header = 0, None
        if stem != self.end.stem:
            try:
                header = decode_header(data)
            except Damaged as damaged:
                return str(damaged)
            if problem := self._header_problem(stem, header):
                return problem
            at = SECTOR
        taken = 0
        while at < len(data) and (not taken or self._is_whole(data, at)):
            try:
                frame = decode_frame(data, at)
            except Damaged as damaged:
                return "" if taken else str(damaged)
            if problem := self._link_problem(frame, header):
                return "" if taken else problem
            start = 0 if header is not None else at
            self._take(stem, frame, data[start : at + frame.size], key if header is not None else None)
            at, header, taken = at + frame.size, None, taken + 1
        return "" if taken else "no whole frame"

    def _is_whole(self, data: bytes, at: int) -> bool:
        return 0 < frame_length(data, at) <= len(data) - at

    def _header_problem(self, stem: str, header: SegmentHeader) -> str:
        expected = (self.shard, *parse_stem(stem), self.end.lsn + 1, self.end.crc)
        found = (header.shard, header.epoch, header.first, header.first, header.previous)
        if found != expected or header.epoch < self.epoch:
            return f"segment {stem} does not follow lsn {self.end.lsn}"
        return ""

    def _link_problem(self, frame: Frame, header: SegmentHeader | None) -> str:
        assert header is not None or self._active is not None, "the first bytes of a segment bring its header"
        time = max(self.time, header.time) if header is not None else self.time
        epoch = header.epoch if header is not None else self._active.epoch  # type: ignore[union-attr]
        return link_problem(frame, epoch=epoch, expected=Lsn(self.end.lsn + 1), previous=self.end.crc, time=time)

    def _take(self, stem: str, frame: Frame, data: bytes, key: bytes | None) -> None:
        if key is not None:
            if self._active is not None:
                self._active.last = self.end.lsn
            self._active = Segment(stem, frame.epoch, frame.first, index=SegmentIndex())
            self.segments.append(self._active)
        segment = self._active
        assert segment is not None, "accept has seen its header"
        offset = 0 if key is not None else segment.used
        segment.used = offset + align(len(data))
        if frame.count:
            segment.last = frame.last
            self.end = Place(stem, segment.used, frame.last, frame.crc)
        else:
            self.end = Place(stem, segment.used, self.end.lsn, self.end.crc)
        self.time = frame.time
        place = segment.used - frame.size
        self.tail.append(Entry(frame, segment, place, self.end))
        padded = data.ljust(align(len(data)), b"\0")
        self._pending.append(_Piece(stem, offset, padded, key, not frame.count, self.end))

    # Making them durable

    @property
    def has_pending(self) -> bool:
        return bool(self._pending)

    def flush(self) -> tuple[Work[None], Place]:
        """The next write: as many pieces as may go together. When it is done, `synced` is to be told the place."""
        batch = [self._pending.popleft()]
        while self._pending and not batch[-1].is_empty and _may_join(batch[-1], self._pending[0]):
            batch.append(self._pending.popleft())
        return self._write(batch), batch[-1].end

    def synced(self, place: Place) -> None:
        self.durable = place

    def drop_pending(self) -> None:
        """What was received under an old promise and is not being written must not be written under a new one."""
        if not self._pending:
            return
        first = self._pending[0]
        self._pending.clear()
        while self.tail and self.tail[-1].end >= first.end:
            self._forget_last()

    def _write(self, batch: list[_Piece]) -> Work[None]:
        first = batch[0]
        path = segment_path(first.stem)
        if first.key is not None:
            yield from replace(key_path(first.stem), first.key)
            spare = segment_path(SPARE) if self.has_spare else path + ".tmp"
            if not self.has_spare:  # one may be in the making; it is for the next segment then
                yield from make_zeros(spare, self._segment_bytes)
            self.has_spare = False
            yield Rename(spare, path)
            yield SyncDir("segments")
        yield Write(path, first.offset, b"".join(piece.data for piece in batch))
        yield Sync(path)

    # Following

    def commit(self, lsn: Lsn) -> None:
        """Applies what is committed up to `lsn`, as far as it is durable here."""
        last, lsn = 0, min(lsn, self.durable.lsn)
        if lsn <= self.state.lsn:  # as it is each time a frame has become durable before it is committed
            return
        for number, entry in enumerate(self.tail, start=1):
            if entry.frame.last > lsn:
                break
            if entry.frame.count:
                last = number
        for _ in range(last):
            self._apply(self.tail.popleft())
        self.committed = self.state.lsn

    def _apply(self, entry: Entry) -> None:
        frame, state, index = entry.frame, self.state, entry.segment.index
        if frame.count or frame.time > state.now:
            state.begin(frame.epoch, frame.time, frame.wall)
        try:
            for lsn, within, data in split_records(frame):
                record = decode(data)
                state.apply(record)
                if index is not None:
                    note_message(index, record, frame, (lsn, entry.offset + within, len(data)))
        except ValueError as problem:
            raise CorruptLog(f"lsn {frame.first}–{frame.last} of segment {entry.segment.stem}: {problem}") from problem
        self.base, self._base_time = entry.end, frame.time
        self.declared = max(self.declared, frame.durable)

    # Cutting

    def find(self, stem: str, offset: int) -> Place | None:
        """A frame's end in the tail, or the base."""
        for place in (self.base, *(entry.end for entry in self.tail)):
            if (place.stem, place.offset) == (stem, offset):
                return place
        return None

    def cut(self, place: Place, epoch: Epoch) -> Work[None]:
        """Puts what lies behind `place` into quarantine/ and forgets it. Nothing is being written meanwhile."""
        doomed = [segment for segment in self.segments if segment.stem > place.stem]
        keeper = next((segment for segment in self.segments if segment.stem == place.stem), None)
        used = keeper.used if keeper is not None else 0
        while self.tail and self.tail[-1].end > place:
            self._forget_last()
        assert self.end == place, "a place in the tail"
        self.durable = place
        return _put_aside(doomed, place, used, epoch)

    def _forget_last(self) -> None:
        entry = self.tail.pop()
        self.end = self.tail[-1].end if self.tail else self.base
        self.time = self.tail[-1].frame.time if self.tail else self._base_time
        segment = entry.segment
        if self.end.stem == segment.stem:
            segment.used, segment.last = self.end.offset, self.end.lsn
        elif not any(each.segment is segment for each in self.tail):
            self.segments.remove(segment)
            self._active = self.segments[-1] if self.segments else None


def _may_join(last: _Piece, following: _Piece) -> bool:
    return following.stem == last.stem and not following.is_empty


def make_zeros(path: str, size: int) -> Work[None]:
    """A segment has its whole length before it has its name. Recovery removes spares and temporary files."""
    if path.rpartition("/")[2] in (yield List("segments")):
        yield Unlink(path)
    yield Create(path, size)
    yield Sync(path)


def _put_aside(doomed: list[Segment], place: Place, used: int, epoch: Epoch) -> Work[None]:
    """From the end to the front, so that a log that is cut halfway is still a log."""
    for segment in reversed(doomed):
        yield Rename(segment_path(segment.stem), f"quarantine/{segment.stem}-{0:08x}-{epoch:08x}.cut")
        yield SyncDir("quarantine")
        yield SyncDir("segments")
    if used > place.offset:
        path = segment_path(place.stem)
        data: Any = yield Read(path, place.offset, used - place.offset)
        yield from replace(f"quarantine/{place.stem}-{place.offset:08x}-{epoch:08x}.cut", data)
        yield Write(path, place.offset, bytes(used - place.offset))
        yield Sync(path)
