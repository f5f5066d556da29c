"""From the record of a message to what the core keeps of it, and back to a second copy; and its bytes, in records and
indexes.
"""

import struct
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from holdfast.core.limits import RECEIVE_COUNT_MAX
from holdfast.core.queue.dedup import NO_GROUP
from holdfast.core.queue.record import NO_DIGEST, Arrived, Message, Moved, Sent
from holdfast.core.types import Cause, Epoch, Header, Instant, Lsn, Seq

_NO_DEADLINE: Final = Instant(0)
_FORMAT: Final = "QQIQQIqqqIQ?"
HEADER: Final = struct.Struct("<" + _FORMAT)
HEADER_BYTES: Final = HEADER.size
_pack: Final = HEADER.pack
_PACK_SEVERAL: Final = [struct.Struct("<" + _FORMAT * count).pack for count in range(RECEIVE_COUNT_MAX + 1)]
_fields: Final = msgspec.structs.astuple


def pack_header(header: Header) -> bytes:
    return _pack(*_fields(header))  # in the order of the struct


def pack_headers(headers: Sequence[Header]) -> bytes:
    """As `pack_header` of each, joined."""
    if len(headers) > RECEIVE_COUNT_MAX:
        return b"".join([pack_header(header) for header in headers])
    fields: list[Any] = []
    for header in headers:
        fields += _fields(header)
    return _PACK_SEVERAL[len(headers)](*fields)


def unpack_header(data: bytes | bytearray | memoryview, offset: int) -> Header:
    return Header(*HEADER.unpack_from(data, offset))


def copy_of(header: Header, message: Message) -> Moved:
    """A second copy of a message, which takes the place of the first."""
    cause, message_id = Cause.NONE, NO_DIGEST
    if not isinstance(message, Sent):
        cause, message_id = message.cause, message.message_id
    return Moved(message.lane, header, cause, message.wall, message_id, message.content)


def header_of(message: Message, epoch: Epoch, lsn: Lsn, now: Instant) -> Header:
    """What the core keeps of a message record that stands at (epoch, lsn) in a frame stamped `now`."""
    if type(message) is Sent:
        visible_at = Instant(now + message.delay_s * 1_000_000) if message.delay_s else now
        deadline = Instant(now + message.time_to_live_s * 1_000_000) if message.time_to_live_s else _NO_DEADLINE
        return Header(
            message.seq,
            lsn,
            epoch,
            lsn,
            message.group,
            message.size,
            now,
            visible_at,
            deadline,
            0,
            0,
            message.is_aside,
        )
    if type(message) is Arrived:
        deadline = Instant(now + message.time_left if message.time_left else 0)
        time = Instant(now - message.age)
        return Header(
            message.seq,
            lsn,
            epoch,
            lsn,
            message.group,
            message.size,
            time,
            now,
            deadline,
            message.count,
            message.origin,
            False,
        )
    assert type(message) is Moved
    return msgspec.structs.replace(message.header, at=lsn)


def plain_header(seq: Seq, lsn: Lsn, epoch: Epoch, size: int, now: Instant) -> Header:
    """As `header_of` a Sent with nothing but a body."""
    return Header(seq, lsn, epoch, lsn, NO_GROUP, size, now, now, _NO_DEADLINE, 0, 0, False)
