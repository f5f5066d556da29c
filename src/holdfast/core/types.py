"""The page of nouns: identifiers, and the values that commands, records and state are made of.

Time is an Instant: microseconds of cluster time, which stands still while a shard is down.
Wall-clock time (WallMs) is carried for display and decides nothing.
"""

import enum
from typing import NamedTuple, NewType

import msgspec

ShardId = NewType("ShardId", int)  # one replicated log
LaneId = NewType("LaneId", int)  # one ordered part of a queue; never used twice
Seq = NewType("Seq", int)  # place of a message in its lane, from 1
Lsn = NewType("Lsn", int)  # place of a record in its shard's log, from 1
Epoch = NewType("Epoch", int)  # raised at every start and change of configuration
Instant = NewType("Instant", int)  # cluster time, microseconds
WallMs = NewType("WallMs", int)  # wall-clock time, milliseconds since 1970
Group = NewType("Group", int)  # 64-bit digest of a MessageGroupId; 0 means none


class QueueName(NamedTuple):
    """A queue's whole name: each account gives out its own. In this order they are sorted."""

    account: str  # 12 digits
    name: str


class Kind(enum.IntEnum):
    STANDARD = 0
    FIFO = 1


class Cause(enum.IntEnum):
    """Why a message left its queue for another one."""

    NONE = 0
    RECEIVES = 1  # received more often than maxReceiveCount
    TARGET_GONE = 2  # the queue it was on its way to no longer exists
    LENGTH = 3  # its queue was full
    TIME_TO_LIVE = 4  # its own time to live was over
    REDRIVE = 5  # a move task took it


class Address(msgspec.Struct, frozen=True, gc=False):
    """Where a lane lives."""

    shard: ShardId
    lane: LaneId


class Redrive(msgspec.Struct, frozen=True, gc=False):
    """A lane's dead-letter target."""

    target: Address
    receives_max: int


class LaneConfig(msgspec.Struct, frozen=True, gc=False):
    """What a queue's attributes mean to its lanes. Durations in the unit SQS gives them."""

    version: int = 1
    kind: Kind = Kind.STANDARD
    visibility_timeout_s: int = 30
    delay_s: int = 0
    retention_s: int = 345_600
    message_bytes_max: int = 1_048_576
    content_deduplication: bool = False
    deduplication_per_group: bool = False  # DeduplicationScope=messageGroup
    request_deduplication: bool = False  # standard queues: identical requests are queued once
    at_most_once: bool = False  # a message is gone once it is handed out
    redrive: Redrive | None = None
    messages_max: int = 0  # 0: no limit
    bytes_max: int = 0
    overflow_to_dead_letter: bool = False  # beyond the limits: dead-letter instead of refusing
    time_to_live_s: int = 0  # default of messages that bring none; 0: none
    is_strict: bool = True  # keep AWS's waiting rules
    is_async: bool = False  # replies wait for the primary's disk only; a fail-over may lose what lags behind


class Header(msgspec.Struct, frozen=True, gc=False):
    """What the core knows of a message that waits. Its content stays in the log.

    (epoch, lsn) name the record that brought it into this shard and never change; `at` is where its
    bytes are now, which compaction changes.
    """

    seq: Seq
    lsn: Lsn
    epoch: Epoch
    at: Lsn
    group: Group
    size: int
    time: Instant  # when it was queued; retention counts from here
    visible_at: Instant  # end of its delay
    deadline: Instant  # end of its time to live; 0: none
    count: int  # receives before it came to this lane
    origin: int  # packed Address of the lane it was dead-lettered from; 0: none
    is_aside: bool  # its delay does not fit the order of the lane, so it waits apart from the stream


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """What a receipt handle says, once its MAC has been checked."""

    lane: LaneId
    seq: Seq
    epoch: Epoch
    lsn: Lsn
    number: int  # which receive of this message
    handle: str = ""  # as the client wrote it, for error texts


class Receipts(msgspec.Struct, frozen=True, gc=False):
    """Those of a batch, all of one lane, by columns."""

    lane: LaneId
    seqs: tuple[Seq, ...]
    epochs: tuple[Epoch, ...]
    lsns: tuple[Lsn, ...]
    numbers: tuple[int, ...]
    handles: tuple[str, ...]

    def apart(self) -> list[Receipt]:
        columns = zip(self.seqs, self.epochs, self.lsns, self.numbers, self.handles, strict=True)
        return [Receipt(self.lane, *each) for each in columns]


class Counts(msgspec.Struct, frozen=True, gc=False):
    visible: int
    in_flight: int
    delayed: int
    bytes: int


def pack_address(address: Address) -> int:
    return address.shard << 48 | address.lane


def unpack_address(packed: int) -> Address:
    return Address(ShardId(packed >> 48), LaneId(packed & (1 << 48) - 1))
