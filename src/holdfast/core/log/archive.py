"""The segments of a shard's log that are on this disk: what is where, and which of them will not change any more.

Both kinds of log have one: that of a shard which this host leads (journal.py) and that of a member
(replication/replica_log.py).

Laws
- A segment is sealed when it has a successor, or its epoch is over, and all of it is committed: nothing of it will ever
  be cut off. Only then does it get an index file, and only up to there do snapshots reach.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.core.errors import CorruptLog
from holdfast.core.log.files import Work, replace
from holdfast.core.log.index import SegmentIndex
from holdfast.core.log.index_file import IndexFile, IndexHead
from holdfast.core.log.segment import index_path, segment_path
from holdfast.core.log.segment_files import Segment
from holdfast.core.queue.cipher import Cipher, Places
from holdfast.core.queue.command import Need
from holdfast.core.types import Epoch, Header, LaneId, Lsn, Seq, ShardId
from holdfast.core.values import Value


class Location(Value, frozen=True):
    """Where a message's bytes are, from the type byte on; it was sealed with (epoch, its `at`)."""

    path: str
    offset: int
    length: int
    epoch: Epoch
    stem: str


class Run(Value, frozen=True):
    """Where messages are whose bytes lie in one segment, in this order, with little between them."""

    path: str
    places: Places
    epoch: Epoch
    stem: str


class IndexNeeded(Value, frozen=True):
    """Cannot tell without the index of this segment: load it (segment_files.load_index) and ask again."""

    stem: str


class Found(Value, frozen=True):
    """Headers in ascending seq, complete up to seq `upto`: what Shard.load wants."""

    headers: list[Header]
    upto: Seq


class Archive:
    def __init__(self, shard: ShardId, segments: Sequence[Segment], committed: Lsn) -> None:
        self.shard = shard
        self.segments = list(segments)  # in log order; the last one grows
        self.ciphers: dict[str, Cipher] = {}  # of the segments that this host made in this epoch
        self.committed = committed  # on every member; on one host what is durable
        self.covered = Lsn(0)  # by a snapshot on this disk
        self._active: Segment | None = None  # the one that grows
        self._near = 0  # place of the segment in which a message was found last
        self._searches: dict[Need, tuple[Lsn, list[Header]]] = {}  # how far those came that wait for an index

    # Finding messages

    def locate(
        self, lane: LaneId, at: Lsn, indexes: Mapping[str, SegmentIndex] | None = None
    ) -> Location | IndexNeeded:
        """Where the bytes of a committed message are. `indexes`: those the caller has loaded, by stem."""
        segment = self._segment_at(at)
        if segment is None:
            raise CorruptLog(f"lsn {at} of lane {lane} lies before the first segment")
        index = segment.index or (indexes or {}).get(segment.stem)
        if index is None:
            return IndexNeeded(segment.stem)
        place = index.find(lane, at)
        if place is None:
            raise CorruptLog(f"lsn {at} of lane {lane} is not in segment {segment.stem}")
        return Location(segment_path(segment.stem), *place, segment.epoch, segment.stem)

    def locate_run(
        self, lane: LaneId, ats: list[Any], indexes: Mapping[str, SegmentIndex], bytes_max: int
    ) -> Run | None:
        """As `locate` of each, if they stand one behind the other in one segment whose index is there; else None. If it
        is read in order, and sealed, those behind them too: up to `bytes_max` in all."""
        segment = self._segment_at(ats[0])
        index = (segment.index or indexes.get(segment.stem)) if segment is not None else None
        if segment is None or index is None:
            return None
        is_sealed = segment is not self._active and segment.last <= self.committed
        places = index.find_run(lane, ats, bytes_max if is_sealed else 0)
        return Run(segment_path(segment.stem), places, segment.epoch, segment.stem) if places is not None else None

    def _segment_at(self, at: Lsn) -> Segment | None:
        """O(1) for the one that was asked for last, as neighbours are; else O(log segments)."""
        segments, position = self.segments, self._near
        is_near = position < len(segments) and segments[position].first <= at
        if not is_near or (position + 1 < len(segments) and segments[position + 1].first <= at):
            position = bisect_right(segments, at, key=lambda segment: segment.first) - 1
            if position < 0:
                return None
            self._near = position
        return segments[position]

    def headers(self, need: Need, indexes: Mapping[str, SegmentIndex] | None = None) -> Found | IndexNeeded:
        """What a lane asks for, from as many segments as it takes.

        It goes on where it stopped, so each index is asked for once and need not be kept by the caller.
        """
        lsn, found = self._searches.pop(need, (need.lsn, []))
        position = max(0, bisect_right(self.segments, lsn, key=lambda segment: segment.first) - 1)
        for segment in self.segments[position:]:
            if segment is not self._active and segment.last < lsn:
                continue  # what was behind it has been removed
            if need.end and segment.first > need.end:
                break
            index = segment.index or (indexes or {}).get(segment.stem)
            if index is None:
                self._searches[need] = (max(lsn, segment.first), found)
                return IndexNeeded(segment.stem)
            if index.collect(need, found):
                break
        return _in_order(need, found)

    # Sealed segments

    def sealed_without_index(self) -> list[str]:
        """Segments that are left and committed, whose index is only in memory."""
        return [
            segment.stem
            for segment in self.segments
            if segment is not self._active and not segment.has_index_file and segment.last <= self.committed
        ]

    def sealed_upto(self) -> Lsn:
        """Up to here the log is in segments that will not change any more: what a snapshot may cover."""
        sealed = [each.last for each in self.segments if each is not self._active]
        return max((last for last in sealed if last <= self.committed), default=Lsn(0))

    def index_file(self, stem: str) -> IndexFile:
        """Of a sealed segment, to be made."""
        segment = self._segment(stem)
        assert segment.index is not None
        head = IndexHead(self.shard, segment.epoch, segment.used, segment.first, segment.last)
        return IndexFile(segment.index, head)

    def write_index(self, stem: str, file: IndexFile | None = None) -> Work[None]:
        """Puts the index file of a sealed segment in place; then `indexed` may be called. `file`: the `index_file` of
        this segment, if somebody has begun to make it."""
        yield from replace(index_path(stem), (file or self.index_file(stem)).data())

    def indexed(self, stem: str) -> None:
        """The index file is durable; the one in memory can go."""
        segment = self._segment(stem)
        segment.index, segment.has_index_file = None, True

    def snapshotted(self, lsn: Lsn) -> None:
        """A snapshot of everything up to `lsn` is in place and verified."""
        self.covered = max(self.covered, lsn)

    def forget(self, stem: str) -> None:
        """The segment is about to be removed."""
        segment = self._segment(stem)
        assert segment is not self._active
        self.segments.remove(segment)
        self.ciphers.pop(stem, None)

    def _segment(self, stem: str) -> Segment:
        return next(segment for segment in self.segments if segment.stem == stem)


def _in_order(need: Need, found: list[Header]) -> Found:
    """Ascending by seq, each once, the youngest copy; and up to where nothing is missing."""
    if not need.end and all(header.at == header.lsn for header in found):  # nothing was copied: they are so already
        return Found(found, found[-1].seq if len(found) >= need.count_max else need.last)
    latest, upto = {header.seq: header for header in found}, need.last
    if need.end and len(latest) > need.count_max:
        upto = sorted(latest)[need.count_max - 1]
    elif not need.end and len(found) >= need.count_max:
        upto = max((header.seq for header in found if header.at == header.lsn), default=found[-1].seq)
    return Found([latest[seq] for seq in sorted(latest) if seq <= upto], upto)
