"""The stored content of a message: what ReceiveMessage needs, ready-made.

    u8 version | u8 length of sender | u32 length of body | 32 MD5 of the body, hex | sender | body | extras

The body is stored as the inside of a JSON string, escaped, so that a receive in the JSON dialect copies it. `extras`
is absent, or a msgpack array: message group id, deduplication id, trace header, MD5 of the message attributes, the
attributes as one JSON object, a consumer's reason, that consumer; those at the end may be missing. Law: unpack(pack(…))
gives the same fields; another version is refused with ValueError.
"""

import struct

import msgspec

VERSION = 1
_HEAD = struct.Struct("<BBI32s")


class Extras(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What most messages do not have. Empty means absent."""

    group: str = ""
    deduplication_id: str = ""
    trace_header: str = ""
    attributes_md5: str = ""
    attributes: bytes = b""  # a JSON object: name -> value, as ReceiveMessage returns it
    reason: str = ""  # why the consumer that gave it back last could not use it
    consumer: str = ""  # the ARN of that consumer


class Content(msgspec.Struct, frozen=True, gc=False):
    sender: bytes
    body_md5: bytes
    body: bytes  # escaped
    extras: Extras


NO_EXTRAS = Extras()
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


def unpack(content: bytes) -> Content:
    version, sender_bytes, body_bytes, body_md5 = _HEAD.unpack_from(content)
    if version != VERSION:
        raise ValueError(f"content of version {version}; this Holdfast reads version {VERSION}")
    body_at = _HEAD.size + sender_bytes
    extras_at = body_at + body_bytes
    extras = _decode(content[extras_at:]) if len(content) > extras_at else NO_EXTRAS
    return Content(content[_HEAD.size : body_at], body_md5, content[body_at:extras_at], extras)
