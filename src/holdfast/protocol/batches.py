"""The envelope of a batch: rules that fail the whole call before anything happens."""

import re
from collections.abc import Sequence
from typing import Final, NoReturn, TypeVar

from holdfast.core import limits
from holdfast.core.errors import (
    BatchEntryIdsNotDistinct,
    BatchRequestTooLong,
    EmptyBatchRequest,
    InvalidBatchEntryId,
    TooManyEntriesInBatchRequest,
)
from holdfast.protocol.actions import ChangeEntry, DeleteEntry, SendEntry, required

ENTRIES_MAX: Final = 10
ID_MAX: Final = 80

_ID: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{ID_MAX}}}").fullmatch
Entry = TypeVar("Entry", SendEntry, DeleteEntry, ChangeEntry)


def check(entries: list[Entry] | None, action: str) -> tuple[list[str], list[Entry]]:
    """The entries, and before them their ids."""
    if not entries:
        raise EmptyBatchRequest(f"There should be at least one {action}RequestEntry in the request.")
    if len(entries) > ENTRIES_MAX:
        raise TooManyEntriesInBatchRequest(
            f"Maximum number of entries per request are {ENTRIES_MAX}. You have sent {len(entries)}."
        )
    names = [entry.id or "" for entry in entries]
    distinct = dict.fromkeys(names)
    if len(distinct) < len(entries) or not _are_ids(distinct):
        _refuse(entries, action)
    return names, entries


def _are_ids(names: dict[str, None]) -> bool:
    """Usual ones are looked at together."""
    text = "".join(names)
    is_usual = len(text) <= ID_MAX and text.isascii() and text.isalnum() and "" not in names
    return is_usual or all(map(_ID, names))


def _refuse(entries: list[Entry], action: str) -> NoReturn:
    """Says what is wrong with the first id that cannot be."""
    seen: list[str] = []
    for entry in entries:
        name = required(entry.id, f"{action}RequestEntry.Id")
        if not _ID(name):
            raise InvalidBatchEntryId
        if name in seen:
            raise BatchEntryIdsNotDistinct(f"Id {name} repeated.")
        seen.append(name)
    raise AssertionError("one of them cannot be")


def check_bytes(sizes: Sequence[int]) -> None:
    total = sum(sizes)
    if total > limits.MESSAGE_BYTES_MAX:
        raise BatchRequestTooLong(
            f"Batch requests cannot be longer than {limits.MESSAGE_BYTES_MAX} bytes. You have sent {total} bytes."
        )
