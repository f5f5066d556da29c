"""Messages with nothing but a body that were sent together to one lane: decided, written and applied as columns.

On disk each is a record of its own, the same bytes as codec.encode makes of a Sent with those fields.
"""

import struct
from typing import Any, Final

from holdfast.core.queue.codec import PLAIN, Cipher
from holdfast.core.types import Epoch, LaneId, Lsn, Seq, WallMs
from holdfast.core.values import Fact

_START: Final = struct.Struct("<BQ")  # these and what follows: the parts of a plain record's clear bytes
_WALL: Final = struct.Struct("<Q")
_CLEAR: Final = "9sQI8s"
_CLEAR_FIELDS: Final = 4
_CLEAR_BYTES: Final = 29
_pack: Final = struct.pack


class SentAll(Fact, frozen=True):
    """As many Sent in a row. The lists belong to it."""

    lane: LaneId
    first: Seq
    wall: WallMs
    sizes: list[int]
    contents: list[bytes]


def encode_all(sent: SentAll, epoch: Epoch, first: Lsn, *, cipher: Cipher) -> tuple[list[bytes], list[bytes]]:
    """The records that begin at `first`, without their lengths: the clear bytes of each, and the sealed ones."""
    contents = sent.contents
    count = len(contents)
    fields: list[Any] = [_START.pack(PLAIN, sent.lane), 0, 0, _WALL.pack(sent.wall)] * count
    fields[1::_CLEAR_FIELDS] = range(sent.first, sent.first + count)
    fields[2::_CLEAR_FIELDS] = sent.sizes
    packed = _pack("<" + _CLEAR * count, *fields)
    clears = [packed[at : at + _CLEAR_BYTES] for at in range(0, count * _CLEAR_BYTES, _CLEAR_BYTES)]
    return clears, cipher.seal_all(epoch, first, contents, clears)
