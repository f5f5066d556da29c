"""Records of the store survive their encoding, and what is not one is refused."""

import msgspec
import pytest

from holdfast.core.coordination.cluster import (
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
    succeed,
)
from holdfast.core.limits import RANGES_MAX
from holdfast.core.types import Epoch, Lsn, ShardId

ONE, TWO = Member(HostId("one"), Life(3)), Member(HostId("two"), Life(5))


def test_a_shards_record_comes_back_as_it_was() -> None:
    sealed = Range(Epoch(1), (ONE, TWO), Lsn(1), Lsn(40), b"\x00\xff")
    record = ShardRecord(
        Epoch(2), ONE.host, (ONE,), ShardState.RECOVERING, (sealed, Range(Epoch(2), (ONE,), Lsn(41))), min_members=2
    )
    assert decode_shard(encode(record)) == record


def seal_ten_more(record: ShardRecord, *, low: int) -> ShardRecord:
    """The next configuration, of the same members."""
    return succeed(
        record,
        epoch=Epoch(record.epoch + 1),
        primary=record.primary,
        members=record.members,
        end=Lsn(record.ranges[-1].start + 9),
        end_hash=b"crc.",
        low=Lsn(low),
    )


def served() -> ShardRecord:
    ranges = (Range(Epoch(1), (ONE, TWO), Lsn(1)),)
    return ShardRecord(Epoch(1), ONE.host, (ONE, TWO), ShardState.ACTIVE, ranges, min_members=2)


def test_ranges_that_the_snapshots_of_all_members_cover_are_dropped_and_the_last_seal_stays() -> None:
    record = served()
    for _ in range(4):
        record = seal_ten_more(record, low=0)
    assert [each.end for each in record.ranges] == [10, 20, 30, 40, None]
    assert [each.end for each in seal_ten_more(record, low=29).ranges] == [30, 40, 50, None]
    assert [each.end for each in seal_ten_more(record, low=30).ranges] == [40, 50, None]
    assert [each.end for each in seal_ten_more(record, low=50).ranges] == [50, None]


def test_a_record_is_bounded_also_where_nobody_makes_snapshots() -> None:
    record = served()
    for _ in range(2 * RANGES_MAX):
        record = seal_ten_more(record, low=0)
    assert len(record.ranges) == RANGES_MAX
    assert record.ranges[-2].end == 10 * 2 * RANGES_MAX


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
