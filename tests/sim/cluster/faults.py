"""What befalls a cluster: hosts that crash, stay away, pause, lose or get back old disks; links that break; the store.

A disk is wiped or rolled back only while everything that was acknowledged is on another one: while all shards are
active, with members whose disks are theirs. That much is promised, and no more.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.core.coordination.cluster import ShardState
from holdfast.core.replication.replica import Replica
from holdfast.core.types import ShardId
from tests.sim.cluster.store import STORE
from tests.sim.cluster.wire import LONG, SHORT, around, between
from tests.sim.faults import Faults
from tests.sim.host import KILL, POWER
from tests.sim.world import MS, SECOND

if TYPE_CHECKING:
    from tests.sim.cluster.cluster import Cluster
    from tests.sim.cluster.node import Node


class ClusterFaults:
    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._world = cluster.world
        self.is_at_rest = False
        self.is_over = False

    def start(self) -> None:
        plan = self._cluster.plan
        for mean_s, action in (
            (plan.power_s, lambda: self._any().crash(POWER, "")),
            (plan.kill_s, lambda: self._any().crash(KILL, "")),
            (plan.down_s, lambda: self._any().lose_power(self._world.between(*LONG), "for long")),
            (plan.blackout_s, self._black_out),
            (plan.pause_s, self._pause),
            (plan.jump_s, self._jump),
            (plan.full_s, self._fill),
            (plan.wipe_s, self._wipe),
            (plan.roll_back_s, self._roll_back),
            (plan.slow_disk_s, self._slow_disk),
            (plan.flip_s, self._flip),
            (plan.isolate_s, self._isolate),
            (plan.one_way_s, self._one_way),
            (plan.estrange_s, self._estrange),
            (plan.maroon_s, self._maroon),
            (plan.split_s, self._split),
            (plan.flicker_s, self._flicker),
            (plan.store_away_s, self._store_away),
            (plan.store_slow_s, self._store_slow),
            (plan.store_cut_s, self._store_cut),
            (plan.restore_s, self._restore),
        ):
            if mean_s:
                self._repeat(int(mean_s * SECOND), action)

    def actions(self, *, may_damage: bool) -> list[Callable[[], None]]:
        """Single faults that may befall a cluster nobody uses."""
        return [
            *([self._flip] if may_damage else []),
            lambda: self._any().crash(POWER, ""),
            lambda: self._any().crash(KILL, ""),
            lambda: self._any().lose_power(self._world.between(*LONG), "for long"),
            self._black_out,
            self._pause,
            self._jump,
            self._wipe,
            self._slow_disk,
            self._isolate,
            self._one_way,
            self._split,
            self._store_away,
            self._store_cut,
        ]

    def _repeat(self, mean: int, action: Callable[[], None]) -> None:
        def happen() -> None:
            if not (self._cluster.is_healed or self.is_over):
                if not self.is_at_rest:
                    action()
                self._repeat(mean, action)

        self._world.after(self._world.gap(mean), happen)

    def _any(self) -> "Node":
        return self._world.rng.choice(self._cluster.nodes)

    # Hosts

    def _black_out(self) -> None:
        self._world.fault("blackout")
        for node in self._cluster.nodes:
            node.lose_power(self._world.between(10 * MS, 900 * MS), "with all others")

    def _pause(self) -> None:
        """Often longer than any lease of the store; often just so long that it wakes up while another takes over."""
        middle = self._world.between(900 * MS, 2 * SECOND)
        self._any().pause(self._world.rng.choice((50 * MS, 600 * MS, middle, middle, 3 * SECOND, 14 * SECOND)))

    def _jump(self) -> None:
        hours = self._world.rng.choice((-30, -1, 1, 30))
        self._world.fault("clock jump", f"{hours} h")
        self._any().clock.jump(hours * 3_600_000)

    def _fill(self) -> None:
        node = self._any()
        node.disk.budget = node.disk.used + self._world.between(0, 2 * node.plan.segment_bytes)
        self._world.fault("full disk", node.name)
        self._world.after(self._world.between(SECOND // 2, 3 * SECOND), node.free)

    def _slow_disk(self) -> None:
        node = self._any()
        self._world.fault("slow disk", node.name)
        node.slow_until = self._world.now + self._world.between(*LONG)

    # Disks that are not what they were

    def may_lose(self, lost: "Node") -> bool:
        """Everything acknowledged is on other disks, too."""
        for shard in self._cluster.shards:
            found = self._cluster.record(shard)
            if found is None or found.state is not ShardState.ACTIVE:
                return False
            for member in found.members:
                identity = self._cluster.node(member.host).identity
                if identity is None or identity.life != member.life:
                    return False
            if all(member.host == lost.name for member in found.members):
                return False
        for node in self._cluster.nodes:
            node.disk.forget_flips()
        return not any(node.is_lost or node.disk.flips for node in self._cluster.nodes)

    def _flip(self) -> None:
        """One bit on one disk, while all others are whole."""
        node = self._any()
        if self.may_lose(node):
            Faults(self._world, node).flip()

    def _wipe(self) -> None:
        node = self._any()
        if self.may_lose(node):
            self._world.fault("disk wiped", node.name)
            node.replace_disk(node.new_disk())

    def _roll_back(self) -> None:
        node = self._any()
        if node.copies and self.may_lose(node):
            self._world.fault("disk rolled back", node.name)
            node.roll_back()

    # The network

    def _isolate(self) -> None:
        node = self._any()
        self._world.fault("host cut off", node.name)
        others = self._cluster.everybody
        self._cluster.wire.cut_for(around(node.name, others), self._length())

    def _one_way(self) -> None:
        node, is_out = self._any(), self._world.chance(0.5)
        self._world.fault("cut one way", f"{node.name} {'out' if is_out else 'in'}")
        others = self._cluster.everybody
        links = around(node.name, others, is_out=is_out, is_in=not is_out)
        self._cluster.wire.cut_for(links, self._length())

    def _estrange(self) -> None:
        """A primary from all other hosts, perhaps from the store, too, while front-ends reach it: it goes on."""
        record = self._cluster.record(self._world.rng.choice(self._cluster.shards))
        if record is not None:
            self._world.fault("primary cut off from hosts", record.primary)
            others = [str(node.name) for node in self._cluster.nodes if node.name != record.primary]
            others += [STORE] if self._world.chance(0.5) else []
            self._cluster.wire.cut_for(between([record.primary], others), self._world.between(300 * MS, 6 * SECOND))

    def _maroon(self) -> None:
        """A primary and a front-end on an island: those who ask there do not hear that somebody else leads."""
        record = self._cluster.record(self._world.rng.choice(self._cluster.shards))
        if record is not None:
            front = self._world.rng.choice(self._cluster.frontends).name
            self._world.fault("primary and front-end cut off", f"{record.primary} {front}")
            island = [str(record.primary), front]
            others = [name for name in self._cluster.everybody if name not in island]
            self._cluster.wire.cut_for(between(island, others), self._world.between(SECOND, 5 * SECOND))

    def _split(self) -> None:
        names = [str(node.name) for node in self._cluster.nodes]
        self._world.rng.shuffle(names)
        part = self._world.between(1, len(names) - 1)
        self._world.fault("network split", f"{names[:part]}")
        self._cluster.wire.cut_for(between(names[:part], names[part:]), self._length())

    def _flicker(self) -> None:
        one, two = self._world.rng.sample(self._cluster.nodes, 2)
        self._world.fault("link cut", f"{one.name} {two.name}")
        self._cluster.wire.cut_for(between([one.name], [two.name]), self._world.between(*SHORT))

    def _length(self) -> int:
        return self._world.between(*(SHORT if self._world.chance(0.4) else LONG))

    # The store

    def _store_away(self) -> None:
        length = self._world.between(SECOND, 8 * SECOND)
        self._world.fault("store away")
        self._cluster.store.away_until = self._world.now + length
        if self._cluster.plan.is_only_store and all(self._is_steady(shard) for shard in self._cluster.shards):
            self._world.after(length, self._check_going_on, length, dict(self._cluster.checkers.acks))

    def _is_steady(self, shard: ShardId) -> bool:
        """Led, by members that are not being changed: what has begun of a change cannot end without the store, and its
        queues wait, as do clients who then ask for nothing else."""
        record = self._cluster.record(shard)
        if record is None or record.state is not ShardState.ACTIVE:
            return False
        (daemon,) = [node.daemon for node in self._cluster.nodes if node.name == record.primary]
        seat = daemon.seats.get(shard) if daemon is not None else None
        leader = seat.replica._leader if seat is not None and isinstance(seat.replica, Replica) else None
        return leader is not None and not leader.changes.is_paused

    def _check_going_on(self, length: int, before: dict[int, int]) -> None:
        """I18. Before a queue was ever used, and while clients rest, nothing is expected."""
        if self.is_at_rest or self._cluster.is_healed or length < 3 * SECOND:
            return
        acks = self._cluster.checkers.acks
        for shard, count in before.items():
            text = f"shard {shard} acknowledged nothing while the store was away for {length} µs"
            self._cluster.checkers.tally.check("I18", acks[shard] > count, text)

    def _store_slow(self) -> None:
        self._world.fault("store slow")
        self._cluster.store.slow_until = self._world.now + self._world.between(SECOND, 8 * SECOND)

    def _store_cut(self) -> None:
        """A front-end then goes on asking those who led when it last heard."""
        names = [*(str(node.name) for node in self._cluster.nodes), *(each.name for each in self._cluster.frontends)]
        name = self._world.rng.choice(names)
        self._world.fault("store cut off", name)
        self._cluster.wire.cut_for(between([name], [STORE]), self._length())

    def _restore(self) -> None:
        """A backup is made; some time later it comes back; some time later an operator notices.

        Only if whoever runs has seen more than the backup has, and no disk was registered since: what the store never
        knew cannot be known again.
        """
        store = self._cluster.store
        if store.lost is not None:
            return
        if store.backup is None or self._world.chance(0.5):
            store.save()
            return
        known = [record.key for record in store.backup.range("disks/").records]
        is_known = [record.key for record in store.state.range("disks/").records] == known
        views = [node.daemon.view for node in self._cluster.nodes if node.daemon is not None]
        if is_known and all(view is not None and view.revision > store.backup.revision for view in views):
            self._world.fault("store restored", f"{store.state.revision} to {store.backup.revision}")
            store.restore()
            self._world.after(self._world.between(7 * SECOND, 12 * SECOND), self._cluster.set_right)
