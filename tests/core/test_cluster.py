"""Records of the store survive their encoding, and what is not one is refused."""

import msgspec
import pytest

from holdfast.core.cluster import (
    DiskId,
    DiskRecord,
    HostId,
    HostRecord,
    HostState,
    Life,
    Member,
    Range,
    ShardRecord,
    ShardState,
    decode_disk,
    decode_host,
    decode_shard,
    disk_key,
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
    host = HostRecord(DiskId("d1"), 4, "127.0.0.1:9326", HostState.DRAINING)
    disk = DiskRecord(ONE.host, ONE.life, last_boot=4, pending_boot=5)
    assert decode_host(encode(host)) == host
    assert decode_disk(encode(disk)) == disk


def test_a_record_of_another_kind_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_shard(encode(DiskRecord(ONE.host, ONE.life, 1, 1)))


def test_each_kind_has_its_own_keys() -> None:
    assert (host_key(HostId("a")), disk_key(DiskId("a")), shard_key(ShardId(7))) == ("hosts/a", "disks/a", "shards/7")
