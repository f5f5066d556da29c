"""Snapshots: a state on disk, and what may be removed once it is there.

    file   0  magic         8 bytes        32  crc          u32, of the frame that ends at lsn
           8  version       u32            36  cluster time i64
          12  epoch         u32            44  body length  u64
          16  shard         u64            52  body, State.dump()
          24  lsn           u64                BLAKE2b-256 of all before

Laws
- Only of committed state. A snapshot counts when it was read back and its digest is right, not before.
- The newest two are kept: the older one, too, must lead to the present state if the newer one is damaged.
- A segment may be removed when (1) its last lsn is below the OLDER kept snapshot's, so neither needs it for
  replay, nor to join the log's chain to the snapshot, and (2) the NEWER one has no living bytes in its range.
  The live table of the older one does not matter: what is dead stays dead, and from the older one the log
  leads to the newer state before anything is answered.
- A stretch of the live table that overlaps two segments counts for both.
"""

import struct
from hashlib import blake2b
from itertools import pairwise
from typing import Final

from holdfast.core.errors import CorruptLog
from holdfast.core.limits import READ_BYTES, STRETCH_BITS
from holdfast.core.log.files import Create, List, Read, Rename, Sync, SyncDir, Work, Write
from holdfast.core.log.replay import Replay, S, from_snapshot
from holdfast.core.log.segment import STEM_CHARS
from holdfast.core.log.segment_files import Segment, list_segments, remove_files
from holdfast.core.types import Epoch, Instant, Lsn, ShardId
from holdfast.core.values import Value

MAGIC: Final = b"HFSNAPSH"
VERSION: Final = 1
DIGEST_BYTES: Final = 32
_HEAD = struct.Struct("<8sIIQQIqQ")


class SnapshotHead(Value, frozen=True):
    shard: ShardId
    lsn: Lsn
    epoch: Epoch
    crc: int
    time: Instant


class Advanced(Value, frozen=True):
    """A snapshot was made. What is useless now, for `remove_old`, after the journal forgot these segments."""

    lsn: Lsn
    snapshots: tuple[Lsn, ...]
    stems: tuple[str, ...]


def snapshot_path(lsn: Lsn) -> str:
    return f"snapshots/{lsn:016x}.snap"


def encode_head(head: SnapshotHead, length: int) -> bytes:
    return _HEAD.pack(MAGIC, VERSION, head.epoch, head.shard, head.lsn, head.crc, head.time, length)


def decode_snapshot(data: bytes) -> tuple[SnapshotHead, bytes]:
    """Raises ValueError unless every byte is as it was written."""
    if len(data) < _HEAD.size + DIGEST_BYTES:
        raise ValueError("the file is shorter than a snapshot's head")
    if blake2b(memoryview(data)[:-DIGEST_BYTES], digest_size=DIGEST_BYTES).digest() != data[-DIGEST_BYTES:]:
        raise ValueError("the digest of the snapshot does not match")
    magic, version, epoch, shard, lsn, crc, time, length = _HEAD.unpack_from(data)
    if magic != MAGIC or version != VERSION:
        raise ValueError(f"this is no snapshot of version {VERSION}: {magic!r} {version}")
    if length != len(data) - _HEAD.size - DIGEST_BYTES:
        raise ValueError("the snapshot's body has another length than its head says")
    return SnapshotHead(shard, lsn, epoch, crc, time), data[_HEAD.size : -DIGEST_BYTES]


def write_snapshot(head: SnapshotHead, body: bytes) -> Work[None]:
    """Returns when the snapshot is in place, durable, and has been read back and verified."""
    path = snapshot_path(head.lsn)
    temporary = path + ".tmp"
    yield from remove_files("snapshots", [temporary.rpartition("/")[2]])
    start = encode_head(head, len(body))
    digest = blake2b(start, digest_size=DIGEST_BYTES)
    digest.update(body)
    yield Create(temporary)
    yield Write(temporary, 0, start)
    yield Write(temporary, len(start), body)
    yield Write(temporary, len(start) + len(body), digest.digest())
    yield Sync(temporary)
    yield Rename(temporary, path)
    yield SyncDir("snapshots")
    try:
        decode_snapshot((yield from _read(path)))
    except ValueError as problem:
        raise CorruptLog(f"{path} was written and reads back differently: {problem}") from problem


def list_snapshots() -> Work[list[Lsn]]:
    """Newest first; whether they are valid is not known."""
    names = yield List("snapshots")
    return [Lsn(int(name[:16], 16)) for name in sorted(names, reverse=True) if name.endswith(".snap")]


def load_newest(shard: ShardId, machine: type[S]) -> Work[tuple[S, SnapshotHead]]:
    """The state of the newest snapshot that can be read; an empty one at lsn 0 when there is none."""
    for lsn in (yield from list_snapshots()):
        try:
            head, body = decode_snapshot((yield from _read(snapshot_path(lsn))))
            state = machine.restore(body)
            if (head.shard, head.lsn, state.lsn) == (shard, lsn, lsn):
                return state, head
        except ValueError:
            continue  # an older one and the log lead to the same state
    return machine(shard), SnapshotHead(shard, Lsn(0), Epoch(0), 0, Instant(0))


def advance_snapshot(shard: ShardId, upto: Lsn, *, machine: type[S]) -> Work[Advanced | None]:
    """Replays the log from the newest snapshot to `upto` and writes the next. None: there is nothing new.

    `upto` is the last lsn of a sealed segment and committed. The log is only read: its writer may go on.
    """
    state, old = yield from load_newest(shard, machine)
    if old.lsn >= upto:
        return None
    segments = [segment for segment in (yield from list_segments()) if segment.first <= upto]
    for segment in segments:
        segment.has_index_file = True  # somebody else's task
    replay = Replay(shard, state, crc=old.crc, time=old.time)
    yield from replay.run(segments[from_snapshot(segments, old.lsn) :], floor=upto, upto=upto)
    if state.lsn != upto:
        raise CorruptLog(f"the log ends at lsn {state.lsn}, before {upto}")
    head = SnapshotHead(shard, upto, segments[-1].epoch, replay.crc, replay.time)
    return (yield from _add(head, state.dump(), older=old.lsn, segments=segments, live=state.live))


def keep_snapshot(head: SnapshotHead, body: bytes, live: dict[int, int]) -> Work[Advanced | None]:
    """The next snapshot, of a state that is at hand. `live`: its table. None: there is nothing new."""
    older = Lsn(0)
    for lsn in (yield from list_snapshots()):
        if (yield from _is_sound(head.shard, lsn)):
            older = lsn
            break
    if older >= head.lsn:
        return None
    segments = [segment for segment in (yield from list_segments()) if segment.first <= head.lsn]
    return (yield from _add(head, body, older=older, segments=segments, live=live))


def _is_sound(shard: ShardId, lsn: Lsn) -> Work[bool]:
    try:
        head, _ = decode_snapshot((yield from _read(snapshot_path(lsn))))
    except ValueError:
        return False
    return (head.shard, head.lsn) == (shard, lsn)


def _add(
    head: SnapshotHead, body: bytes, *, older: Lsn, segments: list[Segment], live: dict[int, int]
) -> Work[Advanced]:
    yield from write_snapshot(head, body)
    known = yield from list_snapshots()
    useless = tuple(lsn for lsn in known if lsn < head.lsn and lsn != older)
    return Advanced(head.lsn, useless, removable(segments, older=older, live=live))


def removable(segments: list[Segment], *, older: Lsn, live: dict[int, int]) -> tuple[str, ...]:
    """Segments that neither kept snapshot needs: the older at lsn `older`, the newer with its table `live`.

    A segment's last lsn is taken to be the one before its successor: if what lay between was removed, this
    only errs on the side of keeping.
    """
    stems = []
    for segment, following in pairwise(segments):
        stretches = range(segment.first >> STRETCH_BITS, (following.first - 1 >> STRETCH_BITS) + 1)
        if following.first <= older and not any(live.get(stretch) for stretch in stretches):
            stems.append(segment.stem)
    return tuple(stems)


def remove_old(advanced: Advanced) -> Work[None]:
    """Snapshots first: one without its segments would be found useless only when it is needed. Keys of what lies in
    quarantine/ stay: it can be read with them only."""
    torn = [name[:STEM_CHARS] for name in (yield List("quarantine"))]
    yield from remove_files("snapshots", [f"{lsn:016x}.snap" for lsn in advanced.snapshots])
    yield from remove_files("segments", [f"{stem}.log" for stem in advanced.stems])
    yield from remove_files("index", [f"{stem}.idx" for stem in advanced.stems])
    yield from remove_files("keys", [f"{stem}.key" for stem in advanced.stems if stem not in torn])


def _read(path: str) -> Work[bytes]:
    parts: list[bytes] = []
    at = 0
    while data := (yield Read(path, at, READ_BYTES)):
        parts.append(data)
        at += len(data)
    return b"".join(parts)
