"""PeekMessages, an extension: messages and what they wait for, shown without being received."""

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.core import limits
from holdfast.core.errors import InvalidParameterValue
from holdfast.core.queue import receipt
from holdfast.core.queue.command import Delivered, Peek, Peeked
from holdfast.core.types import LaneId, Seq, WallMs
from holdfast.protocol import content, receives
from holdfast.protocol.actions import PeekMessages
from holdfast.protocol.receives import Handed, Origin

SHOWN_DEFAULT = 10

_decode = msgspec.json.decode


class Seen(msgspec.Struct, frozen=True, gc=False):
    """A message that is looked at."""

    peeked: Peeked
    handed: Handed


def command(request: PeekMessages, lane: LaneId) -> Peek:
    count = request.max_number_of_messages
    if count is not None and not 1 <= count <= limits.PEEK_MAX:
        raise InvalidParameterValue(
            f"Value {count} for parameter MaxNumberOfMessages is invalid. "
            f"Reason: Must be between 1 and {limits.PEEK_MAX}, if provided."
        )
    return Peek(lane, _after(request.after), SHOWN_DEFAULT if count is None else count)


def _after(text: str | None) -> Seq:
    if not text:
        return Seq(0)
    if not (text.isascii() and text.isdigit() and len(text) <= 20):
        raise InvalidParameterValue(
            f"Value {text} for parameter After is invalid. "
            "Reason: Must be a sequence number that PeekMessages returned."
        )
    return Seq(max(0, int(text) - limits.SEQUENCE_BASE))


def seen(peeked: Peeked, *, stored: bytes, wall: WallMs, message_id: bytes, cause: int) -> Seen:
    """`cause`: what the message's own record says; a message that could not leave its queue has one here."""
    delivered = Delivered(peeked.header, 0, peeked.count, WallMs(0))
    return Seen(peeked, Handed(delivered, stored, wall, message_id, peeked.cause or cause))


def reply(messages: Sequence[Seen], origin: Origin, *, last: Seq) -> dict[str, Any]:
    """O(bytes of the messages)."""
    return {"Messages": [_show(each, origin) for each in messages], "LastSequenceNumber": _sequence_number(last)}


def _show(message: Seen, origin: Origin) -> dict[str, Any]:
    header, handed = message.peeked.header, message.handed
    stored = content.unpack(handed.content)
    shown: dict[str, Any] = {
        "MessageId": receipt.message_id_text(handed.message_id)
        if handed.message_id
        else receipt.message_id(origin.shard, header.epoch, header.lsn),
        "SequenceNumber": _sequence_number(header.seq),
        "State": message.peeked.state,
        "ReceiveCount": message.peeked.count,
        "Body": _decode(b'"' + stored.body + b'"'),
        "MD5OfBody": stored.body_md5.decode(),
        "Attributes": receives.system(handed, stored, origin),
    }
    del shown["Attributes"]["ApproximateFirstReceiveTimestamp"]  # not known without a receive
    if cause := receives.cause_text(handed.cause):
        shown["Cause"] = cause
    if stored.extras.reason:
        shown["FailureReason"] = stored.extras.reason
    if stored.extras.attributes:
        shown["MessageAttributes"] = _decode(stored.extras.attributes)
    return shown


def _sequence_number(seq: Seq) -> str:
    return str(limits.SEQUENCE_BASE + seq)
