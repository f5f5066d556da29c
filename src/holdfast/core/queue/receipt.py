"""Receipt handles and message ids: the names that the core gives to the outside.

A handle is base64url( version u8 | lane u64 | seq u64 | epoch u32 | lsn u64 | number u32 | mac 12 ), 45 bytes in 60
characters. Nobody can make a handle for a message that was not handed to them: the MAC covers the two blocks
(lane, seq) and (epoch, lsn, number), 16 bytes each, and needs a key.

45 bytes are a whole number of base64's groups, so the handles of a batch can be turned into text, and back, as one.

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

from holdfast.core.errors import HoldfastError, ReceiptHandleIsInvalid
from holdfast.core.queue.command import Accepted, Delivered
from holdfast.core.types import Epoch, LaneId, Lsn, Receipt, ShardId

_VERSION: Final = 2
_VERSION_BYTE: Final = b"\2"
_HANDLE_BYTES: Final = 45
_BLOCK: Final = 16
_MAC_BYTES: Final = 12
HANDLE_CHARS: Final = 60
_NUMBER_MAX: Final = 0xFFFFFFFF  # receives are counted modulo its successor
_LOW_BITS: Final = 36  # of an lsn, at the end of a MessageId
_LOW_MASK: Final = (1 << _LOW_BITS) - 1

_fields: Final = msgspec.structs.astuple
_pack: Final = struct.pack
_unpack: Final = struct.unpack
_to_base64: Final = msgspec.json.Encoder().encode  # bytes become a JSON string of base64: quicker than binascii
_from_base64: Final = msgspec.json.Decoder(bytes).decode


class ReceiptKey(Protocol):
    def macs(self, firsts: bytes, seconds: bytes) -> bytes:
        """16 bytes for each pair of blocks, the nth of either."""
        ...


def encode(receipt: Receipt, key: ReceiptKey) -> str:
    second = [receipt.epoch, receipt.lsn, receipt.number & _NUMBER_MAX]
    return _handles([receipt.lane, receipt.seq], second, key)[0].decode()


def names(
    shard: ShardId, lane: LaneId, delivered: Sequence[Delivered], key: ReceiptKey
) -> tuple[list[bytes], list[bytes]]:
    """The MessageIds and the handles of the messages of one receive."""
    firsts: list[Any] = []
    seconds: list[Any] = []
    starts: list[bytes] = []
    lows: list[int] = []
    start, start_epoch, start_high = b"", -1, -1
    own: Any = lane
    for each in delivered:
        header, given, _, _ = _fields(each)
        number: int = given
        fields = _fields(header)
        lsn: int = fields[1]
        epoch: int = fields[2]
        if epoch != start_epoch or lsn >> _LOW_BITS != start_high:
            start_epoch, start_high = epoch, lsn >> _LOW_BITS
            start = _id_start(shard, Epoch(epoch), start_high).encode()
        starts.append(start)
        lows.append(lsn & _LOW_MASK)
        firsts += (own, fields[0])
        seconds += (fields[2], fields[1], number & _NUMBER_MAX)
    digits = hexlify(_pack(f">{len(lows)}Q", *lows))
    ids = [start + digits[16 * at + 4 : 16 * at + 16] for at, start in enumerate(starts)]
    return ids, _handles(firsts, seconds, key)


def _handles(firsts: list[Any], seconds: list[Any], key: ReceiptKey) -> list[bytes]:
    """Of (lane, seq) and of (epoch, lsn, number), message after message."""
    count = len(firsts) // 2
    ones = _pack(f"<{2 * count}Q", *firsts)
    twos = _pack("<" + "IQI" * count, *seconds)
    macs = key.macs(ones, twos)
    parts: list[bytes] = []
    for at in range(0, count * _BLOCK, _BLOCK):
        end = at + _BLOCK
        parts += (_VERSION_BYTE, ones[at:end], twos[at:end], macs[at : at + _MAC_BYTES])
    text = _to_base64(b"".join(parts)).replace(b"+", b"-").replace(b"/", b"_")  # between quotation marks
    return [text[at : at + HANDLE_CHARS] for at in range(1, len(text) - 1, HANDLE_CHARS)]


def decode(handle: str, key: ReceiptKey, *, lane: LaneId) -> Receipt:
    """The receipt of this lane, or ReceiptHandleIsInvalid: forged, garbled, or of another queue."""
    given = _read([handle], key)
    if given is None:
        raise ReceiptHandleIsInvalid(f'The input receipt handle "{handle}" is not a valid receipt handle.')
    if given[0].lane != lane:
        raise ReceiptHandleIsInvalid(f'The receipt handle "{handle}" is not valid for this queue.')
    return given[0]


def decode_all(handles: Sequence[str], key: ReceiptKey, *, lane: LaneId) -> list[Receipt | HoldfastError]:
    """As `decode` of each, a refusal in the place of what it raises."""
    given = _read(handles, key)
    if given is not None and all(each.lane == lane for each in given):
        return [*given]
    return [_decode_or_refuse(handle, key, lane) for handle in handles]


def _decode_or_refuse(handle: str, key: ReceiptKey, lane: LaneId) -> Receipt | HoldfastError:
    try:
        return decode(handle, key, lane=lane)
    except ReceiptHandleIsInvalid as refusal:
        return refusal


def _read(handles: Sequence[str], key: ReceiptKey) -> list[Receipt] | None:
    """None: at least one of them is no handle that was made with this key."""
    count, text = len(handles), "".join(handles)
    if any(len(handle) != HANDLE_CHARS for handle in handles) or "+" in text or "/" in text:
        return None
    try:  # a character that JSON would escape makes the text shorter, or no string
        data = _from_base64('"' + text.replace("-", "+").replace("_", "/") + '"')
    except ValueError:
        return None
    if len(data) != count * _HANDLE_BYTES:
        return None
    parts = _unpack("<" + "B16s16s12s" * count, data)
    ones, twos = b"".join(parts[1::4]), b"".join(parts[2::4])
    macs = key.macs(ones, twos)
    made = b"".join([macs[at : at + _MAC_BYTES] for at in range(0, len(macs), _BLOCK)])
    if not compare_digest(made, b"".join(parts[3::4])) or any(version != _VERSION for version in parts[0::4]):
        return None
    lanes_and_seqs = _unpack(f"<{2 * count}Q", ones)
    others = _unpack("<" + "IQI" * count, twos)
    columns = (lanes_and_seqs[0::2], lanes_and_seqs[1::2], others[0::3], others[1::3], others[2::3], handles)
    return list(map(Receipt, *columns))


def message_id(shard: ShardId, epoch: Epoch, lsn: Lsn) -> str:
    return _id_start(shard, epoch, lsn >> _LOW_BITS) + (lsn & _LOW_MASK).to_bytes(6).hex()


def message_ids(shard: ShardId, outcomes: Sequence[object]) -> list[str] | None:
    """As `message_id` of each of a batch. None: one of them is no new message of this shard, or they have no common
    start."""
    epoch, high = -1, -1
    lows: list[Any] = []
    for outcome in outcomes:
        if type(outcome) is not Accepted or outcome.shard:
            return None
        lsn: int = outcome.lsn
        if not lows:
            epoch, high = outcome.epoch, lsn >> _LOW_BITS
        elif outcome.epoch != epoch or lsn >> _LOW_BITS != high:
            return None
        lows.append(lsn & _LOW_MASK)
    start = _id_start(shard, Epoch(epoch), high)
    digits = _pack(f">{len(lows)}Q", *lows).hex()
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
