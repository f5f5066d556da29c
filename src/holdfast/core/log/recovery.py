"""From whatever a crash left to a shard that may answer. The order of the steps is the point of this file.

    leftovers away ▶ promise raised ▶ snapshot ▶ log replayed ▶ torn tail cut ▶ tail written again ▶ serve

Laws
- The new epoch is durable before anything else is decided, so no two starts ever write under the same one.
- Rot stops the host. A torn tail is copied to quarantine/ and then zeroed in place, so the next start does not
  meet it again; a copy's name carries the epoch, so a start that is cut short cannot replace it by less.
- The page cache is not trusted: frames that no later frame declares durable may only seem to be on disk. They
  are written again in place, the same bytes, and synced, before anything is answered.
- Nothing but temporary files, spares, an unused segment and files whose segment is gone is removed, the last
  two only after the log proved to be whole.
- Every step may be cut short and done again.
"""

from typing import Generic

from holdfast.core.errors import CorruptLog
from holdfast.core.limits import IDENTITY_BYTES_MAX, RESERVE_BYTES, SEGMENT_BYTES, STRETCH_BITS
from holdfast.core.log.files import List, Read, Size, Sync, SyncDir, Work, Write, replace
from holdfast.core.log.journal import Journal
from holdfast.core.log.promise import PROMISE, decode_promise, encode_promise
from holdfast.core.log.replay import End, Replay, S, from_snapshot
from holdfast.core.log.segment import SECTOR, STEM_CHARS, align, segment_path
from holdfast.core.log.segment_files import (
    Segment,
    list_segments,
    read_index_head,
    rebuild_index,
    remove_files,
)
from holdfast.core.log.snapshot import list_snapshots, load_newest
from holdfast.core.types import Epoch, Lsn, ShardId


class Recovered(Generic[S]):
    """A shard that may answer, once a spare segment has been prepared for its journal."""

    def __init__(self, shard: S, journal: Journal, *, replayed: int, torn_bytes: int) -> None:
        self.shard = shard
        self.journal = journal
        self.replayed = replayed  # records beyond the snapshot
        self.torn_bytes = torn_bytes  # cut off and kept in quarantine/


def recover(
    shard: ShardId,
    *,
    machine: type[S],
    identity: bytes = b"",
    segment_bytes: int = SEGMENT_BYTES,
    reserve_bytes: int = RESERVE_BYTES,
) -> Work[Recovered[S]]:
    """Raises CorruptLog when bytes that were durable are damaged or missing."""
    yield from remove_leftovers()
    segments = yield from list_segments()
    yield from check_length(segments, segment_bytes)
    snapshots = yield from list_snapshots()
    epoch = yield from _raise_promise(identity, segments, has_snapshots=bool(snapshots))
    replay, replayed = yield from _replay(shard, segments, snapshots, machine)
    state, torn_bytes = replay.state, 0
    if replay.end is not None:
        torn_bytes = yield from cut(replay.end, epoch)
    yield from write_again(replay)
    segments = yield from remove_unused(segments, replay.end)
    check_living(state, segments)
    journal = Journal(
        shard,
        epoch,
        segments=segments,
        next_lsn=Lsn(state.lsn + 1),
        declared=replay.declared,
        crc=replay.crc,
        stamp=replay.time,
        segment_bytes=segment_bytes,
        reserve_bytes=reserve_bytes,
    )
    return Recovered(state, journal, replayed=replayed, torn_bytes=torn_bytes)


def rehearse(shard: ShardId, *, machine: type[S], segment_bytes: int = SEGMENT_BYTES) -> Work[Lsn]:
    """Would `recover` succeed? Changes nothing; answers the last lsn, or raises CorruptLog. O(what recover reads)."""
    segments = yield from list_segments()
    yield from check_length(segments, segment_bytes)
    snapshots = yield from list_snapshots()
    replay, _ = yield from _replay(shard, segments, snapshots, machine)
    if replay.end is not None and replay.end.offset <= SECTOR:
        segments = [segment for segment in segments if segment is not replay.end.segment]
    check_living(replay.state, segments)
    return replay.state.lsn


def _replay(
    shard: ShardId, segments: list[Segment], snapshots: list[Lsn], machine: type[S]
) -> Work[tuple[Replay[S], int]]:
    """The state that snapshot and log lead to, and how many records the log added."""
    state, head = yield from load_newest(shard, machine)
    floor = max([Lsn(0), *snapshots])  # a snapshot's name alone proves that its lsn was committed
    start = from_snapshot(segments, head.lsn)
    floor = max(floor, (yield from note_indexes(shard, segments, start)))
    replay = Replay(shard, state, crc=head.crc, time=head.time)
    yield from replay.run(segments[start:], floor=floor)
    return replay, state.lsn - head.lsn


def _raise_promise(identity: bytes, segments: list[Segment], *, has_snapshots: bool) -> Work[Epoch]:
    """The epoch of this start, higher than any before, durable."""
    promised = Epoch(0)
    if PROMISE in (yield List("")):
        promised, owner = decode_promise((yield Read(PROMISE, 0, IDENTITY_BYTES_MAX)))
        if owner != identity:
            raise CorruptLog("the promise file belongs to another host or disk")
    elif segments or has_snapshots:
        raise CorruptLog("the promise file is missing beside a log: which epochs were promised is unknown")
    epoch = Epoch(max([promised, *(segment.epoch for segment in segments)]) + 1)
    yield from replace(PROMISE, encode_promise(epoch, identity))
    return epoch


def remove_leftovers() -> Work[None]:
    """Temporary files, and spares: neither ever holds anything that was acknowledged."""
    for folder in ("segments", "index", "snapshots", "quarantine", "keys"):
        names = yield List(folder)
        yield from remove_files(folder, [name for name in names if _is_leftover(folder, name)])


def _is_leftover(folder: str, name: str) -> bool:
    return name.endswith(".tmp") or (folder in ("segments", "keys") and name.startswith("spare-"))


def check_length(segments: list[Segment], segment_bytes: int) -> Work[None]:
    """A segment has its whole length before it has its name. If the last one is shorter, its end was cut off by
    somebody else than a power cut, perhaps with frames that were durable; of the others the next one tells."""
    for segment in segments[-1:]:
        path = segment_path(segment.stem)
        length = yield Size(path)
        if length < segment_bytes:
            raise CorruptLog(f"{path} ends at byte {length} of {segment_bytes}: what came behind is missing")


def note_indexes(shard: ShardId, segments: list[Segment], start: int) -> Work[Lsn]:
    """Learns which segments have an index file; answers the highest lsn that they prove to be durable.

    Segments that replay will not read and that have no index are read here.
    """
    proven = Lsn(0)
    for number, segment in enumerate(segments):
        head = yield from read_index_head(shard, segment)
        if head is not None:
            segment.last, segment.used, segment.has_index_file = head.last, head.used, True
            proven = max(proven, head.last)
        elif number < start:
            segment.index = yield from rebuild_index(shard, segment)
    return proven


def cut(end: End, epoch: Epoch) -> Work[int]:
    """Quarantines and zeroes a torn tail. Answers its length."""
    if end.damage is None:
        return 0
    length, path = end.damage.length, segment_path(end.segment.stem)
    name = f"quarantine/{end.segment.stem}-{end.offset:08x}-{epoch:08x}.torn"
    yield from replace(name, end.rest[:length])
    yield Write(path, end.offset, bytes(align(length)))
    yield Sync(path)
    return length


def write_again(replay: Replay[S]) -> Work[None]:
    stems = dict.fromkeys(tail.stem for tail in replay.tails)
    for tail in replay.tails:
        yield Write(segment_path(tail.stem), tail.offset, tail.data)
    for stem in stems:
        yield Sync(segment_path(stem))
    yield SyncDir("segments")
    yield SyncDir("keys")


def remove_unused(segments: list[Segment], end: End | None) -> Work[list[Segment]]:
    """A last segment without a frame, whose header perhaps only the page cache shows; what has no segment any more."""
    if end is not None and end.offset <= SECTOR:
        segments = [segment for segment in segments if segment is not end.segment]
        yield from remove_files("segments", [f"{end.segment.stem}.log"])
    torn = yield List("quarantine")  # what lies there can be read with its key only
    stems = [*(segment.stem for segment in segments), *(name[:STEM_CHARS] for name in torn)]
    for folder in ("index", "keys"):
        names = yield List(folder)
        yield from remove_files(folder, [name for name in names if name.rpartition(".")[0] not in stems])
    return segments


def check_living(state: S, segments: list[Segment]) -> None:
    """Every stretch of the log with living messages must be on disk."""
    live = state.live
    for stretch in sorted(live):
        first, last = stretch << STRETCH_BITS, ((stretch + 1) << STRETCH_BITS) - 1
        if live[stretch] and not any(each.first <= last and each.last >= first for each in segments):
            raise CorruptLog(f"the segments with living messages between lsn {first} and {last} are missing")
