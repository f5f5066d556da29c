"""What a shard can be asked, and what it answers. Plain values; the rules are in shard, standard, fifo, redrive."""

from typing import Final, final

import msgspec

from holdfast.core.errors import HoldfastError
from holdfast.core.queue.record import Arrived, Moved, Sent
from holdfast.core.types import (
    Address,
    Cause,
    Counts,
    Epoch,
    Header,
    Instant,
    LaneConfig,
    LaneId,
    Lsn,
    Receipt,
    Seq,
    ShardId,
    WallMs,
)


class Request(msgspec.Struct, frozen=True, gc=False):
    """Names what a front-end asks for, so that it can ask again: whoever carried it out gives the first answer."""

    id: bytes  # 16 bytes, never used for anything else
    age: int = 0  # microseconds since it was first asked; 0: now


class Send(msgspec.Struct, frozen=True, gc=False):
    lane: LaneId
    body: bytes  # as the client sent it: hashed for content-based deduplication, never stored
    content: bytes  # what receive needs, ready-made; stored
    size: int  # body plus attributes, as SQS counts
    group: str = ""
    deduplication_id: str = ""
    delay_s: int | None = None
    time_to_live_s: int | None = None
    request: Request | None = None


class Receive(msgspec.Struct, frozen=True, gc=False):
    lane: LaneId
    count_max: int = 1
    visibility_timeout_s: int | None = None
    attempt_id: str = ""
    request: Request | None = None
    is_repeat_only: bool = False  # hands out what this attempt has been handed, or nothing


class Watch(msgspec.Struct, frozen=True, gc=False):
    """Is there something to receive? Takes nothing; may wait for it, like a receive."""

    lane: LaneId


class Delete(msgspec.Struct, frozen=True, gc=False):
    lane: LaneId
    receipt: Receipt


class ChangeVisibility(msgspec.Struct, frozen=True, gc=False):
    """`reason`: why the consumer gives the message back. It is kept with the message, which is therefore written once
    more, as is who says so: the shell, which can read it, puts it into `rewritten`."""

    lane: LaneId
    receipt: Receipt
    timeout_s: int
    request: Request | None = None
    reason: str = ""
    rewritten: Moved | None = None
    consumer: str = ""  # its ARN


class Purge(msgspec.Struct, frozen=True, gc=False):
    lane: LaneId
    name: str  # of the queue, for the error text
    request: Request | None = None


class Configure(msgspec.Struct, frozen=True, gc=False):
    """Makes the lane, or gives it a newer configuration. Lane ids are used once: who only wants to change one says so,
    for it may have been retired since he heard of it, and a lane that nobody knows takes what is redriven to it."""

    lane: LaneId
    config: LaneConfig
    is_known: bool = False  # it has to exist


class Drop(msgspec.Struct, frozen=True, gc=False):
    lane: LaneId


# Lanes that follow each other (descent.py)


class Found(msgspec.Struct, frozen=True, gc=False):
    """A lane that is configured and has had no messages gets these parents. Answers how far it has inherited."""

    lane: LaneId
    parents: tuple[Address, ...]


class Drain(msgspec.Struct, frozen=True, gc=False):
    lane: LaneId


class Bequeath(msgspec.Struct, frozen=True, gc=False):
    """What heirs of this draining lane have to know, from `cursor` on."""

    lane: LaneId
    cursor: bytes = b""


class Bequest(msgspec.Struct, frozen=True, gc=False):
    parent: Address
    cursor: bytes
    following: bytes  # the next cursor; empty: this is all
    last: Seq  # the heir's numbers begin behind it
    rows: bytes  # deduplication ids with their age (dedup.py)


class Inherit(msgspec.Struct, frozen=True, gc=False):
    """Answers how far it has inherited, as Found does."""

    lane: LaneId
    bequest: Bequest


class Seal(msgspec.Struct, frozen=True, gc=False):
    """If this draining lane is empty, let it stay so. Answers Done, or what there still is."""

    lane: LaneId


class Open(msgspec.Struct, frozen=True, gc=False):
    """This parent is sealed."""

    lane: LaneId
    parent: Address


class Retire(msgspec.Struct, frozen=True, gc=False):
    """Drop a sealed lane."""

    lane: LaneId


class Tick(msgspec.Struct, frozen=True, gc=False):
    """Time has passed: retention, time to live, move tasks."""


class Peek(msgspec.Struct, frozen=True, gc=False):
    """A read that changes nothing: visible, delayed and in-flight messages in order of their sequence."""

    lane: LaneId
    after: Seq = Seq(0)
    count_max: int = 10


class Count(msgspec.Struct, frozen=True, gc=False):
    lane: LaneId


class StartMove(msgspec.Struct, frozen=True, gc=False):
    lane: LaneId
    task: str
    target: Address | None  # None: each message goes back to where it came from
    rate: int = 0  # messages per second; 0: not given


class CancelMove(msgspec.Struct, frozen=True, gc=False):
    lane: LaneId
    task: str


class ListMoves(msgspec.Struct, frozen=True, gc=False):
    lane: LaneId


class Handover(msgspec.Struct, frozen=True, gc=False):
    """A message on its way to another shard. Durations travel, never instants."""

    source: ShardId
    number: int  # rises by one per (source, target shard)
    lane: LaneId
    group: int
    size: int
    age: int  # microseconds since it was queued
    time_left: int  # of its time to live; 0: none
    count: int
    origin: int
    cause: Cause
    wall: WallMs  # SentTimestamp; 0: it is queued anew
    message_id: bytes  # 16 bytes; empty: it gets a new one
    content: bytes


class Arrive(msgspec.Struct, frozen=True, gc=False):
    handover: Handover


class Settle(msgspec.Struct, frozen=True, gc=False):
    """The target shard answered: it has the message, or its lane is gone. `instead`: where that lane's messages go now,
    when it was split or merged (cluster/redirect.py)."""

    target: ShardId
    number: int
    is_refused: bool
    instead: Address | None = None


class Compact(msgspec.Struct, frozen=True, gc=False):
    """Write these messages again at the end of the log if they are still alive where they were."""

    messages: tuple[tuple[Header, Sent | Arrived | Moved], ...]


Command = (
    Send
    | Receive
    | Watch
    | Delete
    | ChangeVisibility
    | Purge
    | Configure
    | Drop
    | Tick
    | Peek
    | Count
    | StartMove
    | CancelMove
    | ListMoves
    | Arrive
    | Settle
    | Compact
    | Found
    | Drain
    | Bequeath
    | Inherit
    | Seal
    | Open
    | Retire
)


# Answers


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """The message is in the lane. (shard, epoch, lsn) make its MessageId; a duplicate gets the original's."""

    epoch: Epoch
    lsn: Lsn
    seq: Seq
    shard: ShardId = ShardId(0)  # 0: the lane's own


class Delivered(msgspec.Struct, frozen=True, gc=False):
    header: Header
    number: int  # of this receive, for the receipt
    count: int  # ApproximateReceiveCount
    first_wall: WallMs  # ApproximateFirstReceiveTimestamp


class Delivery(msgspec.Struct, frozen=True, gc=False):
    messages: tuple[Delivered, ...]


class Watched(msgspec.Struct, frozen=True, gc=False):
    visible: int  # about so many can be received now; 0: none


class Done(msgspec.Struct, frozen=True, gc=False):
    pass


class Peeked(msgspec.Struct, frozen=True, gc=False):
    header: Header
    state: str  # visible, delayed, in flight
    until: Instant  # end of delay or lease; 0 when visible
    count: int
    cause: Cause  # why it was to leave its queue and could not


class PeekReply(msgspec.Struct, frozen=True, gc=False):
    messages: tuple[Peeked, ...]
    last: Seq = Seq(0)  # of the lane, whether that message is still there or not


class MoveStatus(msgspec.Struct, frozen=True, gc=False):
    task: str
    state: str  # RUNNING, COMPLETED, CANCELLING, CANCELLED, FAILED
    target: Address | None
    rate: int
    moved: int
    to_move: int
    failure: str
    started_wall: WallMs


class MovesReply(msgspec.Struct, frozen=True, gc=False):
    tasks: tuple[MoveStatus, ...]


class ArriveReply(msgspec.Struct, frozen=True, gc=False):
    target: ShardId
    number: int
    is_refused: bool


class Inheritance(msgspec.Struct, frozen=True, gc=False):
    parent: Address
    cursor: bytes = b""
    is_complete: bool = False
    is_over: bool = False


class Lineage(msgspec.Struct, frozen=True, gc=False):
    parents: tuple[Inheritance, ...]


Answer = (
    Accepted
    | Delivery
    | Watched
    | Done
    | Counts
    | PeekReply
    | MoveStatus
    | MovesReply
    | ArriveReply
    | Lineage
    | Bequest
)
Outcome = Answer | HoldfastError

EMPTY_DELIVERY: Final = Delivery(())
NOTHING_VISIBLE: Final = Watched(0)
DONE: Final = Done()


@final
class Need(msgspec.Struct, frozen=True, gc=False):
    """`decide` cannot answer yet: load headers of this lane, from log position `lsn` on, with seq in
    [first, last]; give them back with `Shard.load` and ask again."""

    lane: LaneId
    lsn: Lsn
    first: Seq
    last: Seq
    count_max: int
    end: Lsn = Lsn(0)  # not 0: they are copies that compaction made, all of them up to this log position
    is_look: bool = False  # for a peek
