"""The parts of a simulated cluster: a wire, a store, hosts with a seat in every shard, front-ends."""

from typing import Any, Final

from holdfast.core.cluster.table import LaneRow, Layout, Model, put_layout
from holdfast.core.coordination.catalogue import LAST_LANE, QueueRow, put_row
from holdfast.core.coordination.cluster import (
    Assignment,
    HostId,
    Life,
    Member,
    ShardRecord,
    ShardState,
    assignment_key,
    decode_shard,
    encode,
    first_record,
    shard_key,
)
from holdfast.core.coordination.store import Check, Put, Transaction
from holdfast.core.types import ShardId, WallMs
from tests.sim.account import Account
from tests.sim.cipher import SealBook
from tests.sim.cluster.checkers import ClusterCheckers
from tests.sim.cluster.frontend import Frontend, name_of
from tests.sim.cluster.lanes import Lanes
from tests.sim.cluster.node import Node
from tests.sim.cluster.plan import ClusterPlan
from tests.sim.cluster.store import STORE, Store
from tests.sim.cluster.wire import Wire
from tests.sim.queues import ONE, TWO, Queue
from tests.sim.recall import Recall
from tests.sim.request import Request
from tests.sim.world import MS, SECOND, World

SHARDS: Final = (ShardId(ONE), ShardId(TWO))
MEMBERS: Final = 3  # that the manager wants of each shard
MEMBERS_MIN: Final = 2
LANES_BEFORE: Final = 1000  # lane ids above it are given out by the store, those below are the first of their queues


class Cluster:
    def __init__(self, seed: int, plan: ClusterPlan) -> None:
        self.plan = plan
        self.world = World(seed)
        self.account = Account()
        self.seals = SealBook()
        self.shards = SHARDS
        self.min_members = MEMBERS_MIN
        self.wire = Wire(self.world, plan.weather)
        self.store = Store(self.world, self.wire, plan.store)
        window = plan.limits.get("DEDUP_WINDOW", 300 * SECOND)
        self.checkers = ClusterCheckers(self.world, self.account, self.seals, window=window)
        self.checkers.cluster = self
        self.store.observer = self.checkers
        self.recall = Recall(self.checkers.tally)
        self.nodes = [Node(f"h{number}", self) for number in range(1, plan.hosts + 1)]
        self._by_name = {node.name: node for node in self.nodes}
        self.frontends = [Frontend(f"f{number}", self) for number in range(1, plan.frontends + 1)]
        self.asked_by: dict[Request, Frontend | Lanes] = {}
        self.spread: list[Queue] = []  # queues whose lanes come and go
        self.crashed_at: dict[int, int] = {}  # shard -> when its primary crashed, until somebody acknowledges again
        self.gaps: list[int] = []  # from such a crash to the first acknowledged send
        self.is_healed = False

    def node(self, name: str) -> Node:
        return self._by_name[name]  # type: ignore[index]

    @property
    def everybody(self) -> list[str]:
        return [*(str(node.name) for node in self.nodes), *(each.name for each in self.frontends), STORE]

    @property
    def commands(self) -> int:
        return sum(node.commands for node in self.nodes)

    @property
    def starts(self) -> int:
        return sum(node.starts for node in self.nodes)

    def start(self) -> None:
        for node in self.nodes:
            node.start()
        self.found()

    def expose(self, plan: ClusterPlan) -> None:
        """From now on the faults of this plan may happen, also after a healing."""
        self.plan = plan
        self.is_healed = False
        self.wire.expose(plan.weather)
        self.store.expose()
        self.store.weather = plan.store
        for node in self.nodes:
            node.plan, node.is_healed = plan, False

    def set_right(self) -> None:
        """An operator has found that the store is not what it was."""
        if self.store.lost is None:
            return
        self.world.note("an operator sets the store right")
        self.store.set_right()
        for node in self.nodes:
            if node.daemon is not None and node.daemon.steward is not None:
                node.daemon.steward.thaw(self.store.state.revision)

    def heal(self, *, away: "Node | None" = None) -> None:
        """No more faults; whoever is away comes back, but for one; an operator looks after the store."""
        self.is_healed = True
        self.set_right()
        self.wire.heal()
        self.store.heal()
        for node in self.nodes:
            node.heal()
            if node is not away:
                node.back_at = 0
                self.world.after(self.world.between(0, SECOND), node.start)

    # The first configuration

    def found(self) -> None:
        """When all hosts have enrolled, each shard gets its first members. From then on the manager decides."""
        if any(node.identity is None for node in self.nodes):
            self.world.after(20 * MS, self.found)
            return
        for number, shard in enumerate(self.shards):
            names = [node.name for node in self.nodes]
            chosen = (names[number % len(names) :] + names)[:MEMBERS]
            members = tuple(Member(name, self._life(name)) for name in chosen)
            record = first_record(members, min_members=MEMBERS_MIN)
            writes = (
                Put(shard_key(shard), encode(record)),
                Put(assignment_key(shard), encode(Assignment(tuple(chosen)))),
            )
            self.store.apply("transact", (Transaction((Check(shard_key(shard), 0),), writes),))

    def add_spread(self, queue: Queue) -> None:
        """The store knows the queue, and the managers look after its lanes."""
        self.spread.append(queue)
        name = name_of(queue.lane)
        row = QueueRow(name, queue.lane, queue.shard, {}, {}, WallMs(0), WallMs(0))
        model = Model.PRIMARY if queue.is_fifo else Model.INDEPENDENT
        layout = Layout((LaneRow(queue.lane, queue.shard),), model)
        writes = (put_row(row), put_layout(name, layout), Put(LAST_LANE, b"%d" % LANES_BEFORE))
        self.store.apply("transact", (Transaction((), writes),))

    def _life(self, name: HostId) -> Life:
        identity = self.node(name).identity
        assert identity is not None
        return identity.life

    def record(self, shard: ShardId) -> ShardRecord | None:
        """As the store has it now."""
        found = self.store.state.get(shard_key(shard))
        return decode_shard(found.value) if found is not None else None

    def crashing(self, node: Node) -> None:
        for shard in self.shards:
            record = self.record(shard)
            is_led = record is not None and record.primary == node.name and record.state is ShardState.ACTIVE
            if is_led and node.is_up:
                self.crashed_at.setdefault(shard, self.world.now)

    # Hosts among themselves

    def send(self, source: Node, target: str, action: str, *args: Any) -> None:
        """A message from host to host: what `action` of the process there is told."""
        if source.name == target:
            source.tell_itself(action, *args)
        else:
            self.wire.send(source.name, target, self._by_name[target].hear, action, *args)  # type: ignore[index]

    def acknowledged(self, shard: int) -> None:
        crashed = self.crashed_at.pop(shard, None)
        if crashed is not None:
            self.gaps.append(self.world.now - crashed)
