"""The internal manager: who manages the cluster, who leads a shard that lost its primary, who should hold which shard.

It runs on every host and listens; the one that holds the office (office.py) acts. Who leads is decided in fail_over.py,
who holds what in arrangement.py; here it is written.

    heartbeats, watch ──▶ think ──▶ shards/…       epoch + 1, another primary, RECOVERING      (fail-over, hand-over)
                               ├──▶ assignments/…  who should hold the shard                   (placement)
                               └──▶ drains/…       the host is empty                           (drain)

Laws
- Whatever the manager does is one transaction that checks its own `manager` record and the revision of what it changes.
  So a deposed or delayed manager does nothing, and there is no command that could be replayed.
- Leases and silence only decide when to try; what makes a fail-over safe is in the replicas (a persisted epoch).
- Nothing is decided while the manager is cut off, or from a store that was restored from a backup.
- Everything is bounded: writes under way, tries for one shard (they back off), replicas on the move, hand-overs.
"""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from holdfast.core.cluster.arrangement import Arranger, Assign, Create, Dismiss, Emptied, HandOver, Settings
from holdfast.core.cluster.fail_over import Appoint, FailOver, Stuck
from holdfast.core.cluster.lane_keeper import Shards
from holdfast.core.cluster.office import Office
from holdfast.core.cluster.suspicion import Hearing
from holdfast.core.coordination.asking import Desk, Fetch, Fetched, Loaded, Settled, Transact, Watched
from holdfast.core.coordination.cluster import (
    MANAGER_KEY,
    Assignment,
    Drain,
    HostId,
    Member,
    ShardState,
    assignment_key,
    disk_key,
    drain_key,
    encode,
    first_record,
    shard_key,
)
from holdfast.core.coordination.cluster_view import ClusterView
from holdfast.core.coordination.heartbeat import Heartbeat
from holdfast.core.coordination.sizing import Grow, QueueUse
from holdfast.core.coordination.store import Check, LeaseId, Put, Transaction, Write
from holdfast.core.limits import ARRANGE_INTERVAL, PAUSE_NOTICED, SUSPECT_AFTER_MAX, THINK_INTERVAL
from holdfast.core.types import Epoch, LaneId, ShardId


class Tick(msgspec.Struct, frozen=True):
    """Time has passed."""


class Leased(msgspec.Struct, frozen=True):
    """The lease that this process keeps alive in the store; the manager's record lives under it."""

    lease: LeaseId


class Thawed(msgspec.Struct, frozen=True):
    """An operator has looked at a store that was restored from a backup."""

    revision: int


Event = Heartbeat | Loaded | Watched | Settled | Fetched | Leased | Thawed | Tick


class What(StrEnum):
    ELECTED = "elected"
    DEPOSED = "deposed"
    FROZEN = "frozen"
    FAIL_OVER = "fail-over"
    STUCK = "stuck"
    ASSIGNED = "assigned"
    CREATED = "created"
    HAND_OVER = "hand-over"
    DRAINED = "drained"
    DISMISSED = "dismissed"
    HOSTS_WANTED = "hosts wanted"


class Note(msgspec.Struct, frozen=True):
    """What was decided, for people: logs, metrics and tests. Nothing depends on it."""

    what: What
    text: str
    shard: ShardId | None = None
    host: HostId | None = None


class Output(msgspec.Struct, frozen=True):
    transacts: Sequence[Transact] = ()
    fetches: Sequence[Fetch] = ()
    notes: Sequence[Note] = ()
    needs_load: bool = False  # a Loaded is wanted, of a read that begins after this
    wanted_hosts: int = 0  # so many more; whoever can start hosts may do it. Drained ones may be stopped (drains/…)


class Manager:
    def __init__(
        self, host: HostId, boot: int, *, settings: Settings, now: int, seen_revision: int = 0, cluster: str = ""
    ) -> None:
        self.host = host
        self.view = ClusterView(seen_revision, cluster=cluster)
        self.hearing = Hearing()
        self._desk = Desk()
        self.office = Office(host, boot, view=self.view, hearing=self.hearing, desk=self._desk)
        self._fail_over = FailOver(self.view, self.hearing)
        self._arranger = Arranger(settings)
        self._notes: list[Note] = []
        self._needs_load = False
        self._wanted_hosts = 0
        self._woken = now
        self._think_at = now
        self._arrange_at = now

    def deadline(self) -> int:
        return self._think_at

    def step(self, event: Event, now: int) -> Output:
        self._wake(now)
        match event:
            case Heartbeat():
                self.hearing.hear(event, now)
            case Loaded(snapshot):
                self._needs_load = not self.view.load(snapshot)
                if self.view.is_frozen:
                    self._note(
                        What.FROZEN, "the store is older than it was: restored from a backup? Nothing is changed"
                    )
            case Watched(change):
                self.view.watch(change)
            case Settled():
                self._desk.settle(event, now)
            case Fetched(_, record, revision):
                key = self._desk.receive(event)
                if key is not None:
                    self.view.learn(key, record, as_of=revision)
            case Leased(lease):
                self.office.lease = lease
            case Thawed(revision):
                self.view.thaw(revision)
                self._needs_load = True
            case Tick():
                pass
        if now >= self._think_at:
            self._think_at = now + THINK_INTERVAL
            self._think(now)
        return self._output()

    def _wake(self, now: int) -> None:
        late = now - max(self._woken, self._think_at)
        if late > PAUSE_NOTICED:
            self.hearing.excuse(late)
        self._woken = now

    def _output(self) -> Output:
        output = Output(self._desk.transacts, self._desk.fetches, self._notes, self._needs_load, self._wanted_hosts)
        self._needs_load, self._wanted_hosts = False, 0
        self._desk.transacts, self._desk.fetches, self._notes = [], [], []
        return output

    def _note(self, what: What, text: str, *, shard: ShardId | None = None, host: HostId | None = None) -> None:
        self._notes.append(Note(what, text, shard, host))

    # thinking

    def _think(self, now: int) -> None:
        self._desk.look_for_answers(now)
        if not self.view.is_loaded or self.view.is_frozen:
            return
        self.hearing.expect(self.view.hosts, now)
        if self.office.look():
            self._take_or_leave_office(now)
        if not self.office.is_held:
            self.office.stand(now)
        elif self.office.may_act(now):
            self._manage(now)

    def _take_or_leave_office(self, now: int) -> None:
        if self.office.is_held:
            self._note(What.ELECTED, f"{self.host} manages the cluster", host=self.host)
            # A standby that heard everybody acts at once; who was not listening gives all hosts the time to be heard.
            self.hearing.forgive(2 * SUSPECT_AFTER_MAX, now)
        else:
            self._note(What.DEPOSED, f"{self.host} no longer manages the cluster", host=self.host)
        self._fail_over.forget()
        self._arranger.forget()

    def _write(self, key: str, writes: Sequence[Write], *, now: int, checks: Sequence[Check] = ()) -> None:
        """In office: only as long as the office is held and nobody else has changed `key`."""
        own = (Check(MANAGER_KEY, self.office.term), Check(key, self.view.revision_of(key)))
        self._desk.write(key, Transaction((*own, *checks), tuple(writes)), now)

    # For whoever looks after the queues' lanes (lane_keeper.py)

    def lane_uses(self) -> dict[LaneId, QueueUse]:
        """As the primaries reported them last; lanes that none of them names are nearly empty."""
        reports = self.hearing.primaries(self.view.shards)
        return {each.lane: each.use for _, report in reports for each in report.lanes}

    def shards(self) -> Shards:
        """Those that serve."""
        active = {shard: each for shard, each in self.view.shards.items() if each.state is ShardState.ACTIVE}
        return Shards({shard: each.primary for shard, each in active.items()}, self._arranger.loads)

    # in office

    def _manage(self, now: int) -> None:
        for found in self._fail_over.look(lambda shard: self._desk.is_free(shard_key(shard)), now):
            match found:
                case Appoint(shard, member, reason):
                    self._note(What.FAIL_OVER, reason, shard=shard, host=member.host)
                    self._appoint(shard, member, now)
                case Stuck(shard, reason):
                    self._note(What.STUCK, reason, shard=shard)
        if now >= self._arrange_at:
            self._arrange_at = now + ARRANGE_INTERVAL
            self._arrange(now)

    def _appoint(self, shard: ShardId, candidate: Member, now: int) -> None:
        """CAS: the next epoch, this primary. The candidate's disk must still be the one that was judged."""
        record = self.view.shards[shard]
        disk = self.view.disk_of(candidate)
        if disk is None:
            return
        next_ = msgspec.structs.replace(
            record, epoch=Epoch(record.epoch + 1), primary=candidate.host, state=ShardState.RECOVERING
        )
        key = disk_key(disk)
        guard = Check(key, self.view.revision_of(key))
        self._write(shard_key(shard), (Put(shard_key(shard), encode(next_)),), now=now, checks=(guard,))

    # placement

    def _arrange(self, now: int) -> None:
        self.hearing.keep_only({each.host for each in self.view.disks.values()} | set(self.view.hosts))
        failed = self._fail_over.failed(now)
        for change in self._arranger.arrange(self.view, self.hearing, now=now, failed=failed):
            match change:
                case Assign(shard, hosts):
                    self._assign(shard, hosts, now)
                case Create(shard, members):
                    self._create(shard, members, now)
                case HandOver(shard, member):
                    if self._desk.is_free(shard_key(shard)):
                        self._note(What.HAND_OVER, "it should be led elsewhere", shard=shard, host=member.host)
                        self._appoint(shard, member, now)
                case Emptied(host):
                    self._drain(host, What.DRAINED, f"{host} holds nothing any more", is_done=True, now=now)
                case Dismiss(host):
                    self._drain(host, What.DISMISSED, f"{host} can be done without", is_done=False, now=now)
                case Grow(count):
                    self._wanted_hosts = count
                    self._note(What.HOSTS_WANTED, f"{count} more")

    def _drain(self, host: HostId, what: What, text: str, *, is_done: bool, now: int) -> None:
        key = drain_key(host)
        if self._desk.is_free(key):
            self._note(what, text, host=host)
            self._write(key, (Put(key, encode(Drain(is_done))),), now=now)

    def _assign(self, shard: ShardId, hosts: tuple[HostId, ...], now: int) -> None:
        key = assignment_key(shard)
        if self._desk.is_free(key):
            self._note(What.ASSIGNED, " ".join(hosts), shard=shard)
            self._write(key, (Put(key, encode(Assignment(hosts))),), now=now)

    def _create(self, shard: ShardId, members: tuple[Member, ...], now: int) -> None:
        key, assigned = shard_key(shard), Assignment(tuple(each.host for each in members))
        if self._desk.is_free(key):
            self._note(What.CREATED, " ".join(assigned.hosts), shard=shard, host=members[0].host)
            record = first_record(members, min_members=self._arranger.settings.min_members)
            writes = (Put(key, encode(record)), Put(assignment_key(shard), encode(assigned)))
            self._write(key, writes, now=now, checks=(Check(assignment_key(shard), 0),))
