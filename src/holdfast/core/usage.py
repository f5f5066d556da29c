"""Counting what is used: once per reply, and nowhere else.

    reply ─▶ Tally.note ─▶ a cell per caller, queue, action and outcome ─▶ turn, soon after ─▶ Window, until it is full

Laws
- Every reply to an SQS request adds one to the requests of exactly one cell. Cells only grow.
- Units are SQS's: one per started 64 KB of messages that a call carries, a batch by its total, at least one; a receive
  that finds nothing is one. A call that is refused costs nothing.
- A window holds a bounded number of keys. Beyond that an account's calls are counted together: who and which queue is
  lost, what the account owes is not.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from holdfast.core.errors import HoldfastError, RequestThrottled
from holdfast.core.limits import LATENCY_BUCKETS, SHAPE_BYTES_MAX, SHAPE_DEPTH_MAX, UNIT_BYTES, USAGE_KEYS_MAX
from holdfast.core.types import QueueName

# Places in a cell. The histogram of latencies follows.
REQUESTS: Final = 0
UNITS: Final = 1
MESSAGES: Final = 2
EMPTY: Final = 3
BYTES_IN: Final = 4
BYTES_OUT: Final = 5
MICROS: Final = 6
LATENCY: Final = 7
WIDTH: Final = LATENCY + LATENCY_BUCKETS

SENDS: Final = frozenset(("SendMessage", "SendMessageBatch"))
RECEIVE: Final = "ReceiveMessage"
ON_MESSAGES = SENDS | {
    RECEIVE,
    "DeleteMessage",
    "DeleteMessageBatch",
    "ChangeMessageVisibility",
    "ChangeMessageVisibilityBatch",
}
SUCCESS, REFUSED, THROTTLED, FAILED = "success", "refused", "throttled", "failed"
_LAST: Final = LATENCY + LATENCY_BUCKETS - 1

Cell = list[int]
Refusal = type[HoldfastError] | None  # None: success


class Who(Protocol):
    """A caller. Compared by identity."""

    account: str
    arn: str


class Reply(Protocol):
    """What is counted of an exchange."""

    caller: Any  # Who; a Protocol's attribute may not be narrowed by those who implement it
    queue: QueueName | None
    began: float  # by the tally's clock
    messages: int
    size: int  # bytes of the messages that were sent or handed out


class Key(NamedTuple):
    account: str
    principal: str
    queue: str
    action: str
    outcome: str
    error_code: str

    @property
    def queue_type(self) -> str:
        return "" if not self.queue else "fifo" if self.queue.endswith(".fifo") else "standard"


def units(size: int) -> int:
    return max(1, -(-size // UNIT_BYTES))


def bucket(micros: int) -> int:
    return min(micros.bit_length(), LATENCY_BUCKETS - 1)


def outcome(refusal: Refusal) -> str:
    if refusal is None:
        return SUCCESS
    if issubclass(refusal, RequestThrottled):
        return THROTTLED
    return FAILED if refusal.status >= 500 else REFUSED


class Tally:
    """Of one action. `note` is on the way of every request, so it is kept short: 0.6 µs."""

    __slots__ = ("_bytes", "_cells", "_is_receive", "_now", "_on_messages", "action", "on_new")

    def __init__(self, action: str, now: Callable[[], float]) -> None:
        self.action = action
        self._now = now  # seconds
        self.on_new: Callable[[], None] | None = None  # told of each new cell: something waits for `turn`
        self._on_messages = action in ON_MESSAGES
        self._is_receive = action == RECEIVE
        self._bytes = BYTES_IN if action in SENDS else BYTES_OUT
        self._cells: dict[tuple[Who, QueueName | None, Refusal], Cell] = {}

    def note(self, reply: Reply, refusal: Refusal = None, /) -> None:
        key = (reply.caller, reply.queue, refusal)
        cell = self._cells.get(key)
        if cell is None:
            cell = self._cells[key] = [0] * WIDTH
            if self.on_new is not None:
                self.on_new()
        micros = int((self._now() - reply.began) * 1e6)
        place = LATENCY + micros.bit_length()
        cell[place if place < _LAST else _LAST] += 1
        cell[MICROS] += micros
        cell[REQUESTS] += 1
        if refusal is not None:
            return
        size = reply.size
        cell[UNITS] += 1 if size <= UNIT_BYTES else units(size)
        if self._on_messages:
            cell[MESSAGES] += reply.messages
            if size:
                cell[self._bytes] += size
            elif self._is_receive and not reply.messages:
                cell[EMPTY] += 1

    def turn(self) -> Iterator[tuple[Key, Refusal, Cell]]:
        """What was counted since the last time."""
        cells, self._cells = self._cells, {}
        for (caller, queue, refusal), cell in cells.items():
            key = Key(
                queue.account if queue is not None else caller.account,
                caller.arn,
                queue.name if queue is not None else "",
                self.action,
                outcome(refusal),
                refusal.code if refusal is not None else "",
            )
            yield key, refusal, cell


class Window:
    """Counts of several turns, added up."""

    __slots__ = ("_cells", "_keys_max")

    def __init__(self, keys_max: int = USAGE_KEYS_MAX) -> None:
        self._cells: dict[Key, Cell] = {}
        self._keys_max = keys_max

    def __len__(self) -> int:
        return len(self._cells)

    def __iter__(self) -> Iterator[tuple[Key, Cell]]:
        return iter(self._cells.items())

    def add(self, counted: Iterable[tuple[Key, Cell]]) -> None:
        """O(keys): 2 µs each."""
        for key, cell in counted:
            held = self._cells.get(key)
            if held is None and len(self._cells) >= self._keys_max:
                key = key._replace(principal="", queue="", error_code="")  # noqa: PLW2901 - the account's rest
                held = self._cells.get(key)
            self._cells[key] = cell if held is None else [a + b for a, b in zip(held, cell, strict=True)]


def shape(body: bytes) -> str:
    """A digest of a body's form: names and types of JSON members, without any value; of other texts only that they are
    none, of long ones nothing. Bodies that fail for the same reason often look alike. O(length)."""
    if len(body) > SHAPE_BYTES_MAX:
        return ""
    try:
        form = _form(msgspec.json.decode(body), SHAPE_DEPTH_MAX)
    except (msgspec.DecodeError, RecursionError):
        form = "text"
    return hashlib.blake2b(form.encode(), digest_size=8).hexdigest()


def _form(value: Any, depth: int) -> str:
    match value:
        case dict() if depth:
            members = (f"{name}:{_form(value[name], depth - 1)}" for name in sorted(value))
            return f"{{{','.join(members)}}}"
        case list() if depth:
            return f"[{'|'.join(sorted({_form(each, depth - 1) for each in value}))}]"
    return type(value).__name__
