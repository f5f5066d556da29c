"""A cluster on paper: a store, a wire, and hosts that do what the records say, with real managers on them.

A host here has no log, only numbers. It follows the rules that the manager relies on: a candidate becomes active when
enough others are there, a primary lets go of members that are away and takes in hosts that are assigned to it. Time,
order and faults are this program's, so that a run is always the same.
"""

import heapq
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

import msgspec

from holdfast.core.cluster.arrangement import Settings
from holdfast.core.cluster.membership import Leased, Manager, Note, Output, Tick, What
from holdfast.core.coordination.asking import Desk, Fetch, Fetched, Loaded, Outcome, Settled, Transact, Watched
from holdfast.core.coordination.cluster import (
    DiskId,
    DiskRecord,
    HostId,
    HostRecord,
    Life,
    Member,
    Range,
    ShardRecord,
    ShardState,
    disk_key,
    encode,
    host_key,
    shard_key,
)
from holdfast.core.coordination.heartbeat import Heartbeat, Role, ShardReport, audience_of
from holdfast.core.coordination.store import Check, Event, LeaseGone, Put, Record, State, Transaction
from holdfast.core.limits import HEARTBEAT_INTERVAL, SECOND
from holdfast.core.types import Epoch, Lsn, ShardId

MS: Final = 1000
STORE: Final = "store"
LEASE_LIFE: Final = 3 * SECOND
PATIENCE: Final = 2 * SECOND  # of a primary with a member
COPYING: Final = 3 * SECOND  # by a learner


class Replica(msgspec.Struct):
    lsn: Lsn = Lsn(10)
    epoch: Epoch = Epoch(0)
    primary_heard: int = 0
    is_damaged: bool = False
    leads: bool = False  # since this start
    away: dict[HostId, int] = {}  # members that do not answer, and since when
    copying: dict[HostId, int] = {}


class World:
    def __init__(self, settings: Settings, *, on_change: Callable[[Event], None] = lambda _: None) -> None:
        self.settings = settings
        self.on_change = on_change  # for whoever wants to know what happened
        self.now = 0
        self.store = State()
        self.hosts: dict[HostId, PaperHost] = {}
        self.cuts: set[frozenset[str]] = set()
        self.deaf: set[str] = set()  # hosts that hear no heartbeats, though everybody hears theirs
        self.happened: list[tuple[int, str]] = []
        self.sent: list[Transaction] = []  # everything managers ever asked of the store
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0
        self._told = 0  # events up to this revision were shown to the watchers
        self.call(0, self._expire_leases)

    # time

    def call(self, delay: int, action: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._queue, (self.now + delay, self._number, action))

    def run(self, until: int) -> None:
        while self._queue and self._queue[0][0] <= until:
            self.now, _, action = heapq.heappop(self._queue)
            action()
        self.now = until

    def say(self, text: str) -> None:
        self.happened.append((self.now, text))

    # wire

    def latency(self) -> int:
        return MS

    def store_latency(self) -> int:
        return 5 * MS

    def is_cut(self, one: str, other: str) -> bool:
        return frozenset((one, other)) in self.cuts

    def send(self, sender: HostId, receiver: HostId, beat: Heartbeat) -> None:
        is_lost = self.is_cut(sender, receiver) or (receiver in self.deaf and receiver != sender)
        if not is_lost and receiver in self.hosts:
            self.call(self.latency(), lambda: self.hosts[receiver].take(beat))

    # store

    def ask_store(self, host: "PaperHost", action: Callable[[], Any], answer: Callable[[Any], None]) -> None:
        """Request and answer; each half is lost if there is a cut when it leaves."""
        boot = host.boot

        def arrive() -> None:
            self._expire_now()
            result = action()
            self.tell_watchers()
            if not self.is_cut(host.name, STORE):
                self.call(self.store_latency(), lambda: come_back(result))

        def come_back(result: Any) -> None:
            if host.is_up and host.boot == boot:  # else whoever asked is gone
                answer(result)

        if not self.is_cut(host.name, STORE):
            self.call(self.store_latency(), arrive)

    def asked(self, host: "PaperHost", transaction: Transaction) -> None:  # noqa: ARG002 - who asked matters elsewhere
        self.sent.append(transaction)

    def transact(self, transaction: Transaction) -> Outcome:
        try:
            return Outcome.DONE if self.store.transact(transaction) else Outcome.REFUSED
        except LeaseGone:
            return Outcome.REFUSED

    def read(self, key: str) -> tuple[Record | None, int]:
        return self.store.get(key), self.store.revision

    def tell_watchers(self) -> None:
        """Each in the order of revisions."""
        changes = self.store.changes("", self._told)
        self._told = changes.revision
        for event in changes.events:
            self.on_change(event)
            for host in self.hosts.values():
                if not self.is_cut(host.name, STORE):
                    host.told_at = max(host.told_at, self.now + self.store_latency())
                    self.call(host.told_at - self.now, partial(host.take, Watched(event)))

    def _expire_now(self) -> None:
        self.store.expire(self.now)
        self.tell_watchers()

    def _expire_leases(self) -> None:
        self._expire_now()
        self.call(100 * MS, self._expire_leases)

    # faults

    def cut(self, one: str, other: str) -> None:
        self.cuts.add(frozenset((one, other)))

    def mend(self) -> None:
        self.cuts.clear()
        self.deaf.clear()
        for host in self.hosts.values():
            host.load()

    def restore(self) -> None:
        """The store is a little younger than it was, as if from a backup."""
        self.store.revision -= 5
        self._told = self.store.revision
        for host in self.hosts.values():
            host.load()

    def add(self, name: str, **labels: Any) -> "PaperHost":
        host = self.hosts[HostId(name)] = PaperHost(HostId(name), self, **labels)
        host.start()
        return host


class PaperHost:
    def __init__(self, name: HostId, world: World, *, zone: str = "") -> None:
        self.name, self.world, self.zone = name, world, zone
        self.disks = 0
        self.boot = 0
        self.life = Life(0)
        self.replicas: dict[ShardId, Replica] = {}
        self.busy = 500
        self.told_at = 0  # when the last event of the store reaches it
        self.is_up = False
        self.paused: list[Any] | None = None  # what came in meanwhile

    @property
    def disk(self) -> DiskId:
        return DiskId(f"{self.name}{self.disks}")

    # life

    def start(self) -> None:
        store, now = self.world.store, self.world.now
        held = store.get(disk_key(self.disk))
        if held is None:
            self.life, self.boot, self.replicas = Life(store.revision + 1), 0, {}
        self.boot += 1
        self.is_up, self.paused, self.numbers, self.manager_heard = True, None, 0, now
        record = DiskRecord(self.name, self.life, self.boot, self.boot)
        store.transact(Transaction((), (Put(disk_key(self.disk), encode(record)),)))
        self.manager = Manager(self.name, self.boot, settings=self.world.settings, now=now)
        self.desk = Desk()
        for replica in self.replicas.values():
            replica.primary_heard, replica.leads = now - SECOND, False
        self._register()
        self.load()
        for action in (self._beat, self._act, self._renew):
            action(self.boot)

    def _register(self) -> None:
        store = self.world.store
        self.lease = store.grant(LEASE_LIFE, self.world.now)
        record = HostRecord(self.disk, self.boot, f"{self.name}:9326", self.zone)
        store.transact(Transaction((), (Put(host_key(self.name), encode(record), self.lease),)))
        self.world.tell_watchers()
        self.take(Leased(self.lease))

    def _renew(self, boot: int) -> None:
        if not self._is_same(boot):
            return
        self.world.call(SECOND, lambda: self._renew(boot))
        is_reached = self.paused is None and not self.world.is_cut(self.name, STORE)
        if is_reached and not self.world.store.renew(self.lease, self.world.now):
            self._register()

    def _is_same(self, boot: int) -> bool:
        return self.is_up and boot == self.boot

    def kill(self) -> None:
        self.is_up = False

    def wipe(self) -> None:
        self.kill()
        self.disks += 1

    def pause(self) -> None:
        self.paused = []

    def resume(self) -> None:
        waiting, self.paused = self.paused or [], None
        for event in waiting:
            self.take(event)
        self.take(Tick())

    def load(self) -> None:
        """Reads the whole store; the events of before it are on their way, and ignored when they come."""
        self.world.ask_store(self, partial(self.world.store.range, ""), lambda snapshot: self.take(Loaded(snapshot)))

    # events

    def take(self, event: Any) -> None:
        if not self.is_up:
            return
        if self.paused is not None:
            self.paused.append(event)
            return
        holder = self.manager.view.manager
        if isinstance(event, Heartbeat) and holder is not None and event.host == holder.host:
            self.manager_heard = self.world.now
        self._carry_out(self.manager.step(event, self.world.now))

    def _carry_out(self, output: Output) -> None:
        for note in output.notes:
            self.noted(note)
        if output.needs_load:
            self.load()
        for each in output.transacts:
            self.world.asked(self, each.transaction)
        self._ask(output.transacts, output.fetches, self.take)

    def noted(self, note: Note) -> None:
        match note.what:
            case What.FAIL_OVER | What.HAND_OVER:
                self.world.say(f"{self.name}: shard {note.shard} goes to {note.host}: {note.text}")
            case What.STUCK:
                self.world.say(f"{self.name}: shard {note.shard} is stuck: {note.text}")
            case What.HOSTS_WANTED | What.DISMISSED | What.FROZEN:
                self.world.say(f"{self.name}: {note.what}: {note.text}")
            case _:
                pass  # seen by what is written

    def _ask(self, transacts: Iterable[Transact], fetches: Iterable[Fetch], answer: Callable[[Any], None]) -> None:
        for each in transacts:
            self.world.ask_store(
                self, partial(self.world.transact, each.transaction), partial(_settled, each.token, answer)
            )
        for one in fetches:
            self.world.ask_store(self, partial(self.world.read, one.key), partial(_fetched, one.token, answer))

    # heartbeats

    def _beat(self, boot: int) -> None:
        if not self._is_same(boot):
            return
        self.world.call(HEARTBEAT_INTERVAL, lambda: self._beat(boot))
        if self.paused is not None:
            return
        self.numbers += 1
        view = self.manager.view
        beat = Heartbeat(
            self.name,
            self.disk,
            self.life,
            self.boot,
            self.numbers,
            tuple(self._report(shard) for shard in sorted(self.replicas) if shard in view.shards),
            manager_silence_us=self.world.now - self.manager_heard,
            busy_permille=self.busy,
        )
        for host in audience_of(self.name, view.hosts, view.manager.host if view.manager else None):
            self.world.send(self.name, host, beat)

    def _report(self, shard: ShardId) -> ShardReport:
        replica, record = self.replicas[shard], self.manager.view.shards[shard]
        heard = 0 if record.primary == self.name else self.world.now - replica.primary_heard
        return ShardReport(
            shard, replica.epoch, self._role(shard), replica.epoch, replica.lsn, replica.lsn, replica.lsn, heard
        )

    def _role(self, shard: ShardId) -> Role:
        replica, record = self.replicas[shard], self.manager.view.shards[shard]
        if replica.is_damaged:
            return Role.DAMAGED
        if record.primary == self.name and replica.leads:
            return Role.PRIMARY if record.state is ShardState.ACTIVE else Role.CANDIDATE
        return Role.MEMBER if Member(self.name, self.life) in record.members else Role.LEARNER

    # what a host does with its shards

    def _act(self, boot: int) -> None:
        if not self._is_same(boot):
            return
        self.world.call(100 * MS, lambda: self._act(boot))
        if self.paused is None:
            self._carry_out(self.manager.step(Tick(), self.world.now))
            for shard, record in sorted(self.manager.view.shards.items()):
                self._follow(shard, record)
            self.desk.look_for_answers(self.world.now)
            transacts, fetches = self.desk.transacts, self.desk.fetches
            self.desk.transacts, self.desk.fetches = [], []
            self._ask(transacts, fetches, self._answered)

    def _answered(self, event: Settled | Fetched) -> None:
        if isinstance(event, Settled):
            self.desk.settle(event, self.world.now)
            self._ask((), self.desk.fetches, self._answered)
            self.desk.fetches = []
        elif (key := self.desk.receive(event)) is not None:
            self.manager.view.learn(key, event.record, as_of=event.revision)

    def _follow(self, shard: ShardId, record: ShardRecord) -> None:
        assignment = self.manager.view.assignments.get(shard)
        is_wanted = assignment is not None and self.name in assignment.hosts
        if shard not in self.replicas and (is_wanted or Member(self.name, self.life) in record.members):
            self.replicas[shard] = Replica(primary_heard=self.world.now, away={}, copying={})
        if shard not in self.replicas:
            return
        replica = self.replicas[shard]
        if record.primary != self.name:
            if self._reaches(record.primary, shard):
                replica.primary_heard, replica.epoch = self.world.now, max(replica.epoch, record.epoch)
        elif Member(self.name, self.life) not in record.members:
            replica.leads = False  # the host was meant, with the disk it had
        elif record.state is ShardState.RECOVERING and not replica.is_damaged:
            replica.leads = replica.leads or record.epoch > replica.epoch
            replica.epoch = record.epoch
            if replica.leads:
                self._recover(shard, record)
        elif replica.leads:
            replica.epoch = record.epoch
            self._lead(shard, record)

    def _reaches(self, host: HostId, shard: ShardId) -> bool:
        other = self.world.hosts.get(host)
        is_there = other is not None and other.is_up and other.paused is None and shard in other.replicas
        return is_there and not self.world.is_cut(self.name, host)

    def _level(self, record: ShardRecord, shard: ShardId) -> list[Member]:
        return [
            each
            for each in record.members
            if each.host == self.name
            or (self._reaches(each.host, shard) and self.world.hosts[each.host].life == each.life)
        ]

    def _recover(self, shard: ShardId, record: ShardRecord) -> None:
        members = self._level(record, shard)
        if len(members) < record.min_members:
            members += self._learners(record, shard)
        if len(members) >= record.min_members:
            self._change(shard, record, members, epoch=record.epoch)

    def _learners(self, record: ShardRecord, shard: ShardId) -> list[Member]:
        """Assigned hosts that are no members, or came back with another disk."""
        view = self.manager.view
        assigned = view.assignments[shard].hosts if shard in view.assignments else ()
        known = [self.world.hosts[each] for each in assigned if self._reaches(each, shard)]
        found = [Member(each.name, each.life) for each in known]
        return [each for each in found if each not in record.members]

    def _lead(self, shard: ShardId, record: ShardRecord) -> None:
        now, replica, view = self.world.now, self.replicas[shard], self.manager.view
        level = self._level(record, shard)
        away = {each.host: replica.away.get(each.host, now) for each in record.members if each not in level}
        learners = self._learners(record, shard)
        replica.away = away
        replica.copying = {each.host: replica.copying.get(each.host, now) for each in learners}
        caught_up = [each for each in learners if now - replica.copying[each.host] >= COPYING]
        kept = [each for each in record.members if now - away.get(each.host, now) < PATIENCE]
        hosts = {each.host for each in caught_up}
        members = [each for each in kept if each.host not in hosts] + caught_up
        assigned = view.assignments[shard].hosts if shard in view.assignments else ()
        if self.name in assigned and {each.host for each in members} >= set(assigned):
            members = [each for each in members if each.host in assigned]
        if tuple(members) != record.members and len(members) >= record.min_members:
            self._change(shard, record, members, epoch=Epoch(record.epoch + 1))

    def _change(self, shard: ShardId, record: ShardRecord, members: list[Member], *, epoch: Epoch) -> None:
        key = shard_key(shard)
        if not self.desk.is_free(key) or self.manager.view.is_frozen:
            return
        lsn = self.replicas[shard].lsn
        for each in members:
            if shard in self.world.hosts[each.host].replicas:
                self.world.hosts[each.host].replicas[shard].lsn = lsn
        ranges = (Range(epoch, tuple(members), Lsn(lsn + 1)),)
        changed = ShardRecord(epoch, self.name, tuple(members), ShardState.ACTIVE, ranges, record.min_members)
        check = Check(key, self.manager.view.revision_of(key))
        self.desk.write(key, Transaction((check,), (Put(key, encode(changed)),)), self.world.now)


def _settled(token: int, answer: Callable[[Any], None], outcome: Outcome) -> None:
    answer(Settled(token, outcome))


def _fetched(token: int, answer: Callable[[Any], None], found: tuple[Record | None, int]) -> None:
    answer(Fetched(token, *found))
