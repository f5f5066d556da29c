"""Receipt handles and message ids: the names that the core gives to the outside.

A handle is base64url( version u8 | lane u64 | seq u64 | epoch u32 | lsn u64 | number u32 | mac 12 ), 45 bytes in 60
characters. Nobody can make a handle for a message that was not handed to them: the MAC covers the two blocks
(lane, seq) and (epoch, lsn, number), 16 bytes each, and needs a key.

45 bytes are a whole number of base64's groups, so the handles of a batch can be turned into text, and back, as one. So
are the first 9, which all handles of a lane have in common.

A MessageId is a version-8 UUID made of (epoch, lsn, shard) of the record that brought the message in:

    eeeeeeee-llll-8lll-Ssss-000lllllllll      e epoch, l lsn, s shard, S the variant bits
"""

import struct
from binascii import hexlify
from collections.abc import Sequence
from functools import lru_cache
from hmac import compare_digest
from typing import Any, Final, Protocol

import msgspec

from holdfast.core.errors import ReceiptHandleIsInvalid
from holdfast.core.limits import RECEIVE_COUNT_MAX
from holdfast.core.queue.command import AcceptedAll
from holdfast.core.types import Epoch, LaneId, Lsn, Receipt, ShardId
from holdfast.core.values import Value

_VERSION: Final = 2
_HANDLE_BYTES: Final = 45
HANDLE_CHARS: Final = 60
_NUMBER_MAX: Final = 0xFFFFFFFF  # receives are counted modulo its successor
_LOW_BITS: Final = 36  # of an lsn, at the end of a MessageId
_LOW_MASK: Final = (1 << _LOW_BITS) - 1

_pack: Final = struct.pack
_to_base64: Final = msgspec.json.Encoder().encode  # bytes become a JSON string of base64: quicker than binascii
_from_base64: Final = msgspec.json.Decoder(bytes).decode


class _Layout:
    """How so many handles are packed and unpacked together."""

    __slots__ = tuple("big blocks digits handles macs numbers pack_numbers read_firsts read_seconds text".split())

    def __init__(self, count: int) -> None:
        self.pack_numbers = struct.Struct("<" + "Q" * count).pack
        self.numbers = struct.Struct("8s" * count).unpack
        self.blocks = struct.Struct("16s" * count).unpack
        self.macs = struct.Struct("12s4x" * count).unpack
        self.text = struct.Struct("48s" * count).unpack  # of handles, behind what a lane's have in common
        self.big = struct.Struct(">" + "Q" * count).pack
        self.digits = struct.Struct("4x12s" * count).unpack  # of MessageIds
        self.handles = struct.Struct("<" + "B16s16s12s" * count).unpack
        self.read_firsts = struct.Struct("<" + "QQ" * count).unpack
        self.read_seconds = struct.Struct("<" + "IQI" * count).unpack


_LAYOUTS: Final = [_Layout(count) for count in range(RECEIVE_COUNT_MAX + 1)]


class ReceiptKey(Protocol):
    def macs(self, firsts: bytes, seconds: bytes) -> bytes:
        """16 bytes for each pair of blocks, the nth of either."""
        ...


class Names(Value, frozen=True):
    """MessageIds and handles, in order: each is its start and one of its ends."""

    id_start: bytes
    id_ends: Sequence[bytes]
    handle_start: bytes
    handle_ends: Sequence[bytes]


def encode(receipt: Receipt, key: ReceiptKey) -> str:
    seconds = _seconds([receipt.epoch], [receipt.lsn], [receipt.number])
    return (_handle_start(receipt.lane) + _handle_ends(receipt.lane, [receipt.seq], seconds, key=key)[0]).decode()


def names(shard: ShardId, lane: LaneId, delivered: Sequence[Any], key: ReceiptKey) -> Names:
    """Of the messages of one receive, `Delivered`. Numbers are not declared: compiled code would make new objects."""
    given = list(delivered)
    headers = [each.header for each in given]
    epochs, lsns = [header.epoch for header in headers], [header.lsn for header in headers]
    seqs, numbers = [header.seq for header in headers], [each.number for each in given]
    id_start, ids = _ids(shard, epochs, lsns)
    ends = _handle_ends(lane, seqs, _seconds(epochs, lsns, numbers), key=key)
    return Names(id_start, ids, _handle_start(lane), ends)


def _ids(shard: ShardId, epochs: list[Any], lsns: list[Any]) -> tuple[bytes, Sequence[bytes]]:
    high: int = lsns[0] >> _LOW_BITS
    if epochs.count(epochs[0]) != len(epochs) or any(_high(lsn) != high for lsn in lsns):  # they do not begin alike
        return b"", [message_id(shard, *each).encode() for each in zip(epochs, lsns, strict=True)]
    lows = [lsn & _LOW_MASK for lsn in lsns] if high else lsns
    layout = _layout(len(lsns))
    return _id_start(shard, epochs[0], high).encode(), layout.digits(hexlify(layout.big(*lows)))


def _high(lsn: int) -> int:
    return lsn >> _LOW_BITS


def _seconds(epochs: list[Any], lsns: list[Any], numbers: list[Any]) -> bytes:
    """The second blocks of handles. Epoch and number are mostly the same, so that they need not be packed each time."""
    count = len(lsns)
    if epochs.count(epochs[0]) != count or numbers.count(numbers[0]) != count:
        rows = zip(epochs, lsns, numbers, strict=True)
        return b"".join([_pack("<IQI", epoch, lsn, number & _NUMBER_MAX) for epoch, lsn, number in rows])
    epoch, number, layout = _pack("<I", epochs[0]), _pack("<I", numbers[0] & _NUMBER_MAX), _layout(count)
    return epoch + (number + epoch).join(layout.numbers(layout.pack_numbers(*lsns))) + number


def _handle_ends(lane: LaneId, seqs: list[Any], seconds: bytes, *, key: ReceiptKey) -> Sequence[bytes]:
    """What follows version and lane."""
    own, layout = _pack("<Q", lane), _layout(len(seqs))
    numbers = layout.numbers(layout.pack_numbers(*seqs))
    macs = key.macs(own + own.join(numbers), seconds)
    parts = [b"", b"", b""] * len(seqs)
    parts[0::3], parts[1::3], parts[2::3] = numbers, layout.blocks(seconds), layout.macs(macs)
    return layout.text(_text(b"".join(parts)))


@lru_cache(256)
def _handle_start(lane: LaneId) -> bytes:
    return _text(_pack("<BQ", _VERSION, lane))


def _text(data: bytes) -> bytes:
    return _to_base64(data)[1:-1].replace(b"+", b"-").replace(b"/", b"_")


def _layout(count: int) -> _Layout:
    return _LAYOUTS[count] if count <= RECEIVE_COUNT_MAX else _Layout(count)


def decode(handle: str, key: ReceiptKey, *, lane: LaneId) -> Receipt:
    """The receipt of this lane, or ReceiptHandleIsInvalid: forged, garbled, or of another queue."""
    given = _read([handle], key)
    if given is None:
        raise ReceiptHandleIsInvalid(f'The input receipt handle "{handle}" is not a valid receipt handle.')
    lanes, receipts = given
    if lanes[0] != lane:
        raise ReceiptHandleIsInvalid(f'The receipt handle "{handle}" is not valid for this queue.')
    return receipts[0]


def decode_all(handles: Sequence[str], key: ReceiptKey, *, lane: LaneId) -> list[Receipt] | None:
    """As `decode` of each. None: it refuses at least one of them."""
    given = _read(handles, key)
    return given[1] if given is not None and given[0].count(lane) == len(handles) else None


def _read(handles: Sequence[str], key: ReceiptKey) -> tuple[tuple[Any, ...], list[Receipt]] | None:
    """Their lanes, and what they say. None: at least one of them is no handle that was made with this key."""
    count, text = len(handles), "".join(handles)
    if any(len(handle) != HANDLE_CHARS for handle in handles) or "+" in text or "/" in text:
        return None
    try:  # a character that JSON would escape makes the text shorter, or no string
        data = _from_base64('"' + text.replace("-", "+").replace("_", "/") + '"')
    except ValueError:
        return None
    if len(data) != count * _HANDLE_BYTES:
        return None
    layout = _layout(count)
    parts: tuple[Any, ...] = layout.handles(data)
    ones, twos = b"".join(parts[1::4]), b"".join(parts[2::4])
    made = b"".join(layout.macs(key.macs(ones, twos)))
    if not compare_digest(made, b"".join(parts[3::4])) or parts[0::4].count(_VERSION) != count:
        return None
    lanes_and_seqs: tuple[Any, ...] = layout.read_firsts(ones)
    others: tuple[Any, ...] = layout.read_seconds(twos)
    lanes = lanes_and_seqs[0::2]
    return lanes, list(map(Receipt, lanes, lanes_and_seqs[1::2], others[0::3], others[1::3], others[2::3], handles))


def message_id(shard: ShardId, epoch: Epoch, lsn: Lsn) -> str:
    return _id_start(shard, epoch, lsn >> _LOW_BITS) + (lsn & _LOW_MASK).to_bytes(6).hex()


def message_ids(shard: ShardId, accepted: AcceptedAll) -> list[str]:
    """As `message_id` of each."""
    count, low = accepted.count, accepted.lsn & _LOW_MASK
    if low + count > _LOW_MASK:
        return [message_id(shard, accepted.epoch, Lsn(accepted.lsn + at)) for at in range(count)]
    start = _id_start(shard, accepted.epoch, accepted.lsn >> _LOW_BITS)
    digits = _layout(count).big(*range(low, low + count)).hex()
    return [start + digits[at : at + 12] for at in range(4, len(digits), 16)]


@lru_cache(256)
def _id_start(shard: ShardId, epoch: Epoch, high: int) -> str:
    """What all messages of an epoch have in common. `high`: the bits of the lsn that hardly ever change."""
    return f"{epoch:08x}-{high >> 12:04x}-{0x8000 | high & 0xFFF:04x}-{0x8000 | shard:04x}-"


def message_id_bytes(shard: ShardId, epoch: Epoch, lsn: Lsn) -> bytes:
    return bytes.fromhex(message_id(shard, epoch, lsn).replace("-", ""))


def message_id_text(data: bytes) -> str:
    digits = data.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
