"""The table queue → lanes → shards → hosts, as every front-end and every host keeps it. Fed by the store's events.

    queue/ACCOUNT/NAME    its first lane and shard           (coordination/catalogue.py)
    lanes/ACCOUNT/NAME    its layout, if it has more lanes than that one or another model
    shards/SHARD          who leads it, in which epoch       (coordination/cluster.py)
    hosts/HOST            where a host can be reached

    heir ──its parents' memory is there──▶ open ──▶ draining ──empty──▶ former
    (nothing is routed to it)                       (received from, never sent to)

Laws
- A table is what somebody was told last, never the truth: a host that is asked in an old epoch says so. Being wrong
  costs a detour, not a message.
- With keys (message groups) the open lanes of a queue have disjoint ranges. While a lane is split or merged a key may
  have none: those sends wait.
- A shard's leader is known by the highest epoch, whoever told of it: the store, or a host that refused.
- Both back-end models are layouts. PRIMARY: a lane by the key, or the only one. INDEPENDENT: a lane on every host
  that stores the queue, any of them is as good as another.
"""

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import TypeVar

import msgspec

from holdfast.core.coordination.catalogue import QUEUES, named_by, row_of
from holdfast.core.coordination.cluster import HostId, HostRecord, ShardState, decode_host, decode_shard
from holdfast.core.coordination.store import Event, Put, Record, Snapshot
from holdfast.core.types import Address, Epoch, LaneId, QueueName, ShardId

K = TypeVar("K")
V = TypeVar("V")

LAYOUTS = "lanes/"
HOSTS = "hosts/"
SHARDS = "shards/"
KEY_MAX = (1 << 64) - 1


class Model(StrEnum):
    PRIMARY = "primary"
    INDEPENDENT = "independent"


class Phase(StrEnum):
    HEIR = "heir"
    OPEN = "open"
    DRAINING = "draining"


class LaneRow(msgspec.Struct, frozen=True, gc=False):
    lane: LaneId
    shard: ShardId
    phase: Phase = Phase.OPEN
    first: int = 0  # of the keys that are its own: 64-bit digests of message groups
    last: int = KEY_MAX
    parents: tuple[LaneId, ...] = ()  # it is served when these are empty

    @property
    def address(self) -> Address:
        return Address(self.shard, self.lane)


class Layout(msgspec.Struct, frozen=True):
    lanes: tuple[LaneRow, ...]
    model: Model = Model.PRIMARY
    former: tuple[LaneId, ...] = ()  # the last ones that are gone

    def open_lanes(self) -> list[LaneRow]:
        return [row for row in self.lanes if row.phase is Phase.OPEN]

    def served_lanes(self) -> list[LaneRow]:
        """Where messages may be. Parents before their heirs: a group's older messages are asked for first."""
        served = [row for row in self.lanes if row.phase is not Phase.HEIR]
        return sorted(served, key=lambda row: row.phase is not Phase.DRAINING)

    def lane_of(self, key: int) -> LaneRow | None:
        """Where messages with this key are sent; None: nowhere just now."""
        return next((row for row in self.open_lanes() if row.first <= key <= row.last), None)

    def row_of(self, lane: LaneId) -> LaneRow | None:
        return next((row for row in self.lanes if row.lane == lane), None)


class Seat(msgspec.Struct, frozen=True, gc=False):
    """Who leads a shard, as far as is known."""

    host: HostId
    epoch: Epoch
    is_active: bool = True  # else it is on its way there


class Here(msgspec.Struct, frozen=True, gc=False):
    """A host that was asked for a queue serves it from a lane that it leads."""

    lane: LaneRow


class There(msgspec.Struct, frozen=True, gc=False):
    """It forwards to the leader of this lane."""

    lane: LaneRow
    seat: Seat


def layout_key(queue: QueueName) -> str:
    return f"{LAYOUTS}{queue.account}/{queue.name}"


def put_layout(queue: QueueName, layout: Layout) -> Put:
    return Put(layout_key(queue), msgspec.json.encode(layout))


def layout_of(record: Record) -> Layout:
    return msgspec.json.decode(record.value, type=Layout)


class Table:
    def __init__(self) -> None:
        self.revision = 0  # of the store, up to which it was fed
        self._only: dict[QueueName, Layout] = {}  # of queues without a layout of their own
        self._layouts: dict[QueueName, Layout] = {}
        self._owners: dict[LaneId, QueueName] = {}  # of lanes in layouts, and of former ones
        self._stored: dict[ShardId, Seat] = {}
        self._hinted: dict[ShardId, Seat] = {}
        self._hosts: dict[HostId, HostRecord] = {}

    # Being told

    def reset(self, *snapshots: Snapshot) -> None:
        """Everything anew, from what the store has under the prefixes above."""
        for each in (self._only, self._layouts, self._owners, self._stored, self._hosts):
            each.clear()
        for snapshot in snapshots:
            for record in snapshot.records:
                self.feed(Event(record.revision, record.key, record))
            self.revision = max(self.revision, snapshot.revision)

    def feed(self, event: Event) -> None:
        """Events come in order of their revisions; those of other keys are ignored."""
        key, record = event.key, event.record
        if key.startswith(QUEUES):
            row = row_of(record) if record else None
            _set(self._only, named_by(key), Layout((LaneRow(row.lane, row.shard),)) if row else None)
        elif key.startswith(LAYOUTS):
            self._feed_layout(named_by(key), layout_of(record) if record else None)
        elif key.startswith(SHARDS):
            self._feed_shard(ShardId(int(key.removeprefix(SHARDS))), record)
        elif key.startswith(HOSTS):
            _set(self._hosts, HostId(key.removeprefix(HOSTS)), decode_host(record.value) if record else None)
        self.revision = max(self.revision, event.revision)

    def _feed_layout(self, queue: QueueName, layout: Layout | None) -> None:
        for lane in _lanes_of(self._layouts.get(queue)):
            self._owners.pop(lane, None)
        self._owners.update(dict.fromkeys(_lanes_of(layout), queue))
        _set(self._layouts, queue, layout)

    def _feed_shard(self, shard: ShardId, record: Record | None) -> None:
        if record is None:
            self._stored.pop(shard, None)
            return
        held = decode_shard(record.value)
        self._stored[shard] = Seat(held.primary, held.epoch, held.state is ShardState.ACTIVE)
        hinted = self._hinted.get(shard)
        if hinted is not None and hinted.epoch <= held.epoch:
            del self._hinted[shard]

    def hint(self, shard: ShardId, seat: Seat) -> None:
        """A host that does not lead the shard says who does. An older epoch than what is known says nothing."""
        known = self.seat(shard)
        if known is None or seat.epoch > known.epoch:
            self._hinted[shard] = seat

    # Asking

    def layout(self, queue: QueueName) -> Layout | None:
        """None: there is no such queue."""
        only = self._only.get(queue)
        return self._layouts.get(queue, only) if only is not None else None

    def owner(self, lane: LaneId) -> QueueName | None:
        """The queue that has, or lately had, this lane among others. None also: its queue has one lane only."""
        return self._owners.get(lane)

    def seat(self, shard: ShardId) -> Seat | None:
        return self._hinted.get(shard) or self._stored.get(shard)

    def host(self, host: HostId) -> HostRecord | None:
        """None: it is not up, as far as is known."""
        return self._hosts.get(host)

    def queues(self) -> Iterator[QueueName]:
        return iter(list(self._only))

    def at(
        self, host: HostId, queue: QueueName, *, key: int | None, choose: Callable[[int], int]
    ) -> Here | There | None:
        """A send reached `host`, which any host may be: its own lane, or another's. None: nobody can take it now.

        `choose(n)` gives a number below n.
        """
        layout = self.layout(queue)
        rows = layout.open_lanes() if layout else []
        if key is not None:
            rows = [row for row in rows if row.first <= key <= row.last]
        led = [(row, seat) for row in rows if (seat := self.seat(row.shard)) is not None and seat.is_active]
        own = [row for row, seat in led if seat.host == host]
        if own:
            return Here(own[choose(len(own))])
        return There(*led[choose(len(led))]) if led else None


def _lanes_of(layout: Layout | None) -> list[LaneId]:
    return [*(row.lane for row in layout.lanes), *layout.former] if layout is not None else []


def _set(table: dict[K, V], key: K, value: V | None) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value
