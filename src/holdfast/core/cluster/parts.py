"""One request of a client as parts, one per command, each with its own way to a lane; and their outcomes joined."""

import hashlib
from collections.abc import Sequence
from typing import Any, assert_never

import msgspec

from holdfast.core.cluster.calls import ByReceipt, Everywhere, Placed, SendAll
from holdfast.core.cluster.table import LaneRow, Layout, Seat
from holdfast.core.errors import HoldfastError, InvalidParameterValue, ReceiptHandleIsInvalid
from holdfast.core.queue.command import DONE, ChangeVisibility, Command, Delete, MovesReply, Outcome, Send
from holdfast.core.queue.dedup import group_of
from holdfast.core.types import Counts, Instant, LaneId, QueueName


class Job:
    """What one client asked for."""

    __slots__ = ("deadline", "left", "outcomes", "queue", "token", "tries")

    def __init__(self, token: Any, queue: QueueName, count: int, deadline: Instant) -> None:
        assert count, "a client asks for something"
        self.token = token
        self.queue = queue
        self.tries = 0
        self.outcomes: list[Placed | None] = [None] * count
        self.left = count
        self.deadline = deadline


class Part:
    """One command of it, on its way."""

    __slots__ = (
        "asked",
        "command",
        "detours",
        "doubts",
        "firsts",
        "index",
        "job",
        "key",
        "lane",
        "refusal",
        "refused",
        "request",
        "row",
    )

    def __init__(self, job: Job, index: int, command: Command, *, lane: LaneId | None, key: int | None) -> None:
        self.job = job
        self.index = index
        self.command = command
        self.lane = lane  # the only one it may go to; None: by its key, or any
        self.key = key
        self.request = b""
        self.row: LaneRow | None = None  # where it was sent last …
        self.asked: Seat | None = None  # … and to whom
        self.doubts: dict[LaneId, None] = {}  # where it may have been done
        self.firsts: dict[LaneId, Instant] = {}  # when each lane was first asked
        self.refused: dict[LaneId, None] = {}  # since the last pause
        self.detours = 0  # since the last pause
        self.refusal: HoldfastError | None = None


def key_of(send: Send, action: SendAll) -> int | None:
    """What decides a message's lane; None: nothing does."""
    if action.is_fifo:
        return group_of(send.group)
    if action.is_deduplicated:
        name = send.deduplication_id.encode() or send.body
        return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest())
    return None


def count_of(action: SendAll | ByReceipt | Everywhere, layout: Layout | None) -> int:
    match action:
        case SendAll(sends):
            return len(sends)
        case ByReceipt(commands):
            return len(commands)
        case Everywhere():
            return len(layout.lanes) if layout is not None else 1
        case _:
            assert_never(action)


def parts_of(job: Job, action: SendAll | ByReceipt | Everywhere, layout: Layout) -> list[Part]:
    match action:
        case SendAll(sends):
            return [Part(job, n, each, lane=None, key=key_of(each, action)) for n, each in enumerate(sends)]
        case ByReceipt(commands):
            return [Part(job, n, each, lane=each.receipt.lane, key=None) for n, each in enumerate(commands)]
        case Everywhere(command):
            return [Part(job, n, command, lane=row.lane, key=None) for n, row in enumerate(layout.lanes)]
        case _:
            assert_never(action)


def join(outcomes: Sequence[Placed]) -> Outcome:
    """One answer for a queue out of those of its lanes: the first refusal, or all of them together."""
    answers = [each.outcome for each in outcomes]
    for answer in answers:
        if isinstance(answer, HoldfastError):
            return answer
    counts = [each for each in answers if isinstance(each, Counts)]
    if counts:
        columns = zip(*map(msgspec.structs.astuple, counts), strict=True)
        return Counts(*map(sum, columns))
    moves = [each for each in answers if isinstance(each, MovesReply)]
    return MovesReply(tuple(task for each in moves for task in each.tasks)) if moves else DONE


def outcome_elsewhere(command: Command, layout: Layout) -> Outcome:
    """Of a command for a lane that the queue does not have: it has gone with all its messages, or never was its own."""
    if not isinstance(command, Delete | ChangeVisibility):
        return DONE  # a lane that is gone needs no configuration and has nothing to purge or count
    handle = command.receipt.handle
    if command.receipt.lane not in layout.former:
        return ReceiptHandleIsInvalid(f'The receipt handle "{handle}" is not valid for this queue.')
    if isinstance(command, Delete):
        return DONE
    return InvalidParameterValue(
        f"Value {handle} for parameter ReceiptHandle is invalid. "
        "Reason: Message does not exist or is not available for visibility timeout change."
    )
