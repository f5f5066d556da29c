"""Queue attributes: what may be set, what it means to a lane, and how it is shown.

A queue keeps the attributes that were given, in the form they are shown in; the rest are defaults. All values are
strings.
"""

import msgspec

from holdfast.core import limits
from holdfast.core.errors import InvalidAttributeName, InvalidAttributeValue, InvalidParameterValue
from holdfast.core.types import Address, Counts, Kind, LaneConfig, Redrive

RECEIVES_MAX = 1000  # maxReceiveCount

# name -> smallest, largest, default
_NUMBERS: dict[str, tuple[int, int, int]] = {
    "DelaySeconds": (0, limits.DELAY_MAX_S, 0),
    "MaximumMessageSize": (1024, limits.MESSAGE_BYTES_MAX, limits.MESSAGE_BYTES_MAX),
    "MessageRetentionPeriod": (60, limits.RETENTION_MAX_S, 345_600),
    "ReceiveMessageWaitTimeSeconds": (0, limits.WAIT_MAX_S, 0),
    "VisibilityTimeout": (0, limits.VISIBILITY_MAX_S, 30),
}
_CHOICES = {
    "DeduplicationScope": ("queue", "messageGroup"),
    "FifoThroughputLimit": ("perQueue", "perMessageGroupId"),
}
_DEFAULTS = {
    **{name: str(default) for name, (_, _, default) in _NUMBERS.items()},
    "SqsManagedSseEnabled": "true",  # everything on disk is encrypted
}
_FIFO_DEFAULTS = {
    "FifoQueue": "true",
    "ContentBasedDeduplication": "false",
    "DeduplicationScope": "queue",
    "FifoThroughputLimit": "perQueue",
}
_NOT_YET = ("KmsDataKeyReusePeriodSeconds", "KmsMasterKeyId", "Policy", "RedriveAllowPolicy", "SqsManagedSseEnabled")
_COUNTED = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesDelayed",
    "ApproximateNumberOfMessagesNotVisible",
)
_KEPT = ("CreatedTimestamp", "LastModifiedTimestamp", "QueueArn")
_READABLE = frozenset((*_DEFAULTS, *_FIFO_DEFAULTS, *_COUNTED, *_KEPT, *_NOT_YET, "RedrivePolicy"))


class RedrivePolicy(msgspec.Struct, frozen=True, gc=False):
    target_arn: str
    receives_max: int


class _PolicyText(msgspec.Struct, rename="camel"):
    dead_letter_target_arn: str | None = None
    max_receive_count: int | str | None = None


_policy = msgspec.json.Decoder(_PolicyText).decode


def check(given: dict[str, str], *, is_fifo: bool) -> dict[str, str]:
    """The given attributes as they are kept. Empty values take an attribute away."""
    return {name: _checked(name, value, is_fifo=is_fifo) for name, value in given.items()}


def _checked(name: str, value: str, *, is_fifo: bool) -> str:
    if name in _NUMBERS:
        return _number(name, value)
    if name == "RedrivePolicy":
        if value:
            redrive_policy(value)
        return value
    if name in _NOT_YET:
        raise InvalidAttributeName(f"This version of Holdfast does not support the attribute {name}; leave it out.")
    if name in _CHOICES:
        if not is_fifo:
            raise InvalidAttributeName(f"You can specify the {name} only when FifoQueue is set to true.")
        if value not in _CHOICES[name]:
            raise invalid_value(name)
        return value
    if name not in _FIFO_DEFAULTS or not is_fifo:
        raise InvalidAttributeName(f"Unknown Attribute {name}.")
    if value.lower() not in ("true", "false"):
        raise invalid_value(name)
    if name == "FifoQueue" and value.lower() == "false":
        raise InvalidAttributeName("Unknown Attribute FifoQueue.")
    return value.lower()


def _number(name: str, value: str) -> str:
    smallest, largest, _ = _NUMBERS[name]
    if not (value.isascii() and value.isdigit() and len(value) <= 10 and smallest <= int(value) <= largest):
        raise invalid_value(name)
    return str(int(value))


def invalid_value(name: str) -> InvalidAttributeValue:
    return InvalidAttributeValue(f"Invalid value for the parameter {name}.")


def redrive_policy(text: str) -> RedrivePolicy:
    try:
        policy = _policy(text)
        receives_max = int(policy.max_receive_count or "")
    except (msgspec.DecodeError, ValueError):
        raise _bad_policy(text, "Redrive policy is not a valid JSON map with both keys.") from None
    if not policy.dead_letter_target_arn:
        raise _bad_policy(text, "Redrive policy does not contain mandatory attribute: deadLetterTargetArn.")
    if not 1 <= receives_max <= RECEIVES_MAX:
        raise _bad_policy(text, f"Invalid value for maxReceiveCount: {receives_max}, valid values are from 1 to 1000.")
    return RedrivePolicy(policy.dead_letter_target_arn, receives_max)


def _bad_policy(text: str, reason: str) -> InvalidParameterValue:
    return InvalidParameterValue(f"Value {text} for parameter RedrivePolicy is invalid. Reason: {reason}")


def check_target(text: str, *, is_fifo: bool, target: LaneConfig | None) -> None:
    """A dead-letter queue exists and is of the same kind."""
    if target is None:
        raise _bad_policy(text, "Dead letter target does not exist.")
    if (target.kind is Kind.FIFO) != is_fifo:
        raise _bad_policy(text, "Dead-letter queue must be same type of queue as the source.")


def first_difference(given: dict[str, str], current: dict[str, str], *, is_fifo: bool) -> str:
    """The first attribute whose given value is not the queue's; empty when there is none."""
    shown = effective(current, is_fifo=is_fifo)
    return next((name for name, value in given.items() if value != shown.get(name, "")), "")


def effective(kept: dict[str, str], *, is_fifo: bool) -> dict[str, str]:
    """With defaults; without what is not set."""
    base = _DEFAULTS | _FIFO_DEFAULTS if is_fifo else _DEFAULTS
    return {name: value for name, value in (base | kept).items() if value}


def lane_config(
    kept: dict[str, str], *, is_fifo: bool, version: int, redrive_to: Address | None, is_strict: bool
) -> LaneConfig:
    values = effective(kept, is_fifo=is_fifo)
    redrive = None
    if redrive_to is not None:
        redrive = Redrive(redrive_to, redrive_policy(kept["RedrivePolicy"]).receives_max)
    return LaneConfig(
        version=version,
        kind=Kind.FIFO if is_fifo else Kind.STANDARD,
        visibility_timeout_s=int(values["VisibilityTimeout"]),
        delay_s=int(values["DelaySeconds"]),
        retention_s=int(values["MessageRetentionPeriod"]),
        message_bytes_max=int(values["MaximumMessageSize"]),
        content_deduplication=values.get("ContentBasedDeduplication") == "true",
        deduplication_per_group=values.get("DeduplicationScope") == "messageGroup",
        redrive=redrive,
        is_strict=is_strict,
    )


def check_names(names: list[str]) -> None:
    for name in names:
        if name != "All" and name not in _READABLE:
            raise InvalidAttributeName(f"Unknown Attribute {name}.")


def show(values: dict[str, str], counts: Counts, names: list[str], **kept: str) -> dict[str, str]:
    """What GetQueueAttributes answers. `values` are effective; `kept` are CreatedTimestamp and the like."""
    everything = values | kept
    for name, count in zip(_COUNTED, (counts.visible, counts.delayed, counts.in_flight), strict=True):
        everything[name] = str(count)
    if "All" in names:
        return everything
    return {name: everything[name] for name in names if name in everything}
