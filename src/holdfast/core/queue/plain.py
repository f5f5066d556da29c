"""Messages with nothing but a body that were sent together to one lane: decided, written and applied as columns.

On disk each is a record of its own, the same bytes as codec.encode makes of a Sent with those fields.
"""

import struct
from typing import Final

from librt.strings import BytesWriter, write_i32_le, write_i64_le

from holdfast.core.queue.cipher import Cipher
from holdfast.core.queue.codec import PLAIN
from holdfast.core.types import Epoch, LaneId, Lsn, Seq, WallMs
from holdfast.core.values import Fact

_START: Final = struct.Struct("<BQ")  # these and what is between them: a plain record's clear part
_WALL: Final = struct.Struct("<Q")


class SentAll(Fact, frozen=True):
    """As many Sent in a row. The lists belong to it."""

    lane: LaneId
    first: Seq
    wall: WallMs
    sizes: list[int]
    contents: list[bytes]


def encode_all(sent: SentAll, epoch: Epoch, first: Lsn, *, cipher: Cipher) -> bytes:
    """The records that begin at `first`, one behind the other, each with its length."""
    clears, seq = BytesWriter(), sent.first + 0
    start, wall = _START.pack(PLAIN, sent.lane), _WALL.pack(sent.wall)
    for size in sent.sizes:
        clears.write(start)
        write_i64_le(clears, seq)
        write_i32_le(clears, size)
        clears.write(wall)
        seq += 1
    return cipher.seal_all(epoch, first, sent.contents, clears.getvalue())
