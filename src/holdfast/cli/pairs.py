"""NAME=VALUE as people type it: queue attributes, tags, message attributes."""

import re

from holdfast.cli.connect import Mistake, near_names
from holdfast.protocol.attributes import SETTABLE

SECONDS = ("DelaySeconds", "MessageRetentionPeriod", "ReceiveMessageWaitTimeSeconds", "VisibilityTimeout")
_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"([0-9]+)(s|m|min|h|d)").fullmatch
_TYPE = re.compile(r"(String|Number|Binary)(\.[A-Za-z0-9_.-]+)?").fullmatch


def split(pair: str, example: str) -> tuple[str, str]:
    name, equals, value = pair.partition("=")
    if not equals or not name:
        raise Mistake(f"{pair} is not NAME=VALUE; for example {example}")
    return name, value


def attributes(pairs: list[str]) -> dict[str, str]:
    """Of a queue. Times may have a unit: 90s, 5m, 12h, 4d."""
    return dict(map(_attribute, pairs))


def _attribute(pair: str) -> tuple[str, str]:
    name, value = split(pair, "VisibilityTimeout=60")
    if name not in SETTABLE:
        near = near_names(name, list(SETTABLE))
        hint = f"Did you mean {' or '.join(near)}?" if near else f"There are: {', '.join(sorted(SETTABLE))}."
        raise Mistake(f"queues have no attribute {name} that could be set. {hint}")
    found = _DURATION(value) if name in SECONDS or name.endswith("Seconds") else None
    return name, str(int(found[1]) * _UNITS[found[2]]) if found else value


def tags(pairs: list[str]) -> dict[str, str]:
    return dict(split(pair, "team=billing") for pair in pairs)


def message_attributes(pairs: list[str]) -> dict[str, dict[str, str]]:
    """NAME=TEXT, or NAME:TYPE=VALUE with a type of SQS; the value of a Binary one in base64."""
    return dict(map(_message_attribute, pairs))


def _message_attribute(pair: str) -> tuple[str, dict[str, str]]:
    name, value = split(pair, "colour=red or weight:Number=5")
    name, colon, kind = name.partition(":")
    if colon and not _TYPE(kind):
        raise Mistake(f"{pair} has the type {kind}. Types are String, Number and Binary.")
    kind = kind or "String"
    member = "BinaryValue" if kind.startswith("Binary") else "StringValue"
    return name, {"DataType": kind, member: value}
