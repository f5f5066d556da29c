"""A host's seat in a shard: what a shell does around the core's Replica, in virtual time.

Recovery, then steps: messages of peers, answers of the store, jobs that were carried out, time. While it leads,
commands go in and replies come out as on one host (runner.py has the reads and the chores). A replica that is over is
dropped, and the shard is recovered from this disk anew. Damage that a read or the scrub meets is told to the replica,
which fetches the segment from a peer; nobody else brings it back.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.core.coordination.asking import Fetched, Settled, Transact
from holdfast.core.coordination.cluster import HostId, Member, assignment_key, host_key, shard_key
from holdfast.core.coordination.heartbeat import ShardReport
from holdfast.core.errors import CorruptLog, OutcomeUnknown
from holdfast.core.log.files import Work
from holdfast.core.log.primary import Primary
from holdfast.core.queue.command import ArriveReply, Handover
from holdfast.core.queue.outbox import Entry
from holdfast.core.replication.damaged import Damaged
from holdfast.core.replication.enrolment import Identity
from holdfast.core.replication.replica import Replica
from holdfast.core.replication.replica_message import Message
from holdfast.core.replication.replica_recovery import RecoveredReplica, recover_replica
from holdfast.core.replication.station import (
    Assigned,
    Changed,
    Done,
    Event,
    Frozen,
    Heard,
    Job,
    Notice,
    Output,
    Presence,
    Present,
    Tick,
)
from holdfast.core.types import Instant, Lsn, ShardId
from tests.sim.cluster.store import outcome_of
from tests.sim.cluster.upkeep import Upkeep
from tests.sim.request import Request
from tests.sim.world import MS

if TYPE_CHECKING:
    from tests.sim.cluster.node import Node, NodeProcess


class Seat(Upkeep):
    def __init__(self, process: "NodeProcess", node: "Node", shard: ShardId) -> None:
        super().__init__(process, node, shard)
        self.epoch = 0
        self._witness = node.cluster.checkers.replicas
        self.looks = self._witness.looks_at(node.name, shard)
        self._clock = node.boot_clock

    # Start, and start again

    def recover(self) -> None:
        identity = self.daemon.identity
        assert identity is not None
        work = recover_replica(self.shard, identity=identity.disk.encode(), segment_bytes=self.node.plan.segment_bytes)
        self.process.run(self.shard, _or_damage(work), self._rebuilt)

    def _rebuilt(self, recovered: RecoveredReplica | CorruptLog) -> None:
        identity, plan = self.daemon.identity, self.node.plan
        assert identity is not None
        if isinstance(recovered, CorruptLog):
            self._damaged(recovered, identity)
            return
        self.cluster.checkers.rebuilt(self.node, self.shard)
        self.world.note(f"{self.node.name} {self.shard} recovered {recovered.log.end.lsn} promise {recovered.promise}")
        self._lives += 1
        self.replica = Replica(
            self.shard,
            Member(identity.host, identity.life),
            recovered,
            identity=identity.disk.encode(),
            now=self.now(),
            segment_bytes=plan.segment_bytes,
            reserve_bytes=plan.reserve_bytes,
        )
        self.archive = self.replica.archive
        self._indexes.clear()
        self._snapshot_lsn = Lsn(0)
        self._compacted.clear()
        self._tell_record()
        self._tell_present()
        self._tell_assigned()
        self.tell_frozen()
        if self._lives == 1:
            self.process.call(self.world.between(0, 150 * MS), self._do_chores)

    def _damaged(self, problem: CorruptLog, identity: Identity) -> None:
        """Its log cannot be read: it is silent until nobody counts on it."""
        me = Member(identity.host, identity.life)
        if not self._is_cut_copy(me):
            self.cluster.checkers.damaged(self.node, problem)
        self._lives += 1
        self.replica = Damaged(self.shard, me, problem, identity=identity.disk.encode(), now=self.now())
        self._tell_record()
        self.step(Tick())
        if self._lives == 1:
            self.process.call(self.world.between(0, 150 * MS), self._do_chores)

    def _is_cut_copy(self, me: Member) -> bool:
        """It was putting a copy in place, whose snapshot comes last, and is not a member yet: it starts over."""
        record = self.cluster.record(self.shard)
        names = self.node.disk.names[f"{self.shard}/snapshots"]
        is_member = record is not None and me in record.members
        return not is_member and not any(name.endswith(".snap") for name in names)

    def _discard(self) -> None:
        """The state is of no use any more. Jobs that are still under way end first: Output says so."""
        self.replica = None
        self.is_ready = False
        self.reign = 0
        self._when_quiet(self.recover)

    # Steps

    def now(self) -> Instant:
        return self.world.now - self._clock.booted  # type: ignore[return-value]

    def step(self, event: Event) -> None:
        replica, clock = self.replica, self._clock
        if replica is not None:
            now: Any = self.world.now - clock.booted
            self._do(replica, replica.step(event, now, clock.wall()))

    def hear(self, sender: HostId, message: Message) -> None:
        self._witness.hears(self, sender)
        self.step(Heard(sender, message))

    def _do(self, replica: Replica | Damaged, output: Output) -> None:
        for host, message in output.at_once:
            self._send(host, message)
        if output.job is not None:
            self._run(output.job)
        for job in output.reads:
            self._run(job)
        for ask in output.store:
            self._ask(ask)
        primary = replica.primary
        if isinstance(replica, Replica):
            self._look_at_role(replica, primary)
        for token, answer in output.replies:
            self._reply(token, answer)
        for notice in output.notices:
            self._note(notice)
        if output.is_over:
            self._discard()
            return
        if primary is not None:
            self._lead(primary)
        if isinstance(replica, Replica):
            self._witness.stepped(self, replica)
        self._arm()

    def _note(self, notice: Notice) -> None:
        self.world.note(f"{self.node.name} {self.shard} {notice.kind.value}: {notice.text}")
        self.world.count(f"replica: {notice.kind.value}")

    def _send(self, host: HostId, message: Message) -> None:
        self._witness.sends(self, message)
        self.cluster.send(self.node, host, "hear_peer", self.shard, self.node.name, message)

    def _run(self, job: Job) -> None:
        done = partial(self._ran, self._lives, job)
        if self._is_copying():
            self._when_quiet(lambda: self.process.run(self.shard, job.work, done))
        else:
            self.process.run(self.shard, job.work, done)

    def _ran(self, life: int, job: Job, value: Any) -> None:
        for host, message in job.after:
            self._send(host, message)
        if life == self._lives:
            self.step(Done(job.token, value))

    def _ask(self, ask: Any) -> None:
        life = self._lives

        def answered(event: Settled | Fetched) -> None:
            if life == self._lives:
                self.step(event)

        if isinstance(ask, Transact):
            self.daemon.store.transact(ask.transaction, lambda done: answered(Settled(ask.token, outcome_of(done))))
        else:
            self.daemon.fetch(ask, answered)

    def _arm(self) -> None:
        """One alarm, moved only when it would ring too late."""
        deadline = self.replica.deadline() if self.replica is not None else None
        if deadline is None:
            return
        now = self.world.now
        at = max(now, now + deadline - self.now())
        if not now <= self._alarm_at <= at:
            self._alarm_at = at
            self.process.call(at - now, self._ring, at)

    def _ring(self, at: int) -> None:
        if at == self._alarm_at:
            self._alarm_at = -1
            self._count_turn()
            self.step(Tick())

    # What the store says

    def changed(self, key: str) -> None:
        if key == shard_key(self.shard):
            self._tell_record()
        elif key == assignment_key(self.shard):
            self._tell_assigned()
        elif key.startswith(("hosts/", "disks/")):
            self._tell_present()

    def _tell_record(self) -> None:
        view = self.daemon.view
        record = view.shards.get(self.shard) if view is not None else None
        if view is not None and record is not None:
            self.step(Changed(record, view.revision_of(shard_key(self.shard))))

    def _tell_assigned(self) -> None:
        view = self.daemon.view
        assignment = view.assignments.get(self.shard) if view is not None else None
        if assignment is not None:
            self.step(Assigned(assignment.hosts))

    def _tell_present(self) -> None:
        view = self.daemon.view
        if view is not None:
            pairs = [(view.member(host), view.revision_of(host_key(host))) for host in view.hosts]
            self.step(Present(tuple(Presence(member, revision) for member, revision in pairs if member is not None)))

    def tell_frozen(self) -> None:
        view = self.daemon.view
        if view is not None and view.is_frozen:
            self.step(Frozen(is_frozen=True))

    def thaw(self) -> None:
        self.step(Frozen(is_frozen=False))

    def report(self) -> ShardReport | None:
        return self.replica.report(self.now()) if self.replica is not None else None

    # Leading

    def _look_at_role(self, replica: Replica, primary: Primary | None) -> None:
        if primary is None:
            self.archive = replica.archive
            return
        if not self.reign:
            self.reign = self.cluster.account.reigns.begin(self.shard)
            self.world.note(f"{self.node.name} {self.shard} leads, reign {self.reign}")
            self.world.count("reigns")
            self._is_handing = False
            self._is_sparing = False
            self.primary, self.archive = primary, primary.journal
            self._compacted_at = Lsn(0)
        if primary.journal.epoch != self.epoch:
            self.epoch = primary.journal.epoch
            self.cluster.checkers.appends(self.node, self.shard, self.epoch)
        self.is_ready = True

    def _lead(self, primary: Primary) -> None:
        for need in primary.needs():
            self.process.run(self.shard, self._headers(need), lambda _: None)
        if primary.shard.outboxes:
            self._send_outgoing()
        if primary.journal.wants_spare() and not self._is_sparing:
            self._prepare_spare()

    def _turn(self) -> None:
        self._is_waking = False
        self._count_turn()
        replica, inbox, internal = self.replica, self.inbox, self._internal
        self.inbox, self._internal = [], []
        if replica is None or replica.primary is None:
            for request in inbox:
                self.daemon.refuse(request)
            return
        now, own, wall = self.now(), self.own(), self._clock.wall()
        for request in inbox:
            request.begun, request.own_begun = self.world.now, own
            request.reign, request.host = self.reign, self.node.name
            self.node.witness.begun(request)
            replica.submit(request.command, request, now, wall, wait_s=request.wait_s)
        for command, token in internal:
            replica.submit(command, token, now, wall)
        self.step(Tick())

    def own(self) -> Instant:
        return self.replica.own(self.now()) if isinstance(self.replica, Replica) else Instant(0)

    def cancel(self, request: Request) -> None:
        self.inbox = [each for each in self.inbox if each is not request]
        if isinstance(self.replica, Replica):
            self.replica.cancel(request)

    def _reply(self, token: Any, answer: Any) -> None:
        if isinstance(token, Request) and isinstance(answer, OutcomeUnknown):
            self.daemon.forsake(token)
        elif token is not None:
            try:
                super()._reply(token, answer)
            except CorruptLog as problem:
                self._harmed(problem)
                if isinstance(token, Request):  # it was handed out, and cannot be read here
                    self.daemon.forsake(token)

    # Moves between shards

    def _arrive(self, handover: Handover, entry: Entry) -> None:
        target = entry.target.shard
        self._tell_leader(target, "hear_handover", target, handover, self.shard)

    def _settle(self, source: ShardId, reply: ArriveReply) -> None:
        self._tell_leader(source, "hear_settle", source, reply)

    def _tell_leader(self, shard: ShardId, action: str, *args: Any) -> None:
        view = self.daemon.view
        record = view.shards.get(shard) if view is not None else None
        if record is not None:
            self.cluster.send(self.node, record.primary, action, *args)


def _or_damage(work: Work[RecoveredReplica]) -> Work[RecoveredReplica | CorruptLog]:
    try:
        return (yield from work)
    except CorruptLog as problem:
        return problem
