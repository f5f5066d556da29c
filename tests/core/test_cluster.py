"""Records of the store survive their encoding, and what is not one is refused."""

import msgspec
import pytest

from holdfast.core.cluster import (
    Assignment,
    DiskId,
    DiskRecord,
    Drain,
    HostId,
    HostRecord,
    Life,
    ManagerRecord,
    Member,
    Range,
    ShardRecord,
    ShardState,
    assignment_key,
    decode_assignment,
    decode_disk,
    decode_drain,
    decode_host,
    decode_manager,
    decode_shard,
    disk_key,
    drain_key,
    encode,
    host_key,
    shard_key,
)
from holdfast.core.types import Epoch, Lsn, ShardId

ONE, TWO = Member(HostId("one"), Life(3)), Member(HostId("two"), Life(5))


def test_a_shards_record_comes_back_as_it_was() -> None:
    sealed = Range(Epoch(1), (ONE, TWO), Lsn(1), Lsn(40), b"\x00\xff")
    record = ShardRecord(
        Epoch(2), ONE.host, (ONE,), ShardState.RECOVERING, (sealed, Range(Epoch(2), (ONE,), Lsn(41))), min_members=2
    )
    assert decode_shard(encode(record)) == record


def test_a_hosts_and_a_disks_record_come_back_as_they_were() -> None:
    host = HostRecord(DiskId("d1"), 4, "127.0.0.1:9326", zone="east", capacity=200)
    disk = DiskRecord(ONE.host, ONE.life, last_boot=4, pending_boot=5)
    assert decode_host(encode(host)) == host
    assert decode_disk(encode(disk)) == disk


def test_what_the_manager_writes_comes_back_as_it_was() -> None:
    assignment, drain, manager = Assignment((ONE.host, TWO.host)), Drain(is_done=True), ManagerRecord(ONE.host, boot=4)
    assert decode_assignment(encode(assignment)) == assignment
    assert decode_drain(encode(drain)) == drain
    assert decode_manager(encode(manager)) == manager


def test_a_record_of_another_kind_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_shard(encode(DiskRecord(ONE.host, ONE.life, 1, 1)))


def test_each_kind_has_its_own_keys() -> None:
    assert (host_key(HostId("a")), disk_key(DiskId("a")), drain_key(HostId("a"))) == ("hosts/a", "disks/a", "drains/a")
    assert (shard_key(ShardId(7)), assignment_key(ShardId(7))) == ("shards/7", "assignments/7")
