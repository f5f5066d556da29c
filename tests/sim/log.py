"""The simulator's own reading of the log's bytes, written from docs/FORMATS.md and not from the core.

Used where the core must not be its own witness: stamps that frames carry, and which bytes are known to be durable.
"""

import struct
from collections.abc import Iterator
from typing import Final

from google_crc32c import value as crc32c

from holdfast.core.values import Value

SECTOR: Final = 512
_FRAME = struct.Struct("<IIIIIQqQQ")
_HEADER = struct.Struct("<8sIIQQIqQ")
_PROMISE = struct.Struct("<8sII")
_FRAME_BYTES: Final = _FRAME.size


class FrameSeen(Value, frozen=True):
    offset: int
    length: int  # without padding
    crc: int
    epoch: int
    first: int
    count: int
    time: int
    durable: int
    last: int

    @property
    def end(self) -> int:
        """Where the next one begins."""
        return self.offset + -(-self.length // SECTOR) * SECTOR


def frame_at(data: bytes | bytearray, at: int) -> FrameSeen | None:
    """The frame that begins there, if it is whole."""
    if at + _FRAME_BYTES > len(data):
        return None
    length, crc, _, epoch, count, first, time, _, durable = _FRAME.unpack_from(data, at)
    if length < _FRAME_BYTES or at + length > len(data):
        return None
    if crc32c(bytes(memoryview(data)[at + 8 : at + length])) != crc:
        return None
    return FrameSeen(at, length, crc, epoch, first, count, time, durable, first + count - 1)


def frames(data: bytes | bytearray, start: int = SECTOR) -> Iterator[FrameSeen]:
    """From `start` on, as long as they are whole."""
    while (frame := frame_at(data, start)) is not None:
        yield frame
        start = frame.end


def stamp_of_write(offset: int, data: bytes) -> int:
    """The cluster time of the first frame in a write to a segment."""
    at = SECTOR if offset == 0 else 0
    return int(_FRAME.unpack_from(data, at)[6])


def header_durable(data: bytes | bytearray) -> int:
    """What a segment's header declares durable; -1 when there is none."""
    if len(data) < SECTOR or data[:8] != b"HFSEGMNT":
        return -1
    return int(_HEADER.unpack_from(data)[7])


def promised_epoch(data: bytes | bytearray) -> int:
    """What a promise file says; 0 when there is none."""
    return int(_PROMISE.unpack_from(data)[2]) if len(data) >= _PROMISE.size and data[:8] == b"HFPROMIS" else 0
