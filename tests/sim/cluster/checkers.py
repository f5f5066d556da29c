"""The invariants of a cluster, on top of those of one host: I3 to I8, I14, I15, I18, and what a fail-over may cost.

I6 and I13 are in platter.py, I4 and I21 in replicas.py, the bound of asynchronous loss in losses.py.

Three witnesses: what leaves a host for a client, what is synced on a platter, and what the store really holds. None of
them asks the code under test.
"""

from typing import TYPE_CHECKING

from holdfast.core.cluster.table import LAYOUTS, layout_of
from holdfast.core.coordination.catalogue import named_by
from holdfast.core.coordination.cluster import (
    DiskId,
    HostId,
    Life,
    Member,
    ShardRecord,
    ShardState,
    decode_disk,
    decode_shard,
    disk_key,
)
from holdfast.core.coordination.store import Event, Record
from holdfast.core.errors import CorruptLog
from holdfast.core.log.files import Sync
from holdfast.core.log.promise import decode_promise
from holdfast.core.queue.command import Accepted, Delivery, Receive, Send
from holdfast.core.replication.enrolment import Identity
from holdfast.core.types import ShardId
from tests.sim.account import Account
from tests.sim.checkers import Checkers
from tests.sim.cipher import SealBook
from tests.sim.cluster.losses import Losses
from tests.sim.cluster.platter import Platters
from tests.sim.cluster.replicas import Replicas
from tests.sim.disk import Disk
from tests.sim.request import Request
from tests.sim.world import SECOND, World

if TYPE_CHECKING:
    from tests.sim.cluster.cluster import Cluster
    from tests.sim.cluster.node import Node
    from tests.sim.host import Host

Place = tuple[int, int]  # epoch, lsn


class ClusterCheckers(Checkers):
    cluster: "Cluster"

    def __init__(self, world: World, account: Account, seals: SealBook, *, window: int = 300 * SECOND) -> None:
        super().__init__(world, account, seals, window=window)
        self.platters = Platters(world, self.tally)
        self.replicas = Replicas(self)
        self._losses = Losses(self, self.tally)
        self.acked: dict[int, Place] = {}  # shard -> the last place that was acknowledged
        self.acks: dict[int, int] = {}  # shard -> how many
        self.first_acks: list[tuple[int, int]] = []
        self._furthest: dict[tuple[int, int], int] = {}  # (shard, epoch) -> highest lsn acknowledged
        self._seals_at: dict[tuple[int, int], int] = {}  # (shard, epoch) -> where its range was sealed
        self._members: dict[tuple[int, int], tuple[Member, ...]] = {}  # (shard, epoch) -> who had to have everything
        self._appenders: dict[tuple[int, int], tuple[str, int]] = {}
        self._disks: dict[tuple[HostId, Life], Disk] = {}
        self._promises: dict[tuple[str, str], int] = {}  # (disk, shard) -> durable promise

    # Clients

    def ended(self, request: Request) -> None:
        super().ended(request)
        answer, command = request.answer, request.command
        if isinstance(answer, Accepted) and isinstance(command, Send):
            is_async = self._is_async(command.lane)
            self._acknowledged(answer.shard or request.shard, (answer.epoch, answer.lsn), is_async=is_async)
            if is_async:
                self._losses.acknowledged(request, answer.epoch, answer.lsn)
        elif isinstance(answer, Delivery) and isinstance(command, Receive):
            enough = 1 if self._is_async(command.lane) else self.cluster.min_members
            if answer.messages:
                self.replicas.handed_out(request)
            for each in answer.messages:
                place = (each.header.epoch, each.header.lsn)
                self._check_held("I7", request.shard, place, what="handed out", enough=enough)

    def _is_async(self, lane: int) -> bool:
        return self.account.lanes[lane].is_async

    def _acknowledged(self, shard: int, place: Place, *, is_async: bool) -> None:
        epoch, lsn = place
        enough = 1 if is_async else self.cluster.min_members
        self._check_held("I5", shard, place, what="acknowledged", enough=enough)
        self.cluster.acknowledged(shard)
        if is_async:
            return
        self.platters.acknowledged(shard, epoch, lsn)
        sealed = self._seals_at.get((shard, epoch))
        if sealed is not None and lsn > sealed:
            text = f"shard {shard}: epoch {epoch} lsn {lsn} is acknowledged, and its range was sealed at {sealed}"
            self.tally.check("I7", False, text)
        self.tally.counts["I7"] += 1
        self._furthest[shard, epoch] = max(lsn, self._furthest.get((shard, epoch), 0))
        if shard not in self.acked or lsn > self.acked[shard][1]:
            self.acked[shard] = place
        self.acks[shard] = self.acks.get(shard, 0) + 1

    def _check_held(self, name: str, shard: int, place: Place, *, what: str, enough: int) -> None:
        """On disks that were replaced since, and among what was put aside, it counts: it was durable."""
        epoch, lsn = place
        found = 0
        for node in self.cluster.nodes:
            found += self.platters.holds(node.disk, shard, epoch=epoch, lsn=lsn)
            if found == enough:  # more need not be looked for
                self.tally.counts[name] += 1
                return
        holders = [node.name for node in self.cluster.nodes if self._ever_held(node, shard, place)]
        text = f"shard {shard}: epoch {epoch} lsn {lsn} is {what}, and durable on {holders} only"
        self.tally.check(name, len(holders) >= enough, text)

    def _ever_held(self, node: "Node", shard: int, place: Place) -> bool:
        epoch, lsn = place
        disks = (node.disk, *node.former)
        is_there = any(self.platters.holds(disk, shard, epoch=epoch, lsn=lsn) for disk in disks)
        return is_there or any(self.platters.held(disk, shard, epoch=epoch, lsn=lsn) for disk in disks)

    def is_committed(self, shard: int, place: Place) -> bool:
        """On the disks of all members of its epoch; or below the place where that epoch was sealed."""
        epoch, lsn = place
        sealed, members = self._seals_at.get((shard, epoch)), self._members.get((shard, epoch), ())
        if sealed is not None:
            return lsn <= sealed
        return all(
            self.platters.has_held(member.host, shard, epoch=epoch, lsn=lsn)
            or self._ever_held(self.cluster.node(member.host), shard, place)
            for member in members
        )

    def members_of(self, shard: int, epoch: int) -> tuple[Member, ...]:
        return self._members.get((shard, epoch), ())

    def sealed_at(self, shard: int, epoch: int) -> int | None:
        return self._seals_at.get((shard, epoch))

    def settle(self) -> None:
        super().settle()
        for _ in self.custody.lost_async:
            self.account.reigns.excuse("lost by an asynchronous queue")
        self._losses.settle(self.custody.lost_async)

    # Disks

    def enrolled(self, node: "Node", identity: Identity) -> None:
        """A start came to an identity. One host and life: one disk, and it is as that life left it."""
        others = [other for other in self.cluster.nodes if other.identity is not None and other is not node]
        disks = [other.identity.disk for other in others if other.identity is not None]
        self.tally.check("I14", identity.disk not in disks, f"disk {identity.disk} of {node.name} is another host's")
        disk = self._disks.setdefault((identity.host, identity.life), node.disk)
        text = f"{node.name} has lost its disk or got an old one back, and starts with life {identity.life} as before"
        self.tally.check("I14", disk is node.disk, text)

    def returned(self, old: Disk, new: Disk) -> None:
        """A copy of a disk took its place before anything was done with the disk since."""
        self._disks = {key: new if disk is old else disk for key, disk in self._disks.items()}

    def disk_synced(self, node: "Node", root: str, op: Sync) -> None:
        folder, _, name = op.path.partition("/")
        if folder == "segments" and name[0] != "s":  # not a spare
            disk, where = node.disk, f"{root}/segments"
            if name in disk.solid_names[where]:
                self.platters.note(node.name, disk, int(root), name, disk.names[where][name])

    def promised(self, node: "Node", shard: ShardId) -> None:
        """A promise was made durable: it never falls on one disk."""
        file = node.disk.solid_names[f"{shard}/"].get("promise")
        if file is None or node.identity is None:
            return
        epoch, _ = decode_promise(bytes(file.solid))
        key = (node.identity.disk, str(shard))
        before = self._promises.get(key, 0)
        self.tally.check("I4", epoch >= before, f"{node.name} promised {before} to shard {shard}, and now {epoch}")
        self._promises[key] = epoch

    def appends(self, node: "Node", shard: ShardId, epoch: int) -> None:
        """This process makes frames of this epoch."""
        mine = (str(node.name), node.starts)
        owner = self._appenders.setdefault((shard, epoch), mine)
        self.tally.check("I3", owner == mine, f"shard {shard} epoch {epoch}: {owner} and {mine} append")

    # Primaries

    def rebuilt(self, node: "Node", shard: ShardId) -> None:
        """A replica was recovered from its disk."""
        self.tally.counts["I17"] += 1
        self.promised(node, shard)

    def damaged(self, host: "Host", problem: CorruptLog) -> None:
        """A replica found its log damaged. Right, if bytes were; perhaps they were copied from elsewhere."""
        is_right = "bit flip" in self._world.faults
        self.tally.check(
            "I17", is_right, f"{getattr(host, 'name', '')}: nothing was damaged, and its log cannot be read: {problem}"
        )
        self.tally.counts["I16"] += 1

    def corrupt(self, host: "Host", problem: CorruptLog) -> None:
        """A host met damage where it could only stop. Nobody brings the bytes back but its peers."""
        self.damaged(host, problem)

    # The store

    def stored(self, before: dict[str, Record | None], events: tuple[Event, ...]) -> None:
        for event in events:
            kind, _, name = event.key.partition("/")
            if kind == "shards" and event.record is not None:
                old = before.get(event.key)
                new = decode_shard(event.record.value)
                self._world.note(f"shard {name}: epoch {new.epoch} {new.primary} {new.state} {_hosts(new.members)}")
                if new.state is ShardState.ACTIVE:
                    self._members[int(name), new.epoch] = new.members
                if old is not None:
                    self._reconfigured(int(name), decode_shard(old.value), new)
            elif event.key.startswith(LAYOUTS) and event.record is not None:
                queue = self.account.lanes[int(named_by(event.key).name)].queue
                for row in layout_of(event.record).lanes:
                    self.account.add_lane(row.lane, queue)

    def _reconfigured(self, shard: int, old: ShardRecord, new: ShardRecord) -> None:
        where = f"shard {shard}: from {_say(old)} to {_say(new)}"
        is_concluded = old.state is ShardState.RECOVERING and (new.epoch, new.primary) == (old.epoch, old.primary)
        is_higher = new.epoch > old.epoch or is_concluded
        self.tally.check("I3", is_higher, f"{where}: the epoch does not grow")
        self._check_ranges(shard, old, new, where)
        for member in new.members:
            if member not in old.members:
                self._check_joined(member, where)
        if new.state is ShardState.ACTIVE:
            self.tally.check("I5", len(new.members) >= new.min_members, f"{where}: too few members")
            self._check_primary(shard, new, where)

    def _check_ranges(self, shard: int, old: ShardRecord, new: ShardRecord, where: str) -> None:
        sealed = {each.epoch: each for each in new.ranges}
        for each in old.ranges:
            if each.end is not None and each.epoch in sealed:
                self.tally.check("I7", sealed[each.epoch] == each, f"{where}: a sealed range changed")
        for each in new.ranges:
            if each.end is not None:
                self._sealed(shard, each.epoch, each.end, where)
        opened = old.ranges[-1] if old.ranges else None
        if opened is not None and opened.epoch not in sealed:  # nothing of it was kept
            self._sealed(shard, opened.epoch, opened.start - 1, where)
        for one, two in zip(new.ranges, new.ranges[1:], strict=False):
            self.tally.check("I7", one.end is not None and two.start == one.end + 1, f"{where}: ranges have gaps")

    def _sealed(self, shard: int, epoch: int, end: int, where: str) -> None:
        self._seals_at[shard, epoch] = end
        furthest = self._furthest.get((shard, epoch), 0)
        text = f"{where}: epoch {epoch} was sealed at {end}, and lsn {furthest} was acknowledged"
        self.tally.check("I7", furthest <= end, text)

    def _check_joined(self, member: Member, where: str) -> None:
        """The store's own books: that life is the one this host is registered with now. A disk that was registered
        late, for a start that had died with its name, is nobody's."""
        node = self.cluster.node(member.host)
        newest = disk_key(DiskId(f"{node.name}.{node.disks}"))
        lives = []
        for record in self.cluster.store.state.range("disks/").records:
            disk = decode_disk(record.value)
            if disk.host == member.host and (disk.pending_boot or record.key == newest):
                lives.append(disk.life or record.created)
        is_current = bool(lives) and member.life == max(lives)
        self.tally.check(
            "I14", is_current, f"{where}: {member} joins, the host's disk has life {max(lives, default=0)}"
        )

    def _check_primary(self, shard: int, new: ShardRecord, where: str) -> None:
        place = self.acked.get(shard)
        if place is None:
            return
        node = self.cluster.node(new.primary)
        is_held = self.platters.holds(node.disk, shard, epoch=place[0], lsn=place[1])
        self.tally.check("I8", is_held, f"{where}: the primary does not hold epoch {place[0]} lsn {place[1]}")


def _hosts(members: tuple[Member, ...]) -> str:
    return " ".join(f"{member.host}.{member.life}" for member in members)


def _say(record: ShardRecord) -> str:
    return f"({record.epoch} {record.primary} {record.state.value} {_hosts(record.members)})"
