"""Starting over with a copy of another replica's files: for a learner whose own log has nothing in common with it.

    linearizable read: I am no member ──▶ old files aside ──▶ snapshot, then segments, piece by piece, as *.tmp
        ──▶ all of them renamed ──▶ the replica is over: recovery reads the copy, and the stream goes on from its end
                             └── one of them is damaged: its owner is told, and mends it before the next attempt

Laws
- Nothing is renamed before everything is there and synced, so a copy that was broken off leaves only leftovers.
- What was here before is put into quarantine/, not removed. The promise stays.
- One piece is asked for at a time, and asked for again when it does not come. A file that is gone meanwhile ends the
  attempt: the next Append begins a new one.
"""

from collections import deque

import msgspec

from holdfast.core.coordination.cluster import HostId, ShardRecord
from holdfast.core.limits import FETCH_AGAIN, PULL_BYTES
from holdfast.core.log.files import Create, List, Rename, Sync, SyncDir, Unlink, Work, Write, replace
from holdfast.core.log.segment import key_path, parse_stem, segment_path
from holdfast.core.log.segment_files import Segment
from holdfast.core.log.snapshot import snapshot_path
from holdfast.core.replication.replica_message import Chunk, Doubt, Fetch, Restart
from holdfast.core.replication.source import is_whole
from holdfast.core.replication.station import Station
from holdfast.core.types import Epoch, Instant, Lsn


class _Copy(msgspec.Struct):
    """One file that is being copied."""

    stem: str  # "": the snapshot
    size: int | None  # bytes to copy; None: as many as there are
    done: int = 0
    key: bytes = b""


class CatchUp:
    def __init__(self, station: Station, host: HostId, message: Restart) -> None:
        self._station = station
        self._host = host
        self._snapshot = message.snapshot
        self._copies = deque(_Copy(each.stem, each.used) for each in message.segments)
        if message.snapshot:
            self._copies.appendleft(_Copy("", None))
        self._all = list(self._copies)
        self._asked_at = station.now
        self._is_writing = False
        self._is_allowed = False  # nobody counts on what is here
        self._look()

    def _look(self) -> None:
        self._asked_at = self._station.now
        self._station.fetch(self._looked)

    def _looked(self, record: ShardRecord | None) -> None:
        """A member that cannot follow asks again, until it has been let go."""
        if record is None or self._station.me in record.members or self._is_allowed:
            return
        self._is_allowed = self._is_writing = True
        self._station.write(set_aside(self._station.promise), self._prepared)

    def _prepared(self, _: None) -> None:
        self._is_writing = False
        self._ask()

    def _ask(self) -> None:
        if not self._copies:
            self._is_writing = True
            self._station.write(self._put_in_place(), self._finished)
            return
        self._asked_at = self._station.now
        copy = self._copies[0]
        length = PULL_BYTES if copy.size is None else min(PULL_BYTES, copy.size - copy.done)
        snapshot = Lsn(0) if copy.stem else self._snapshot
        self._station.send(self._host, Fetch(self._station.promise, copy.stem, snapshot, copy.done, length))

    def deadline(self) -> Instant | None:
        """None: the disk is waited for."""
        return None if self._is_writing else Instant(self._asked_at + FETCH_AGAIN)

    def tick(self) -> None:
        if self._is_writing or self._station.now - self._asked_at < FETCH_AGAIN:
            return
        if self._is_allowed:
            self._ask()
        else:
            self._look()

    def chunk(self, sender: HostId, message: Chunk) -> None:
        copy = self._copies[0] if self._copies else None
        if self._is_writing or not self._is_allowed or copy is None or sender != self._host:
            return
        expected = (copy.stem, Lsn(0) if copy.stem else self._snapshot, copy.done)
        if (message.stem, message.snapshot, message.offset) != expected:
            return
        is_end = not message.data
        if is_end and copy.size is not None:
            self._station.end()  # the file is gone: begin anew with what is there now
            return
        copy.key = message.key or copy.key
        self._is_writing = True
        is_whole = is_end if copy.size is None else copy.done + len(message.data) >= copy.size
        self._station.write(self._keep(copy, message.data, is_whole=is_whole), lambda _: self._kept(is_whole=is_whole))

    def _keep(self, copy: _Copy, data: bytes, *, is_whole: bool) -> Work[None]:
        path = self._temporary(copy)
        if not copy.done:
            folder, _, name = path.rpartition("/")
            if name in (yield List(folder)):
                yield Unlink(path)
            yield Create(path, self._station.segment_bytes if copy.stem else 0)
        if data:
            yield Write(path, copy.done, data)
        copy.done += len(data)
        if is_whole:
            yield Sync(path)

    def _kept(self, *, is_whole: bool) -> None:
        self._is_writing = False
        if is_whole:
            self._copies.popleft()
        self._ask()

    def _put_in_place(self) -> Work[None]:
        """The snapshot last: without it the segments are a log with a gap, and with it they are whole."""
        segments = [copy for copy in self._all if copy.stem]
        for copy in segments:
            yield from replace(key_path(copy.stem), copy.key)
        for copy in segments:
            yield Rename(self._temporary(copy), segment_path(copy.stem))
        yield SyncDir("segments")
        if self._snapshot:
            yield Rename(snapshot_path(self._snapshot) + ".tmp", snapshot_path(self._snapshot))
            yield SyncDir("snapshots")

    def _finished(self, _: None) -> None:
        self._is_writing = True
        self._station.read(self._find_damaged(), self._verified)

    def _find_damaged(self) -> Work[list[str]]:
        found: list[str] = []
        for copy in self._all:
            segment = Segment(copy.stem, *parse_stem(copy.stem)) if copy.stem else None
            if segment is not None and not (yield from is_whole(self._station.shard, segment, copy.done)):
                found.append(copy.stem)
        return found

    def _verified(self, damaged: list[str]) -> None:
        """Recovery decides what to do with it; this only tells."""
        for stem in damaged:
            self._station.send(self._host, Doubt(self._station.promise, stem))
        self._station.end()

    def _temporary(self, copy: _Copy) -> str:
        return (segment_path(copy.stem) if copy.stem else snapshot_path(self._snapshot)) + ".tmp"


def set_aside(epoch: Epoch) -> Work[None]:
    """Everything of the shard but its promise. Snapshots first: without one, the segments left are not taken for it."""
    for name in (yield List("snapshots")):
        yield Unlink(f"snapshots/{name}")
    yield SyncDir("snapshots")
    for name in (yield List("index")):
        yield Unlink(f"index/{name}")
    yield SyncDir("index")
    for name in reversed((yield List("segments"))):
        stem, _, kind = name.rpartition(".")
        if kind == "log" and not stem.startswith("spare-"):
            yield Rename(f"segments/{name}", f"quarantine/{stem}-{0:08x}-{epoch:08x}.cut")
    yield SyncDir("quarantine")
    yield SyncDir("segments")
