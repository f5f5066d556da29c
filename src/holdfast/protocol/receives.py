"""ReceiveMessage: what a client asks to see of a message, and the bytes that show it.

The body and its MD5 are copied from the stored content; nothing is hashed or escaped again, unless a client asks for
only some of the message attributes, whose MD5 is then another one.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from holdfast.core import limits
from holdfast.core.errors import InvalidAttributeName, InvalidParameterValue
from holdfast.core.queue import receipt
from holdfast.core.queue.command import Delivered, Receive
from holdfast.core.types import Cause, Kind, LaneConfig, LaneId, ShardId, WallMs
from holdfast.core.values import Value
from holdfast.protocol import content, digests, texts
from holdfast.protocol.actions import Attributes, ReceiveMessage
from holdfast.protocol.extras import Extras
from holdfast.protocol.json import encode
from holdfast.protocol.messages import check_identifier, wrong_kind

_SYSTEM: Final = frozenset(
    "All SenderId SentTimestamp ApproximateReceiveCount ApproximateFirstReceiveTimestamp SequenceNumber "
    "MessageDeduplicationId MessageGroupId AWSTraceHeader DeadLetterQueueSourceArn Holdfast.DeadLetterCause "
    "Holdfast.FailureReason".split()
)
_CAUSE: Final = "Holdfast.DeadLetterCause"  # an extension, so it is returned only when it is named
_REASON: Final = "Holdfast.FailureReason"  # another one
_CAUSES: Final = {
    Cause.RECEIVES: "MaxReceiveCount",
    Cause.TARGET_GONE: "TargetGone",
    Cause.LENGTH: "QueueFull",
    Cause.TIME_TO_LIVE: "TimeToLive",
}
_EVERYTHING: Final = ("All", ".*", "*")
_decode_attributes: Final = msgspec.json.Decoder(Attributes).decode


class Handed(Value, frozen=True):
    """A message on its way to a client."""

    delivered: Delivered
    content: bytes
    wall: WallMs
    message_id: bytes  # empty: it follows from the header
    cause: int = Cause.NONE  # why it left another queue


class View(Value, frozen=True):
    """Which attributes a receive returns."""

    system: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()


class Origin(Value, frozen=True):
    """Where the messages of a receive come from."""

    shard: ShardId
    lane: LaneId
    kind: Kind
    receipt_key: receipt.ReceiptKey
    arn_of: Callable[[int], str]  # packed address of a dead-letter source -> its queue's ARN, or empty


PLAIN: Final = View()


def command(request: ReceiveMessage, lane: LaneId, config: LaneConfig) -> Receive:
    count = _within(request.max_number_of_messages, "MaxNumberOfMessages", 1, limits.RECEIVE_COUNT_MAX)
    timeout_s = _within(request.visibility_timeout, "VisibilityTimeout", 0, limits.VISIBILITY_MAX_S)
    attempt_id = request.receive_request_attempt_id
    if attempt_id is None:
        return Receive(lane, 1 if count is None else count, timeout_s)
    check_identifier(attempt_id, "ReceiveRequestAttemptId")
    if config.kind is not Kind.FIFO:
        raise wrong_kind(attempt_id, "ReceiveRequestAttemptId")
    return Receive(lane, 1 if count is None else count, timeout_s, attempt_id)


def wait_s(request: ReceiveMessage, default_s: int) -> int:
    """What the request says, else the queue's own; 0 does not wait."""
    value = _within(request.wait_time_seconds, "WaitTimeSeconds", 0, limits.WAIT_MAX_S)
    return default_s if value is None else value


def _within(value: int | None, name: str, smallest: int, largest: int) -> int | None:
    if value is not None and not smallest <= value <= largest:
        bounds = f">= {smallest} and <= {largest}" if smallest == 0 else f"between {smallest} and {largest}"
        raise InvalidParameterValue(
            f"Value {value} for parameter {name} is invalid. Reason: Must be {bounds}, if provided."
        )
    return value


def view(request: ReceiveMessage) -> View:
    system = (*(request.attribute_names or ()), *(request.message_system_attribute_names or ()))
    if not system and not request.message_attribute_names:
        return PLAIN
    for name in system:
        if name not in _SYSTEM:
            raise InvalidAttributeName(f"Unknown Attribute {name}.")
    return View(system, tuple(request.message_attribute_names or ()))


def reply(messages: Sequence[Handed], origin: Origin, wanted: View) -> bytes:
    """O(bytes of the messages)."""
    delivered = [message.delivered for message in messages]
    contents = [message.content for message in messages]
    attributes = [_shown_attributes(message, origin, wanted) for message in messages] if wanted is not PLAIN else ()
    return _reply(delivered, contents, [message.message_id for message in messages], origin, attributes)


def plain_reply(
    delivered: Sequence[Delivered], contents: list[bytes], message_ids: Sequence[bytes], origin: Origin
) -> bytes:
    """As `reply` for a client that asks for no attributes, which needs nothing but these; as in Handed. Without
    `message_ids` all of them follow from the headers."""
    return _reply(delivered, contents, message_ids, origin, ())


def _reply(
    delivered: Sequence[Delivered],
    contents: list[bytes],
    message_ids: Sequence[bytes],
    origin: Origin,
    attributes: Sequence[bytes],
) -> bytes:
    """`attributes`: what is shown of each besides its body; none of any."""
    if not delivered:
        return b"{}"
    named = receipt.names(origin.shard, origin.lane, delivered, origin.receipt_key)
    id_start, ids = named.id_start, named.id_ends
    if any(message_ids):
        ends = texts.cut(ids, len(delivered))
        ids = b"".join([_id_of(own, id_start + end) for own, end in zip(message_ids, ends, strict=True)])
        id_start = b""
    if not attributes:
        return texts.shown(id_start, ids, named.handle_start, named.handle_ends, contents)
    sums, bodies = content.bodies_of(contents)
    shown = [b'%b"%b}' % pair for pair in zip(bodies, attributes, strict=True)]
    return texts.messages(id_start, ids, named.handle_start, named.handle_ends, sums=sums, ends=shown)


def _id_of(own: bytes, derived: bytes) -> bytes:
    return receipt.message_id_text(own).encode() if own else derived


def _shown_attributes(message: Handed, origin: Origin, wanted: View) -> bytes:
    """The members that follow the body, each with a comma in front."""
    stored = content.unpack(message.content)
    shown_members = b""
    if wanted.attributes and stored.extras.attributes:
        shown_members = _attributes(stored.extras, wanted.attributes)
    if wanted.system:
        shown = system(message, stored, origin)
        if "All" not in wanted.system:
            shown = {each: shown[each] for each in wanted.system if each in shown}
        if _CAUSE in wanted.system and (cause := cause_text(message.cause)):
            shown[_CAUSE] = cause
        if _REASON in wanted.system and stored.extras.reason:
            shown[_REASON] = stored.extras.reason
        if shown:
            shown_members += b',"Attributes":' + encode(shown)
    return shown_members


def cause_text(cause: int) -> str:
    """Empty for messages that are no dead letters."""
    return _CAUSES.get(Cause(cause), "")


def system(message: Handed, stored: content.Content, origin: Origin) -> dict[str, str]:
    delivered, extras = message.delivered, stored.extras
    shown = {
        "SenderId": stored.sender.decode(),
        "SentTimestamp": str(message.wall),
        "ApproximateReceiveCount": str(delivered.count),
        "ApproximateFirstReceiveTimestamp": str(delivered.first_wall),
    }
    if origin.kind is Kind.FIFO:
        shown["SequenceNumber"] = str(limits.SEQUENCE_BASE + delivered.header.seq)
    if extras.group:
        shown["MessageGroupId"] = extras.group
    if extras.deduplication_id:
        is_dead_letter = delivered.header.origin and message.message_id  # those are told apart by their MessageId
        shown["MessageDeduplicationId"] = (
            receipt.message_id_text(message.message_id) if is_dead_letter else extras.deduplication_id
        )
    if extras.trace_header:
        shown["AWSTraceHeader"] = extras.trace_header
    if delivered.header.origin and (arn := origin.arn_of(delivered.header.origin)):
        shown["DeadLetterQueueSourceArn"] = arn
    return shown


def _attributes(extras: Extras, wanted: tuple[str, ...]) -> bytes:
    if any(name in _EVERYTHING for name in wanted):
        return _attribute_members(extras.attributes, extras.attributes_md5)
    everything = _decode_attributes(extras.attributes)
    chosen = {name: value for name, value in everything.items() if _matches(name, wanted)}
    if not chosen:
        return b""
    md5 = digests.attributes_md5(
        (name, value.data_type or "", value.string_value or value.binary_value or "") for name, value in chosen.items()
    )
    return _attribute_members(encode(chosen), md5)


def _attribute_members(attributes: bytes, md5: str) -> bytes:
    return b',"MessageAttributes":' + attributes + f',"MD5OfMessageAttributes":"{md5}"'.encode()


def _matches(name: str, wanted: tuple[str, ...]) -> bool:
    """A filter is a whole name, or a prefix followed by `.*`."""
    return any(
        name == each or (each.endswith(".*") and name.startswith(each[:-1])) or name == each.removesuffix(".*")
        for each in wanted
    )
