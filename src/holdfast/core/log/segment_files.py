"""The files of a log: their list, reading one frame by frame, preparing the next one, rebuilding an index.

    spare-1.key, spare-1.log ──put into use──▶ {epoch}-{first lsn}.key, .log ──sealed──▶ + .idx ──▶ removed

Everything here is a machine that yields file operations (core/log/files.py).
"""

from typing import Final

from holdfast.core.errors import CorruptLog
from holdfast.core.limits import READ_BYTES
from holdfast.core.log.files import Create, List, Read, Size, Sync, SyncDir, Unlink, Work, replace
from holdfast.core.log.index import SegmentIndex
from holdfast.core.log.index_file import HEAD_BYTES as INDEX_HEAD_BYTES
from holdfast.core.log.index_file import IndexHead, decode_index, decode_index_head
from holdfast.core.log.segment import (
    SECTOR,
    Damaged,
    Frame,
    SegmentHeader,
    decode_frame,
    decode_header,
    frame_length,
    index_path,
    key_path,
    link_problem,
    parse_stem,
    segment_path,
    split_records,
)
from holdfast.core.queue.codec import decode
from holdfast.core.queue.headers import header_of
from holdfast.core.queue.record import Arrived, Moved, Record, Sent
from holdfast.core.types import Epoch, Instant, Lsn, ShardId
from holdfast.core.values import Form

ENOSPC: Final = 28


class Segment(Form):
    """What is known of one segment of the log."""

    stem: str
    epoch: Epoch
    first: Lsn
    last: Lsn = Lsn(0)  # 0: not known, or nothing in it yet
    used: int = 0  # bytes, header included
    index: SegmentIndex | None = None  # in memory until its file is in place
    has_index_file: bool = False
    previous: int = 0  # crc of the frame before it, known where this process has written its header


class Position(Form):
    """Where a reader stands: what the next frame has to match."""

    expected: Lsn
    crc: int
    time: Instant


def list_segments() -> Work[list[Segment]]:
    """In log order. Spares and temporary files are not among them."""
    found = []
    for name in (yield List("segments")):
        stem, _, kind = name.rpartition(".")
        if kind == "log" and not stem.startswith("spare-"):
            found.append(Segment(stem, *parse_stem(stem)))
    return sorted(found, key=lambda segment: (segment.first, segment.epoch))


class SegmentReader:
    """Reads a segment's frames in order, verifying each and its place in the chain."""

    def __init__(self, segment: Segment) -> None:
        self.path = segment_path(segment.stem)
        self.epoch = segment.epoch
        self.offset = 0  # of the next frame; with no frame read yet, of the header
        self.problem = ""  # why there is no next frame
        self._buffer = b""
        self._start = 0  # where in the file the buffer begins

    def header(self, shard: ShardId, segment: Segment) -> Work[SegmentHeader | None]:
        """None when it cannot be read; `problem` says why."""
        data = yield from self._have(SECTOR)
        try:
            header = decode_header(data)
        except Damaged as damaged:
            self.problem = str(damaged)
            return None
        if (header.shard, header.epoch, header.first) != (shard, segment.epoch, segment.first):
            self.problem = "the segment's header belongs to another segment"
            return None
        self.offset = SECTOR
        return header

    def next(self, position: Position) -> Work[Frame | None]:
        """The next frame, which moves `position`; None at the end of what is valid."""
        data, at = self._buffer, self.offset - self._start
        if len(data) - at < SECTOR:
            data = yield from self._have(SECTOR)
            at = self.offset - self._start
        if (length := frame_length(data, at)) > len(data) - at:
            data = yield from self._have(length)
            at = self.offset - self._start
        try:
            frame = decode_frame(data, at)
        except Damaged as damaged:
            self.problem = str(damaged)
            return None
        self.problem = link_problem(
            frame, epoch=self.epoch, expected=position.expected, previous=position.crc, time=position.time
        )
        if self.problem:
            return None
        self.offset += frame.size
        position.time = frame.time
        if frame.count:  # an empty frame is no link of the chain
            position.expected, position.crc = Lsn(frame.last + 1), frame.crc
        return frame

    def read_through(self, shard: ShardId, segment: Segment, upto: int) -> Work[tuple[Position, Position]]:
        """Verifies everything up to byte `upto`, if `offset` is there then. Answers where it began, and where it is."""
        header = yield from self.header(shard, segment)
        if header is None:
            nowhere = Position(segment.first, 0, Instant(0))
            return nowhere, nowhere
        begin, place = (Position(segment.first, header.previous, header.time) for _ in range(2))
        while self.offset < upto and (yield from self.next(place)) is not None:
            pass
        return begin, place

    def head(self) -> bytes:
        """The header's bytes, before any frame was read."""
        return self._buffer[:SECTOR]

    def raw(self, frame: Frame) -> bytes:
        """The bytes of the frame that was read last, with its padding."""
        end = self.offset - self._start
        return self._buffer[end - frame.size : end].ljust(frame.size, b"\0")

    def rest(self) -> Work[bytes]:
        """Everything from the end of the valid frames on."""
        parts, at = [], self.offset
        while data := (yield Read(self.path, at, READ_BYTES)):
            parts.append(data)
            at += len(data)
        return b"".join(parts)

    def _have(self, length: int) -> Work[bytes]:
        """The buffer, with `length` bytes from `offset` on unless the file ends before. Reads ahead."""
        at = self.offset - self._start
        if len(self._buffer) - at < length:
            data = yield Read(self.path, self.offset, max(length, READ_BYTES))
            self._buffer, self._start = data, self.offset
        return self._buffer


def note_message(index: SegmentIndex, record: Record, frame: Frame, place: tuple[Lsn, int, int]) -> None:
    """Adds a record of `frame` to the index if it is a message. `place`: its lsn, offset and length."""
    if isinstance(record, Sent | Arrived | Moved):
        lsn, offset, length = place
        index.add(record.lane, header_of(record, frame.epoch, lsn, frame.time), offset, length)


def rebuild_index(shard: ShardId, segment: Segment) -> Work[SegmentIndex]:
    """From a sealed segment; sets its `last` and `used`. Any damage there is rot, for it is durable."""
    reader, index = SegmentReader(segment), SegmentIndex()
    position = Position(segment.first, 0, Instant(0))
    header = yield from reader.header(shard, segment)
    if header is not None:
        position = Position(segment.first, header.previous, header.time)
        while (frame := (yield from reader.next(position))) is not None:
            offset = reader.offset - frame.size
            for lsn, within, data in split_records(frame):
                note_message(index, decode(data), frame, (lsn, offset + within, len(data)))
    rest = yield from reader.rest()
    if header is None or rest != bytes(len(rest)):
        where = f"{reader.path} from byte {reader.offset}, lsn {position.expected} on"
        raise CorruptLog(f"{where}: {reader.problem}; the segment is sealed")
    segment.last, segment.used = Lsn(position.expected - 1), reader.offset
    return index


def read_index_head(shard: ShardId, segment: Segment) -> Work[IndexHead | None]:
    """None unless an index file of this segment is there, complete in length."""
    path = index_path(segment.stem)
    if f"{segment.stem}.idx" not in (yield List("index")):
        return None
    try:
        head = decode_index_head((yield Read(path, 0, INDEX_HEAD_BYTES)))
    except ValueError:
        return None
    is_own = (head.shard, head.epoch, head.first) == (shard, segment.epoch, segment.first)
    return head if is_own and head.length == (yield Size(path)) else None


def load_index(shard: ShardId, segment: Segment) -> Work[SegmentIndex]:
    """From its file; from the segment itself when the file is missing or damaged."""
    head = yield from read_index_head(shard, segment)
    if head is not None:
        data = yield Read(index_path(segment.stem), 0, head.length)
        try:
            return decode_index(data)[0]
        except ValueError:
            pass  # everything in it can be had from the segment
    return (yield from rebuild_index(shard, segment))


def prepare_segment(number: int, *, key: bytes, size: int) -> Work[bool]:
    """Makes spare `number`: its wrapped key, then `size` bytes of zeros, all durable. False: no space left.

    The name of a spare does not tell whether it is complete; recovery removes all spares, so it need not.
    """
    stem = f"spare-{number}"
    try:
        yield from replace(key_path(stem), key)
        yield Create(segment_path(stem), size)
        yield Sync(segment_path(stem))
        yield SyncDir("segments")
    except OSError as problem:
        if problem.errno != ENOSPC:
            raise
        yield from remove_files("segments", [f"{stem}.log"])
        yield from remove_files("keys", [f"{stem}.key", f"{stem}.key.tmp"])
        return False
    return True


def remove_files(folder: str, names: list[str]) -> Work[None]:
    """Durably; those that are not there are passed over."""
    there = yield List(folder)
    doomed = [name for name in names if name in there]
    for name in doomed:
        yield Unlink(f"{folder}/{name}")
    if doomed:
        yield SyncDir(folder)
