"""Compaction: the few living messages of an old segment are written again at the end of the log.

So one forgotten message does not pin a whole segment. Nothing is removed here: once the copies are committed and
two snapshots know it, the segment has no living bytes left and goes the way of all others (snapshot.py).

Laws: only what is alive at its place is copied, and the shard looks again when the command is decided; a step is
bounded in entries looked at and bytes read, so it never holds the loop for long; a segment whose messages are just
being consumed is left alone, since they go by themselves.
"""

from collections.abc import Callable, Container, Mapping, Sequence

from holdfast.core.errors import CorruptLog
from holdfast.core.limits import FALLING_SHARE, LIVING_SHARE, STEP_BYTES, STEP_ENTRIES, STRETCH_BITS
from holdfast.core.log.files import Read, Work
from holdfast.core.log.index import Entry, SegmentIndex
from holdfast.core.log.segment import segment_path
from holdfast.core.log.segment_files import Segment, load_index
from holdfast.core.queue.cipher import Cipher
from holdfast.core.queue.codec import decode_message
from holdfast.core.queue.command import Compact
from holdfast.core.queue.record import Message
from holdfast.core.types import Header, LaneId, Lsn, ShardId
from holdfast.core.values import Value


class Step(Value, frozen=True):
    compact: Compact | None  # to be submitted like any command
    is_over: bool  # the whole segment was looked at


class Choice:
    """Which segment is next. It has to be asked twice before it names one: only then it knows which are falling."""

    def __init__(self) -> None:
        self._living: dict[str, int] = {}  # bytes of those that would be worth it when it was last asked, by stem
        self.is_waiting = False  # a segment was left alone that may be worth it when it is asked again

    def pick(self, segments: Sequence[Segment], live: Mapping[int, int], *, done: Container[str]) -> Segment | None:
        """The oldest sealed segment that is worth it. `done`: stems that were compacted already.

        Those may still seem to have living bytes: a stretch of the live table can overlap two segments.
        """
        before, self._living = self._living, {}
        chosen: Segment | None = None
        self.is_waiting = False
        for segment in segments[:-1]:
            living = sum(live.get(stretch, 0) for stretch in _stretches(segment))
            is_worth_it = 0 < living <= segment.used // LIVING_SHARE
            if not segment.has_index_file or not is_worth_it or segment.stem in done:
                continue
            self._living[segment.stem] = living
            is_known = segment.stem in before
            if not is_known or living < before[segment.stem] * (FALLING_SHARE - 1) // FALLING_SHARE:
                self.is_waiting = True
            elif chosen is None:
                chosen = segment
        return chosen


def _stretches(segment: Segment) -> range:
    return range(segment.first >> STRETCH_BITS, (segment.last >> STRETCH_BITS) + 1)


class Compaction:
    """Walks through one segment, lane after lane, past stretches where nothing lives. `live`: as for `Choice.pick`."""

    def __init__(
        self,
        shard: ShardId,
        segment: Segment,
        *,
        live: Mapping[int, int],
        cipher: Cipher,
        is_alive: Callable[[LaneId, Header], bool],
    ) -> None:
        self.stem = segment.stem
        self._shard = shard
        self._segment = segment
        self._living = [stretch for stretch in _stretches(segment) if live.get(stretch, 0)]
        self._cipher = cipher
        self._is_alive = is_alive
        self._index: SegmentIndex | None = None
        self._lanes: list[LaneId] = []  # still to be looked at
        self._at = 0  # the next entry of the first of them

    def step(self) -> Work[Step]:
        """The next living messages as a command. Must be called until `is_over`."""
        if self._index is None:
            self._index = yield from load_index(self._shard, self._segment)
            self._lanes = self._index.lanes()[::-1]
        found: list[tuple[Header, Message]] = []
        entries, size = STEP_ENTRIES, 0
        while self._lanes and entries and size < STEP_BYTES:
            entries -= 1
            entry = self._look(self._index)
            if entry is not None:
                header, offset, length = entry
                found.append((header, (yield from self._read(header, offset, length))))
                size += length
        return Step(Compact(tuple(found)) if found else None, not self._lanes)

    def _look(self, index: SegmentIndex) -> Entry | None:
        """At the next entry. None: it is not alive, or there is no more in this lane."""
        lane = self._lanes[-1]
        entry = index.entry(lane, self._at)
        if entry is None:
            self._lanes.pop()
            self._at = 0
            return None
        stretch = entry[0].at >> STRETCH_BITS
        if stretch not in self._living:
            self._at = index.position(lane, Lsn((stretch + 1) << STRETCH_BITS))
            return None
        self._at += 1
        return entry if self._is_alive(lane, entry[0]) else None

    def _read(self, header: Header, offset: int, length: int) -> Work[Message]:
        path = segment_path(self.stem)
        data = yield Read(path, offset, length)
        try:
            return decode_message(data, self._segment.epoch, header.at, cipher=self._cipher)
        except ValueError as problem:
            where = f"{path} bytes {offset}–{offset + length}, lsn {header.at}"
            raise CorruptLog(f"{where}: a living message cannot be read: {problem}") from problem
