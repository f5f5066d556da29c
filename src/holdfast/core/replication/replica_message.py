"""What the replicas of a shard say to each other, and its bytes.

    primary or candidate ──▶ member          member ──▶ primary or candidate
      Append   bytes of the log, or none       Ack      durable up to here, and it is your log
      Cut      your end is not on my log       Pull     send what follows my end
      Restart  nothing of yours fits mine      Fetch    send a piece of a file
      Chunk    a piece of a file               Doubt    a segment that came from you is damaged
                                               Fenced   promised; my log ends here
      Fence    promise this epoch              Refused  I promised a higher epoch

Laws
- A Place is a position in the log with the checksum that leads up to it. Segments are named by epoch and first lsn, so
  places compare as the log does: a later one is greater.
- Each message carries the epoch of its sender. Whoever has promised a higher one does not act on it.
- Any message may be lost, doubled, late or overtaken. What it asks for is bound to the place or epoch it names.

On the wire: version u8, then MessagePack of [shard, sender, [tag, fields…]].
"""

from typing import Final

import msgspec

from holdfast.core.coordination.cluster import HostId, Life
from holdfast.core.types import Epoch, Instant, Lsn, ShardId

VERSION: Final = 1


class Place(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """Behind the frame that ends at `lsn`, or behind an empty one that follows it."""

    stem: str  # of the segment; "": before the first
    offset: int
    lsn: Lsn
    crc: int  # of the last frame with records

    @property
    def seal(self) -> bytes:
        """As the shard's record has it of a range that ends here."""
        return self.crc.to_bytes(4, "little")


NOWHERE: Final = Place("", 0, Lsn(0), 0)


class _Message(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    epoch: Epoch


class Append(_Message, frozen=True, tag=1):
    """`data` follows `before`: in the same segment, or as the begin of `stem`. No data: a sign of life.

    Not leading: a member's answer to the candidate, who alone may ask it. It is nobody's order.
    """

    before: Place
    stem: str
    data: bytes
    key: bytes  # of the segment, wrapped, when this begins it
    committed: Lsn
    at: Instant = Instant(0)  # when it was sent, by the sender's clock
    is_leading: bool = True
    time: Instant = Instant(0)  # cluster time, in a sign of life: so that it goes on where nothing is written


class Ack(_Message, frozen=True, tag=2):
    """`at` is that of the last Append which has come: the primary learns how old this news is, by its own clock.

    `covered`: what a snapshot here covers.
    """

    life: Life
    durable: Place
    at: Instant = Instant(0)
    covered: Lsn = Lsn(0)


class Refused(_Message, frozen=True, tag=3):
    """`epoch` is what was promised."""


class Fence(_Message, frozen=True, tag=4):
    pass


class Fenced(_Message, frozen=True, tag=5):
    life: Life
    end: Place  # all of it durable


class Pull(_Message, frozen=True, tag=6):
    end: Place
    is_lost: bool = False  # there is no way from here to your log by appending or cutting


class Cut(_Message, frozen=True, tag=7):
    """Your log ends at `end`, which is not on mine: put everything behind (stem, offset) aside."""

    end: Place
    stem: str
    offset: int


class Copied(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A segment to be copied, up to a frame's end."""

    stem: str
    used: int


class Restart(_Message, frozen=True, tag=8):
    """Begin with these files instead of what you have at `end`."""

    end: Place
    snapshot: Lsn  # 0: there is none
    segments: tuple[Copied, ...]


class Fetch(_Message, frozen=True, tag=9):
    """A piece of a segment (with its key if it is the first piece), or of the snapshot at `snapshot` if stem is ""."""

    stem: str
    snapshot: Lsn
    offset: int
    length: int


class Chunk(_Message, frozen=True, tag=10):
    """Empty data: there is no such file any more, or nothing behind the offset."""

    stem: str
    snapshot: Lsn
    offset: int
    data: bytes
    key: bytes = b""


class Doubt(_Message, frozen=True, tag=11):
    """Bytes of this segment that came from you are not what was written. Look at yours."""

    stem: str


Message = Append | Ack | Refused | Fence | Fenced | Pull | Cut | Restart | Fetch | Chunk | Doubt


class Envelope(msgspec.Struct, frozen=True, array_like=True):
    shard: ShardId
    sender: HostId
    message: Message


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Envelope).decode


def encode_envelope(envelope: Envelope) -> bytes:
    return bytes((VERSION,)) + _encode(envelope)


def decode_envelope(data: bytes) -> Envelope:
    """Raises ValueError for anything that is not one."""
    if data[:1] != bytes((VERSION,)):
        raise ValueError(f"this is no message between replicas of version {VERSION}")
    try:
        return _decode(memoryview(data)[1:])
    except msgspec.DecodeError as problem:
        raise ValueError(f"this is no message between replicas: {problem}") from problem
