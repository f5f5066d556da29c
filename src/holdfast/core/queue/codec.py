"""The bytes of records.

On disk a record is

    u32 length of what follows | u8 type | [request 16] | clear part | sealed part

Only Sent, Arrived and Moved have a sealed part: the message's content, encrypted alone with nonce
epoch(32) ‖ lsn(64) and type + clear part as associated data, so that one message can be read and
verified without its neighbours. All other records hold numbers only; the frame's checksum covers them.
A request id is there if the highest bit of the type is set: only in Sent, Received, Changed and Purged.
Most messages have neither a group nor a delay nor an id of any kind: these are written as PLAIN, in half the bytes.
Laws: decode(encode(r)) == r; unknown types and wrong lengths are refused with ValueError.
"""

import struct
from collections.abc import Callable
from typing import Any, Final

import msgspec

from holdfast.core.queue.cipher import Cipher, Places
from holdfast.core.queue.dedup import BEQUEATHED_BYTES, NO_GROUP
from holdfast.core.queue.headers import HEADER, HEADER_BYTES, pack_header, pack_headers, unpack_header
from holdfast.core.queue.record import (
    NO_DIGEST,
    Arrived,
    Changed,
    Configured,
    Deleted,
    Departed,
    Draining,
    Dropped,
    Expired,
    Founded,
    Inherited,
    Message,
    Moved,
    Opened,
    Purged,
    Received,
    Record,
    Refused,
    Returned,
    Sealed,
    Sent,
    Settled,
    TaskEnded,
    TaskStarted,
    Trimmed,
)
from holdfast.core.types import Cause, Epoch, Header, LaneConfig, LaneId, Lsn, Seq, WallMs, pack_address, unpack_address

_LENGTH: Final = struct.Struct("<I")
_SENT: Final = struct.Struct("<BQQQIIIQ16s?")
_PLAIN: Final = struct.Struct("<BQQIQ")  # a Sent whose other fields are empty
_SENT_BYTES: Final = _SENT.size
_PLAIN_BYTES: Final = _PLAIN.size
_wall: Final = struct.Struct("<Q").unpack_from
_SENT_WALL_AT: Final = 37  # where it stands in each of them
_PLAIN_WALL_AT: Final = 21
_ARRIVED: Final = struct.Struct("<BQQQIqqIQBIQQ16s")
_MOVED: Final = struct.Struct("<BQBQ16s")
_RECEIVED: Final = struct.Struct("<BQqQ16sBHHI")
_CHANGED: Final = struct.Struct("<BQQq")
_EXPIRED: Final = struct.Struct("<BQB")
_TRIMMED: Final = struct.Struct("<BQQQIQ")
_PAIR: Final = struct.Struct("<BQQ")
_LANE: Final = struct.Struct("<BQ")
_COUNTED: Final = struct.Struct("<BQH")
_INHERITED: Final = struct.Struct("<BQQQ16s?I")
_DEPARTED: Final = struct.Struct("<BQBIQQB")
_REPEAT, _FINAL = 1, 2
_REQUESTED, _REQUEST_BYTES = 0x80, 16

SENT, ARRIVED, MOVED = 1, 2, 3
RECEIVED, DELETED, CHANGED, EXPIRED, TRIMMED, PURGED, CONFIGURED, DROPPED = 4, 5, 6, 7, 8, 9, 10, 11
DEPARTED, SETTLED, RETURNED, REFUSED, TASK_STARTED, TASK_ENDED = 12, 13, 14, 15, 16, 17
FOUNDED, DRAINING, INHERITED, SEALED, OPENED = 18, 19, 20, 21, 22
DELETED_SEVERAL: Final = 23
PLAIN: Final = 24

_fields: Final = msgspec.structs.astuple
_pack_document: Final = msgspec.msgpack.Encoder().encode
_config: Final = msgspec.msgpack.Decoder(LaneConfig).decode
_started: Final = msgspec.msgpack.Decoder(tuple[str, int, int, int, int, int]).decode
_ended: Final = msgspec.msgpack.Decoder(tuple[str, str]).decode


def encode(record: Record, epoch: Epoch, lsn: Lsn, *, cipher: Cipher) -> bytes:
    """The record's bytes, length first. O(size of the content)."""
    if type(record) is Sent and _is_plain(record):
        clear = _PLAIN.pack(PLAIN, record.lane, record.seq, record.size, record.wall)
    else:
        clear = _ENCODERS[type(record)](record)
    if type(record) is Deleted:
        pass  # nothing follows, as with most others; but these are many
    elif type(record) is Received or type(record) is Changed or type(record) is Purged:
        clear = _with_request(clear, record.request) if record.request else clear
    elif type(record) is Sent or type(record) is Arrived or type(record) is Moved:
        return cipher.seal_all(epoch, lsn, [record.content], clear)
    return _LENGTH.pack(len(clear)) + clear


def _is_plain(record: Sent) -> bool:
    has_more = record.group or record.delay_s or record.time_to_live_s or record.is_aside or record.request
    return not has_more and record.digest == NO_DIGEST


def _encode_sent(record: Sent) -> bytes:
    clear = _SENT.pack(SENT, *_fields(record)[:9])
    return _with_request(clear, record.request) if record.request else clear


def _decode_plain(data: bytes | memoryview, content: bytes = b"") -> Sent:
    _, lane, seq, size, wall = _PLAIN.unpack_from(data)
    return Sent(lane, seq, NO_GROUP, size, 0, 0, wall, NO_DIGEST, False, content)


def decode(data: bytes | memoryview) -> Record:
    """The record without its content: recovery needs none. `data` begins at the type."""
    tag = data[0] if len(data) else 0
    try:
        if tag == PLAIN:
            return _decode_plain(data)
        if tag == SENT:
            return Sent(*(*_SENT.unpack_from(data)[1:], b""))
        if tag & _REQUESTED:
            return _decode_requested(data)
        decoder = _DECODERS.get(tag)
        if decoder is not None:
            return decoder(data)
    except (struct.error, msgspec.DecodeError) as problem:
        raise ValueError(f"record of type {tag} cannot be read: {problem}") from problem
    raise ValueError(f"unknown record type {tag}")


def decode_message(data: bytes, epoch: Epoch, lsn: Lsn, *, cipher: Cipher) -> Message:
    """A message with its content, verified by its own seal. `data` begins at the type."""
    if len(data) > _PLAIN_BYTES and data[0] == PLAIN:  # by far the most
        return _decode_plain(data, cipher.open(epoch, lsn, data[_PLAIN_BYTES:], data[:_PLAIN_BYTES]))
    message = decode(data)
    if not isinstance(message, Sent | Arrived | Moved):
        raise ValueError(f"record {lsn} is no message")
    split = clear_bytes(data[0])
    content = cipher.open(epoch, lsn, bytes(data[split:]), bytes(data[:split]))
    return msgspec.structs.replace(message, content=content)


def open_sent(
    data: bytes, base: int, places: Places, epoch: Epoch, *, cipher: Cipher
) -> tuple[list[bytes], list[WallMs]]:
    """Contents and wall-clock times of messages that were sent here, which nearly all were, verified as by
    `decode_message`. `data`: bytes of their file from `base` on. Ends before the first that is another record, or
    damaged."""
    lsns, offsets, lengths = places
    contents: list[bytes] = []
    walls: list[WallMs] = []
    while (done := len(contents)) < len(lsns):
        start = offsets[done] - base
        tag = data[start] if start < len(data) else 0
        if tag == PLAIN:
            width, wall_at = _PLAIN_BYTES, _PLAIN_WALL_AT
        elif tag == SENT:
            width, wall_at = _SENT_BYTES, _SENT_WALL_AT
        else:
            break
        opened = cipher.open_all(epoch, (lsns[done:], offsets[done:], lengths[done:]), data, base, width)
        if not opened:
            break
        contents += opened
        walls += [_wall(data, offset - base + wall_at)[0] for offset in offsets[done : len(contents)]]
    return contents, walls


def clear_bytes(tag: int) -> int:
    """Length of a message's clear part."""
    if tag == SENT | _REQUESTED:
        return _REQUEST_BYTES + _SENT.size
    return {PLAIN: _PLAIN_BYTES, SENT: _SENT.size, ARRIVED: _ARRIVED.size, MOVED: _MOVED.size + HEADER_BYTES}[tag]


def _with_request(clear: bytes, request: bytes) -> bytes:
    assert len(request) == _REQUEST_BYTES, "a request id has 16 bytes"
    return bytes((clear[0] | _REQUESTED,)) + request + clear[1:]


def _decode_requested(data: bytes | memoryview) -> Record:
    """Decoders do not look at the type: the byte before the rest takes its place."""
    tag, request = data[0] & ~_REQUESTED, bytes(data[1 : 1 + _REQUEST_BYTES])
    if tag == SENT:
        return Sent(*(*_SENT.unpack_from(data, _REQUEST_BYTES)[1:], b"", request))
    if tag not in (RECEIVED, CHANGED, PURGED) or len(request) < _REQUEST_BYTES:
        raise ValueError(f"unknown record type {data[0]}")
    return msgspec.structs.replace(_DECODERS[tag](data[_REQUEST_BYTES:]), request=request)


def _encode_arrived(record: Arrived) -> bytes:
    return _ARRIVED.pack(ARRIVED, *msgspec.structs.astuple(record)[:-1])


def _decode_arrived(data: bytes | memoryview) -> Arrived:
    _, *fields = _ARRIVED.unpack_from(data)
    fields[8] = Cause(fields[8])
    return Arrived(*(*fields, b""))


def _encode_moved(record: Moved) -> bytes:
    clear = _MOVED.pack(MOVED, record.lane, record.cause, record.wall, record.message_id)
    return clear + pack_header(record.header)


def _decode_moved(data: bytes | memoryview) -> Moved:
    _, lane, cause, wall, message_id = _MOVED.unpack_from(data)
    return Moved(lane, unpack_header(data, _MOVED.size), Cause(cause), wall, message_id, b"")


def _encode_received(record: Received) -> bytes:
    flags = _REPEAT * record.is_repeat | _FINAL * record.is_final
    clear = _RECEIVED.pack(
        RECEIVED,
        record.lane,
        record.until,
        record.wall,
        record.attempt,
        flags,
        len(record.fresh),
        len(record.again),
        len(record.parked),
    )
    if record.fresh:
        clear += pack_headers(record.fresh)
    if record.again or record.parked:
        seqs = record.again + record.parked
        clear += struct.pack(f"<{len(seqs)}Q", *seqs)
    return clear


def _decode_received(data: bytes | memoryview) -> Received:
    _, lane, until, wall, attempt, flags, fresh_count, again_count, parked_count = _RECEIVED.unpack_from(data)
    start = _RECEIVED.size
    seqs_at = start + fresh_count * HEADER_BYTES
    if len(data) != seqs_at + 8 * (again_count + parked_count):
        raise ValueError(f"a Received record of {len(data)} bytes")
    fresh = tuple(unpack_header(data, at) for at in range(start, seqs_at, HEADER_BYTES))
    seqs = struct.unpack_from(f"<{again_count + parked_count}Q", data, seqs_at)
    again, parked = seqs[:again_count], seqs[again_count:]
    is_repeat, is_final = bool(flags & _REPEAT), bool(flags & _FINAL)
    return Received(lane, until, wall, fresh, again, parked, attempt, is_repeat, is_final)


def _encode_deleted(record: Deleted) -> bytes:
    seqs = record.seqs
    if len(seqs) == 1:
        return _PAIR.pack(DELETED, record.lane, seqs[0])
    return struct.pack(f"<BQH{len(seqs)}Q", DELETED_SEVERAL, record.lane, len(seqs), *seqs)


def _decode_deleted_several(data: bytes | memoryview) -> Deleted:
    _, lane, count = _COUNTED.unpack_from(data)
    return Deleted(lane, struct.unpack(f"<{count}Q", data[_COUNTED.size :]))


def _encode_expired(record: Expired) -> bytes:
    return _EXPIRED.pack(EXPIRED, record.lane, record.is_fresh) + pack_header(record.header)


def _decode_expired(data: bytes | memoryview) -> Expired:
    _, lane, is_fresh = _EXPIRED.unpack_from(data)
    return Expired(lane, _last_header(data, _EXPIRED.size), bool(is_fresh))


def _encode_departed(record: Departed) -> bytes:
    target = pack_address(record.target)
    clear = _DEPARTED.pack(DEPARTED, record.lane, record.is_fresh, record.count, target, record.number, record.cause)
    return clear + pack_header(record.header)


def _decode_departed(data: bytes | memoryview) -> Departed:
    _, lane, is_fresh, count, target, number, cause = _DEPARTED.unpack_from(data)
    header = _last_header(data, _DEPARTED.size)
    return Departed(lane, header, bool(is_fresh), count, unpack_address(target), number, Cause(cause))


def _encode_started(record: TaskStarted) -> bytes:
    target = pack_address(record.target) if record.target else 0
    fields = (record.task, target, record.rate, record.last, record.to_move, record.wall)
    return _LANE.pack(TASK_STARTED, record.lane) + _pack_document(fields)


def _decode_started(data: bytes | memoryview) -> TaskStarted:
    task, target, rate, last, to_move, wall = _started(data[_LANE.size :])
    where = unpack_address(target) if target else None
    return TaskStarted(_lane(data), task, where, rate, Seq(last), to_move, WallMs(wall))


def _encode_founded(record: Founded) -> bytes:
    parents = list(map(pack_address, record.parents))
    return _COUNTED.pack(FOUNDED, record.lane, len(parents)) + struct.pack(f"<{len(parents)}Q", *parents)


def _decode_founded(data: bytes | memoryview) -> Founded:
    _, lane, count = _COUNTED.unpack_from(data)
    parents = struct.unpack(f"<{count}Q", data[_COUNTED.size :])
    return Founded(lane, tuple(map(unpack_address, parents)))


def _encode_inherited(record: Inherited) -> bytes:
    parent, following = pack_address(record.parent), record.following
    count = len(record.rows) // BEQUEATHED_BYTES
    clear = _INHERITED.pack(INHERITED, record.lane, parent, record.last, following, bool(following), count)
    return clear + record.rows


def _decode_inherited(data: bytes | memoryview) -> Inherited:
    _, lane, parent, last, following, has_more, count = _INHERITED.unpack_from(data)
    rows = bytes(data[_INHERITED.size :])
    if len(rows) != count * BEQUEATHED_BYTES:
        raise ValueError(f"an Inherited record of {len(data)} bytes")
    return Inherited(lane, unpack_address(parent), last, following if has_more else b"", rows)


def _decode_opened(data: bytes | memoryview) -> Opened:
    lane, parent = _pair(data)
    return Opened(lane, unpack_address(parent))


def _last_header(data: bytes | memoryview, offset: int) -> Header:
    """A header that the record ends with."""
    return Header(*HEADER.unpack(data[offset:]))


def _lane(data: bytes | memoryview) -> LaneId:
    return LaneId(_LANE.unpack_from(data)[1])


def _pair(data: bytes | memoryview) -> Any:
    return _PAIR.unpack(data)[1:]


_ENCODERS: Final[dict[type, Callable[[Any], bytes]]] = {
    Sent: _encode_sent,
    Arrived: _encode_arrived,
    Moved: _encode_moved,
    Received: _encode_received,
    Deleted: _encode_deleted,
    Changed: lambda r: _CHANGED.pack(CHANGED, r.lane, r.seq, r.until),
    Expired: _encode_expired,
    Trimmed: lambda r: _TRIMMED.pack(TRIMMED, r.lane, r.last, r.stretch, r.count, r.size),
    Purged: lambda r: _LANE.pack(PURGED, r.lane),
    Configured: lambda r: _LANE.pack(CONFIGURED, r.lane) + _pack_document(r.config),
    Dropped: lambda r: _LANE.pack(DROPPED, r.lane),
    Departed: _encode_departed,
    Settled: lambda r: _PAIR.pack(SETTLED, r.target, r.number),
    Returned: lambda r: _PAIR.pack(RETURNED, r.target, r.number),
    Refused: lambda r: _PAIR.pack(REFUSED, r.source, r.number),
    TaskStarted: _encode_started,
    TaskEnded: lambda r: _LANE.pack(TASK_ENDED, r.lane) + _pack_document((r.state, r.failure)),
    Founded: _encode_founded,
    Draining: lambda r: _LANE.pack(DRAINING, r.lane),
    Inherited: _encode_inherited,
    Sealed: lambda r: _LANE.pack(SEALED, r.lane),
    Opened: lambda r: _PAIR.pack(OPENED, r.lane, pack_address(r.parent)),
}

_DECODERS: Final[dict[int, Callable[[bytes | memoryview], Record]]] = {
    ARRIVED: _decode_arrived,
    MOVED: _decode_moved,
    RECEIVED: _decode_received,
    DELETED: lambda d: Deleted(_pair(d)[0], _pair(d)[1:]),
    DELETED_SEVERAL: _decode_deleted_several,
    CHANGED: lambda d: Changed(*_CHANGED.unpack(d)[1:]),
    EXPIRED: _decode_expired,
    TRIMMED: lambda d: Trimmed(*_TRIMMED.unpack(d)[1:]),
    PURGED: lambda d: Purged(_LANE.unpack(d)[1]),
    CONFIGURED: lambda d: Configured(_lane(d), _config(d[_LANE.size :])),
    DROPPED: lambda d: Dropped(_LANE.unpack(d)[1]),
    DEPARTED: _decode_departed,
    SETTLED: lambda d: Settled(*_pair(d)),
    RETURNED: lambda d: Returned(*_pair(d)),
    REFUSED: lambda d: Refused(*_pair(d)),
    TASK_STARTED: _decode_started,
    TASK_ENDED: lambda d: TaskEnded(_lane(d), *_ended(d[_LANE.size :])),
    FOUNDED: _decode_founded,
    DRAINING: lambda d: Draining(_LANE.unpack(d)[1]),
    INHERITED: _decode_inherited,
    SEALED: lambda d: Sealed(_LANE.unpack(d)[1]),
    OPENED: _decode_opened,
}
