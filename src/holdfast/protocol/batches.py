"""The envelope of a batch: rules that fail the whole call before anything happens."""

import re
from collections.abc import Sequence
from typing import TypeVar

from holdfast.core import limits
from holdfast.core.errors import (
    BatchEntryIdsNotDistinct,
    BatchRequestTooLong,
    EmptyBatchRequest,
    InvalidBatchEntryId,
    TooManyEntriesInBatchRequest,
)
from holdfast.protocol.actions import ChangeEntry, DeleteEntry, SendEntry, required

ENTRIES_MAX = 10

ID_CHARS_MAX = 80
_ID = re.compile(r"[A-Za-z0-9_-]{1,80}").fullmatch  # asked only when a quicker look does not do
Entry = TypeVar("Entry", SendEntry, DeleteEntry, ChangeEntry)


def check(entries: list[Entry] | None, action: str) -> list[tuple[str, Entry]]:
    """The entries with their ids."""
    if not entries:
        raise EmptyBatchRequest(f"There should be at least one {action}RequestEntry in the request.")
    if len(entries) > ENTRIES_MAX:
        raise TooManyEntriesInBatchRequest(
            f"Maximum number of entries per request are {ENTRIES_MAX}. You have sent {len(entries)}."
        )
    named: dict[str, Entry] = {}
    for entry in entries:
        name = required(entry.id, f"{action}RequestEntry.Id")
        if not (name.isalnum() and name.isascii() and len(name) <= ID_CHARS_MAX) and not _ID(name):
            raise InvalidBatchEntryId
        if name in named:
            raise BatchEntryIdsNotDistinct(f"Id {name} repeated.")
        named[name] = entry
    return list(named.items())


def check_bytes(sizes: Sequence[int]) -> None:
    total = sum(sizes)
    if total > limits.MESSAGE_BYTES_MAX:
        raise BatchRequestTooLong(
            f"Batch requests cannot be longer than {limits.MESSAGE_BYTES_MAX} bytes. You have sent {total} bytes."
        )
