"""One shard on a log in memory, driven command by command: for property tests and for tests of single rules.

Everything is committed at once; what is not in memory is loaded from the log.
"""

import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings

from holdfast.core.errors import HoldfastError
from holdfast.core.limits import SECOND
from holdfast.core.queue import backlog
from holdfast.core.queue import command as c
from holdfast.core.queue.record import Record
from holdfast.core.queue.shard import Shard
from holdfast.core.types import Instant, LaneConfig, LaneId, Lsn, Receipt, Seq, ShardId, WallMs
from tests.scenarios.memory_log import MemoryLog

LANE = LaneId(1)
LOADS_MAX = 1000
SMALL = {"LOAD_MAX": 2, "WINDOW_MAX": 3, "STRETCH_BITS": 2}

_IS_LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
SETTINGS = settings(
    max_examples=2000 if _IS_LONG else 100,
    stateful_step_count=80 if _IS_LONG else 50,
    derandomize=not _IS_LONG,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


class OneShard:
    def __init__(self, shard: int = 1) -> None:
        self.log = MemoryLog(ShardId(shard))
        self.shard = Shard(ShardId(shard))
        self.time = Instant(0)
        self.written: list[Record] = []  # by the last command

    @property
    def wall(self) -> WallMs:
        return WallMs(self.time // 1000)

    def do(self, command: c.Command, *, committed: int | None = None) -> Any:
        """The answer; refusals are raised."""
        now = self.log.begin(self.time, self.wall)
        self.shard.begin(self.log.epoch, now, self.wall)
        for _ in range(LOADS_MAX):
            decided = self.shard.decide(command, self.shard.lsn if committed is None else Lsn(committed))
            if not isinstance(decided, c.Need):
                break
            self.shard.load(decided, *self.log.headers(decided))
        else:
            raise AssertionError(f"{command} needs ever more headers")
        self.written = list(decided[0])
        for record in self.written:
            self.log.append(record)
            self.shard.apply(record)
        if self.log.flush():
            self.log.synced()
        return decided[1]

    def refusal(self, command: c.Command) -> HoldfastError | None:
        try:
            self.do(command)
        except HoldfastError as refusal:
            return refusal
        return None

    def advance(self, seconds: float) -> None:
        """Time passes, and the shard looks after itself as it does every second."""
        self.time = Instant(self.time + round(seconds * SECOND))
        self.tick()

    def tick(self) -> None:
        self.do(c.Tick())
        while self.written:
            self.do(c.Tick())

    # shorthands

    def configure(self, config: LaneConfig, lane: LaneId = LANE) -> None:
        self.do(c.Configure(lane, config))

    def send(self, body: str, *, lane: LaneId = LANE, size: int = 0, **options: Any) -> c.Accepted:
        data = body.encode()
        accepted: c.Accepted = self.do(c.Send(lane, data, data, size or len(data), **options))
        return accepted

    def receive(
        self, count_max: int = 1, timeout_s: int | None = None, *, attempt: str = "", lane: LaneId = LANE
    ) -> list[c.Delivered]:
        delivery = self.do(c.Receive(lane, count_max, timeout_s, attempt))
        return list(delivery.messages)

    def body(self, delivered: c.Delivered) -> str:
        return self.log.message(delivered.header.at).content.decode()

    def bodies(self, count_max: int = 10, timeout_s: int | None = None, *, lane: LaneId = LANE) -> list[str]:
        return [self.body(each) for each in self.receive(count_max, timeout_s, lane=lane)]

    # what a cache or a crash may do

    def drop_windows(self) -> None:
        for lane in self.shard.lanes.values():
            lane.backlog.window = None

    def restart(self, choose: Callable[[int], int] = lambda count: count - 1) -> None:
        self.shard = self.log.twin_of(self.shard, choose)

    def compact(self) -> None:
        """As with an old segment: what lives in the oldest stretch is written again, then the stretch is removed."""
        bits: int = getattr(backlog, "STRETCH_BITS")  # noqa: B009 - as a test may have changed it
        end = Lsn((min(self.shard.live, default=0) + 1) << bits)
        if end <= self.shard.lsn:
            self.do(c.Compact(tuple(self.log.messages_before(end))))
            assert all(stretch << bits >= end for stretch in self.shard.live), "what lives was moved"
            self.log.forget_before(end)

    def check(self) -> None:
        self.log.assert_replayable(self.shard)


def receipt_of(delivered: c.Delivered, lane: LaneId = LANE) -> Receipt:
    header = delivered.header
    return Receipt(lane, header.seq, header.epoch, header.lsn, delivered.number, f"handle {header.seq}")


def seqs(delivered: list[c.Delivered]) -> list[Seq]:
    return [each.header.seq for each in delivered]
