"""The internal manager: who manages the cluster, who leads a shard that lost its primary, who should hold which shard.

It runs on every host and listens; the one that holds the office (core/office.py) acts.

    heartbeats, watch ──▶ think ──▶ shards/…       epoch + 1, another primary, RECOVERING      (fail-over, hand-over)
                               ├──▶ assignments/…  who should hold the shard                   (placement)
                               └──▶ drains/…       the host is empty                           (drain)

Laws
- Whatever the manager does is one transaction that checks its own `manager` record and the revision of what it changes.
  So a deposed or delayed manager does nothing, and there is no command that could be replayed.
- Leases and silence only decide when to try; what makes a fail-over safe is in the replicas (a persisted epoch).
- A shard is given only to a member of its last configuration, with the disk of that configuration.
- Nothing is decided while the manager is cut off, or from a store that was restored from a backup.
- Everything is bounded: writes under way, tries for one shard (they back off), replicas on the move, hand-overs.
"""

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum

import msgspec

from holdfast.core.arrangement import Arranger, Assign, Create, Dismiss, Emptied, HandOver, Settings
from holdfast.core.cluster import (
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
from holdfast.core.cluster_view import ClusterView
from holdfast.core.coordination import Desk, Fetch, Fetched, Loaded, Settled, Transact, Watched
from holdfast.core.heartbeat import Heartbeat
from holdfast.core.limits import (
    ARRANGE_INTERVAL,
    COMPLAIN_INTERVAL,
    FAIL_OVER_BACKOFF,
    FAIL_OVER_BACKOFF_MAX,
    FAILED_MEMORY,
    PAUSE_NOTICED,
    STEADY_AFTER,
    SUSPECT_AFTER,
    SUSPECT_AFTER_MAX,
    THINK_INTERVAL,
)
from holdfast.core.office import Office
from holdfast.core.sizing import Grow
from holdfast.core.store import Check, LeaseId, Put, Transaction, Write
from holdfast.core.suspicion import PATIENCE, Hearing, Trouble, candidates_of, trouble_of
from holdfast.core.types import Epoch, ShardId


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


class _Tries(msgspec.Struct):
    """Fail-overs of one shard since it was last steady."""

    count: int
    at: int
    tried: list[HostId]
    active_since: int | None = None


class _Seen(msgspec.Struct):
    trouble: Trouble
    epoch: Epoch
    since: int


class Manager:
    def __init__(self, host: HostId, boot: int, *, settings: Settings, now: int, seen_revision: int = 0) -> None:
        self.host = host
        self.view = ClusterView(seen_revision)
        self.hearing = Hearing()
        self._desk = Desk()
        self.office = Office(host, boot, view=self.view, hearing=self.hearing, desk=self._desk)
        self._arranger = Arranger(settings)
        self._notes: list[Note] = []
        self._needs_load = False
        self._wanted_hosts = 0
        self._woken = now
        self._think_at = now
        self._arrange_at = now
        # since this host is in office
        self._troubles: dict[ShardId, _Seen] = {}
        self._tries: dict[ShardId, _Tries] = {}
        self._complained: dict[ShardId, int] = {}
        self._epochs: dict[ShardId, tuple[Epoch, ShardState, int]] = {}  # as last seen, and since when
        self._failed: dict[HostId, int] = {}  # appointed, and did not become primary; when it was given up
        self._led: Counter[HostId] = Counter()  # shards by primary, with the appointments of this turn

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
        self._troubles.clear()
        self._tries.clear()
        self._complained.clear()
        self._epochs.clear()
        self._failed.clear()
        self._arranger.forget()

    def _write(self, key: str, writes: Sequence[Write], *, now: int, checks: Sequence[Check] = ()) -> None:
        """In office: only as long as the office is held and nobody else has changed `key`."""
        own = (Check(MANAGER_KEY, self.office.term), Check(key, self.view.revision_of(key)))
        self._desk.write(key, Transaction((*own, *checks), tuple(writes)), now)

    # in office

    def _manage(self, now: int) -> None:
        self._led = Counter(each.primary for each in self.view.shards.values())
        for shard in sorted(self.view.shards):
            self._guard(shard, now)
        if now >= self._arrange_at:
            self._arrange_at = now + ARRANGE_INTERVAL
            self._arrange(now)

    def _guard(self, shard: ShardId, now: int) -> None:
        trouble = trouble_of(shard, self.view, self.hearing, now=now)
        is_news = self._is_news(shard, now)
        if trouble is Trouble.SILENT and is_news:
            trouble = None
        if trouble is None:
            self._troubles.pop(shard, None)
            self._calm_down(shard, now)
            return
        record = self.view.shards[shard]
        seen = self._troubles.get(shard)
        if seen is None or (seen.trouble, seen.epoch) != (trouble, record.epoch):
            seen = self._troubles[shard] = _Seen(trouble, record.epoch, now)
        tries = self._tries.get(shard)
        patience = PATIENCE.get(trouble, 0) << min(tries.count - 1 if tries and trouble is Trouble.SLOW else 0, 4)
        if now - seen.since >= patience and self._desk.is_free(shard_key(shard)):
            self._fail_over(shard, trouble, now)

    def _is_news(self, shard: ShardId, now: int) -> bool:
        """Whether its record changed a moment ago: then its primary was alive, or has only just been appointed, and
        what the members say is still about the epoch before."""
        record = self.view.shards[shard]
        held = self._epochs.get(shard)
        if held is None or held[:2] != (record.epoch, record.state):
            # What a new manager finds is no news: it may have been so for long.
            since = now if held else now - SUSPECT_AFTER
            held = self._epochs[shard] = (record.epoch, record.state, since)
        return now - held[2] < SUSPECT_AFTER

    def _calm_down(self, shard: ShardId, now: int) -> None:
        tries = self._tries.get(shard)
        if tries is None or self.view.shards[shard].state is not ShardState.ACTIVE:
            return
        tries.active_since = tries.active_since or now
        if now - tries.active_since >= STEADY_AFTER:
            del self._tries[shard]

    def _fail_over(self, shard: ShardId, trouble: Trouble, now: int) -> None:
        tries = self._tries.get(shard)
        if tries and now - tries.at < min(FAIL_OVER_BACKOFF << min(tries.count, 8), FAIL_OVER_BACKOFF_MAX):
            return
        record = self.view.shards[shard]
        alive = self.hearing.count_heard(now)
        fit = candidates_of(shard, self.view, self.hearing, led=self._led, now=now)
        if trouble is not Trouble.NOT_LEADING:
            fit = [each for each in fit if each.host != record.primary]
        if not fit or alive < record.min_members:
            why = "no member of its last configuration can take over" if not fit else "too few hosts are alive"
            self._complain(shard, f"{trouble}, and {why}", now)
            return
        if record.state is ShardState.RECOVERING:
            self._failed[record.primary] = now
        tried = tries.tried if tries else []
        fresh = [each for each in fit if each.host not in tried]
        candidate = (fresh or fit)[0]
        self._tries[shard] = _Tries(
            (tries.count if tries else 0) + 1, now, [*tried, candidate.host] if fresh else [candidate.host]
        )
        self._led[candidate.host] += 1
        self._note(What.FAIL_OVER, trouble, shard=shard, host=candidate.host)
        self._appoint(shard, candidate, now)

    def _complain(self, shard: ShardId, text: str, now: int) -> None:
        if now - self._complained.get(shard, now - COMPLAIN_INTERVAL) >= COMPLAIN_INTERVAL:
            self._complained[shard] = now
            self._note(What.STUCK, text, shard=shard)

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
        failed = [host for host, at in self._failed.items() if now - at < FAILED_MEMORY]
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
