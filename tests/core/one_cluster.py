"""The records of a small cluster, as one process knows them."""

from holdfast.core.coordination.cluster import (
    Assignment,
    DiskId,
    DiskRecord,
    HostId,
    HostRecord,
    Life,
    Member,
    Range,
    ShardRecord,
    ShardState,
    assignment_key,
    disk_key,
    encode,
    host_key,
    shard_key,
)
from holdfast.core.coordination.cluster_view import ClusterView
from holdfast.core.coordination.store import Record, Snapshot
from holdfast.core.types import Epoch, Lsn, ShardId


def view_of(hosts: str, shards: list[str]) -> ClusterView:
    """`shards`: the hosts of each, the primary first."""
    members = {name: Member(HostId(name), Life(1)) for name in hosts}
    records = {}
    for name in hosts:
        records[host_key(HostId(name))] = encode(HostRecord(DiskId(name), 1, name))
        records[disk_key(DiskId(name))] = encode(DiskRecord(HostId(name), Life(1), 1, 1))
    for number, names in enumerate(shards, 1):
        held = tuple(members[each] for each in names)
        ranges = (Range(Epoch(1), held, Lsn(1)),)
        record = ShardRecord(Epoch(1), held[0].host, held, ShardState.ACTIVE, ranges, 2)
        records[shard_key(ShardId(number))] = encode(record)
        records[assignment_key(ShardId(number))] = encode(Assignment(tuple(each.host for each in held)))
    view = ClusterView()
    view.load(Snapshot(tuple(Record(key, value, 1, 1) for key, value in records.items()), 1))
    return view
