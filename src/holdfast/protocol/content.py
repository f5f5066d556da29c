"""The stored content of a message: what ReceiveMessage needs, ready-made.

    u8 version | u8 length of sender | u32 length of body | 32 MD5 of the body, hex | sender | body | extras

The body is stored as the inside of a JSON string, escaped, so that a receive in the JSON dialect copies it. `extras`
is absent, or a msgpack array: message group id, deduplication id, trace header, MD5 of the message attributes, the
attributes as one JSON object, a consumer's reason, that consumer; those at the end may be missing. Law: unpack(pack(…))
gives the same fields; another version is refused with ValueError.
"""

import struct
from typing import Final

import msgspec

from holdfast.core.values import Value
from holdfast.protocol.extras import NO_EXTRAS, Extras

VERSION: Final = 1
_HEAD: Final = struct.Struct("<BBI32s")
_MD5_AT: Final = 6
_HEAD_BYTES: Final = 38


class Content(Value, frozen=True):
    sender: bytes
    body_md5: bytes
    body: bytes  # escaped
    extras: Extras


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Extras).decode


def pack(body: bytes, body_md5: str, *, sender: bytes, extras: Extras = NO_EXTRAS) -> bytes:
    """`body` is already escaped."""
    head = _HEAD.pack(VERSION, len(sender), len(body), body_md5.encode()) + sender
    return head + body if extras is NO_EXTRAS else b"".join((head, body, _encode(extras)))


def with_reason(stored: bytes, reason: str, consumer: str = "") -> bytes:
    """The same content, with what a consumer said of it."""
    held = unpack(stored)
    extras = msgspec.structs.replace(held.extras, reason=reason, consumer=consumer)
    return pack(held.body, held.body_md5.decode(), sender=held.sender, extras=extras)


def text(content: Content) -> bytes:
    """The body as it was sent."""
    return content.body if b"\\" not in content.body else msgspec.json.decode(b'"%b"' % content.body, type=str).encode()


def body_of(content: bytes) -> tuple[bytes, bytes]:
    """The body's MD5 and the body, escaped: all that a plain receive shows."""
    if content[0] != VERSION:
        raise _unreadable(content[0])
    body_at = _HEAD_BYTES + content[1]
    body_bytes = content[2] | content[3] << 8 | content[4] << 16 | content[5] << 24  # compiled, quicker than a struct
    return content[_MD5_AT:_HEAD_BYTES], content[body_at : body_at + body_bytes]


def unpack(content: bytes) -> Content:
    version, sender_bytes, body_bytes, body_md5 = _HEAD.unpack_from(content)
    if version != VERSION:
        raise _unreadable(version)
    body_at = _HEAD.size + sender_bytes
    extras_at = body_at + body_bytes
    extras = _decode(content[extras_at:]) if len(content) > extras_at else NO_EXTRAS
    return Content(content[_HEAD.size : body_at], body_md5, content[body_at:extras_at], extras)


def _unreadable(version: int) -> ValueError:
    return ValueError(f"content of version {version}; this Holdfast reads version {VERSION}")
