"""The stored content of a message: what ReceiveMessage needs, ready-made.

    u8 version | u8 length of sender | u32 length of body | 16 MD5 of the body | sender | body | extras

The body is stored as the inside of a JSON string, escaped, so that a receive in the JSON dialect copies it. `extras`
is absent, or a msgpack array: message group id, deduplication id, trace header, MD5 of the message attributes, the
attributes as one JSON object, a consumer's reason, that consumer; those at the end may be missing. Law: unpack(pack(…))
gives the same fields. Version 1 has the MD5 in 32 hexadecimal digits; another version is refused with ValueError.
"""

from binascii import hexlify
from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.core.values import Value
from holdfast.protocol.extras import NO_EXTRAS, Extras

VERSION: Final = 2
_WITH_DIGITS: Final = 1  # the version that has them
_MD5_AT: Final = 6
_MD5_DIGITS: Final = 32
_HEAD_BYTES: Final = 22
_HEAD_BYTES_1: Final = 38


class Content(Value, frozen=True):
    sender: bytes
    body_md5: bytes  # hexadecimal digits
    body: bytes  # escaped
    extras: Extras


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Extras).decode


def pack(body: bytes, body_md5: bytes, *, sender: bytes, extras: Extras = NO_EXTRAS) -> bytes:
    """`body` is already escaped; its MD5 are 16 bytes."""
    shown = b"" if extras is NO_EXTRAS else _encode(extras)
    return b"".join((start(sender, len(body)), body_md5, sender, body, shown))


def start(sender: bytes, body_bytes: int) -> bytes:
    """What comes before the sum."""
    return (VERSION | len(sender) << 8 | body_bytes << 16).to_bytes(_MD5_AT, "little")  # quicker than a struct


def with_reason(stored: bytes, reason: str, consumer: str = "") -> bytes:
    """The same content, with what a consumer said of it."""
    held = unpack(stored)
    extras = msgspec.structs.replace(held.extras, reason=reason, consumer=consumer)
    return pack(held.body, bytes.fromhex(held.body_md5.decode()), sender=held.sender, extras=extras)


def text(content: Content) -> bytes:
    """The body as it was sent."""
    return content.body if b"\\" not in content.body else msgspec.json.decode(b'"%b"' % content.body, type=str).encode()


def body_of(content: bytes) -> tuple[bytes, bytes]:
    """The body's MD5 and the body, escaped: all that a plain receive shows."""
    body_md5, body_at = _md5_of(content)
    body_at += content[1]
    body_bytes = content[2] | content[3] << 8 | content[4] << 16 | content[5] << 24  # compiled, quicker than a struct
    return body_md5, content[body_at : body_at + body_bytes]


def bodies_of(contents: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
    """As `body_of` of each, by columns."""
    sums: list[bytes] = []
    bodies: list[bytes] = []
    for content in contents:
        if content[0] != VERSION:
            pairs = [body_of(each) for each in contents]
            return [body_md5 for body_md5, _ in pairs], [body for _, body in pairs]
        sums.append(content[_MD5_AT:_HEAD_BYTES])
        body_at = _HEAD_BYTES + content[1]
        body_bytes = content[2] | content[3] << 8 | content[4] << 16 | content[5] << 24
        bodies.append(content[body_at : body_at + body_bytes])
    digits = hexlify(b"".join(sums))
    return [digits[at : at + _MD5_DIGITS] for at in range(0, len(digits), _MD5_DIGITS)], bodies


def _md5_of(content: bytes) -> tuple[bytes, int]:
    """In digits, and where it ends."""
    if content[0] == VERSION:
        return content[_MD5_AT:_HEAD_BYTES].hex().encode(), _HEAD_BYTES
    if content[0] != _WITH_DIGITS:
        raise _unreadable(content[0])
    return content[_MD5_AT:_HEAD_BYTES_1], _HEAD_BYTES_1


def unpack(content: bytes) -> Content:
    body_md5, body = body_of(content)
    sender_at = _HEAD_BYTES if content[0] == VERSION else _HEAD_BYTES_1
    body_at = sender_at + content[1]
    extras_at = body_at + len(body)
    extras = _decode(content[extras_at:]) if len(content) > extras_at else NO_EXTRAS
    return Content(content[sender_at:body_at], body_md5, body, extras)


def _unreadable(version: int) -> ValueError:
    return ValueError(f"content of version {version}; this Holdfast reads version {VERSION}")
