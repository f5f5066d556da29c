"""Which queues should get more lanes, or fewer, and where these live: what is wanted, which a reshaping carries out.

    standard          full ──▶ Expand: lanes on other shards        roomy ──▶ Shrink: the emptiest lane drains
    FIFO by group     a full lane ──▶ Split                         two roomy neighbours ──▶ Merge
    FIFO by queue     one lane, always: its order and its deduplication are made in one place

Laws
- A queue is changed only when all its lanes are open: one change at a time. Only a few queues change at once.
- A reason must hold for a while (coordination/sizing.py has the thresholds), and shrinking waits longer than growing.
- New lanes go to other hosts than those that lead lanes of the queue already, where there are some.
- A queue that is deleted lets go of all its lanes in the transaction that removes its name; lanes that belong to nobody
  are then dropped one by one.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import assert_never

import msgspec

from holdfast.core.cluster import reshape
from holdfast.core.cluster.table import LaneRow, Layout, Model, Phase, layout_key, layout_of, put_layout
from holdfast.core.coordination import catalogue
from holdfast.core.coordination.catalogue import QueueRow
from holdfast.core.coordination.cluster import HostId
from holdfast.core.coordination.sizing import LaneLimits, QueueUse, Steady, fullness, lanes_wanted, shards_for
from holdfast.core.coordination.store import Check, Delete, Put, Record, Transaction, Write, revision_of
from holdfast.core.limits import (
    EXPAND_AFTER,
    FULL_PERMILLE,
    INDEPENDENT_LANES,
    LANES_MAX,
    RESHAPES_MAX,
    ROOMY_PERMILLE,
    SHRINK_AFTER,
)
from holdfast.core.types import Address, LaneId, QueueName, ShardId, WallMs


class Order(StrEnum):
    """What keeps a queue's messages together."""

    NONE = "none"  # standard
    GROUP = "group"  # FIFO, DeduplicationScope=messageGroup
    QUEUE = "queue"  # FIFO, DeduplicationScope=queue


class Queue(msgspec.Struct, frozen=True):
    layout: Layout
    order: Order


class Expand(msgspec.Struct, frozen=True):
    queue: QueueName
    shards: tuple[ShardId, ...]  # a new lane on each


class Shrink(msgspec.Struct, frozen=True):
    queue: QueueName
    lane: LaneId


class Split(msgspec.Struct, frozen=True):
    queue: QueueName
    lane: LaneId
    shards: tuple[ShardId, ...]  # of its heirs


class Merge(msgspec.Struct, frozen=True):
    queue: QueueName
    lanes: tuple[LaneId, LaneId]
    shard: ShardId  # of the heir


Wish = Expand | Shrink | Split | Merge


class Shards(msgspec.Struct, frozen=True):
    """Where lanes can live: active shards, who leads them, how busy they are."""

    leaders: Mapping[ShardId, HostId]
    loads: Mapping[ShardId, int]

    def choose(self, count: int, taken: Iterable[ShardId] = ()) -> tuple[ShardId, ...]:
        return tuple(shards_for(count, self.leaders, loads=self.loads, taken=list(taken)))


def lanes_min(model: Model, order: Order, shards: Shards) -> int:
    """One, or one on each of a few hosts, so that a send always finds a host that can take it."""
    if model is Model.PRIMARY or order is not Order.NONE:
        return 1
    return min(INDEPENDENT_LANES, len(dict.fromkeys(shards.leaders.values())))


def first_shards(model: Model, order: Order, shards: Shards) -> tuple[ShardId, ...]:
    """For the lanes of a new queue."""
    return shards.choose(lanes_min(model, order, shards))


class LaneKeeper:
    def __init__(self, limits: LaneLimits | None = None) -> None:
        self._limits = limits or LaneLimits()
        self._steady = Steady()

    def look(
        self, queues: Mapping[QueueName, Queue], uses: Mapping[LaneId, QueueUse], *, shards: Shards, now: int
    ) -> list[Wish]:
        """What should be changed. `uses` of lanes that nobody reports are taken for idle. O(lanes)."""
        self._steady.keep_only([(name, what) for name in queues for what in ("full", "roomy")])
        room = RESHAPES_MAX - sum(not _is_calm(queue.layout) for queue in queues.values())
        wishes: list[Wish] = []
        for name in sorted(queues):
            if len(wishes) >= room:
                break
            queue = queues[name]
            if _is_calm(queue.layout) and queue.order is not Order.QUEUE:
                tend = self._keyed if queue.order is Order.GROUP else self._free
                wish = tend(name, queue.layout, uses, shards=shards, now=now)
                wishes += [wish] if wish else []
        return wishes

    def _holds(self, name: QueueName, *, full: bool, roomy: bool, now: int) -> bool:
        has_been_full = self._steady.holds((name, "full"), full, now=now, for_us=EXPAND_AFTER)
        return self._steady.holds((name, "roomy"), roomy, now=now, for_us=SHRINK_AFTER) or has_been_full

    def _free(
        self, name: QueueName, layout: Layout, uses: Mapping[LaneId, QueueUse], *, shards: Shards, now: int
    ) -> Wish | None:
        lanes = layout.lanes
        count = len(lanes)
        use = _sum(uses.get(each.lane) for each in lanes)
        wanted = lanes_wanted(use, count, limits=self._limits, lanes_max=min(LANES_MAX, len(shards.leaders)))
        wanted = max(wanted, min(count, lanes_min(layout.model, Order.NONE, shards)))
        if not self._holds(name, full=wanted > count, roomy=wanted < count, now=now):
            return None
        if wanted < count:
            idlest = min(lanes, key=lambda each: (fullness(_sum([uses.get(each.lane)]), 1, self._limits), -each.lane))
            return Shrink(name, idlest.lane)
        chosen = shards.choose(wanted - count, [each.shard for each in lanes])
        return Expand(name, chosen) if chosen else None

    def _keyed(
        self, name: QueueName, layout: Layout, uses: Mapping[LaneId, QueueUse], *, shards: Shards, now: int
    ) -> Wish | None:
        lanes = layout.lanes
        full = {each.lane: fullness(_sum([uses.get(each.lane)]), 1, self._limits) for each in lanes}
        fullest = max(
            (each for each in lanes if each.first < each.last), key=lambda each: full[each.lane], default=None
        )
        pairs = pairwise(sorted(lanes, key=lambda each: each.first))
        roomiest = min(pairs, key=lambda pair: full[pair[0].lane] + full[pair[1].lane], default=None)
        is_full = fullest is not None and full[fullest.lane] >= FULL_PERMILLE and len(lanes) < LANES_MAX
        is_roomy = roomiest is not None and full[roomiest[0].lane] + full[roomiest[1].lane] < ROOMY_PERMILLE
        if not self._holds(name, full=is_full, roomy=is_roomy and not is_full, now=now):
            return None
        if is_full and fullest is not None:
            others = [each.shard for each in lanes if each is not fullest]
            chosen = shards.choose(2, others)
            return Split(name, fullest.lane, chosen) if len(chosen) == 2 else None
        assert roomiest is not None, "something held"
        one, other = roomiest
        chosen = shards.choose(1, [each.shard for each in lanes if each not in roomiest])
        return Merge(name, (one.lane, other.lane), chosen[0]) if chosen else None


def _is_calm(layout: Layout) -> bool:
    return all(each.phase is Phase.OPEN for each in layout.lanes)


def _sum(uses: Iterable[QueueUse | None]) -> QueueUse:
    there = [each for each in uses if each is not None]
    return QueueUse(
        sum(each.messages for each in there),
        sum(each.bytes for each in there),
        sum(each.in_flight for each in there),
        sum(each.sends_per_s for each in there),
    )


def write_down(wish: Wish, row: QueueRow, *, layout: Record | None, last: Record | None) -> Transaction:
    """What is wanted becomes the queue's layout, and lane ids are given out, in one transaction. Passes of reshape.py
    do the rest. `layout`: its record, if it has one; `last`: the record of the last lane id."""
    now = layout_of(layout) if layout is not None else Layout((LaneRow(row.lane, row.shard),))
    shards = _shards_of(wish)
    first = int(last.value) + 1 if last is not None else 1
    new = [Address(shard, LaneId(first + number)) for number, shard in enumerate(shards)]
    key = layout_key(row.queue)
    checks = [Check(catalogue.queue_key(row.queue), row.revision), Check(key, revision_of(layout))]
    writes: list[Write] = [put_layout(row.queue, _changed(wish, now, new))]
    if new:
        checks.append(Check(catalogue.LAST_LANE, revision_of(last)))
        writes.append(Put(catalogue.LAST_LANE, b"%d" % new[-1].lane))
    return Transaction(tuple(checks), tuple(writes))


def _shards_of(wish: Wish) -> tuple[ShardId, ...]:
    match wish:
        case Expand(_, shards) | Split(_, _, shards):
            return shards
        case Merge(_, _, shard):
            return (shard,)
        case Shrink():
            return ()
        case _:
            assert_never(wish)


def _changed(wish: Wish, layout: Layout, new: Sequence[Address]) -> Layout:
    match wish:
        case Expand():
            return reshape.expand(layout, new)
        case Split(_, lane, _):
            return reshape.split(layout, lane, new)
        case Merge(_, lanes, _):
            return reshape.merge(layout, lanes, new[0])
        case Shrink(_, lane):
            return reshape.shrink(layout, lane)
        case _:
            assert_never(wish)


def remove_queue(row: QueueRow, layout: Record | None, *, now: WallMs, former: Sequence[Record]) -> Transaction:
    """Its name goes, and all its lanes are loose until they are dropped. `layout`: its record, if it has one."""
    removed = catalogue.remove(row, now, former=former)
    if layout is None:
        return removed
    others = [each for each in layout_of(layout).lanes if each.lane != row.lane]
    return Transaction(
        (*removed.checks, Check(layout.key, layout.revision)),
        (*removed.writes, *(catalogue.put_loose(each.lane, each.shard) for each in others), Delete(layout.key)),
    )
