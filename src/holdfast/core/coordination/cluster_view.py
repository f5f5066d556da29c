"""The records of a cluster as one process knows them: fed by a watch, and by reads that may overtake it.

Laws
- For each key the newest wins: an event or an answer older than what is known changes nothing.
- A snapshot replaces everything. One of a lower revision than was ever seen may have been overtaken by other answers:
  it is asked for again. If the second is as old, the store was restored from a backup: the view is frozen, and whoever
  decides from it changes nothing until an operator has looked. So does a snapshot of another cluster's store.
"""

from collections.abc import Callable
from typing import Any

from holdfast.core.coordination.cluster import (
    CLUSTER_KEY,
    MANAGER_KEY,
    Assignment,
    DiskId,
    DiskRecord,
    Drain,
    HostId,
    HostRecord,
    ManagerRecord,
    Member,
    ShardRecord,
    decode_assignment,
    decode_disk,
    decode_drain,
    decode_host,
    decode_manager,
    decode_shard,
)
from holdfast.core.coordination.store import Event, Record, Snapshot
from holdfast.core.types import ShardId


def _shard_id(name: str) -> ShardId:
    return ShardId(int(name))


def _cluster_of(snapshot: Snapshot) -> bytes:
    return next((record.value for record in snapshot.records if record.key == CLUSTER_KEY), b"")


class ClusterView:
    def __init__(self, seen_revision: int = 0, *, cluster: str = "") -> None:
        self._cluster = cluster.encode()  # empty: whichever
        self.revision = seen_revision  # the highest ever seen
        self.is_loaded = False
        self.is_frozen = False
        self._is_doubted = False  # the last snapshot was too old
        self._clear()

    def _clear(self) -> None:
        self.hosts: dict[HostId, HostRecord] = {}
        self.disks: dict[DiskId, DiskRecord] = {}
        self.shards: dict[ShardId, ShardRecord] = {}
        self.assignments: dict[ShardId, Assignment] = {}
        self.drains: dict[HostId, Drain] = {}
        self.manager: ManagerRecord | None = None
        self._revisions: dict[str, int] = {}  # of records that are there
        self._known: dict[str, int] = {}  # as of which revision each key is known
        self._kinds: dict[str, tuple[dict[Any, Any], Callable[[str], Any], Callable[[bytes], Any]]] = {
            "hosts": (self.hosts, HostId, decode_host),
            "disks": (self.disks, DiskId, decode_disk),
            "shards": (self.shards, _shard_id, decode_shard),
            "assignments": (self.assignments, _shard_id, decode_assignment),
            "drains": (self.drains, HostId, decode_drain),
        }

    def load(self, snapshot: Snapshot) -> bool:
        """False: it is too old, and another one is needed."""
        is_old = snapshot.revision < self.revision
        is_foreign = bool(self._cluster) and self._cluster != _cluster_of(snapshot)
        self.is_frozen = self.is_frozen or is_foreign or (is_old and self._is_doubted)
        self._is_doubted = is_old
        self.is_loaded = not (is_old or is_foreign)
        if not self.is_loaded:
            return self.is_frozen
        self._clear()
        for record in snapshot.records:
            self.learn(record.key, record, as_of=snapshot.revision)
        self.revision = max(self.revision, snapshot.revision)
        return True

    def thaw(self, revision: int) -> None:
        """An operator has looked at the restored store, and this is where it stands. It has to be loaded."""
        self.is_frozen = self._is_doubted = False
        self.revision = revision

    def watch(self, event: Event) -> None:
        self.learn(event.key, event.record, as_of=event.revision)

    def learn(self, key: str, record: Record | None, *, as_of: int) -> None:
        if as_of < self._known.get(key, 0):
            return
        self._known[key] = as_of
        self.revision = max(self.revision, as_of)
        if record is None:
            self._revisions.pop(key, None)
        else:
            self._revisions[key] = record.revision
        if key == MANAGER_KEY:
            self.manager = decode_manager(record.value) if record else None
            return
        kind, _, name = key.partition("/")
        if kind in self._kinds:
            held, id_of, decode = self._kinds[kind]
            if record is None:
                held.pop(id_of(name), None)
            else:
                held[id_of(name)] = decode(record.value)

    def revision_of(self, key: str) -> int:
        """0: there is no such record."""
        return self._revisions.get(key, 0)

    def member(self, host: HostId) -> Member | None:
        """The host with the life of the disk it is registered with."""
        record = self.hosts.get(host)
        disk = self.disks.get(record.disk) if record else None
        return Member(host, disk.life) if disk and disk.host == host else None

    def disk_of(self, member: Member) -> DiskId | None:
        """The disk that makes a host this member; O(disks)."""
        for disk, record in self.disks.items():
            if (record.host, record.life) == (member.host, member.life):
                return disk
        return None
