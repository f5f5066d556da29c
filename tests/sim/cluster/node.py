"""A host of a cluster: its disk, its clock, and the process on it, which enrols before it takes part in anything.

Node          what outlives a process: disk, clock, faults; what the wire brings for it
NodeProcess   one life: enrolment, then a seat (seat.py) in every shard, heartbeats, perhaps the manager
"""

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.cluster.redirect import settle
from holdfast.core.coordination.asking import Fetch, Fetched, Transact
from holdfast.core.coordination.cluster import DiskId, HostId
from holdfast.core.coordination.cluster_view import ClusterView
from holdfast.core.coordination.heartbeat import Heartbeat, ShardReport
from holdfast.core.errors import CorruptLog
from holdfast.core.log.files import FileOp, Sync, SyncDir
from holdfast.core.queue.command import Arrive, ArriveReply, Handover
from holdfast.core.replication.enrolment import Enrolled, ForeignStore, Identity, SetAside, StoreRestored, enrol
from holdfast.core.replication.replica_message import Message
from holdfast.core.types import ShardId
from tests.sim.clock import BootClock
from tests.sim.cluster.lanes import Lanes
from tests.sim.cluster.plan import ClusterPlan
from tests.sim.cluster.seat import Seat
from tests.sim.cluster.steward import Steward
from tests.sim.cluster.store import UNKNOWN, StoreClient, outcome_of
from tests.sim.disk import Disk
from tests.sim.host import POWER, Host, Process
from tests.sim.request import REFUSED, Request, Settling
from tests.sim.request import UNKNOWN as FATE_UNKNOWN
from tests.sim.world import MS, SECOND

if TYPE_CHECKING:
    from tests.sim.cluster.cluster import Cluster

HOME: Final = "host"  # the folder of the identity
CLUSTER: Final = "sim"


class Node(Host):
    plan: ClusterPlan

    def __init__(self, name: str, cluster: "Cluster") -> None:
        super().__init__(
            cluster.world, cluster.plan, shards=cluster.shards, witness=cluster.checkers, seals=cluster.seals
        )
        self.name = HostId(name)
        self.cluster = cluster
        self.clock = self.boot_clock = BootClock(cluster.world)
        self.disk = self.new_disk()
        self.disks = 0  # ids given out
        self.copies: list[tuple[int, Disk]] = []  # of earlier starts, for roll-backs, and how many enrolments they saw
        self.enrolments = 0
        self.former: list[Disk] = []  # disks that were replaced, as they were
        self.is_lost = False  # its disk is not what it was, and nobody knows yet
        self.identity: Identity | None = None  # of the disk, as far as anybody knows
        self.back_at = 0  # not started before

    def new_disk(self) -> Disk:
        return Disk(self.world.rng, [*(str(shard) for shard in self.shards), HOME])

    @property
    def is_up(self) -> bool:
        return self.process is not None

    @property
    def daemon(self) -> "NodeProcess | None":
        """The process, as what it is here."""
        process = self.process
        assert process is None or isinstance(process, NodeProcess)
        return process

    # Life

    def start(self) -> None:
        if self.process is None and self.world.now >= self.back_at:
            self.starts += 1
            if self.plan.roll_back_s and not self.is_healed:
                self.copies = [*self.copies[-2:], (self.enrolments, self.disk.copy())]
            self.process = NodeProcess(self)
            self.process.begin()

    def crash(self, kind: str, why: str, *, restart: int | None = None) -> None:
        self.cluster.crashing(self)
        super().crash(kind, f"{self.name} {why}", restart=restart)
        if kind == POWER:
            self.boot_clock.boot()

    def lose_power(self, length: int, why: str) -> None:
        """It stays away for so long, whatever else happens to it."""
        self.back_at = max(self.back_at, self.world.now + length)
        self.crash(POWER, why, restart=length)

    def replace_disk(self, disk: Disk) -> None:
        self.crash(POWER, "for its disk")
        self.former.append(self.disk)
        self.disk = disk
        self.is_lost = True

    def roll_back(self) -> None:
        """An old copy of the disk comes back. If nothing was done since, it is as good as the disk."""
        used = [each for each in self.copies if each[0]] or self.copies  # an empty one is as good as a new disk
        enrolments, copy = self.world.rng.choice(used)
        old = self.disk
        self.replace_disk(copy.copy())
        if enrolments == self.enrolments:
            self.cluster.checkers.returned(old, self.disk)

    def free(self) -> None:
        self.disk.budget = None

    def heal(self) -> None:
        """What is damaged stays so: replicas have to repair it."""
        self.is_healed = True
        self.failpoint = None
        self.disk.budget = None
        self.slow_until = 0
        if self.process is not None:
            self.process.resume_at = 0

    def execute(self, root: str, op: FileOp) -> Any:
        answer = Host.execute(self, root, op)
        if type(op) is Sync and root != HOME:
            self.cluster.checkers.disk_synced(self, root, op)
        return answer

    # What the wire brings

    def arrive(self, request: Request) -> None:
        process = self.process
        if process is None or not process.take(request):
            self.tell(request, REFUSED)

    def tell(self, request: Request, fate: str) -> None:
        asker = self.cluster.asked_by[request]
        self.cluster.wire.stream(self.name, asker.name, asker.replied, request, fate)

    def hear(self, action: str, *args: Any) -> None:
        """From another host, for the process that runs now."""
        process = self.process
        if process is None:
            return
        if self.world.is_alone():
            process.gate(getattr(process, action), args)
        else:
            process.call(0, getattr(process, action), *args)

    def tell_itself(self, action: str, *args: Any) -> None:
        """The same from this host, which is busy with something else."""
        if self.process is not None:
            self.process.call(0, getattr(self.process, action), *args)


class NodeProcess(Process):
    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self.node = node
        self.cluster = node.cluster
        self.store = StoreClient(node.name, node.cluster.store, self.call)
        self.identity: Identity | None = None
        self.seats: dict[ShardId, Seat] = {}
        self.steward: Steward | None = None
        self.lanes = Lanes(self)

    def make_runners(self) -> dict[ShardId, Any]:
        return {}

    def begin(self) -> None:
        self.world.note(f"{self.node.name} start {self.node.starts}")
        self.node.disks += 1
        fresh = DiskId(f"{self.node.name}.{self.node.disks}")
        work = enrol(self.node.name, cluster=f"{CLUSTER}, store {self.cluster.store.id}", fresh=fresh)
        self._enrol(work, None)

    # Enrolment: a conversation with the disk and the store

    def _enrol(self, work: Generator[Any, Any, Enrolled], answer: Any) -> None:
        try:
            step = work.send(answer)
        except StopIteration as end:
            self._enrolled(end.value)
            return
        except (
            StoreRestored,
            ForeignStore,
            CorruptLog,
        ) as problem:  # of a store with another id, or younger than what was seen
            if not self.cluster.store.restores:
                raise
            self.world.note(f"{self.node.name} {problem}")
            self.call(SECOND, self.begin)
            return

        def go_on(value: Any) -> None:
            self._enrol(work, value)

        if isinstance(step, Transact):
            self.store.transact(step.transaction, lambda done: go_on(outcome_of(done)))
        elif isinstance(step, Fetch):
            self.fetch(step, go_on)
        elif isinstance(step, SetAside) and self.cluster.store.lost is not None:
            self.world.note(f"{self.node.name} has a new disk, and waits until the store is right")
            self.call(SECOND, self.begin)
        elif isinstance(step, SetAside):
            self.node.disk.set_aside(but=HOME)
            self.call(self.node.latency(SyncDir("")), go_on, None)
        else:
            self.run(HOME, _single(step), go_on)

    def fetch(self, step: Fetch, on_answer: Callable[[Fetched], None]) -> None:
        """Until the store answers."""

        def answered(answer: Any) -> None:
            if answer is UNKNOWN:
                self.call(100 * MS, self.fetch, step, on_answer)
            else:
                on_answer(Fetched(step.token, *answer))

        self.store.get(step.key, answered)

    def _enrolled(self, enrolled: Enrolled) -> None:
        identity = enrolled.identity
        self.identity = self.node.identity = identity
        self.node.is_lost = False
        self.node.enrolments += 1
        self.world.note(f"{self.node.name} is disk {identity.disk} boot {identity.boot}")
        self.node.cluster.checkers.enrolled(self.node, identity)
        self.seats = {shard: Seat(self, self.node, shard) for shard in self.node.shards}
        self.runners = dict(self.seats)
        self.steward = Steward(self)
        for seat in self.seats.values():
            seat.recover()
        self.steward.start()
        self.lanes.start()

    # What others tell

    def hear_beat(self, beat: Heartbeat) -> None:
        if self.steward is not None:
            self.steward.hear(beat)

    def hear_peer(self, shard: ShardId, sender: HostId, message: Message) -> None:
        if shard in self.seats:
            self.seats[shard].hear(sender, message)

    def reports(self) -> tuple[ShardReport, ...]:
        found = (seat.report() for seat in self.seats.values())
        return tuple(report for report in found if report is not None)

    def hear_handover(self, shard: ShardId, handover: Handover, source: ShardId) -> None:
        seat = self.seats.get(shard)
        if seat is not None and seat.is_ready:
            seat.tell(Arrive(handover), Settling(source))

    def hear_settle(self, shard: ShardId, reply: ArriveReply) -> None:
        """What became of a message that left. Where its target was split or merged, it follows the heirs."""
        seat = self.seats.get(shard)
        outbox = seat.primary.shard.outboxes.get(reply.target) if seat is not None and seat.is_ready else None
        entry = outbox.entries.get(reply.number) if outbox is not None else None
        told = settle(self.lanes.table, entry, reply) if entry is not None else None
        if seat is not None and told is not None:
            seat.tell(told, None)

    @property
    def view(self) -> ClusterView | None:
        return self.steward.manager.view if self.steward is not None else None

    def changed(self, key: str) -> None:
        """A record of the store; the view has it already."""
        for seat in self.seats.values():
            seat.changed(key)

    def freeze(self) -> None:
        """The store was restored from a backup: no configuration changes until an operator has looked at it."""
        for seat in self.seats.values():
            seat.tell_frozen()

    def thaw(self) -> None:
        """The view is of the store that was set right: replicas may forget what they knew of the other one."""
        for seat in self.seats.values():
            seat.thaw()

    # Requests that this host cannot answer

    def refuse(self, request: Request) -> None:
        """Nothing was decided about it."""
        if self._open.pop(request.number, None) is not None:
            request.number = 0
            self.node.tell(request, REFUSED)

    def forsake(self, request: Request) -> None:
        """It was decided, and whether that stays is not for this host to say any more."""
        if self._open.pop(request.number, None) is not None:
            request.fate, request.ended = FATE_UNKNOWN, self.world.now
            self.node.witness.abandoned(request)
            self.node.tell(request, FATE_UNKNOWN)


def _single(op: FileOp) -> Generator[FileOp, Any, Any]:
    return (yield op)
