"""A client's request on its way, and what became of it. Its history is what the checkers judge."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Protocol

from holdfast.core.errors import HoldfastError
from holdfast.core.queue.columns import DeleteAll
from holdfast.core.queue.command import Answer, Command, Delete, Send
from holdfast.core.types import LaneId, Receipts, ShardId

OPEN, ANSWERED, REFUSED, UNKNOWN = "open", "answered", "refused", "unknown"


class Asker(Protocol):
    """Whoever sends requests. `told` comes once, when the fate is not OPEN any more as far as the asker can see."""

    def told(self, request: "Request", fate: str) -> None: ...


class Request:
    """`begun` and `ended` are the instants at the host: it was decided somewhere between. `own_*`: cluster time there.

    REFUSED: it never reached a shard. UNKNOWN: the process died with it.
    """

    __slots__ = (
        "about",
        "answer",
        "asker",
        "begun",
        "command",
        "contents",
        "ended",
        "fate",
        "host",
        "number",
        "own_begun",
        "own_ended",
        "reign",
        "shard",
        "wait_s",
    )

    def __init__(self, asker: Asker, shard: int, command: Command, *, about: Any = None, wait_s: int = 0) -> None:
        self.asker = asker
        self.shard = shard
        self.command = command
        self.about = about
        self.wait_s = wait_s
        self.number = 0
        self.fate = OPEN
        self.begun = self.ended = 0
        self.own_begun = self.own_ended = 0
        self.reign = 0  # of several hosts: which of the shard's primaries took it …
        self.host = ""  # … and where
        self.answer: Answer | HoldfastError | None = None
        self.contents: list[tuple[bytes, bytes]] = []  # of a delivery: content and MessageId of each message

    @property
    def is_over(self) -> bool:
        return self.fate != OPEN

    @property
    def is_done(self) -> bool:
        """It was answered, and not by a refusal."""
        return self.fate == ANSWERED and not isinstance(self.answer, HoldfastError)


class Settling:
    """Token of a hand-over: its answer goes back to the source shard."""

    def __init__(self, source: ShardId) -> None:
        self.source = source


def batches(requests: Sequence[Request]) -> Iterator[list[Request]]:
    """Sends to one queue that arrive together are one batch, as clients send them, and so are deletes; everything else
    is alone."""
    for kind, some in groupby(requests, _batched):
        if kind is None:
            yield from ([each] for each in some)
        else:
            yield list(some)


def _batched(request: Request) -> tuple[type, LaneId] | None:
    command = request.command
    return (type(command), command.lane) if isinstance(command, Send | Delete) else None


def columns_of(batch: list[Request]) -> DeleteAll | None:
    """Of a batch of deletes."""
    receipts = [each.command.receipt for each in batch if isinstance(each.command, Delete)]
    if not receipts:
        return None
    rows = [(each.seq, each.epoch, each.lsn, each.number, each.handle) for each in receipts]
    return DeleteAll(receipts[0].lane, Receipts(receipts[0].lane, *zip(*rows, strict=True)))
