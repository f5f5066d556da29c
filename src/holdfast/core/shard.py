"""The state machine of one shard. (Interface first; the body is being written.)

begin(): a frame starts, time moves to its stamp. Called for EVERY frame, live and in replay.
decide(): raises HoldfastError for a refusal; changes no replicated state. apply(): lsn += 1; cannot fail.
load(): answers a Need: headers in ascending seq; every message of the lane with seq in [need.first, upto]
that exists is among them.
dump(): all replicated state (not the windows), canonical. restore(): ValueError when it cannot be read.
live: stretch (lsn >> STRETCH_BITS) of `at` -> bytes of living messages there.
is_alive(): is the message of this index entry still alive at header.at?
"""

from collections.abc import Sequence

from holdfast.core.command import Answer, Command, Need
from holdfast.core.record import Record
from holdfast.core.types import Epoch, Header, Instant, LaneId, Lsn, Seq, ShardId, WallMs


class Shard:
    def __init__(self, shard: ShardId) -> None:
        self.shard = shard
        self.lsn = Lsn(0)  # last applied record
        self.epoch = Epoch(0)
        self.now = Instant(0)
        self.wall = WallMs(0)
        self.live: dict[int, int] = {}

    def begin(self, epoch: Epoch, now: Instant, wall: WallMs) -> None:
        raise NotImplementedError

    def decide(self, command: Command, committed: Lsn) -> tuple[tuple[Record, ...], Answer] | Need:
        raise NotImplementedError

    def apply(self, record: Record) -> None:
        raise NotImplementedError

    def load(self, need: Need, headers: Sequence[Header], upto: Seq) -> None:
        raise NotImplementedError

    def deadline(self) -> Instant | None:
        raise NotImplementedError

    def dump(self) -> bytes:
        raise NotImplementedError

    @classmethod
    def restore(cls, data: bytes) -> "Shard":
        raise NotImplementedError

    def is_alive(self, lane: LaneId, header: Header) -> bool:
        raise NotImplementedError
