"""Segments and frames: the bytes of a shard's log, and what damage in them means.

A segment is a file of zeros that fills up from its start. Sector 0 is its header, frames follow, each begins
on a sector; so writing a frame cannot tear its predecessor, and a search after damage looks at sector
boundaries only.

    header                               frame
      0  magic            8 bytes          0  length          u32, without the padding
      8  version          u32              4  crc             u32, CRC-32C of what follows, up to length
     12  epoch            u32              8  previous crc    u32
     16  shard            u64             12  epoch           u32
     24  first lsn        u64             16  record count    u32
     32  previous crc     u32             20  first lsn       u64
     36  cluster time     i64             28  cluster time    i64
     44  durable lsn      u64             36  wall ms         u64
     52  zeros                            44  durable lsn     u64, on this disk when the frame was closed
    508  crc of bytes 0–507  u32          52  records, then zeros up to the next sector

Laws
- The chain: a frame names the crc of the frame with records before it, a segment's header the same. An empty
  frame (count 0) names its predecessor and is named by none, so one lsn has one crc whether or not the shard
  idled there.
- The header is written together with the first frame, in one write: there is nothing to order between the
  two, and a segment without either is unused.
- A segment is synced completely before its successor appears (journal.py), so a header's durable lsn is its
  first lsn minus one, and damage below a later segment is always rot.
- Empty frames are written alone. So damage followed by a frame with just the expected lsn hit an empty frame
  which had been synced; except damage to the header, which shares its flush with the frame in sector 1.
- Padding is not covered by the crc: damage there destroys nothing.
"""

import struct
from collections.abc import Iterator
from typing import Final

import google_crc32c

from holdfast.core.limits import FRAME_ALIGN
from holdfast.core.types import Epoch, Instant, Lsn, ShardId, WallMs
from holdfast.core.values import Value

MAGIC: Final = b"HFSEGMNT"
VERSION: Final = 1
SECTOR: Final = FRAME_ALIGN
STEM_CHARS: Final = 25  # epoch and first lsn in hexadecimal
_HEADER: Final = struct.Struct("<8sIIQQIqQ")
_CRC: Final = struct.Struct("<I")
_HEAD: Final = struct.Struct("<IIIIIQqQQ")
_TAIL: Final = struct.Struct("<IIIQqQQ")  # a frame's head after its crc
_LENGTH: Final = struct.Struct("<I")
HEAD_BYTES: Final = _HEAD.size
_SEEN: Final = 8  # bytes before the part that the crc covers


class Damaged(ValueError):
    """These bytes are no frame or header; says why."""


class SegmentHeader(Value, frozen=True):
    shard: ShardId
    epoch: Epoch
    first: Lsn
    previous: int
    time: Instant
    durable: Lsn


class Frame(Value, frozen=True):
    length: int
    crc: int
    previous: int
    epoch: Epoch
    count: int
    first: Lsn
    time: Instant
    wall: WallMs
    durable: Lsn
    covered: bytes  # everything the crc covers: the rest of the head, then the records

    @property
    def last(self) -> Lsn:
        return Lsn(self.first + self.count - 1)

    @property
    def size(self) -> int:
        """On disk, with the padding."""
        return align(self.length)


class Damage(Value, frozen=True):
    """What lies behind the last valid frame, when it is not just zeros."""

    is_rot: bool  # it was durable once; otherwise a torn tail that nobody was told about
    length: int  # bytes
    last: Lsn  # highest lsn that is known to be hit
    proof: str


def align(length: int) -> int:
    return -(-length // SECTOR) * SECTOR


def stem_of(epoch: Epoch, first: Lsn) -> str:
    return f"{epoch:08x}-{first:016x}"


def parse_stem(stem: str) -> tuple[Epoch, Lsn]:
    """Raises ValueError when this is not the name of a segment."""
    epoch, first = stem.split("-")
    parsed = Epoch(int(epoch, 16)), Lsn(int(first, 16))
    if stem_of(*parsed) != stem:
        raise ValueError(f"{stem} names no segment")
    return parsed


def segment_path(stem: str) -> str:
    return f"segments/{stem}.log"


def index_path(stem: str) -> str:
    return f"index/{stem}.idx"


def key_path(stem: str) -> str:
    return f"keys/{stem}.key"


def encode_header(header: SegmentHeader) -> bytes:
    fields = (header.epoch, header.shard, header.first, header.previous, header.time, header.durable)
    data = _HEADER.pack(MAGIC, VERSION, *fields).ljust(SECTOR - 4, b"\0")
    return data + _CRC.pack(google_crc32c.value(data))


def decode_header(data: bytes) -> SegmentHeader:
    if len(data) < SECTOR:
        raise Damaged("the file is shorter than a segment's header")
    if google_crc32c.value(data[: SECTOR - 4]) != _CRC.unpack_from(data, SECTOR - 4)[0]:
        raise Damaged("the checksum of the segment's header does not match")
    magic, version, epoch, shard, first, previous, time, durable = _HEADER.unpack_from(data)
    if magic != MAGIC or version != VERSION:
        raise Damaged(f"this is no segment of version {VERSION}: {magic!r} {version}")
    return SegmentHeader(shard, epoch, first, previous, time, durable)


def encode_frame(
    body: bytes,
    *,
    previous: int,
    epoch: Epoch,
    count: int,
    first: Lsn,
    time: Instant,
    wall: WallMs,
    durable: Lsn,
) -> tuple[bytes, int]:
    """The frame around the encoded records, padded, and its crc."""
    tail = _TAIL.pack(previous, epoch, count, first, time, wall, durable)
    crc = google_crc32c.extend(google_crc32c.value(tail), body)
    length = HEAD_BYTES + len(body)
    head = _LENGTH.pack(length) + _CRC.pack(crc)
    return b"".join((head, tail, body, bytes(align(length) - length))), crc


def frame_length(data: bytes, offset: int) -> int:
    """Of the frame that seems to begin here; 0 when too few bytes are there to tell."""
    return int(_LENGTH.unpack_from(data, offset)[0]) if len(data) - offset >= HEAD_BYTES else 0


def decode_frame(data: bytes, offset: int) -> Frame:
    """The frame at `offset`, verified by its checksum; whether it belongs there is for `link_problem`."""
    if len(data) - offset < HEAD_BYTES:
        raise Damaged("the file ends within a frame's head")
    length, crc, previous, epoch, count, first, time, wall, durable = _HEAD.unpack_from(data, offset)
    if length < HEAD_BYTES:
        raise Damaged(f"a frame's length is {length}")
    if offset + length > len(data):
        raise Damaged(f"a frame of {length} bytes does not fit into its file")
    covered = data[offset + _SEEN : offset + length]
    if google_crc32c.value(covered) != crc:
        raise Damaged("a frame's checksum does not match")
    return Frame(length, crc, previous, epoch, count, first, time, wall, durable, covered)


def link_problem(frame: Frame, *, epoch: Epoch, expected: Lsn, previous: int, time: Instant) -> str:
    """Why this valid frame does not continue the log; empty when it does."""
    if frame.epoch != epoch:
        return f"a frame of epoch {frame.epoch} in a segment of epoch {epoch}"
    if frame.first != expected:
        return f"a frame begins at lsn {frame.first} instead of {expected}"
    if frame.previous != previous:
        return f"the frame at lsn {expected} does not follow its predecessor"
    if frame.time < time or frame.durable >= expected:
        return f"cluster time or durable lsn of the frame at lsn {expected} are impossible"
    return ""


def split_records(frame: Frame) -> Iterator[tuple[Lsn, int, memoryview]]:
    """(lsn, offset within the frame, bytes from the type byte on) of each record."""
    covered, at = memoryview(frame.covered), HEAD_BYTES - _SEEN
    for lsn in range(frame.first, frame.first + frame.count):
        if at + _LENGTH.size > len(covered):
            raise Damaged(f"the frame ends before record {lsn}")
        end = at + _LENGTH.size + _LENGTH.unpack_from(covered, at)[0]
        if end > len(covered):
            raise Damaged(f"record {lsn} reaches beyond its frame")
        yield Lsn(lsn), at + _LENGTH.size + _SEEN, covered[at + _LENGTH.size : end]
        at = end
    if at != len(covered):
        raise Damaged(f"{len(covered) - at} bytes follow record {frame.last} in its frame")


def judge(tail: bytes, *, start: int, expected: Lsn, epoch: Epoch, floor: Lsn) -> Damage | None:
    """What follows the last valid frame of a segment: None for a clean end, else torn or rotten.

    `tail` is the rest of the file from `start` on, `expected` the next lsn, `floor` an lsn known to be durable
    from elsewhere (a snapshot, an index). O(length of the tail).
    """
    twin = -1 if start else SECTOR  # the frame that was written together with a header that is damaged
    length = 0 if tail == bytes(len(tail)) else len(tail.rstrip(b"\0"))
    proof = _find_proof(tail, length, (expected, epoch), twin)
    if proof is not None:
        offset, frame = proof
        last = max(expected, Lsn(frame.first - 1))
        return Damage(True, offset, last, f"a later frame says that lsn {frame.durable} was durable")
    if floor >= expected:
        return Damage(True, length, floor, f"lsn {floor} was durable")
    return Damage(False, length, expected, "nothing later was durable") if length else None


def _find_proof(tail: bytes, upto: int, place: tuple[Lsn, Epoch], twin: int) -> tuple[int, Frame] | None:
    """A later frame of this log that was closed after what is damaged had been synced. Zeros follow from `upto` on."""
    expected, epoch = place
    for offset in range(0, min(upto, len(tail) - HEAD_BYTES + 1), SECTOR):
        length, _, _, its_epoch, _, first, _, _, durable = _HEAD.unpack_from(tail, offset)
        if length < HEAD_BYTES or its_epoch != epoch or not durable < first >= expected:
            continue
        if durable < expected and (first != expected or offset == twin):
            continue
        try:
            return offset, decode_frame(tail, offset)
        except Damaged:
            continue
    return None
