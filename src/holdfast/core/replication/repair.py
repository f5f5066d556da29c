"""A sealed segment that went bad is fetched again from another replica.

    scrub finds harm ──▶ copy, piece by piece, to *.tmp ──▶ verified from header to end ──▶ renamed over the bad one
                           └── nobody there, gone, or as bad ──▶ the next host is asked; the last one: told as it is

Laws
- Only what will not change any more is replaced: a segment with a successor, committed. Its bytes are the same on every
  host that has it, so any of them will do.
- The copy counts when it is the same segment, each frame is whole, it ends where this host's did, and the segment
  behind it continues its chain. Until then the bad one stays where it is.
"""

from holdfast.core.coordination.cluster import HostId
from holdfast.core.limits import FETCH_PATIENCE, PULL_BYTES
from holdfast.core.log.archive import Archive
from holdfast.core.log.files import Create, List, Rename, Sync, SyncDir, Unlink, Work, Write, replace
from holdfast.core.log.segment import key_path, segment_path
from holdfast.core.log.segment_files import Segment, SegmentReader
from holdfast.core.replication.replica_message import Chunk, Fetch
from holdfast.core.replication.station import NoticeKind, Station
from holdfast.core.types import Instant, Lsn, ShardId


class Repair:
    """Of one segment, from any other member, the primary first. `is_over` says when the next may follow."""

    def __init__(self, station: Station, archive: Archive, stem: str) -> None:
        assert station.record is not None, "who follows or leads knows whom"
        primary = station.record.primary
        hosts = sorted((member.host for member in station.record.members), key=lambda host: host != primary)
        number = next(number for number, each in enumerate(archive.segments) if each.stem == stem)
        self.is_over = False
        self._station = station
        self._shard = archive.shard
        self._segment = archive.segments[number]
        self._following = archive.segments[number + 1]
        self._hosts = [host for host in hosts if host != station.me.host]
        self._done = 0
        self._key = b""
        self._asked_at = station.now
        self._is_writing = False
        self._ask()

    def deadline(self) -> Instant | None:
        """None: the disk is waited for."""
        return None if self._is_writing else Instant(self._asked_at + FETCH_PATIENCE)

    def tick(self) -> None:
        if not self._is_writing and self._station.now - self._asked_at >= FETCH_PATIENCE:
            self._try_next()

    def _ask(self) -> None:
        if not self._hosts:
            self._end(f"{segment_path(self._segment.stem)} is damaged, and nobody has a copy to give")
            return
        self._asked_at = self._station.now
        length = min(PULL_BYTES, self._segment.used - self._done)
        fetch = Fetch(self._station.promise, self._segment.stem, Lsn(0), self._done, length)
        self._station.send(self._hosts[0], fetch)

    def _try_next(self) -> None:
        self._hosts = self._hosts[1:]
        self._done = 0
        self._ask()

    def chunk(self, sender: HostId, message: Chunk) -> None:
        is_asked = (message.stem, message.offset) == (self._segment.stem, self._done) and sender in self._hosts[:1]
        if not is_asked or self._is_writing or self.is_over:
            return
        if not message.data:
            self._try_next()
            return
        self._key = message.key or self._key
        self._is_writing = True
        self._station.read(self._keep(message.data), self._kept)

    def _keep(self, data: bytes) -> Work[None]:
        path = segment_path(self._segment.stem) + ".tmp"
        if not self._done:
            if path.rpartition("/")[2] in (yield List("segments")):
                yield Unlink(path)
            yield Create(path, self._station.segment_bytes)
        yield Write(path, self._done, data)
        self._done += len(data)

    def _kept(self, _: None) -> None:
        self._is_writing = False
        if self._done < self._segment.used:
            self._ask()
            return
        self._is_writing = True
        self._station.read(_put_in_place(self._shard, self._segment, self._following, self._key), self._placed)

    def _placed(self, problem: str) -> None:
        self._is_writing = False
        if problem:
            self._try_next()
        else:
            self._end(f"{segment_path(self._segment.stem)} was damaged, and came back from {self._hosts[0]}")

    def _end(self, text: str) -> None:
        self.is_over = True
        self._station.notice(NoticeKind.REPAIR, text, first=self._segment.first, last=self._segment.last)


def _put_in_place(shard: ShardId, segment: Segment, following: Segment, key: bytes) -> Work[str]:
    """Answers why it was not done; "" when it was."""
    path = segment_path(segment.stem)
    reader, after = SegmentReader(segment), SegmentReader(following)
    reader.path = path + ".tmp"
    _, end = yield from reader.read_through(shard, segment, segment.used)
    successor = yield from after.header(shard, following)
    if successor is None:
        return after.problem
    is_joined = following.first != end.expected or successor.previous == end.crc
    if reader.offset != segment.used or not is_joined:
        return reader.problem or "it does not lead up to the segment behind it"
    yield Sync(reader.path)
    if key:
        yield from replace(key_path(segment.stem), key)
    yield Rename(reader.path, path)
    yield SyncDir("segments")
    return ""
