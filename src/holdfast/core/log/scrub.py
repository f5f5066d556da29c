"""Looking for damage in a shard's files without changing any of them, and how much of a growing segment is whole.

Every byte that has a checksum is read: segments frame by frame with their chain, indexes, snapshots, the promise.

Laws
- A segment that has a successor is sealed: it must lead up to it, or up to the end that its index names. Where segments
  before the newest snapshot have been removed, a gap is no damage.
- The last segment of a log that nobody writes may end in a torn tail, which recovery cuts off: that is no damage.
  Of a live log only the frames that are there are verified.
- Files of a live log may be removed at any time, when they are of no use any more.
"""

from collections.abc import Sequence

import msgspec

from holdfast.core.errors import CorruptLog
from holdfast.core.log.files import List, Read, Size, Work
from holdfast.core.log.index_file import decode_index
from holdfast.core.log.promise import PROMISE, decode_promise
from holdfast.core.log.segment import index_path, judge, key_path, segment_path, split_records
from holdfast.core.log.segment_files import Position, Segment, SegmentReader, list_segments, read_index_head
from holdfast.core.log.snapshot import decode_snapshot, list_snapshots, snapshot_path
from holdfast.core.queue.codec import decode
from holdfast.core.types import Instant, Lsn, ShardId

WRAPPED_KEY_BYTES = 40


class Harm(msgspec.Struct, frozen=True):
    path: str
    first: int  # byte
    last: int
    problem: str


class Report(msgspec.Struct):
    files: int = 0
    harms: list[Harm] = msgspec.field(default_factory=list)


def scrub(shard: ShardId, *, is_live: bool) -> Work[Report]:
    """O(bytes of the shard)."""
    report = Report()
    snapshots = yield from list_snapshots()
    segments = yield from list_segments()
    indexed = [name.rpartition(".")[0] for name in (yield List("index")) if name.endswith(".idx")]
    newest = max(snapshots, default=Lsn(0))
    works = {PROMISE: _check_promise()}
    works |= {snapshot_path(lsn): _check_snapshot(shard, lsn) for lsn in snapshots}
    works |= {index_path(stem): _check_index(stem) for stem in indexed}
    for number, segment in enumerate(segments):
        works[key_path(segment.stem)] = _check_key(segment)
        works[segment_path(segment.stem)] = _check_segment(shard, segments[number:], newest, is_live=is_live)
    for path, work in works.items():
        report.files += 1
        try:
            harm = yield from work
        except FileNotFoundError:
            harm = None if is_live else Harm(path, 0, 0, "the file is missing")
        if harm is not None:
            report.harms.append(harm)
    return report


def whole_bytes(shard: ShardId, segment: Segment) -> Work[int]:
    """How many bytes of a segment that may grow are whole frames. Raises CorruptLog when it does not end there.

    A later frame that says that what is missing was durable can have been written since: then what was missing is there
    by now, and it came after this look began.
    """
    reader = SegmentReader(segment)
    position = yield from _frames(shard, segment, reader)
    end = reader.offset
    rest = yield from reader.rest()
    expected = position.expected
    damage = judge(rest, start=end, expected=expected, epoch=segment.epoch, floor=Lsn(expected - 1))
    if damage is None or not damage.is_rot:
        return end
    again = SegmentReader(segment)
    again.offset = end
    is_there = (yield from again.next(position)) if end else (yield from again.header(shard, segment))
    if is_there is None:
        raise CorruptLog(f"{reader.path} bytes {end}–{end + damage.length}: {again.problem}; {damage.proof}")
    return end


def _frames(shard: ShardId, segment: Segment, reader: SegmentReader) -> Work[Position]:
    """Reads all that are valid; `reader` stands behind the last one."""
    header = yield from reader.header(shard, segment)
    if header is None:
        return Position(segment.first, 0, Instant(0))
    position = Position(segment.first, header.previous, header.time)
    while (frame := (yield from reader.next(position))) is not None:
        for _, _, data in split_records(frame):
            decode(data)
    return position


def _check_segment(shard: ShardId, segments: Sequence[Segment], newest: Lsn, *, is_live: bool) -> Work[Harm | None]:
    """The first of these, which are in log order."""
    segment, reader = segments[0], SegmentReader(segments[0])
    try:
        position = yield from _frames(shard, segment, reader)
    except ValueError as problem:
        return Harm(reader.path, reader.offset, reader.offset, f"a frame cannot be read: {problem}")
    expected = position.expected
    if len(segments) == 1:
        return None if is_live else (yield from _check_end(segment, reader, expected, newest))
    following = segments[1]
    if following.first == expected:
        return None
    head = yield from read_index_head(shard, segment)
    rest = yield from reader.rest()
    is_whole = expected == head.last + 1 if head is not None else reader.offset > 0 and not any(rest)
    if is_whole and following.first > expected and expected <= newest:
        return None
    last = reader.offset + len(rest.rstrip(b"\0"))
    return Harm(reader.path, reader.offset, last, f"lsn {expected}–{following.first - 1}: {reader.problem}")


def _check_end(segment: Segment, reader: SegmentReader, expected: Lsn, newest: Lsn) -> Work[Harm | None]:
    rest = yield from reader.rest()
    damage = judge(rest, start=reader.offset, expected=expected, epoch=segment.epoch, floor=newest)
    if damage is None or not damage.is_rot:
        return None
    problem = f"lsn {expected}–{damage.last}: {reader.problem}; {damage.proof}"
    return Harm(reader.path, reader.offset, reader.offset + damage.length, problem)


def _check_key(segment: Segment) -> Work[Harm | None]:
    path = key_path(segment.stem)
    size = yield Size(path)
    problem = f"{size} bytes instead of {WRAPPED_KEY_BYTES}: the segment's messages cannot be opened"
    return None if size == WRAPPED_KEY_BYTES else Harm(path, 0, size, problem)


def _check_promise() -> Work[Harm | None]:
    data = yield Read(PROMISE, 0, (yield Size(PROMISE)))
    try:
        decode_promise(data)
    except CorruptLog as problem:
        return Harm(PROMISE, 0, len(data), problem.message)
    return None


def _check_snapshot(shard: ShardId, lsn: Lsn) -> Work[Harm | None]:
    path = snapshot_path(lsn)
    data = yield Read(path, 0, (yield Size(path)))
    try:
        head, _ = decode_snapshot(data)
    except ValueError as problem:
        return Harm(path, 0, len(data), str(problem))
    return None if (head.shard, head.lsn) == (shard, lsn) else Harm(path, 0, len(data), "it is another snapshot's")


def _check_index(stem: str) -> Work[Harm | None]:
    path = index_path(stem)
    data = yield Read(path, 0, (yield Size(path)))
    try:
        decode_index(data)
    except ValueError as problem:
        return Harm(path, 0, len(data), f"{problem}; it will be made again from its segment when it is removed")
    return None
