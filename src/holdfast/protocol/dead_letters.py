"""The policies about dead letters: where a queue's go (RedrivePolicy), and whose a queue takes (RedriveAllowPolicy).
And what consumers say about messages that they could not use.

Both are kept as they were given. An allow policy is asked when a source names its target, not for messages on the way.
"""

import json
import re
from typing import Any

import msgspec

from holdfast.core.admission.access import owner_of
from holdfast.core.admission.canonical import decode
from holdfast.core.errors import HoldfastError, InvalidAttributeValue, InvalidParameterValue
from holdfast.core.types import Kind, LaneConfig

RECEIVES_MAX = 1000  # maxReceiveCount
SOURCES_MAX = 10  # sourceQueueArns

_REDRIVE_MEMBERS = ("maxReceiveCount", "deadLetterTargetArn")
_ALLOW_MEMBERS = ("redrivePermission", "sourceQueueArns")
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_PERMISSIONS = ("allowAll", "denyAll", "byQueue")


REASON_CHARS_MAX = 1024  # of what a consumer says about a failure; the rest is cut off


def failure_reason(header: bytes) -> str:
    """What X-Holdfast-Reason says: UTF-8, percent-encoded where a header cannot carry it. It becomes one line; what XML
    cannot carry becomes a question mark."""
    text = _NOT_XML.sub("?", decode(header.replace(b"+", b"%2B")).decode("utf-8", "replace"))
    return " ".join(text.split())[:REASON_CHARS_MAX]


class RedrivePolicy(msgspec.Struct, frozen=True, gc=False):
    target_arn: str
    receives_max: int


class AllowPolicy(msgspec.Struct, frozen=True, gc=False):
    permission: str
    sources: tuple[str, ...] = ()  # ARNs, for byQueue


def redrive_policy(text: str) -> RedrivePolicy:
    given = _object(text)
    if given is None:
        raise InvalidAttributeValue(
            "Invalid value for the parameter RedrivePolicy. Reason: Redrive policy is not a valid JSON map."
        )
    for name in _REDRIVE_MEMBERS:
        if given.get(name) in (None, ""):
            raise _bad_redrive(text, f"Redrive policy does not contain mandatory attribute: {name}.")
    if len(given) > len(_REDRIVE_MEMBERS):
        raise _bad_redrive(text, f"Only following attributes are supported: [{', '.join(_REDRIVE_MEMBERS)}].")
    receives_max = _count(given["maxReceiveCount"])
    if not 1 <= receives_max <= RECEIVES_MAX:
        raise _bad_redrive(
            text,
            f"Invalid value for maxReceiveCount: {given['maxReceiveCount']}, "
            f"valid values are from 1 to {RECEIVES_MAX} both inclusive.",
        )
    arn = given["deadLetterTargetArn"]
    if not isinstance(arn, str) or not is_queue_arn(arn):
        raise _bad_redrive(text, "Dead-letter target ARN should be fully qualified ARN.")
    return RedrivePolicy(arn, receives_max)


def is_queue_arn(text: str) -> bool:
    parts = text.split(":")
    return len(parts) == 6 and parts[0] == "arn" and parts[2] == "sqs" and bool(parts[5])


def _count(value: object) -> int:
    """A number, or a number as text; anything else counts as out of range."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 10:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _object(text: str) -> dict[str, Any] | None:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return given if isinstance(given, dict) else None


def _bad_redrive(text: str, reason: str) -> HoldfastError:
    return InvalidParameterValue(f"Value {text} for parameter RedrivePolicy is invalid. Reason: {reason}")


def check_target(text: str, *, source_arn: str, is_fifo: bool, target: LaneConfig | None, allow: str) -> None:
    """The dead-letter queue exists, belongs to the same account, is of the same kind and takes letters of this
    source. `allow`: its RedriveAllowPolicy, or empty."""
    policy = redrive_policy(text)
    if owner_of(policy.target_arn) != owner_of(source_arn):
        raise _bad_redrive(text, "Dead-letter target owner should be same as the source.")
    if target is None:
        raise _bad_redrive(text, "Dead letter target does not exist.")
    if (target.kind is Kind.FIFO) != is_fifo:
        raise _bad_redrive(text, "Dead-letter queue must be same type of queue as the source.")
    if not is_allowed(allow, source_arn):
        raise _bad_redrive(text, "The redrive allow policy of the dead-letter queue does not permit this source queue.")


def is_allowed(allow: str, source_arn: str) -> bool:
    if not allow:
        return True
    policy = allow_policy(allow)
    if policy.permission != "byQueue":
        return policy.permission == "allowAll"
    return _without_region(source_arn) in [_without_region(each) for each in policy.sources]


def _without_region(arn: str) -> str:
    """A queue is found by account and name, whatever the region says."""
    return arn.split(":", 4)[-1]


def allow_policy(text: str) -> AllowPolicy:
    given = _object(text)
    if (
        given is None
        or given.get("redrivePermission") not in _PERMISSIONS
        or any(name not in _ALLOW_MEMBERS for name in given)
    ):
        raise _unsupported_format()
    permission, sources = given["redrivePermission"], given.get("sourceQueueArns")
    if sources is not None and not (isinstance(sources, list) and all(isinstance(each, str) for each in sources)):
        raise _unsupported_format()
    if permission != "byQueue":
        if sources is not None:
            raise _bad_allow(
                text, "To specify one or more source queue ARNs, you must set redrivePermission to byQueue."
            )
        return AllowPolicy(permission)
    if not sources:
        raise _bad_allow(
            text,
            "When you specify the byQueue permission type, you must also specify one or more sourceQueueArns values.",
        )
    if len(sources) > SOURCES_MAX:
        raise _bad_allow(text, f"The maximum number of source queue ARNs you can specify is {SOURCES_MAX}.")
    return AllowPolicy(permission, tuple(sources))


def _unsupported_format() -> HoldfastError:
    return InvalidAttributeValue(
        "Invalid value for the parameter RedriveAllowPolicy. "
        "Reason: Amazon SQS can't create the redrive allow policy, as it’s in an unsupported format."
    )


def _bad_allow(text: str, reason: str) -> HoldfastError:
    return InvalidParameterValue(
        f"Value {text} for parameter RedriveAllowPolicy is invalid. "
        f"Reason: Amazon SQS can't create the redrive allow policy. {reason}"
    )
