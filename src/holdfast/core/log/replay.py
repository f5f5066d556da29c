"""Applying the log to a state, from a snapshot on or from the beginning: for recovery and for snapshots.

Laws
- Every frame is verified by its checksum and by the chain: lsn without gap, crc of the predecessor, epoch of
  its segment, time that does not fall. The first one that is not ends the log; `judge` says what that means.
- The segment that holds a snapshot's last record is read again from its start, so that the log is joined to
  the snapshot at the same crc and not by number alone; removal keeps that segment.
- Where the next segment continues the chain, whatever lies behind the last frame is no part of the log.
"""

from collections import deque
from typing import Generic, Protocol, Self, TypeVar

from holdfast.core.errors import CorruptLog
from holdfast.core.log.files import Work
from holdfast.core.log.index import SegmentIndex
from holdfast.core.log.segment import Damage, Frame, judge, segment_path, split_records
from holdfast.core.log.segment_files import Position, Segment, SegmentReader, note_message
from holdfast.core.queue.codec import decode
from holdfast.core.queue.record import Record
from holdfast.core.types import Epoch, Instant, Lsn, ShardId, WallMs
from holdfast.core.values import Value


class State(Protocol):
    """What the log is replayed into: Shard, or a stand-in that the log's own tests can read."""

    lsn: Lsn

    def __init__(self, shard: ShardId) -> None: ...

    def begin(self, epoch: Epoch, now: Instant, wall: WallMs) -> None: ...

    def apply(self, record: Record) -> None: ...

    @property
    def live(self) -> dict[int, int]: ...

    def dump(self) -> bytes: ...

    @classmethod
    def restore(cls, data: bytes) -> Self: ...


S = TypeVar("S", bound=State)


class Tail(Value, frozen=True):
    """Bytes that no later frame declares durable."""

    last: Lsn
    stem: str
    offset: int
    data: bytes


class End(Value, frozen=True):
    """Where the last segment's valid frames end."""

    segment: Segment
    offset: int
    rest: bytes
    damage: Damage | None


class Replay(Generic[S]):
    def __init__(self, shard: ShardId, state: S, *, crc: int, time: Instant) -> None:
        self.shard = shard
        self.state = state
        self.crc = crc  # of the frame that ends at state.lsn
        self.time = time
        self.declared = Lsn(0)  # highest durable lsn that the log itself states
        self.tails: deque[Tail] = deque()
        self.end: End | None = None
        self._has_joined = not state.lsn  # the log was found to contain the state's last record

    def run(self, segments: list[Segment], *, floor: Lsn, upto: Lsn | None = None) -> Work[None]:
        """Applies what these segments have beyond the state, up to `upto` or to the end of the log.

        `segments` begin with the one that holds state.lsn. Raises CorruptLog for rot and for gaps; a torn tail
        is found in `end`. `floor` is an lsn that is known to be durable.
        """
        expected, before = Lsn(self.state.lsn + 1), "the snapshot" if self.state.lsn else "the beginning"
        for number, segment in enumerate(segments):
            if segment.first > expected or (number and segment.first < expected):
                where = f"between {before} and {segment_path(segment.stem)}"
                raise CorruptLog(f"lsn {expected}–{segment.first - 1} are missing {where}")
            reader = SegmentReader(segment)
            expected = yield from self._segment(segment, reader, upto)
            if self.state.lsn == upto:
                return
            before = f"{reader.path} byte {reader.offset} ({reader.problem})"
            if segment is segments[-1]:
                yield from self._judge(segment, reader, expected, floor)
        if not self._has_joined:
            raise CorruptLog(f"the segment that holds lsn {self.state.lsn}, the snapshot's last, is missing")

    def _segment(self, segment: Segment, reader: SegmentReader, upto: Lsn | None) -> Work[Lsn]:
        """Answers the lsn that has to follow."""
        header = yield from reader.header(self.shard, segment)
        if header is None:
            return segment.first
        place = Position(segment.first, header.previous, header.time)
        index = None if segment.has_index_file else SegmentIndex()
        prefix = reader.head()  # written together with the first frame, and so again with it
        self._declare(header.durable)
        self._join(place, reader)
        while self.state.lsn != upto and (frame := (yield from reader.next(place))) is not None:
            offset = reader.offset - frame.size
            self._take(frame, reader, index, offset)
            self._join(place, reader)
            self._declare(frame.durable)
            data = prefix + reader.raw(frame)
            self.tails.append(Tail(frame.last, segment.stem, offset - len(prefix), data))
            prefix = b""
        segment.last, segment.used, segment.index = Lsn(place.expected - 1), reader.offset, index
        return place.expected

    def _declare(self, durable: Lsn) -> None:
        tails = self.tails
        while tails and tails[0].last <= durable:  # they are in the order of the log
            tails.popleft()
        self.declared = max(self.declared, durable)

    def _join(self, place: Position, reader: SegmentReader) -> None:
        """Where the reader reaches the state's last record, both must have the same crc there."""
        if place.expected != self.state.lsn + 1:
            return
        if place.crc != self.crc:
            raise CorruptLog(f"{reader.path} byte {reader.offset}: lsn {place.expected} follows another log")
        self._has_joined = True

    def _take(self, frame: Frame, reader: SegmentReader, index: SegmentIndex | None, offset: int) -> None:
        state, last = self.state, frame.last
        is_new = frame.first > state.lsn
        if not is_new and last > state.lsn:
            where = f"{reader.path} bytes {offset}–{reader.offset}"
            raise CorruptLog(f"{where}: the snapshot's lsn {state.lsn} lies within a frame")
        if is_new and (frame.count or frame.time > self.time):
            state.begin(frame.epoch, frame.time, frame.wall)
            self.time = frame.time
        if is_new and frame.count:
            self.crc = frame.crc
        if not is_new and index is None:
            return
        try:
            for lsn, within, data in split_records(frame):
                record = decode(data)
                if is_new:
                    state.apply(record)
                if index is not None:
                    note_message(index, record, frame, (lsn, offset + within, len(data)))
        except ValueError as problem:
            where = f"{reader.path} bytes {offset}–{reader.offset}"
            raise CorruptLog(f"{where}, lsn {frame.first}–{last}: {problem}") from problem

    def _judge(self, segment: Segment, reader: SegmentReader, expected: Lsn, floor: Lsn) -> Work[None]:
        rest = yield from reader.rest()
        floor = max(floor, self.state.lsn)
        damage = judge(rest, start=reader.offset, expected=expected, epoch=segment.epoch, floor=floor)
        if damage is not None and damage.is_rot:
            where = f"{reader.path} bytes {reader.offset}–{reader.offset + damage.length}"
            lsns = f"lsn {expected}–{damage.last}"
            raise CorruptLog(f"{where}, {lsns}: {reader.problem}; {damage.proof}")
        self.end = End(segment, reader.offset, rest, damage)


def from_snapshot(segments: list[Segment], lsn: Lsn) -> int:
    """Where in the list to begin after a snapshot at `lsn`: at the segment that holds its last record."""
    before = [number for number, segment in enumerate(segments) if segment.first <= max(1, lsn)]
    return before[-1] if before else 0
