"""Receipt handles and message ids: the names that the core gives to the outside.

A handle is base64url( version u8 | lane u64 | seq u64 | epoch u32 | lsn u64 | number u32 | mac 12 ), 45 bytes in 60
characters. Nobody can make a handle for a message that was not handed to them: the MAC covers the two blocks
(lane, seq) and (epoch, lsn, number), 16 bytes each, and needs a key.

45 bytes are a whole number of base64's groups, so the handles of a batch can be turned into text, and back, as one. So
are the first 9, which all handles of a lane have in common. What was read is authentic if it is what would be made of
its own blocks.

A MessageId is a version-8 UUID made of (epoch, lsn, shard) of the record that brought the message in:

    eeeeeeee-llll-8lll-Ssss-000lllllllll      e epoch, l lsn, s shard, S the variant bits
"""

import struct
from binascii import hexlify
from collections.abc import Callable, Sequence
from functools import lru_cache
from hmac import compare_digest
from typing import Any, Final, Protocol

from librt.base64 import urlsafe_b64decode, urlsafe_b64encode
from librt.strings import BytesWriter, write_i16_be, write_i32_be, write_i32_le, write_i64_be, write_i64_le

from holdfast.core.errors import ReceiptHandleIsInvalid
from holdfast.core.queue.columns import AcceptedAll
from holdfast.core.types import Epoch, LaneId, Lsn, Receipt, Receipts, ShardId
from holdfast.core.values import Value

_VERSION: Final = 2
_VERSION_BYTE: Final = bytes([_VERSION])
_HANDLE_BYTES: Final = 45
HANDLE_CHARS: Final = 60
_BLOCKS_AT: Final = 1  # in a handle's bytes: what its MAC covers
_BLOCKS_BYTES: Final = 32
_OWN_AT: Final = 8  # in the blocks: what handles of one lane do not have in common
_FIELDS: Final = "xQQIQI12x"  # lane, seq, epoch, lsn, number
_FIELD_COUNT: Final = 5
_U32: Final = 0xFFFFFFFF  # receives are counted modulo its successor
_SIGN: Final = 0x80000000
_LOW_BITS: Final = 36  # of an lsn, at the end of a MessageId
_LOW_MASK: Final = (1 << _LOW_BITS) - 1
_pack: Final = struct.pack


class ReceiptKey(Protocol):
    def with_macs(self, rows: bytes, width: int, at: int, start: int) -> bytes:
        """Each row of so many bytes from `start` to the end of the two blocks in it that begin at `at`, and then 12
        bytes: the MAC of these blocks."""
        ...


class Names(Value, frozen=True):
    """MessageIds and handles: each is its start and one of its ends, which have one length and stand in order, nothing
    between them."""

    id_start: bytes
    id_ends: bytes
    handle_start: bytes
    handle_ends: bytes


def encode(receipt: Receipt, key: ReceiptKey) -> str:
    blocks = BytesWriter()
    _write_blocks(blocks, receipt.lane, receipt, receipt.number)
    return (_handle_start(receipt.lane) + _handle_ends(blocks.getvalue(), key)).decode()


def names(shard: ShardId, lane: LaneId, delivered: Sequence[Any], key: ReceiptKey) -> Names:
    """Of the messages of one receive, `Delivered`."""
    blocks, lows = BytesWriter(), BytesWriter()
    epoch, high, are_alike = 0, -1, True
    for each in delivered:
        header = each.header
        _write_blocks(blocks, lane, header, each.number)
        lsn: int = header.lsn
        if high < 0:
            epoch, high = header.epoch, lsn >> _LOW_BITS
        are_alike = are_alike and lsn >> _LOW_BITS == high and header.epoch == epoch
        low = lsn & _LOW_MASK
        write_i16_be(lows, low >> 32)
        write_i32_be(lows, ((low & _U32) ^ _SIGN) - _SIGN)
    if are_alike:
        id_start, ids = _id_start(shard, Epoch(epoch), high).encode(), hexlify(lows.getvalue())
    else:
        id_start = b""
        ids = "".join([message_id(shard, each.header.epoch, each.header.lsn) for each in delivered]).encode()
    return Names(id_start, ids, _handle_start(lane), _handle_ends(blocks.getvalue(), key))


def _write_blocks(blocks: BytesWriter, lane: LaneId, message: Any, number: int) -> None:
    """`message`: a Header, or a Receipt. Numbers of 32 bits are written as if they had a sign."""
    write_i64_le(blocks, lane)
    write_i64_le(blocks, message.seq)
    write_i32_le(blocks, (message.epoch ^ _SIGN) - _SIGN)
    write_i64_le(blocks, message.lsn)
    write_i32_le(blocks, ((number & _U32) ^ _SIGN) - _SIGN)


def _handle_ends(blocks: bytes, key: ReceiptKey) -> bytes:
    """What follows version and lane, of all of them."""
    return urlsafe_b64encode(key.with_macs(blocks, _BLOCKS_BYTES, 0, _OWN_AT))


@lru_cache(256)
def _handle_start(lane: LaneId) -> bytes:
    return urlsafe_b64encode(_pack("<BQ", _VERSION, lane))


def decode(handle: str, key: ReceiptKey, *, lane: LaneId) -> Receipt:
    """The receipt of this lane, or ReceiptHandleIsInvalid: forged, garbled, or of another queue."""
    fields = _read([handle], key)
    if fields is None:
        raise ReceiptHandleIsInvalid(f'The input receipt handle "{handle}" is not a valid receipt handle.')
    given, seq, epoch, lsn, number = fields
    if given != lane:
        raise ReceiptHandleIsInvalid(f'The receipt handle "{handle}" is not valid for this queue.')
    return Receipt(lane, seq, epoch, lsn, number, handle)


def decode_all(handles: Sequence[str], key: ReceiptKey, *, lane: LaneId) -> Receipts | None:
    """As `decode` of each. None: it refuses at least one of them."""
    fields = _read(handles, key)
    if fields is None or fields[0::_FIELD_COUNT].count(lane) != len(handles):
        return None
    seqs, epochs = fields[1::_FIELD_COUNT], fields[2::_FIELD_COUNT]
    return Receipts(lane, seqs, epochs, fields[3::_FIELD_COUNT], fields[4::_FIELD_COUNT], tuple(handles))


def _read(handles: Sequence[str], key: ReceiptKey) -> tuple[Any, ...] | None:
    """What they say: the fields of each, one handle after the other. None: at least one of them is no handle that was
    made with this key."""
    count, text = len(handles), "".join(handles)
    if any(len(handle) != HANDLE_CHARS for handle in handles) or "+" in text or "/" in text:
        return None
    try:
        data = urlsafe_b64decode(text)
    except ValueError:
        return None
    if len(data) != count * _HANDLE_BYTES or data[::_HANDLE_BYTES] != _VERSION_BYTE * count:
        return None  # of another version; or other characters were passed over
    if not compare_digest(key.with_macs(data, _HANDLE_BYTES, _BLOCKS_AT, 0), data):
        return None
    return _reader(count)(data)


@lru_cache(16)
def _reader(count: int) -> Callable[[bytes], tuple[Any, ...]]:
    return struct.Struct("<" + _FIELDS * count).unpack


def message_id(shard: ShardId, epoch: Epoch, lsn: Lsn) -> str:
    return _id_start(shard, epoch, lsn >> _LOW_BITS) + (lsn & _LOW_MASK).to_bytes(6).hex()


def message_ids(shard: ShardId, accepted: AcceptedAll) -> list[str]:
    """As `message_id` of each."""
    count, low = accepted.count, accepted.lsn & _LOW_MASK
    if low + count > _LOW_MASK:
        return [message_id(shard, accepted.epoch, Lsn(accepted.lsn + at)) for at in range(count)]
    start, lows = _id_start(shard, accepted.epoch, accepted.lsn >> _LOW_BITS), BytesWriter()
    for at in range(low, low + count):
        write_i64_be(lows, at)
    digits = lows.getvalue().hex()
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
