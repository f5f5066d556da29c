"""Records: decided facts. Everything chosen is inside; `apply` only carries it out. Their bytes: codec.py.

A `request` is the id of the request that made the record, 16 bytes, or empty (requests.py).
"""

from typing import Final

import msgspec

from holdfast.core.types import (
    Address,
    Cause,
    Group,
    Header,
    Instant,
    LaneConfig,
    LaneId,
    Seq,
    ShardId,
    WallMs,
)

NO_DIGEST: Final = bytes(16)


class Sent(msgspec.Struct, frozen=True, gc=False):
    lane: LaneId
    seq: Seq
    group: Group
    size: int
    delay_s: int
    time_to_live_s: int  # 0: none
    wall: WallMs
    digest: bytes  # of the deduplication id in its scope; 16 zero bytes: none
    is_aside: bool
    content: bytes
    request: bytes = b""


class Arrived(msgspec.Struct, frozen=True, gc=False):
    """A message came from another shard's (or this shard's) outbox."""

    lane: LaneId
    seq: Seq
    group: Group
    size: int
    age: int
    time_left: int  # 0: no time to live
    count: int
    origin: int
    cause: Cause
    source: ShardId
    number: int
    wall: WallMs
    message_id: bytes  # 16 zero bytes: derived from this record
    content: bytes


class Moved(msgspec.Struct, frozen=True, gc=False):
    """Compaction wrote a living message again. Its header's `at` was the old place."""

    lane: LaneId
    header: Header
    cause: Cause
    wall: WallMs
    message_id: bytes
    content: bytes


class Received(msgspec.Struct, frozen=True, gc=False):
    """Messages were handed out. `fresh` were never handed out before; `again` were; `parked` were passed over,
    so that the cursor can move on."""

    lane: LaneId
    until: Instant
    wall: WallMs
    fresh: tuple[Header, ...]
    again: tuple[Seq, ...]
    parked: tuple[Seq, ...] = ()
    attempt: bytes = NO_DIGEST  # digest of a ReceiveRequestAttemptId
    is_repeat: bool = False  # the same attempt asked again: leases start anew, nothing is counted
    is_final: bool = False  # at-most-once queue: handing out removes
    request: bytes = b""


class Deleted(msgspec.Struct, frozen=True, gc=False):
    """Messages that had been handed out: one, or those of a batch, each once."""

    lane: LaneId
    seqs: tuple[Seq, ...]


class Changed(msgspec.Struct, frozen=True, gc=False):
    lane: LaneId
    seq: Seq
    until: Instant
    request: bytes = b""


class Expired(msgspec.Struct, frozen=True, gc=False):
    """One message ended: by retention, by its time to live, or because a consumer deleted it whose hand-out was lost
    in a fail-over (then it was never handed out as far as this log knows)."""

    lane: LaneId
    header: Header
    is_fresh: bool  # never handed out, so it is not among the leases


class Trimmed(msgspec.Struct, frozen=True, gc=False):
    """Retention ended the oldest messages that were never handed out, up to `last`, all in one stretch of the log."""

    lane: LaneId
    last: Seq
    stretch: int
    count: int
    size: int


class Purged(msgspec.Struct, frozen=True, gc=False):
    lane: LaneId
    request: bytes = b""


class Configured(msgspec.Struct, frozen=True, gc=False):
    lane: LaneId
    config: LaneConfig


class Dropped(msgspec.Struct, frozen=True, gc=False):
    lane: LaneId


class Departed(msgspec.Struct, frozen=True, gc=False):
    """A message left its lane for the outbox."""

    lane: LaneId
    header: Header
    is_fresh: bool
    count: int  # receives so far
    target: Address
    number: int
    cause: Cause


class Settled(msgspec.Struct, frozen=True, gc=False):
    """The target has committed this hand-over."""

    target: ShardId
    number: int


class Returned(msgspec.Struct, frozen=True, gc=False):
    """The target is gone: the outbox entry becomes a visible message of its lane again."""

    target: ShardId
    number: int


class Refused(msgspec.Struct, frozen=True, gc=False):
    """A hand-over met no lane here. Numbered, so that the answer can be given again."""

    source: ShardId
    number: int


class TaskStarted(msgspec.Struct, frozen=True, gc=False):
    lane: LaneId
    task: str
    target: Address | None
    rate: int
    last: Seq  # messages up to here are moved
    to_move: int
    wall: WallMs


class TaskEnded(msgspec.Struct, frozen=True, gc=False):
    """The running task's new state: CANCELLING, CANCELLED, COMPLETED or FAILED."""

    lane: LaneId
    state: str
    failure: str


class Founded(msgspec.Struct, frozen=True, gc=False):
    """A new lane is the heir of these."""

    lane: LaneId
    parents: tuple[Address, ...]


class Draining(msgspec.Struct, frozen=True, gc=False):
    """A lane takes no new messages any more."""

    lane: LaneId


class Inherited(msgspec.Struct, frozen=True, gc=False):
    """An heir knows deduplication ids of a parent up to `following`; empty: all of them."""

    lane: LaneId
    parent: Address
    last: Seq
    following: bytes
    rows: bytes


class Sealed(msgspec.Struct, frozen=True, gc=False):
    """A draining lane is empty and stays so."""

    lane: LaneId


class Opened(msgspec.Struct, frozen=True, gc=False):
    """An heir knows that this parent is sealed."""

    lane: LaneId
    parent: Address


Message = Sent | Arrived | Moved
Record = (
    Message
    | Received
    | Deleted
    | Changed
    | Expired
    | Trimmed
    | Purged
    | Configured
    | Dropped
    | Departed
    | Settled
    | Returned
    | Refused
    | TaskStarted
    | TaskEnded
    | Founded
    | Draining
    | Inherited
    | Sealed
    | Opened
)
