"""What a replica sends of its log to one that is behind: the answer to a Pull, worked out from the list of segments.

    asked for what follows a place in the middle of one of my segments ──▶ Append from the disk
                             at the end of a segment ────────────────────▶ Append that begins the next one
                             that is my own end ─────────────────────────▶ Append without data: you are level
                             behind the end of a segment of mine ────────▶ Cut back to that end
                             in a segment that I do not have ────────────▶ Cut back to the one before it
                             before everything that I still have ────────▶ Restart with my files
    told that a segment of mine is damaged ──▶ I read it again; if it is, it has to be mended before others can copy it

Laws
- A segment has one writer, so two logs agree on what both have of it. What one of them has more is news if it leads,
  and was never committed if it does not.
- Only a primary, or a candidate that has made sure of its log, may send Cut and Restart. Others only ever append.
- Only what is durable here is read. What is not, is on its way.
"""

from collections.abc import Callable
from enum import Enum
from functools import partial

from holdfast.core.coordination.cluster import HostId
from holdfast.core.limits import DOUBTS_EVERY, PULL_BYTES, READ_BYTES
from holdfast.core.log.archive import Archive
from holdfast.core.log.files import Read, Work
from holdfast.core.log.segment import SECTOR, align, frame_length, key_path, segment_path
from holdfast.core.log.segment_files import Segment, SegmentReader
from holdfast.core.log.snapshot import list_snapshots, snapshot_path
from holdfast.core.replication.replica_message import NOWHERE, Append, Chunk, Copied, Cut, Fetch, Place, Pull, Restart
from holdfast.core.replication.station import Station
from holdfast.core.types import Instant, Lsn, ShardId
from holdfast.core.values import Fact


class View(Fact, frozen=True):
    """A log as its owner sees it now."""

    archive: Archive
    end: Place  # received, or made
    durable: Place
    is_leading: bool


class _Stretch(Fact, frozen=True):
    """Bytes of a segment that are durable here."""

    stem: str
    offset: int
    limit: int


class _CutBack(Fact, frozen=True):
    stem: str
    offset: int


class _Otherwise(Enum):
    LEVEL = 1
    LATER = 2  # what is missing is not durable here yet
    AFRESH = 3


class Source:
    """`on_harm` is told the stem of a segment that is found damaged here."""

    def __init__(self, station: Station, on_harm: Callable[[str], None]) -> None:
        self._station = station
        self._on_harm = on_harm
        self._checked: Instant | None = None  # when a segment was last read because somebody doubted it

    def pulled(self, host: HostId, pull: Pull, view: View) -> None:
        epoch, committed = self._station.promise, view.archive.committed
        found = _Otherwise.AFRESH if pull.is_lost else find(view, pull.end)
        if isinstance(found, _Stretch):
            self._read(host, pull.end, found, view)
        elif found is _Otherwise.LEVEL:
            now, end = self._station.now, pull.end
            self._station.send(host, Append(epoch, end, end.stem, b"", b"", committed, now, view.is_leading))
        elif found is _Otherwise.LATER or not view.is_leading:
            return
        elif isinstance(found, _CutBack):
            self._station.send(host, Cut(epoch, pull.end, found.stem, found.offset))
        else:
            self._station.read(_newest_snapshot(), lambda lsn: self._restart(host, pull.end, view, lsn))

    def _read(self, host: HostId, before: Place, stretch: _Stretch, view: View) -> None:
        def sent(found: tuple[bytes, bytes] | None) -> None:
            if found is not None:
                data, key = found
                epoch, committed = self._station.promise, view.archive.committed
                now = self._station.now
                message = Append(epoch, before, stretch.stem, data, key, committed, now, view.is_leading)
                self._station.send(host, message)

        self._station.read(_read_frames(stretch), sent)

    def _restart(self, host: HostId, end: Place, view: View, snapshot: Lsn) -> None:
        upto = view.durable
        segments = tuple(
            Copied(each.stem, upto.offset if each.stem == upto.stem else each.used)
            for each in view.archive.segments
            if each.stem <= upto.stem
        )
        self._station.send(host, Restart(self._station.promise, end, snapshot, segments))

    def doubted(self, stem: str, view: View) -> None:
        """Whoever doubts it goes on doing so until it is mended."""
        now = self._station.now
        segment = next((each for each in view.archive.segments if each.stem == stem), None)
        if segment is None or (self._checked is not None and now - self._checked < DOUBTS_EVERY):
            return
        self._checked = now
        self._station.read(is_whole(view.archive.shard, segment, _durable(view, segment)), partial(self._looked, stem))

    def _looked(self, stem: str, is_good: bool) -> None:
        if not is_good:
            self._on_harm(stem)

    def fetched(self, host: HostId, fetch: Fetch) -> None:
        def sent(found: tuple[bytes, bytes] | None) -> None:
            data, key = found or (b"", b"")
            self._station.send(host, Chunk(self._station.promise, fetch.stem, fetch.snapshot, fetch.offset, data, key))

        length = min(fetch.length, PULL_BYTES)
        if fetch.stem:
            self._station.read(_read_stretch(_Stretch(fetch.stem, fetch.offset, fetch.offset + length)), sent)
        else:
            self._station.read(_read_snapshot(fetch.snapshot, fetch.offset, length), sent)


def find(view: View, asked: Place) -> _Stretch | _CutBack | _Otherwise:
    """What to tell who stands at `asked`. O(segments)."""
    if asked == view.end:
        return _Otherwise.LEVEL
    segments = view.archive.segments
    number = next((number for number, each in enumerate(segments) if each.stem == asked.stem), -1)
    if number < 0:
        return _from_outside(view, asked)
    segment = segments[number]
    if asked.offset < _durable(view, segment):
        return _Stretch(segment.stem, asked.offset, _durable(view, segment))
    if asked.offset > segment.used:
        return _CutBack(segment.stem, segment.used)
    if asked.offset == segment.used and number + 1 < len(segments):
        return _begin(view, asked, segments[number + 1])
    return _Otherwise.LATER


def _from_outside(view: View, asked: Place) -> _Stretch | _CutBack | _Otherwise:
    """Of a segment that is not here, or from the very beginning."""
    segments = view.archive.segments
    earlier = [each for each in segments if each.stem < asked.stem]
    if earlier:
        return _CutBack(earlier[-1].stem, earlier[-1].used)
    if segments and segments[0].first > 1:
        return _Otherwise.AFRESH
    if asked != NOWHERE:
        return _CutBack(NOWHERE.stem, NOWHERE.offset)
    return _begin(view, asked, segments[0])


def _begin(view: View, asked: Place, segment: Segment) -> _Stretch | _Otherwise:
    if segment.first != asked.lsn + 1:
        return _Otherwise.AFRESH  # what lay between is not kept any more
    limit = _durable(view, segment)
    return _Stretch(segment.stem, 0, limit) if limit else _Otherwise.LATER


def _durable(view: View, segment: Segment) -> int:
    """How many of its bytes are."""
    if segment.stem > view.durable.stem:
        return 0
    return view.durable.offset if segment.stem == view.durable.stem else segment.used


def is_whole(shard: ShardId, segment: Segment, used: int) -> Work[bool]:
    """Up to byte `used`. A segment that is gone needs no mending."""
    reader = SegmentReader(segment)
    try:
        yield from reader.read_through(shard, segment, used)
    except FileNotFoundError:
        return True
    return reader.offset >= used


def _read_frames(stretch: _Stretch) -> Work[tuple[bytes, bytes] | None]:
    """At least one frame, the key with the first one of a segment. None: the segment is gone."""
    head = SECTOR if not stretch.offset else 0
    found = yield from _read_stretch(stretch)
    if found is None:
        return None
    data, key = found
    length = align(frame_length(data, head)) + head
    if length > len(data):
        data = yield Read(segment_path(stretch.stem), stretch.offset, length)
    return data, key


def _read_stretch(stretch: _Stretch) -> Work[tuple[bytes, bytes] | None]:
    key = b""
    try:
        if not stretch.offset:
            key = yield Read(key_path(stretch.stem), 0, READ_BYTES)
        length = min(stretch.limit - stretch.offset, PULL_BYTES)
        return (yield Read(segment_path(stretch.stem), stretch.offset, length)), key
    except FileNotFoundError:
        return None


def _read_snapshot(lsn: Lsn, offset: int, length: int) -> Work[tuple[bytes, bytes] | None]:
    try:
        return (yield Read(snapshot_path(lsn), offset, length)), b""
    except FileNotFoundError:
        return None


def _newest_snapshot() -> Work[Lsn]:
    return max([Lsn(0), *(yield from list_snapshots())])
