"""Conditions of policy statements: operators, the keys they may be asked about, and when they hold.

    "Condition": {"IpAddress": {"aws:SourceIp": ["10.0.0.0/8", "::1"]}, "Bool": {"aws:SecureTransport": "true"}}

Laws
- All conditions of a statement must hold. One of a key's values is enough; for a negated operator none may match.
- A key that the request does not have: …IfExists and negated operators hold, the others do not. Null asks for this.
- An operator, key, value or combination that is not understood is refused when the policy is read. That includes
  policy variables (${aws:…}) and the set operators ForAllValues and ForAnyValue.
"""

import enum
import ipaddress
from collections.abc import Callable
from typing import Any, assert_never

import msgspec

from holdfast.core import civil
from holdfast.core.admission.access import Access
from holdfast.core.admission.wildcard import Glob, Patterns, glob, patterns

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_ARN_PARTS = 6


class NotUnderstood(Exception):
    """Why a policy is refused; an InvalidAttributeValue once it leaves core/admission/policy_text.py."""


class Key(enum.StrEnum):
    """What a condition can ask about; the names are in lower case, as they match in any."""

    SOURCE_ARN = "aws:sourcearn"
    SOURCE_ACCOUNT = "aws:sourceaccount"
    PRINCIPAL_ARN = "aws:principalarn"
    PRINCIPAL_ACCOUNT = "aws:principalaccount"
    SOURCE_IP = "aws:sourceip"
    SECURE_TRANSPORT = "aws:securetransport"
    CURRENT_TIME = "aws:currenttime"
    EPOCH_TIME = "aws:epochtime"


class Family(enum.Enum):
    STRING = 1
    ARN = 2
    BOOL = 3
    IP = 4
    DATE = 5
    NUMERIC = 6


class _Condition(msgspec.Struct, frozen=True, kw_only=True):
    key: Key
    is_negated: bool = False
    is_optional: bool = False  # …IfExists


class OnText(_Condition, frozen=True, kw_only=True):
    values: Patterns
    is_folded: bool = False  # compared in lower case


class OnArn(_Condition, frozen=True, kw_only=True):
    values: tuple[tuple[Glob, ...], ...]  # each of the six parts is matched by itself


class OnAddress(_Condition, frozen=True, kw_only=True):
    values: tuple[Network, ...]


class OnTime(_Condition, frozen=True, kw_only=True):
    relation: str
    values: tuple[int, ...]


class OnPresence(_Condition, frozen=True, kw_only=True):
    values: frozenset[bool]  # is it absent?


Condition = OnText | OnArn | OnAddress | OnTime | OnPresence

_TEXTS = frozenset({Family.STRING})
_FAMILIES = {
    Key.SOURCE_ARN: _TEXTS | {Family.ARN},
    Key.SOURCE_ACCOUNT: _TEXTS,
    Key.PRINCIPAL_ARN: _TEXTS | {Family.ARN},
    Key.PRINCIPAL_ACCOUNT: _TEXTS,
    Key.SOURCE_IP: frozenset({Family.IP}),
    Key.SECURE_TRANSPORT: _TEXTS | {Family.BOOL},
    Key.CURRENT_TIME: frozenset({Family.DATE}),
    Key.EPOCH_TIME: frozenset({Family.DATE, Family.NUMERIC}),
}

_RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "Equals": lambda one, other: one == other,
    "LessThan": lambda one, other: one < other,
    "LessThanEquals": lambda one, other: one <= other,
    "GreaterThan": lambda one, other: one > other,
    "GreaterThanEquals": lambda one, other: one >= other,
}

# Operator: family, is it negated, what else it says.
_OPERATORS: dict[str, tuple[Family, bool, str]] = {
    "StringEquals": (Family.STRING, False, "equals"),
    "StringNotEquals": (Family.STRING, True, "equals"),
    "StringEqualsIgnoreCase": (Family.STRING, False, "folded"),
    "StringNotEqualsIgnoreCase": (Family.STRING, True, "folded"),
    "StringLike": (Family.STRING, False, "like"),
    "StringNotLike": (Family.STRING, True, "like"),
    "ArnEquals": (Family.ARN, False, ""),
    "ArnLike": (Family.ARN, False, ""),
    "ArnNotEquals": (Family.ARN, True, ""),
    "ArnNotLike": (Family.ARN, True, ""),
    "Bool": (Family.BOOL, False, "folded"),
    "IpAddress": (Family.IP, False, ""),
    "NotIpAddress": (Family.IP, True, ""),
    "DateNotEquals": (Family.DATE, True, "Equals"),
    "NumericNotEquals": (Family.NUMERIC, True, "Equals"),
    **{f"Date{each}": (Family.DATE, False, each) for each in _RELATIONS},
    **{f"Numeric{each}": (Family.NUMERIC, False, each) for each in _RELATIONS},
}

# --- reading ------------------------------------------------------------------------------------------


def read_condition(operator: str, name: str, *, given: Any) -> Condition:
    """One operator on one key."""
    if name.lower() not in list(Key):
        raise NotUnderstood(f"The condition key {name} is not supported.")
    key, texts = Key(name.lower()), _read_texts(given)
    if operator == "Null":
        return OnPresence(key=key, values=frozenset(_read_flag(each) == "true" for each in texts))
    is_optional = operator.endswith("IfExists")
    family, is_negated, detail = _OPERATORS.get(operator.removesuffix("IfExists"), (None, False, ""))
    if family is None:
        raise NotUnderstood(f"The condition operator {operator} is not supported.")
    if family not in _FAMILIES[key]:
        raise NotUnderstood(f"The condition operator {operator} does not fit the key {name}.")
    match family:
        case Family.STRING | Family.BOOL:
            values, is_folded = _read_patterns(texts, family, detail), detail == "folded"
            return OnText(key=key, is_negated=is_negated, is_optional=is_optional, values=values, is_folded=is_folded)
        case Family.ARN:
            arns = tuple(_read_arn(each) for each in texts)
            return OnArn(key=key, is_negated=is_negated, is_optional=is_optional, values=arns)
        case Family.IP:
            networks = tuple(_read_network(each) for each in texts)
            return OnAddress(key=key, is_negated=is_negated, is_optional=is_optional, values=networks)
        case Family.DATE | Family.NUMERIC:
            times = tuple(_read_time(each, family) for each in texts)
            return OnTime(key=key, is_negated=is_negated, is_optional=is_optional, relation=detail, values=times)
        case _:
            assert_never(family)


def _read_texts(given: Any) -> list[str]:
    texts = [_read_text(each) for each in (given if isinstance(given, list) else [given])]
    if not texts:
        raise NotUnderstood("A condition must have a value.")
    return texts


def _read_text(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case str() if "${" not in value:
            return value
        case str():
            raise NotUnderstood(f"Policy variables are not supported: {value}")
    raise NotUnderstood("The value of a condition must be a string, a whole number or a boolean.")


def _read_patterns(texts: list[str], family: Family, detail: str) -> Patterns:
    if family is Family.BOOL:
        return Patterns(frozenset(_read_flag(each) for each in texts))
    if detail == "like":
        return patterns(texts)
    return Patterns(frozenset(each.lower() if detail == "folded" else each for each in texts))


def _read_flag(text: str) -> str:
    if text.lower() not in ("true", "false"):
        raise NotUnderstood(f"The value of this condition must be true or false, not {text}.")
    return text.lower()


def _read_arn(text: str) -> tuple[Glob, ...]:
    parts = text.split(":", _ARN_PARTS - 1) if text != "*" else ["*"] * _ARN_PARTS
    if len(parts) != _ARN_PARTS or (text != "*" and parts[0] != "arn"):
        raise NotUnderstood(f"{text} is not an ARN.")
    return tuple(map(glob, parts))


def _read_network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise NotUnderstood(f"{text} is not an IP address or range of addresses.") from None


def _read_time(text: str, family: Family) -> int:
    if text.isdecimal() and text.isascii() and len(text) <= 12:
        return int(text)
    seconds = civil.parse_extended(text) if family is Family.DATE else None
    if seconds is None:
        raise NotUnderstood(f"{text} is not a {family.name.lower()} value that is supported.")
    return seconds


# --- asking -------------------------------------------------------------------------------------------


def holds(condition: Condition, access: Access) -> bool:
    value = _value_of(condition.key, access)
    if isinstance(condition, OnPresence):
        return (value is None) in condition.values
    if value is None:
        return condition.is_negated or condition.is_optional
    return _has_match(condition, value) is not condition.is_negated


def _has_match(condition: OnText | OnArn | OnAddress | OnTime, value: str | int) -> bool:
    match condition, value:
        case OnText(values=values, is_folded=is_folded), str():
            return values.match(value.lower() if is_folded else value)
        case OnArn(values=arns), str():
            parts = value.split(":", _ARN_PARTS - 1)
            return len(parts) == _ARN_PARTS and any(_is_arn(globs, parts) for globs in arns)
        case OnAddress(values=networks), str():
            address = _address(value)
            return address is not None and any(address in network for network in networks)
        case OnTime(values=times, relation=relation), int():
            return any(_RELATIONS[relation](value, each) for each in times)
    raise AssertionError((condition, value))


def _is_arn(globs: tuple[Glob, ...], parts: list[str]) -> bool:
    return all(each.matches(part) for each, part in zip(globs, parts, strict=True))


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An IPv4 address that came in through an IPv6 socket is an IPv4 address; what is no address is in no network."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _value_of(key: Key, access: Access) -> str | int | None:
    match key:
        case Key.SOURCE_ARN:
            return access.source_arn or None
        case Key.SOURCE_ACCOUNT:
            return access.source_account or None
        case Key.PRINCIPAL_ARN:
            return access.principal or None
        case Key.PRINCIPAL_ACCOUNT:
            return access.account or None
        case Key.SOURCE_IP:
            return access.source_ip or None
        case Key.SECURE_TRANSPORT:
            return None if access.secure_transport is None else str(access.secure_transport).lower()
        case Key.CURRENT_TIME | Key.EPOCH_TIME:
            return access.now_s
        case _:
            assert_never(key)
