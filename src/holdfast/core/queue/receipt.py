"""Receipt handles and message ids: the names that the core gives to the outside.

A handle is base64url( version u8 | lane u64 | seq u64 | epoch u32 | lsn u64 | number u32 | mac 12 ), 45 bytes in 60
characters. The MAC is keyed BLAKE2b: nobody can make a handle for a message that was not handed to them.

A MessageId is a version-8 UUID made of (epoch, lsn, shard) of the record that brought the message in:

    eeeeeeee-llll-8lll-Ssss-000lllllllll      e epoch, l lsn, s shard, S the variant bits
"""

import struct
from binascii import a2b_base64, b2a_base64
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from hmac import compare_digest
from typing import Final

from holdfast.core.errors import ReceiptHandleIsInvalid
from holdfast.core.queue.command import Delivered
from holdfast.core.types import Epoch, LaneId, Lsn, Receipt, Seq, ShardId

_VERSION: Final = 1
_FIELDS: Final = struct.Struct("<BQQIQI")
_CLEAR_BYTES: Final = 33
_MAC_BYTES: Final = 12
HANDLE_CHARS: Final = 60
_TO_URL: Final = bytes.maketrans(b"+/", b"-_")
_FROM_URL: Final = bytes.maketrans(b"-_+/", b"+/**")  # what is no base64url stays none


def encode(receipt: Receipt, key: bytes) -> str:
    clear = _FIELDS.pack(_VERSION, receipt.lane, receipt.seq, receipt.epoch, receipt.lsn, receipt.number & 0xFFFFFFFF)
    return b2a_base64(clear + _mac(clear, key), newline=False).translate(_TO_URL).decode()


def handles(lane: LaneId, delivered: Sequence[Delivered], key: bytes) -> list[bytes]:
    """Of the messages of one receive, as `encode` makes each of them."""
    keyed = _keyed(key)
    made: list[bytes] = []
    for each in delivered:
        header = each.header
        clear = _FIELDS.pack(_VERSION, lane, header.seq, header.epoch, header.lsn, each.number & 0xFFFFFFFF)
        mac = keyed.copy()
        mac.update(clear)
        made.append(b2a_base64(clear + mac.digest(), newline=False).translate(_TO_URL))
    return made


def decode(handle: str, key: bytes, *, lane: LaneId) -> Receipt:
    """The receipt of this lane, or ReceiptHandleIsInvalid: forged, garbled, or of another queue."""
    try:
        data = a2b_base64(handle.encode().translate(_FROM_URL), strict_mode=True)
    except ValueError:
        data = b""
    clear, mac = data[:_CLEAR_BYTES], data[_CLEAR_BYTES:]
    if len(data) != _CLEAR_BYTES + _MAC_BYTES or not compare_digest(_mac(clear, key), mac):
        raise ReceiptHandleIsInvalid(f'The input receipt handle "{handle}" is not a valid receipt handle.')
    _, of_lane, seq, epoch, lsn, number = _FIELDS.unpack(clear)
    if of_lane != lane:
        raise ReceiptHandleIsInvalid(f'The receipt handle "{handle}" is not valid for this queue.')
    return Receipt(LaneId(of_lane), Seq(seq), Epoch(epoch), Lsn(lsn), number, handle)


def _mac(clear: bytes, key: bytes) -> bytes:
    keyed = _keyed(key).copy()
    keyed.update(clear)
    return keyed.digest()


@lru_cache(4)
def _keyed(key: bytes) -> blake2b:
    """The key hashed beforehand: half of the work."""
    return blake2b(digest_size=_MAC_BYTES, key=key)


def message_id(shard: ShardId, epoch: Epoch, lsn: Lsn) -> str:
    return _id_start(shard, epoch, lsn >> 36) + (lsn & 0xFFFFFFFFF).to_bytes(6).hex()


@lru_cache(256)
def _id_start(shard: ShardId, epoch: Epoch, high: int) -> str:
    """What all messages of an epoch have in common. `high`: the bits of the lsn that hardly ever change."""
    return f"{epoch:08x}-{high >> 12:04x}-{0x8000 | high & 0xFFF:04x}-{0x8000 | shard:04x}-"


def message_id_bytes(shard: ShardId, epoch: Epoch, lsn: Lsn) -> bytes:
    return bytes.fromhex(message_id(shard, epoch, lsn).replace("-", ""))


def message_id_text(data: bytes) -> str:
    digits = data.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
