"""What a message must look like to be sent, and how it becomes a command. Rules that need only the request and the
queue's configuration; those that need the queue's state are the core's.
"""

import hashlib
import re
from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec

from holdfast.core import limits
from holdfast.core.errors import (
    HoldfastError,
    InvalidMessageContents,
    InvalidParameterValue,
    UnsupportedOperation,
)
from holdfast.core.queue.columns import SendAll
from holdfast.core.queue.command import Command, Send
from holdfast.core.types import Kind, LaneConfig, LaneId
from holdfast.core.values import Value
from holdfast.protocol import content, digests, texts
from holdfast.protocol.actions import Attributes, AttributeValue, Outgoing, required
from holdfast.protocol.extras import NO_EXTRAS, Extras

ATTRIBUTES_MAX: Final = 10  # message attributes of one message
ATTRIBUTE_NAME_MAX: Final = 256
TIME_TO_LIVE: Final = "Holdfast.TimeToLiveSeconds"  # an extension: an attribute that is also an option

_TIME_MAX: Final = limits.RETENTION_MAX_S
_IDENTIFIER: Final = re.compile(r"[!-~]{1,128}").fullmatch  # letters, digits and punctuation
_ATTRIBUTE_NAME: Final = re.compile(r"[\w.-]+").fullmatch
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?").fullmatch
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]").search
_CONTROLS: Final = bytes(each for each in range(32) if each not in b"\t\n\r")
_escape: Final = msgspec.json.Encoder().encode

_FIFO: Final = Kind.FIFO  # members of an enumeration are found slowly

SentT = TypeVar("SentT", bound=Outgoing)


class Slip:
    """What is kept of a message until it is answered: what the reply says, and its size. Not the message, whose memory
    serves the next one meanwhile."""

    __slots__ = ("attributes_md5", "body_md5", "size", "system_md5")

    def __init__(self, size: int, body_md5: str, attributes_md5: str = "", system_md5: str = "") -> None:
        self.size = size
        self.body_md5 = body_md5
        self.attributes_md5 = attributes_md5
        self.system_md5 = system_md5


class Slips:
    """The same of a batch, by columns. `others`: MD5 sums of attributes and of system attributes, if there are any."""

    __slots__ = ("names", "others", "sizes", "sums")

    def __init__(
        self, names: list[str], sums: list[bytes], sizes: list[int], others: list[tuple[str, str]] | None = None
    ) -> None:
        self.names = names  # the ids of the entries
        self.sums = sums
        self.sizes = sizes
        self.others = others

    def at(self, index: int) -> Slip:
        attributes_md5, system_md5 = self.others[index] if self.others is not None else ("", "")
        return Slip(self.sizes[index], self.sums[index].hex(), attributes_md5, system_md5)


class _Draft(Value, frozen=True):
    """A message that may be sent, before the sum of its body is known."""

    body: bytes
    escaped: bytes
    size: int
    extras: Extras = NO_EXTRAS
    group: str = ""
    deduplication_id: str = ""
    delay_s: int | None = None
    ttl_s: int | None = None
    system_md5: str = ""


def parcel(message: Outgoing, lane: LaneId, config: LaneConfig, *, sender: bytes, is_plain: bool) -> tuple[Send, Slip]:
    """`is_plain`: the request has no backslash, so its strings are their own escaped form and hold no control
    characters. O(size of the message)."""
    draft = _draft(message, config, is_plain=is_plain, is_batch=False)
    return _pack(draft, digests.body_md5(draft.body), lane, sender)


def parcels(
    names: list[str],
    entries: Sequence[Outgoing],
    lane: LaneId,
    config: LaneConfig,
    *,
    sender: bytes,
    is_plain: bool,
) -> tuple[SendAll | list[Command], Slips, list[tuple[str, HoldfastError]]]:
    """As `parcel` of each entry of a batch; the last are the ids of those that are refused, and why."""
    plain = _plain_bodies(entries, config, is_plain=is_plain)
    if plain is None:
        return _parcels_apart(names, entries, lane, config, sender=sender, is_plain=is_plain)
    bodies, escaped = plain
    sums = digests.bodies_md5(bodies)
    sizes = [len(body) for body in bodies]
    contents = texts.packed(escaped, sums, sender)
    return SendAll(lane, bodies, contents, sizes), Slips(names, sums, sizes), []


def _plain_bodies(
    entries: Sequence[Outgoing], config: LaneConfig, *, is_plain: bool
) -> tuple[list[bytes], list[bytes]] | None:
    """The bodies, and what they look like in JSON, if there is nothing else and none of them is refused."""
    size_max: int = config.message_bytes_max
    bodies: list[bytes] = []
    escaped: list[bytes] = bodies if is_plain else []
    for entry in entries:
        text = entry.message_body
        if not text or _is_special(entry, config):
            return None
        if not (is_plain and text.isascii()) and not _is_valid(text):
            return None
        body = text.encode()
        if len(body) > size_max:
            return None
        bodies.append(body)
        if not is_plain:
            escaped.append(_escape(text)[1:-1])
    return bodies, escaped


def _parcels_apart(
    names: list[str],
    entries: Sequence[Outgoing],
    lane: LaneId,
    config: LaneConfig,
    *,
    sender: bytes,
    is_plain: bool,
) -> tuple[list[Command], Slips, list[tuple[str, HoldfastError]]]:
    drafts: list[_Draft] = []
    taken: list[str] = []
    refused: list[tuple[str, HoldfastError]] = []
    for name, entry in zip(names, entries, strict=True):
        try:
            drafts.append(_draft(entry, config, is_plain=is_plain, is_batch=True))
            taken.append(name)
        except HoldfastError as error:
            refused.append((name, error))
    sums = digests.bodies_md5([draft.body for draft in drafts])
    packed = [_pack(draft, body_md5, lane, sender) for draft, body_md5 in zip(drafts, sums, strict=True)]
    commands: list[Command] = [command for command, _ in packed]
    others = [(slip.attributes_md5, slip.system_md5) for _, slip in packed]
    return commands, Slips(taken, sums, [slip.size for _, slip in packed], others), refused


def _draft(message: Outgoing, config: LaneConfig, *, is_plain: bool, is_batch: bool) -> _Draft:
    text = message.message_body or required(message.message_body, "MessageBody")
    if not is_plain or not text.isascii():
        check_characters(text)
    body = text.encode()
    escaped = body if is_plain else _escape(text)[1:-1]
    if not _is_special(message, config):
        draft = _Draft(body, escaped, len(body))
    else:
        group, deduplication_id, delay_s = _queue_rules(message, config, is_batch=is_batch)
        added, packed, attributes_md5 = pack_attributes(message.message_attributes or {})
        trace_header, system_md5 = _trace_header(message.message_system_attributes or {})
        ttl_s = _time_to_live(message.message_attributes or {})
        shown_id = deduplication_id or _content_id(body, config)
        extras = Extras(group, shown_id, trace_header, attributes_md5, packed)
        size = len(body) + added
        draft = _Draft(body, escaped, size, extras, group, deduplication_id, delay_s, ttl_s, system_md5)
    if draft.size > config.message_bytes_max:
        raise _too_long(config, is_batch=is_batch)
    return draft


def _pack(draft: _Draft, body_md5: bytes, lane: LaneId, sender: bytes) -> tuple[Send, Slip]:
    size, extras = draft.size, draft.extras
    stored = content.pack(draft.escaped, body_md5, sender=sender, extras=extras)
    command = Send(lane, draft.body, stored, size, draft.group, draft.deduplication_id, draft.delay_s, draft.ttl_s)
    return command, Slip(size, body_md5.hex(), extras.attributes_md5, draft.system_md5)


def _is_special(message: Outgoing, config: LaneConfig) -> bool:
    """Is there anything besides a body on a standard queue?"""
    return (
        config.kind is _FIFO
        or message.message_attributes is not None
        or message.message_system_attributes is not None
        or message.message_group_id is not None
        or message.message_deduplication_id is not None
        or message.delay_seconds is not None
    )


def _content_id(body: bytes, config: LaneConfig) -> str:
    return hashlib.sha256(body).hexdigest() if config.content_deduplication else ""


def check_characters(text: str) -> None:
    """Only what XML 1.0 can carry."""
    if not _is_valid(text):
        raise InvalidMessageContents(
            "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | "
            "#xE000 to #xFFFD | #x10000 to #x10FFFF."
        )


def _is_valid(text: str) -> bool:
    if not text.isascii():
        return not _NOT_XML(text)
    data = text.encode()
    return len(data.translate(None, _CONTROLS)) == len(data)


def _too_long(config: LaneConfig, *, is_batch: bool) -> HoldfastError:
    verb = "cannot be validated" if is_batch else "are invalid"
    return InvalidParameterValue(
        f"One or more parameters {verb}. Reason: Message must be shorter than {config.message_bytes_max} bytes."
    )


def _queue_rules(message: Outgoing, config: LaneConfig, *, is_batch: bool) -> tuple[str, str, int | None]:
    """Group, deduplication id and delay as this kind of queue accepts them."""
    group, deduplication_id, delay_s = (
        message.message_group_id,
        message.message_deduplication_id,
        message.delay_seconds,
    )
    if group is not None:
        check_identifier(group, "MessageGroupId")
    if deduplication_id is not None:
        check_identifier(deduplication_id, "MessageDeduplicationId")
    if delay_s is not None and not 0 <= delay_s <= limits.DELAY_MAX_S:
        raise InvalidParameterValue(
            f"Value {delay_s} for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900."
        )
    if config.kind is not Kind.FIFO:
        if deduplication_id is not None and not config.request_deduplication:
            raise wrong_kind(deduplication_id, "MessageDeduplicationId")
        return group or "", deduplication_id or "", delay_s
    if delay_s:
        raise wrong_kind(delay_s, "DelaySeconds")
    check_fifo(message, config, is_batch=is_batch)
    return group or "", deduplication_id or "", None


def check_fifo(message: Outgoing, config: LaneConfig, *, is_batch: bool) -> None:
    """A FIFO queue needs a group, and something to tell duplicates by."""
    if message.message_group_id is None and is_batch:
        raise InvalidParameterValue("The request must contain the parameter MessageGroupId.")
    required(message.message_group_id, "MessageGroupId")
    if message.message_deduplication_id is None and not config.content_deduplication:
        raise InvalidParameterValue(
            "The queue should either have ContentBasedDeduplication enabled or "
            "MessageDeduplicationId provided explicitly"
        )


def wrong_kind(value: object, name: str) -> HoldfastError:
    return InvalidParameterValue(
        f"Value {value} for parameter {name} is invalid. "
        "Reason: The request include parameter that is not valid for this queue type."
    )


def check_identifier(value: str, name: str) -> None:
    if not _IDENTIFIER(value):
        raise InvalidParameterValue(
            f"Value {value} for parameter {name} is invalid. Reason: {name} can only include alphanumeric "
            "and punctuation characters. 1 to 128 in length."
        )


# Message attributes


def pack_attributes(attributes: Attributes) -> tuple[int, bytes, str]:
    """Their size as SQS counts it, the JSON that a receive returns, and their MD5."""
    if not attributes:
        return 0, b"", ""
    if len(attributes) > ATTRIBUTES_MAX:
        raise InvalidParameterValue(
            f"Number of message attributes [{len(attributes)}] exceeds the allowed maximum [{ATTRIBUTES_MAX}]."
        )
    triples = [_checked(name, value) for name, value in attributes.items()]
    size = sum(len(part.encode() if isinstance(part, str) else part) for each in triples for part in each)
    return size, _escape(attributes), digests.attributes_md5(triples)


def _checked(name: str, value: AttributeValue) -> tuple[str, str, str | bytes]:
    _check_attribute_name(name)
    if value.string_list_values or value.binary_list_values:
        raise UnsupportedOperation("Message attribute list values in SendMessage operation are not supported.")
    if not value.data_type:
        raise InvalidParameterValue(f"The message attribute '{name}' must contain non-empty message attribute type.")
    kind = value.data_type.partition(".")[0]
    if kind not in ("String", "Number", "Binary") or len(value.data_type) > ATTRIBUTE_NAME_MAX:
        raise InvalidParameterValue(
            f"The type of message (user) attribute '{name}' is invalid. You must use only the following "
            "supported type prefixes: Binary, Number, String."
        )
    if kind == "Binary":
        if not value.binary_value:
            raise _no_value(name, kind)
        return name, value.data_type, value.binary_value
    if not value.string_value:
        raise _no_value(name, kind)
    check_attribute_text(name, value.string_value, kind)
    return name, value.data_type, value.string_value


def check_attribute_text(name: str, text: str, kind: str) -> None:
    try:
        check_characters(text)
    except InvalidMessageContents as problem:
        raise InvalidParameterValue(problem.message) from None
    if kind == "Number" and not _NUMBER(text):
        raise InvalidParameterValue(f"Can't cast the value of message (user) attribute '{name}' to a number.")


def _no_value(name: str, kind: str) -> HoldfastError:
    return InvalidParameterValue(f"Message (user) attribute '{name}' must contain a non-empty value of type '{kind}'.")


def _check_attribute_name(name: str) -> None:
    if not name or len(name) > ATTRIBUTE_NAME_MAX:
        raise InvalidParameterValue("Message (user) attribute names must be 1 to 256 characters long.")
    if name.lower().startswith(("aws.", "amazon.")):
        raise InvalidParameterValue(
            "You can't use message attribute names beginning with 'AWS.' or 'Amazon.'. "
            "These strings are reserved for internal use."
        )
    if not _ATTRIBUTE_NAME(name) or name[0] == "." or name[-1] == "." or ".." in name:
        raise InvalidParameterValue(
            f"The message attribute name '{name}' is invalid. It can contain letters, digits, hyphens, underscores "
            "and single periods that neither begin nor end it."
        )


def _time_to_live(attributes: Attributes) -> int | None:
    """Checked by pack_attributes already, as an attribute."""
    value = attributes.get(TIME_TO_LIVE)
    if value is None:
        return None
    text = value.string_value or ""
    is_whole = text.isascii() and text.isdigit() and len(text) <= 10
    if (value.data_type or "").partition(".")[0] != "Number" or not is_whole or not 1 <= int(text) <= _TIME_MAX:
        raise InvalidParameterValue(
            f"The message attribute '{TIME_TO_LIVE}' must be a Number between 1 and {_TIME_MAX} without a fraction."
        )
    return int(text)


def traced(message: SentT, header: bytes) -> SentT:
    """With the request's header X-Amzn-Trace-Id as its trace header, unless it has one of its own or the header could
    not be one: tracing must not be what refuses a message."""
    given, text = message.message_system_attributes or {}, header.decode("latin-1")
    if given or not (text.isascii() and text.isprintable() and text):
        return message
    value = AttributeValue(string_value=text, data_type="String")
    return msgspec.structs.replace(message, message_system_attributes={"AWSTraceHeader": value})


def _trace_header(attributes: Attributes) -> tuple[str, str]:
    """The only system attribute that a client may send, and its MD5."""
    if not attributes:
        return "", ""
    value = attributes.get("AWSTraceHeader")
    if value is None or len(attributes) > 1:
        other = next(name for name in attributes if name != "AWSTraceHeader")
        raise InvalidParameterValue(f"Message system attribute name '{other}' is invalid.")
    if value.data_type != "String" or not value.string_value:
        raise InvalidParameterValue(
            "Message (system) attribute 'AWSTraceHeader' must contain a non-empty value of type 'String'."
        )
    check_attribute_text("AWSTraceHeader", value.string_value, "String")
    return value.string_value, digests.attributes_md5([("AWSTraceHeader", "String", value.string_value)])
