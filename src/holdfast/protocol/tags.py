"""Tags of a queue: which are accepted. Keys are case-sensitive, and an empty value is a value."""

import re
from collections.abc import Sequence

from holdfast.core.errors import InvalidParameterValue, MissingParameter

TAGS_MAX = 50
KEY_CHARS_MAX = 128
VALUE_CHARS_MAX = 256

_PLAIN = re.compile(r"[\w\s.:/=+@-]*").fullmatch


def add(current: dict[str, str], given: dict[str, str] | None, *, name: str) -> dict[str, str]:
    """All tags of the queue `name` afterwards."""
    if not given:
        raise MissingParameter("The request must contain the parameter Tags.")
    for key, value in given.items():
        _check(key, value)
    merged = current | given
    if len(merged) > TAGS_MAX:
        raise InvalidParameterValue(f"Too many tags added for queue {name}.")
    return merged


def remove(current: dict[str, str], keys: Sequence[str] | None) -> dict[str, str]:
    """Keys that the queue does not have are no error."""
    if not keys:
        raise MissingParameter("The request must contain the parameter TagKeys.")
    return {key: value for key, value in current.items() if key not in keys}


def _check(key: str, value: str) -> None:
    if not 1 <= len(key) <= KEY_CHARS_MAX:
        raise InvalidParameterValue(f"Tag keys must be between 1 and {KEY_CHARS_MAX} characters in length.")
    if len(value) > VALUE_CHARS_MAX:
        raise InvalidParameterValue(f"Tag values must be between 0 and {VALUE_CHARS_MAX} characters in length.")
    if key.lower().startswith("aws:"):
        raise InvalidParameterValue("Tag keys cannot start with aws:, which is reserved.")
    if not (_PLAIN(key) and _PLAIN(value)):
        raise InvalidParameterValue(
            "Tag keys and values can only contain letters, digits, white space and the characters _ . : / = + - @"
        )
