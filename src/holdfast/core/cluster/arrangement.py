"""What the manager wants of its cluster: how many shards, who should hold and lead them, which hosts are empty.

    hosts, drains, heartbeats ──▶ places ──▶ placement ──▶ Assign, HandOver
                                        ├──────────────▶ Create, Emptied
                                        └──▶ sizing ───▶ Grow, Dismiss

Laws
- A host that is not heard gets nothing new. If its lease is over as well it keeps what it has until the grace is over,
  since it may come back.
- Repairs come first: a turn that repairs or spreads balances nothing.
- At most `moves_max` shards have a replica on the move; a shard on the move is only repaired, never balanced.
- A primary is taken from a shard only when every assigned host is a member: a hand-over must not make it thin.
- A host is empty when no assignment names it, no configuration counts on it, and no shard is thin: as long as one is,
  even an old copy may be worth something.
"""

from collections import Counter
from collections.abc import Collection, Iterator

import msgspec

from holdfast.core.cluster.placement import Board, Move, Place, hand_overs, plan_moves
from holdfast.core.cluster.suspicion import Hearing
from holdfast.core.coordination.cluster import HostId, Member, ShardRecord, ShardState
from holdfast.core.coordination.cluster_view import ClusterView
from holdfast.core.coordination.heartbeat import Role
from holdfast.core.coordination.sizing import Grow, HostUse, Shrink, Steady, advice
from holdfast.core.limits import (
    BALANCE_START_PERCENT,
    BALANCE_STOP_PERCENT,
    GROW_AFTER,
    HAND_OVER_INTERVAL,
    IDLE_LOAD,
    LEAVE_AFTER,
    LOAD_SMOOTHING,
    MINUTE,
)
from holdfast.core.types import ShardId


class Settings(msgspec.Struct, frozen=True):
    replicas: int = 3
    min_members: int = 2
    shards_per_host: int = 2  # each led shard costs one fsync per turn
    grace_us: int = 5 * MINUTE  # a lost host's replicas are made anew elsewhere after this
    moves_max: int = 4  # shards with a replica on the move: copying takes disk and network from the living
    hosts_min: int = 0  # never fewer than this, nor than `replicas`
    hosts_max: int = 0  # 0: people decide how many hosts there are


class Assign(msgspec.Struct, frozen=True):
    shard: ShardId
    hosts: tuple[HostId, ...]


class Create(msgspec.Struct, frozen=True):
    shard: ShardId
    members: tuple[Member, ...]  # the first one leads


class HandOver(msgspec.Struct, frozen=True):
    shard: ShardId
    to: Member


class Dismiss(msgspec.Struct, frozen=True):
    """The cluster has more hosts than it needs: this one is drained."""

    host: HostId


class Emptied(msgspec.Struct, frozen=True):
    host: HostId


Change = Assign | Create | HandOver | Dismiss | Emptied | Grow


class Arranger:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.forget()

    def forget(self) -> None:
        """What a manager that was deposed remembers is worth nothing when it is elected again."""
        self._absent_since: dict[HostId, int] = {}
        self.loads: dict[ShardId, int] = {}
        self._is_balancing = False
        self._steady = Steady()
        self._hand_over_at = 0

    def arrange(
        self, view: ClusterView, hearing: Hearing, *, now: int, failed: Collection[HostId] = ()
    ) -> Iterator[Change]:
        """`failed`: hosts that lately could not take over a shard."""
        places = self._places(view, hearing, now)
        self._follow_loads(view, hearing)
        new = self._create(view, places)
        if new is not None:
            yield new
        yield from self._assign(view, hearing, places, is_growing=new is not None, now=now)
        if now >= self._hand_over_at:
            change = self._hand_over(view, hearing, places, failed=failed, now=now)
            if change is not None:
                self._hand_over_at = now + HAND_OVER_INTERVAL
                yield change
        for host, drain in view.drains.items():
            if not drain.is_done and _is_empty(host, view):
                yield Emptied(host)
        advised = self._advise(view, hearing, places, now=now)
        if advised is not None:
            yield advised

    # who is there

    def _places(self, view: ClusterView, hearing: Hearing, now: int) -> dict[HostId, Place]:
        """Hosts that are registered or hold something."""
        holders = {each for one in view.assignments.values() for each in one.hosts}
        places = {}
        for host in sorted(holders | set(view.hosts)):
            record = view.hosts.get(host)
            is_heard = hearing.is_heard(host, now)
            if is_heard or record is not None:
                self._absent_since.pop(host, None)
                absent = 0
            else:
                absent = now - self._absent_since.setdefault(host, now)
            is_draining = host in view.drains
            places[host] = Place(
                host,
                # Of a host that is gone nobody knows the zone: it stands alone.
                record.zone if record else f"?{host}",
                record.capacity if record else 100,
                accepts=is_heard and not is_draining and _is_settled(host, view, hearing),
                keeps=absent < self.settings.grace_us and not is_draining,
            )
        for host in [each for each in self._absent_since if each not in places]:
            del self._absent_since[host]
        return places

    def _follow_loads(self, view: ClusterView, hearing: Hearing) -> None:
        """As the primaries say, smoothed over a minute: a fail-over or a burst moves no replicas."""
        said = {shard: report.load for shard, report in hearing.primaries(view.shards)}
        smoothed = {}
        for shard in view.shards:
            load = IDLE_LOAD + said.get(shard, 0)
            held = self.loads.get(shard, load)
            smoothed[shard] = held + (load - held) // LOAD_SMOOTHING
        self.loads = smoothed

    # shards and replicas

    def _create(self, view: ClusterView, places: dict[HostId, Place]) -> Create | None:
        """One at a time."""
        open_ = [each for each in places.values() if each.accepts]
        count = min(self.settings.replicas, len(open_))
        if count < self.settings.min_members or len(view.shards) >= self.settings.shards_per_host * len(open_):
            return None
        shard = ShardId(max(view.shards, default=0) + 1)
        board = Board({**_layout(view), shard: ()}, list(places.values()), loads=self.loads)
        while len(board.replicas[shard]) < count and (host := board.best(shard)):
            board.carry_out(Move(shard, host, None))
        led = [each.primary for each in view.shards.values()]
        chosen = sorted(board.replicas[shard], key=lambda host: (led.count(host), host))
        members = [view.member(each) for each in chosen]
        return Create(shard, tuple(each for each in members if each is not None))

    def _assign(
        self, view: ClusterView, hearing: Hearing, places: dict[HostId, Place], *, is_growing: bool, now: int
    ) -> Iterator[Change]:
        """While shards are made, only repairs: what is new goes where there is room, and less has to be moved."""
        layout = _layout(view)
        moving = [shard for shard in layout if _is_moving(shard, view, hearing, now=now)]
        limit = self.settings.moves_max - len(moving)
        if limit <= 0:
            return
        leaders = {shard: record.primary for shard, record in view.shards.items()}
        board = Board(layout, list(places.values()), loads=self.loads, leaders=leaders)
        busy = [shard for shard, record in view.shards.items() if is_growing or not _is_whole(shard, record, view)]
        replicas = self.settings.replicas
        if not plan_moves(board, replicas=replicas, slack_percent=None, limit=limit, busy=busy):
            slack = BALANCE_STOP_PERCENT if self._is_balancing else BALANCE_START_PERCENT
            moves = plan_moves(board, replicas=replicas, slack_percent=slack, limit=limit, busy=busy)
            self._is_balancing = bool(moves) or (self._is_balancing and bool(moving))
        for shard, hosts in board.replicas.items():
            if tuple(hosts) != tuple(layout[shard]) or shard not in view.assignments:
                yield Assign(shard, tuple(hosts))

    # hosts

    def _advise(
        self, view: ClusterView, hearing: Hearing, places: dict[HostId, Place], *, now: int
    ) -> Grow | Dismiss | None:
        """A host more or less, if the reason has held for long. Then it must hold anew: a host takes its time to come,
        and to be emptied."""
        least, most = max(self.settings.hosts_min, self.settings.replicas), self.settings.hosts_max
        uses = [_use_of(each, view, hearing) for each in places.values() if each.accepts]
        said = advice(uses, hosts_min=least, hosts_max=most) if most else None
        is_leaving = any(not each.is_done for each in view.drains.values())
        grows = self._steady.holds(Grow, isinstance(said, Grow), now=now, for_us=GROW_AFTER)
        leaves = self._steady.holds(Shrink, isinstance(said, Shrink) and not is_leaving, now=now, for_us=LEAVE_AFTER)
        if grows or leaves:
            self._steady = Steady()
        if isinstance(said, Shrink):
            return Dismiss(said.host) if leaves else None
        return said if grows else None

    # primaries

    def _hand_over(
        self,
        view: ClusterView,
        hearing: Hearing,
        places: dict[HostId, Place],
        *,
        failed: Collection[HostId],
        now: int,
    ) -> HandOver | None:
        """One at a time, and none while any shard has no primary."""
        if any(each.state is not ShardState.ACTIVE for each in view.shards.values()):
            return None
        fit = {
            shard: _fit_to_lead(shard, record, view, hearing=hearing, places=places, now=now)
            for shard, record in sorted(view.shards.items())
        }
        leaders = {shard: record.primary for shard, record in view.shards.items()}
        led = Counter(leaders.values())
        for shard, members in fit.items():
            others = [each for each in members if each.host != leaders[shard]]
            if others and _must_go(leaders[shard], shard, view):
                return HandOver(shard, min(others, key=lambda one: (one.host in failed, led[one.host], one.host)))
        hosts = [each.host for each in places.values() if each.accepts and each.host not in failed]
        chain = hand_overs(leaders, {shard: [each.host for each in fit[shard]] for shard in fit}, hosts)
        if not chain:
            return None
        shard, host = chain[0]
        return HandOver(shard, next(each for each in fit[shard] if each.host == host))


def _fit_to_lead(
    shard: ShardId,
    record: ShardRecord,
    view: ClusterView,
    *,
    hearing: Hearing,
    places: dict[HostId, Place],
    now: int,
) -> list[Member]:
    """Members that could lead as well; none while an assigned host is missing."""
    assignment = view.assignments.get(shard)
    if assignment is None or not set(assignment.hosts) <= _hosts_of(record):
        return []
    return [
        member
        for member, report in hearing.reports(shard, record, now)
        if report.role in (Role.MEMBER, Role.PRIMARY)
        and report.epoch == record.epoch
        and member.host in assignment.hosts
        and places[member.host].keeps
    ]


def _must_go(primary: HostId, shard: ShardId, view: ClusterView) -> bool:
    return primary not in view.assignments[shard].hosts or primary in view.drains


def _use_of(place: Place, view: ClusterView, hearing: Hearing) -> HostUse:
    beat = hearing.beat_of(place.host)
    led = sum(each.primary == place.host for each in view.shards.values())
    if beat is None:
        return HostUse(place.host, place.zone, led=led)
    disk = (beat.disk_bytes - beat.disk_bytes_free) * 1000 // max(1, beat.disk_bytes)
    return HostUse(place.host, place.zone, beat.busy_permille, disk, led)


def _is_settled(host: HostId, view: ClusterView, hearing: Hearing) -> bool:
    """The store knows the disk that speaks."""
    member, beat = view.member(host), hearing.beat_of(host)
    return member is not None and beat is not None and member.life == beat.life


def _layout(view: ClusterView) -> dict[ShardId, tuple[HostId, ...]]:
    return {
        shard: view.assignments[shard].hosts
        if shard in view.assignments
        else tuple(each.host for each in record.members)
        for shard, record in sorted(view.shards.items())
    }


def _hosts_of(record: ShardRecord) -> set[HostId]:
    return {each.host for each in record.members}


def _is_whole(shard: ShardId, record: ShardRecord, view: ClusterView) -> bool:
    is_as_assigned = shard in view.assignments and set(view.assignments[shard].hosts) == _hosts_of(record)
    return is_as_assigned and record.state is ShardState.ACTIVE


def _is_moving(shard: ShardId, view: ClusterView, hearing: Hearing, *, now: int) -> bool:
    """Somebody who is there copies it. A lost host that is waited for takes nothing from anybody."""
    if shard not in view.assignments:
        return False
    hosts = _hosts_of(view.shards[shard])
    return any(each not in hosts and hearing.is_heard(each, now) for each in view.assignments[shard].hosts)


def _is_empty(host: HostId, view: ClusterView) -> bool:
    is_assigned = any(host in each.hosts for each in view.assignments.values())
    is_member = any(host in _hosts_of(each) for each in view.shards.values())
    return not is_assigned and not is_member and all(_is_whole(*each, view) for each in view.shards.items())
