"""The queues of a run, each with its first lane. Both shards have some, so that dead letters travel between them."""

from random import Random

import msgspec

from holdfast.core.queue.command import Configure
from holdfast.core.types import Address, Kind, LaneConfig, LaneId, Redrive, ShardId
from tests.sim.plan import Plan

ONE, TWO = ShardId(1), ShardId(2)


class Queue:
    """`config` is the newest that was asked for."""

    def __init__(self, name: str, shard: ShardId, lane: int, config: LaneConfig) -> None:
        self.name = name
        self.shard = shard
        self.lane = LaneId(lane)
        self.config = config
        self.is_gone = False
        self.is_spread = False  # it gets other lanes, and `lane` is the first that it had

    @property
    def address(self) -> Address:
        return Address(self.shard, self.lane)

    @property
    def is_fifo(self) -> bool:
        return self.config.kind is Kind.FIFO

    def configure(self) -> Configure:
        return Configure(self.lane, self.config)

    def with_changes(self, **changes: object) -> LaneConfig:
        return msgspec.structs.replace(self.config, version=self.config.version + 1, **changes)


class Queues:
    def __init__(self, plan: Plan, rng: Random) -> None:
        self.all: list[Queue] = []
        self._rng = rng
        self._plan = plan
        self.dead = self._add("dead", TWO)
        self.plain = self._add("plain", ONE, redrive=self._redrive(self.dead))
        self.simple = self._add("simple", TWO, is_strict=False)
        self.fifo = self._add("fifo", ONE, kind=Kind.FIFO, is_strict=False)
        self.letters: Queue | None = None
        self.grave: Queue | None = None
        for name in plan.has:
            getattr(self, "_" + name.replace("-", "_"))()

    def named(self, name: str) -> Queue:
        return next(queue for queue in self.all if queue.name == name)

    def new_grave(self) -> Queue:
        """A dead-letter queue in place of the one that was deleted. Lane ids are never used twice."""
        self.grave = self._add("grave", TWO)
        return self.grave

    def _add(self, name: str, shard: ShardId, **config: object) -> Queue:
        chosen = LaneConfig(visibility_timeout_s=self._rng.choice((1, 3, 5)), **config)  # type: ignore[arg-type]
        queue = Queue(name, shard, len(self.all) + 1, chosen)
        self.all.append(queue)
        return queue

    def _redrive(self, queue: Queue) -> Redrive:
        return Redrive(queue.address, self._rng.choice((1, 2, 3)))

    def _fair(self) -> None:
        self._add("fair", ONE, is_strict=False)

    def _delayed(self) -> None:
        self._add("delayed", TWO, delay_s=self._rng.choice((1, 2)))

    def _mortal(self) -> None:
        redrive = self._redrive(self.dead) if self._rng.random() < 0.5 else None
        self._add(
            "mortal",
            ONE,
            time_to_live_s=self._rng.choice(self._plan.lives),
            retention_s=self._rng.choice(self._plan.retentions),
            redrive=redrive,
        )

    def _fifo_dead(self) -> None:
        self.letters = self._add("letters", ONE, kind=Kind.FIFO)
        self._add("strict", TWO, kind=Kind.FIFO, redrive=self._redrive(self.letters))

    def _fifo_content(self) -> None:
        is_per_group = self._rng.random() < 0.5
        self._add("content", TWO, kind=Kind.FIFO, content_deduplication=True, deduplication_per_group=is_per_group)

    def _once(self) -> None:
        self._add("once", ONE, at_most_once=True, kind=self._rng.choice((Kind.STANDARD, Kind.FIFO)))

    def _request_dedup(self) -> None:
        self._add("requests", TWO, request_deduplication=True)

    def _bounded(self) -> None:
        redrive = self._redrive(self.dead)
        self._add("bounded", ONE, messages_max=15, overflow_to_dead_letter=self._rng.random() < 0.5, redrive=redrive)

    def _swift(self) -> None:
        """Of a cluster only: acknowledged by the primary's disk; a fail-over may lose the last of it."""
        self._add("swift", TWO, is_async=True)

    def _wide(self) -> None:
        """Of a cluster only: lanes come and go, and any of them may get a message."""
        redrive = self._redrive(self.dead) if self._rng.random() < 0.5 else None
        self._add("wide", ONE, is_strict=False, redrive=redrive).is_spread = True

    def _keyed(self) -> None:
        """Of a cluster only: lanes are split and merged, and a group has one of them."""
        redrive = self._redrive(self.letters) if self.letters is not None else None
        self._add("keyed", TWO, kind=Kind.FIFO, deduplication_per_group=True, redrive=redrive).is_spread = True

    def _grave(self) -> None:
        grave = self.new_grave()
        self._add("doomed", ONE, redrive=self._redrive(grave))
