"""Queues that a configuration file declares: [queues.NAME]. Here their form; what attributes mean is not known here.

[queues.orders]
dead_letter_queue = "orders-dead"            # a declared one, or one that is there
max_receive_count = 5
attributes = { VisibilityTimeout = 60 }      # as SQS names them
tags = { team = "shop" }
apply = "check"                              # or "update"
"""

import difflib
import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.runtime.config.kinds import Kind, NotAllowed

SECTION = "queues"
RECEIVES_MAX = 1000  # maxReceiveCount, as in SQS
_KEYS = ("attributes", "tags", "dead_letter_queue", "max_receive_count", "apply")


class Pairs(tuple[tuple[str, str], ...]):
    """A table of texts that cannot change."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class DeclaredQueue:
    name: str
    attributes: Pairs
    tags: Pairs
    dead_letter_queue: str = ""
    max_receive_count: int = 0
    may_update: bool = False


def read_pairs(given: object) -> Pairs:
    """Numbers, truth values and tables become the text that SQS has for them."""
    if isinstance(given, str):
        try:
            given = tomllib.loads(f"given = {given}")["given"]
        except tomllib.TOMLDecodeError:
            raise NotAllowed from None
    if not isinstance(given, dict):
        raise NotAllowed
    return Pairs((name, _text(value)) for name, value in given.items())


def _text(value: object) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case dict() | list():
            return json.dumps(value)
        case _:
            raise NotAllowed


PAIRS = Kind("a table of names and values, for example { VisibilityTimeout = 60 }", read_pairs, "TABLE")


def read_queues(tables: object, problems: list[str], *, origin: str) -> tuple[DeclaredQueue, ...]:
    """What is wrong is added to `problems`."""
    if not isinstance(tables, dict):
        problems.append(f"{origin}: {SECTION} must be tables: write [{SECTION}.NAME] for each queue.")
        return ()
    made: list[DeclaredQueue] = []
    for name, table in tables.items():
        found = list(_problems(name, table))
        problems += [f"{origin}: {each}" for each in found]
        if not found:
            made.append(_queue(name, table))
    return tuple(made)


def _queue(name: str, table: Mapping[str, Any]) -> DeclaredQueue:
    return DeclaredQueue(
        name,
        read_pairs(table.get("attributes", {})),
        read_pairs(table.get("tags", {})),
        table.get("dead_letter_queue", ""),
        table.get("max_receive_count", 0),
        table.get("apply") == "update",
    )


def _problems(name: str, table: object) -> Iterator[str]:
    where = f"{SECTION}.{name}"
    if not isinstance(table, dict):
        yield f"{where} must be a table: write [{where}] and its keys below."
        return
    for key, value in table.items():
        if key not in _KEYS:
            near = difflib.get_close_matches(key, _KEYS, n=1)
            yield f"{where}.{key} is no setting." + (f" Did you mean {where}.{near[0]}?" if near else "")
        elif (allowed := _allowed(key, value)) is not None:
            yield f"{where}.{key} = {value!r} is not allowed. It must be {allowed}."
    if ("dead_letter_queue" in table) != ("max_receive_count" in table):
        yield f"{where}: dead_letter_queue and max_receive_count belong together: set both or none."


def _allowed(key: str, value: object) -> str | None:
    """What would be allowed; None: the value is."""
    match key:
        case "attributes" | "tags":
            try:
                read_pairs(value)
            except NotAllowed:
                return PAIRS.allowed
        case "dead_letter_queue":
            return None if isinstance(value, str) and value else "the name of a queue"
        case "max_receive_count":
            is_count = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= RECEIVES_MAX
            return None if is_count else f"a whole number from 1 to {RECEIVES_MAX}"
        case "apply":
            return None if value in ("check", "update") else "check or update"
    return None
