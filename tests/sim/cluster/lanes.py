"""Who changes the lanes of queues: the host that believes to be in office. A look at a time, each may end anywhere.

What is wanted is drawn (when lanes are full enough is lane_keeper's own matter and has its own tests); it is written
down and carried out as the core says. Two hosts may be at it at once, each with an old copy of the layout, and a
command that nobody waits for any more is carried out all the same.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.cluster.lane_keeper import Expand, Merge, Shrink, Split, Wish, write_down
from holdfast.core.cluster.reshape import Ask, Pass, reshape
from holdfast.core.cluster.table import LaneRow, Layout, Model, Phase, Table, layout_key, layout_of
from holdfast.core.coordination import catalogue
from holdfast.core.coordination.catalogue import row_of
from holdfast.core.coordination.store import Event, Record, Snapshot
from holdfast.core.errors import NotPrimary
from holdfast.core.types import ShardId
from tests.sim.cluster.frontend import name_of
from tests.sim.cluster.store import outcome_of
from tests.sim.queues import Queue
from tests.sim.request import ANSWERED, Request
from tests.sim.world import MS, SECOND

if TYPE_CHECKING:
    from tests.sim.cluster.node import NodeProcess

LOOK_EVERY: Final = 400 * MS
PATIENCE: Final = 2 * SECOND  # for the answer of a lane
LANES_MAX: Final = 4  # of a queue, open
SELDOM: Final = 0.1  # share of looks that are taken in the quiet: lanes drain for hours there, and asking them costs
PREFIXES: Final = (catalogue.QUEUES, "lanes/", catalogue.LAST_LANE)


class Lanes:
    """In one life of a host's process."""

    def __init__(self, process: "NodeProcess") -> None:
        self.process = process
        self.cluster = process.cluster
        self.world = process.world
        self.name = str(process.node.name)
        self.table = Table()
        self._records: dict[str, Record] = {}
        self._at_work: dict[Queue, None] = {}
        self._waiting: dict[Request, Any] = {}  # for an answer, and who goes on with it

    # The store's records, as this host has heard of them

    def loaded(self, snapshot: Snapshot) -> None:
        self.table.reset(snapshot)
        self._records = {each.key: each for each in snapshot.records if each.key.startswith(PREFIXES)}

    def changed(self, event: Event) -> None:
        self.table.feed(event)
        if event.record is not None and event.key.startswith(PREFIXES):
            self._records[event.key] = event.record

    # Looks

    def start(self) -> None:
        if self.cluster.spread:
            self.process.call(self.world.between(0, LOOK_EVERY), self._look)

    def _look(self) -> None:
        view = self.process.view
        holder = view.manager if view is not None and view.is_loaded and not view.is_frozen else None
        is_due = self.world.pace == 1 or self.world.chance(SELDOM)
        if is_due and holder is not None and holder.host == self.process.node.name:
            for queue in self.cluster.spread:
                self._tend(queue)
        pause = self.world.lazily(LOOK_EVERY)
        self.process.call(self.world.between(pause // 2, pause * 2), self._look)

    def _tend(self, queue: Queue) -> None:
        row = self._records.get(catalogue.queue_key(name_of(queue.lane)))
        if row is None or queue in self._at_work:
            return
        record = self._records.get(layout_key(name_of(queue.lane)))
        layout = layout_of(record) if record is not None else Layout((LaneRow(queue.lane, queue.shard),))
        is_wanted = not self.cluster.is_healed and self.world.pace == 1
        if is_wanted and self.world.chance(self.cluster.plan.wishes):
            self._want(queue, layout, row, record)
        elif record is not None and any(each.phase is not Phase.OPEN for each in layout.lanes):
            self._at_work[queue] = None
            work = reshape(name_of(queue.lane), layout, record.revision, config=queue.config)
            self._advance(queue, work, None)

    # What is wanted

    def _want(self, queue: Queue, layout: Layout, row: Record, record: Record | None) -> None:
        """Also while an earlier change is under way, which lane_keeper does not do, and lanes have to bear."""
        wish = self._wish(queue, layout)
        last = self._records.get(catalogue.LAST_LANE)
        try:
            transaction = write_down(wish, row_of(row), layout=record, last=last) if wish is not None else None
        except ValueError:
            return  # it drains, or has heirs already
        if transaction is None:
            return
        self.world.note(f"{self.name} wants {wish}")
        self.world.count(f"lanes: {type(wish).__name__}")
        self.process.store.transact(transaction, lambda _: None)

    def _wish(self, queue: Queue, layout: Layout) -> Wish | None:
        rng, rows, name = self.world.rng, layout.open_lanes(), name_of(queue.lane)
        if not rows:
            return None
        is_growing = len(rows) == 1 or (len(rows) < LANES_MAX and self.world.chance(0.5))
        if layout.model is Model.INDEPENDENT:
            return Expand(name, self._shards(rng.choice((1, 2)))) if is_growing else Shrink(name, rng.choice(rows).lane)
        if is_growing or self.world.chance(0.2):  # with one heir it moves
            return Split(name, rng.choice(rows).lane, self._shards(rng.choice((1, 2, 2, 2))))
        rows.sort(key=lambda each: each.first)
        at = rng.randrange(len(rows) - 1)
        return Merge(name, (rows[at].lane, rows[at + 1].lane), rng.choice(self.cluster.shards))

    def _shards(self, count: int) -> tuple[ShardId, ...]:
        return tuple(self.world.rng.choice(self.cluster.shards) for _ in range(count))

    # A pass

    def _advance(self, queue: Queue, work: Pass, outcome: Any) -> None:
        try:
            step = work.send(outcome)
        except StopIteration:
            del self._at_work[queue]
            return
        go_on = partial(self._advance, queue, work)
        if isinstance(step, Ask):
            self._ask(step, go_on)
        else:
            self.process.store.transact(step.transaction, lambda done: go_on(outcome_of(done)))

    def _ask(self, step: Ask, go_on: Any) -> None:
        seat = self.table.seat(step.address.shard)
        if seat is None:
            self.process.call(0, go_on, NotPrimary())
            return
        request = Request(self, step.address.shard, step.command)
        self._waiting[request] = go_on
        self.cluster.asked_by[request] = self
        self.cluster.wire.stream(self.name, seat.host, self.cluster.node(seat.host).arrive, request)
        self.process.call(PATIENCE, self.replied, request, "")

    def replied(self, request: Request, fate: str) -> None:
        go_on = self._waiting.pop(request, None)
        if go_on is not None:
            self.process.call(0, go_on, request.answer if fate == ANSWERED else NotPrimary())

    def told(self, request: Request, fate: str) -> None:
        """Answers come to `replied`."""


def is_calm(layouts: Sequence[Record]) -> bool:
    """All lanes of all queues are open."""
    return all(row.phase is Phase.OPEN for record in layouts for row in layout_of(record).lanes)
