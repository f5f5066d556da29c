"""Queue attributes: what may be set, what it means to a lane, and how it is shown.

A queue keeps the attributes that were given, in the form they are shown in; the rest are defaults. All values are
strings. Those that begin with `Holdfast.` are extensions (docs/EXTENSIONS.md) and are never shown unless set.
"""

import json
from typing import Any

from holdfast.core import limits
from holdfast.core.admission.policy_text import parse_queue_policy
from holdfast.core.errors import HoldfastError, InvalidAttributeName, InvalidAttributeValue
from holdfast.core.types import Address, Counts, Kind, LaneConfig, Redrive
from holdfast.protocol import dead_letters

EXTENSION = "Holdfast."
RETENTION_MIN_S = 60  # of MessageRetentionPeriod; 1 when the rules of AWS are relaxed
KEY_BYTES_MAX = 2048  # of KmsMasterKeyId

redrive_policy = dead_letters.redrive_policy

# name -> smallest, largest
_NUMBERS: dict[str, tuple[int, int]] = {
    "DelaySeconds": (0, limits.DELAY_MAX_S),
    "MaximumMessageSize": (1024, limits.MESSAGE_BYTES_MAX),
    "MessageRetentionPeriod": (RETENTION_MIN_S, limits.RETENTION_MAX_S),
    "ReceiveMessageWaitTimeSeconds": (0, limits.WAIT_MAX_S),
    "VisibilityTimeout": (0, limits.VISIBILITY_MAX_S),
    "KmsDataKeyReusePeriodSeconds": (60, 86_400),
    "Holdfast.MaxMessages": (1, 10**12),
    "Holdfast.MaxBytes": (1, 10**15),
    "Holdfast.TimeToLiveSeconds": (1, limits.RETENTION_MAX_S),
}
_CHOICES = {
    "DeduplicationScope": ("queue", "messageGroup"),
    "FifoThroughputLimit": ("perQueue", "perMessageGroupId"),
    "Holdfast.DeliveryGuarantee": ("AtLeastOnce", "AtMostOnce"),
    "Holdfast.Overflow": ("Refuse", "DeadLetter"),
    "Holdfast.ReplicationMode": ("sync", "async"),
}
_BOOLEANS = ("FifoQueue", "ContentBasedDeduplication", "SqsManagedSseEnabled", "Holdfast.RequestDeduplication")
_JSON = ("Policy", "RedrivePolicy", "RedriveAllowPolicy")
_KEY = "KmsMasterKeyId"
_SSE = "SqsManagedSseEnabled"
_REUSE, _REUSE_DEFAULT = "KmsDataKeyReusePeriodSeconds", "300"

_DEFAULTS = {
    "DelaySeconds": "0",
    "MaximumMessageSize": str(limits.MESSAGE_BYTES_MAX),
    "MessageRetentionPeriod": "345600",
    "ReceiveMessageWaitTimeSeconds": "0",
    _SSE: "true",  # everything on disk is encrypted
    "VisibilityTimeout": "30",
}
_FIFO_DEFAULTS = {
    "FifoQueue": "true",
    "ContentBasedDeduplication": "false",
    "DeduplicationScope": "queue",
    "FifoThroughputLimit": "perQueue",
}
_COUNTED = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesDelayed",
    "ApproximateNumberOfMessagesNotVisible",
)
_KEPT = ("CreatedTimestamp", "LastModifiedTimestamp", "QueueArn")
SETTABLE = (*_NUMBERS, *_CHOICES, *_BOOLEANS, *_JSON, _KEY)
_READABLE = frozenset((*SETTABLE, *_COUNTED, *_KEPT, "All"))

# Accepting


def check(given: dict[str, str], *, is_fifo: bool, is_new: bool = True, is_strict: bool = True) -> dict[str, str]:
    """The given attributes as they are kept. An empty value takes an attribute away, where that makes sense."""
    checked = {
        name: _checked(name, value, is_fifo=is_fifo, is_new=is_new, is_strict=is_strict)
        for name, value in given.items()
    }
    if checked.get(_KEY) and checked.get(_SSE) == "true":
        raise InvalidAttributeName(
            "You can use one type of server-side encryption (SSE) at one time. "
            "You can either enable KMS SSE or SQS SSE."
        )
    return checked


def _checked(name: str, value: str, *, is_fifo: bool, is_new: bool, is_strict: bool) -> str:
    _check_kind(name, is_fifo=is_fifo)
    if not value and (name in _JSON or name == _KEY or name.startswith(EXTENSION)):
        return ""
    if name in _NUMBERS:
        return _number(name, value, is_strict=is_strict)
    if name in _CHOICES:
        if value not in _CHOICES[name]:
            raise invalid_value(name, f"one of {', '.join(_CHOICES[name])}")
        return value
    if name in _BOOLEANS:
        return _boolean(name, value, is_new=is_new)
    return _text(name, value)


def _check_kind(name: str, *, is_fifo: bool) -> None:
    """Is there such an attribute for this kind of queue?"""
    if name not in _READABLE or name in (*_COUNTED, *_KEPT, "All"):
        raise InvalidAttributeName(f"Unknown Attribute {name}.")
    if is_fifo and name == "Holdfast.RequestDeduplication":
        raise InvalidAttributeName(f"You can specify the {name} only for standard queues.")
    if is_fifo or name not in _FIFO_DEFAULTS:
        return
    if name in _CHOICES:
        raise InvalidAttributeName(f"You can specify the {name} only when FifoQueue is set to true.")
    raise InvalidAttributeName(f"Unknown Attribute {name}.")


def _number(name: str, value: str, *, is_strict: bool) -> str:
    smallest, largest = _NUMBERS[name]
    if name == "MessageRetentionPeriod" and not is_strict:
        smallest = 1
    if not (value.isascii() and value.isdigit() and len(value) <= 16 and smallest <= int(value) <= largest):
        raise invalid_value(name, f"a whole number from {smallest} to {largest}")
    return str(int(value))


def _boolean(name: str, value: str, *, is_new: bool) -> str:
    value = value.lower()
    if value not in ("true", "false"):
        raise invalid_value(name, "true or false")
    if name == "FifoQueue" and value == "false":
        if is_new:
            raise InvalidAttributeName("Unknown Attribute FifoQueue.")
        raise InvalidAttributeValue(
            "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported."
        )
    return value


def _text(name: str, value: str) -> str:
    if name == "Policy":
        parse_queue_policy(value)
    elif name == "RedrivePolicy":
        redrive_policy(value)
    elif name == "RedriveAllowPolicy":
        dead_letters.allow_policy(value)
    elif len(value.encode()) > KEY_BYTES_MAX:
        raise invalid_value(name)
    return value


def invalid_value(name: str, allowed: str = "") -> HoldfastError:
    """In the words of SQS, which does not say what is allowed. Of our own attributes nobody else would tell."""
    reason = f" Reason: Must be {allowed}." if allowed and name.startswith(EXTENSION) else ""
    return InvalidAttributeValue(f"Invalid value for the parameter {name}.{reason}")


def merge(current: dict[str, str], changes: dict[str, str]) -> dict[str, str]:
    """What a queue keeps after a change that was checked. One kind of encryption ends the other."""
    merged = current | changes
    if changes.get(_KEY):
        merged[_SSE] = "false"
    elif changes.get(_SSE) == "true":
        merged.pop(_KEY, None)
    return {name: value for name, value in merged.items() if value}


def first_difference(given: dict[str, str], current: dict[str, str], *, is_fifo: bool) -> str:
    """The first attribute whose given value is not the queue's; empty when there is none."""
    shown = {_REUSE: _REUSE_DEFAULT} | effective(current, is_fifo=is_fifo)
    return next((name for name, value in given.items() if not _is_same(name, value, shown.get(name, ""))), "")


def _is_same(name: str, one: str, other: str) -> bool:
    if one == other:
        return True
    if not one or not other or name not in _JSON:
        return False
    if name == "RedrivePolicy":
        return redrive_policy(one) == redrive_policy(other)
    first, second = _loaded(one), _loaded(other)
    return bool(first == second)


def _loaded(text: str) -> Any:
    return json.loads(text)


# Meaning


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
        request_deduplication=values.get("Holdfast.RequestDeduplication") == "true",
        at_most_once=values.get("Holdfast.DeliveryGuarantee") == "AtMostOnce",
        redrive=redrive,
        messages_max=int(values.get("Holdfast.MaxMessages", "0")),
        bytes_max=int(values.get("Holdfast.MaxBytes", "0")),
        overflow_to_dead_letter=values.get("Holdfast.Overflow") == "DeadLetter",
        time_to_live_s=int(values.get("Holdfast.TimeToLiveSeconds", "0")),
        is_strict=is_strict,
        is_async=values.get("Holdfast.ReplicationMode") == "async",
    )


# Showing


def check_names(names: list[str]) -> None:
    for name in names:
        if name not in _READABLE:
            raise InvalidAttributeName(f"Unknown Attribute {name}.")


def show(values: dict[str, str], counts: Counts, names: list[str], **kept: str) -> dict[str, str]:
    """What GetQueueAttributes answers. `values` are effective; `kept` are CreatedTimestamp and the like."""
    everything = values | kept
    if everything.get(_REUSE) == _REUSE_DEFAULT:
        del everything[_REUSE]
    for name, count in zip(_COUNTED, (counts.visible, counts.delayed, counts.in_flight), strict=True):
        everything[name] = str(count)
    if "All" in names:
        return everything
    return {name: everything[name] for name in names if name in everything}
