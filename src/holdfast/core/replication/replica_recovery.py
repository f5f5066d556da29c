"""From whatever a crash left to the log of a replica. As log/recovery.py, with two differences.

    leftovers away ▶ promise read ▶ snapshot ▶ log replayed ▶ torn tail cut ▶ tail written again ▶ follow

- The promise is read and not raised: epochs come from the shard's record in the store. It is made durable once more:
  what the page cache shows need not be on the disk, and is about to be answered for.
- Only what the log itself declares committed is applied. The rest is the tail: it waits for a primary to say what has
  become of it, and may be cut off.

Laws
- A torn tail may be rot in disguise: nothing later says that it was durable, yet it may have been acknowledged. It is
  cut and kept, and the log is suspect until an epoch begins in it that is higher than what was promised then: whoever
  led that one had everything. The mark is the copy in quarantine/ itself, whose name carries the promise.
- A segment of which only the header is left goes: its leader sends it again, from its beginning.
"""

from typing import Any

from holdfast.core.errors import CorruptLog
from holdfast.core.limits import IDENTITY_BYTES_MAX, SEGMENT_BYTES
from holdfast.core.log.files import List, Read, SyncDir, Work
from holdfast.core.log.index import SegmentIndex
from holdfast.core.log.promise import PROMISE, decode_promise
from holdfast.core.log.recovery import (
    check_length,
    check_living,
    cut,
    note_indexes,
    remove_leftovers,
    remove_unused,
    write_again,
)
from holdfast.core.log.replay import Replay, from_snapshot
from holdfast.core.log.segment import Frame
from holdfast.core.log.segment_files import Segment, SegmentReader, list_segments
from holdfast.core.log.snapshot import list_snapshots, load_newest
from holdfast.core.queue.shard import Shard
from holdfast.core.replication.replica_log import Entry, ReplicaLog
from holdfast.core.replication.replica_message import NOWHERE, Place
from holdfast.core.types import Epoch, Instant, Lsn, ShardId


class RecoveredReplica:
    def __init__(self, log: ReplicaLog, promise: Epoch, *, torn_bytes: int) -> None:
        self.log = log
        self.promise = promise
        self.torn_bytes = torn_bytes


def recover_replica(shard: ShardId, *, identity: bytes, segment_bytes: int = SEGMENT_BYTES) -> Work[RecoveredReplica]:
    """Raises CorruptLog when bytes that were durable are damaged or missing."""
    yield from remove_leftovers()
    segments = yield from list_segments()
    yield from check_length(segments, segment_bytes)
    snapshots = yield from list_snapshots()
    promise = yield from read_promise(identity, has_log=bool(segments or snapshots))
    state, head = yield from load_newest(shard, Shard)
    start = from_snapshot(segments, head.lsn)
    floor = max([Lsn(0), *snapshots, (yield from note_indexes(shard, segments, start))])
    replay = _Following(shard, state, crc=head.crc, time=head.time)
    replay.declare(floor)
    yield from replay.run(segments[start:], floor=floor)
    torn_bytes = 0
    if replay.end is not None:
        torn_bytes = yield from cut(replay.end, promise)
    yield from write_again(replay)
    segments = yield from remove_unused(segments, replay.end)
    check_living(state, segments)
    log = ReplicaLog(
        state,
        segments=segments,
        base=replay.base,
        tail=[entry for entry, _, _ in replay.held],
        time=replay.time,
        declared=replay.declared,
        torn=(yield from _last_torn()),
        segment_bytes=segment_bytes,
    )
    log.snapshotted(head.lsn)
    return RecoveredReplica(log, promise, torn_bytes=torn_bytes)


def read_promise(identity: bytes, *, has_log: bool) -> Work[Epoch]:
    if PROMISE not in (yield List("")):
        if has_log:
            raise CorruptLog("the promise file is missing beside a log: which epochs were promised is unknown")
        return Epoch(0)
    promise, owner = decode_promise((yield Read(PROMISE, 0, IDENTITY_BYTES_MAX)))
    if owner != identity:
        raise CorruptLog("the promise file belongs to another host or disk")
    yield SyncDir("")  # a process that died may have given the file its name without this
    return promise


def _last_torn() -> Work[Epoch]:
    """What was promised when a torn tail was last cut off; 0: that never happened."""
    names = [name for name in (yield List("quarantine")) if name.endswith(".torn")]
    return Epoch(max([0, *(int(name.rpartition(".")[0][-8:], 16) for name in names)]))


class _Following(Replay[Shard]):
    """Applies a frame only when the log has declared it committed."""

    def __init__(self, shard: ShardId, state: Shard, *, crc: int, time: Instant) -> None:
        super().__init__(shard, state, crc=crc, time=time)
        self.base = NOWHERE
        self.held: list[tuple[Entry, SegmentIndex | None, SegmentReader]] = []
        self._last = NOWHERE
        self._current: Segment | None = None

    def _segment(self, segment: Segment, reader: SegmentReader, upto: Lsn | None) -> Work[Any]:
        self._current = segment
        return (yield from super()._segment(segment, reader, upto))

    def _take(self, frame: Frame, reader: SegmentReader, index: SegmentIndex | None, offset: int) -> None:
        segment = self._current
        assert segment is not None, "a frame lies in a segment"
        crc = frame.crc if frame.count else frame.previous
        self._last = Place(segment.stem, reader.offset, frame.last, crc)
        if frame.count and frame.last <= self.state.lsn:  # the snapshot has it
            super()._take(frame, reader, index, offset)
            self.base = self._last
            self.held.clear()
            return
        self.held.append((Entry(frame, segment, offset, self._last), index, reader))
        self.declare(self.declared)

    def declare(self, committed: Lsn) -> None:
        self._declare(committed)

    def _declare(self, durable: Lsn) -> None:
        super()._declare(durable)
        last = 0
        for number, (entry, _, _) in enumerate(self.held, start=1):
            if entry.frame.last > self.declared:
                break
            last = number if entry.frame.count else last
        for entry, index, reader in self.held[:last]:
            super()._take(entry.frame, reader, index, entry.offset)
            self.base = entry.end
        del self.held[:last]
