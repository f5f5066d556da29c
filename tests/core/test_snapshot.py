"""Snapshots: read back before they count, and nothing is removed that either of the newest two needs."""

import random
from collections.abc import Callable
from hashlib import blake2b

import pytest

from holdfast.core.errors import CorruptLog
from holdfast.core.limits import STRETCH_BITS
from holdfast.core.log.files import Read, SyncDir, Unlink, Work
from holdfast.core.log.segment import segment_path
from holdfast.core.log.segment_files import Segment
from holdfast.core.log.snapshot import (
    Advanced,
    SnapshotHead,
    advance_snapshot,
    decode_snapshot,
    encode_head,
    load_newest,
    removable,
    remove_old,
    snapshot_path,
    write_snapshot,
)
from holdfast.core.types import Epoch, Instant, Lsn, ShardId
from tests.core.memory_disk import SHARD, Book, Host, MemoryDisk, PowerCut

HEAD = SnapshotHead(SHARD, Lsn(9), Epoch(2), 77, Instant(5))
STRETCH = 1 << STRETCH_BITS


def grown(count: int = 6) -> Host:
    host = Host(MemoryDisk())
    grow(host, count)
    return host


def grow(host: Host, count: int) -> None:
    for _ in range(count):
        host.send(30)
    host.write_indexes()


def advance(host: Host) -> Advanced:
    done = host.disk.run(advance_snapshot(SHARD, host.journal.sealed_upto(), machine=Book))
    assert done is not None
    return done


def remove(host: Host, done: Advanced) -> None:
    for stem in done.stems:
        host.journal.forget(stem)
    host.disk.run(remove_old(done))


# --- the file ------------------------------------------------------------------------------------------


def test_a_snapshot_is_read_as_it_was_written() -> None:
    disk = MemoryDisk()
    disk.run(write_snapshot(HEAD, b"the body"))
    disk.cut_power()
    assert disk.paths("snapshots") == ["snapshots/0000000000000009.snap"]
    assert decode_snapshot(disk.get(snapshot_path(Lsn(9)))) == (HEAD, b"the body")


def test_damage_anywhere_in_a_snapshot_is_noticed() -> None:
    disk = MemoryDisk()
    disk.run(write_snapshot(HEAD, b"the body"))
    data = disk.get(snapshot_path(Lsn(9)))
    for at in range(len(data)):
        with pytest.raises(ValueError, match="snapshot"):
            decode_snapshot(data[:at] + bytes([data[at] ^ 2]) + data[at + 1 :])
        with pytest.raises(ValueError, match="snapshot"):
            decode_snapshot(data[:at])


@pytest.mark.parametrize(
    ("head", "why"),
    [
        (b"HFSNAPSH\2" + encode_head(HEAD, 4)[9:], "no snapshot of version 1"),
        (encode_head(HEAD, 5), "another length"),
    ],
)
def test_a_sound_file_of_another_form_is_refused(head: bytes, why: str) -> None:
    data = head + b"body"
    with pytest.raises(ValueError, match=why):
        decode_snapshot(data + blake2b(data, digest_size=32).digest())


def test_a_snapshot_that_reads_back_differently_does_not_count() -> None:
    class Lying(MemoryDisk):
        def do(self, op: object) -> object:
            answer = super().do(op)  # type: ignore[arg-type]
            return b"x" + answer[1:] if isinstance(op, Read) and answer else answer

    with pytest.raises(CorruptLog, match="reads back differently"):
        Lying().run(write_snapshot(HEAD, b"the body"))


def test_a_temporary_file_in_the_way_is_replaced() -> None:
    disk = MemoryDisk()
    disk.put("snapshots/0000000000000009.snap.tmp", b"of an earlier attempt, and longer than the whole file" * 9)
    disk.run(write_snapshot(HEAD, b"the body"))
    assert decode_snapshot(disk.get(snapshot_path(Lsn(9))))[1] == b"the body"


def test_the_newest_snapshot_that_can_be_read_is_loaded() -> None:
    disk = MemoryDisk()
    state, head = disk.run(load_newest(SHARD, Book))
    assert (state.lsn, head.lsn, head.crc) == (0, 0, 0)
    for lsn in (5, 6, 7):
        book = Book(SHARD)
        book.lsn = Lsn(lsn)
        disk.run(write_snapshot(SnapshotHead(SHARD, Lsn(lsn), Epoch(1), lsn, Instant(lsn)), book.dump()))
    disk.run(write_snapshot(SnapshotHead(ShardId(8), Lsn(8), Epoch(1), 0, Instant(8)), Book(ShardId(8)).dump()))
    disk.put(snapshot_path(Lsn(7)), b"damaged")
    state, head = disk.run(load_newest(SHARD, Book))
    assert (state.lsn, head.lsn, head.crc, head.time) == (6, 6, 6, 6)


# --- making the next -----------------------------------------------------------------------------------


def test_a_snapshot_holds_the_state_at_the_end_of_the_sealed_segments() -> None:
    host = grown()
    done = advance(host)
    assert done == Advanced(host.journal.sealed_upto(), (), ())
    state, head = host.disk.run(load_newest(SHARD, Book))
    assert (state.lsn, head.lsn) == (done.lsn, done.lsn)
    assert state.history == host.book.histories[done.lsn]


def test_there_is_no_next_snapshot_before_another_segment_is_sealed() -> None:
    host = grown()
    advance(host)
    assert host.disk.run(advance_snapshot(SHARD, host.journal.sealed_upto(), machine=Book)) is None


def test_steps_from_snapshot_to_snapshot_give_the_same_state_as_one_from_the_beginning() -> None:
    host = grown(3)
    while host.book.lsn < 600:
        remove(host, advance(host))
        grow(host, 3)
        host.delete(*(seq for _, seq in list(host.book.messages)[::3]))
    state, _ = host.disk.run(load_newest(SHARD, Book))
    assert state.lsn > 300
    assert state.history == host.book.histories[state.lsn]


def test_only_the_newest_two_snapshots_are_kept() -> None:
    host = grown(3)
    made = []
    for _ in range(4):
        done = advance(host)
        made.append(done.lsn)
        remove(host, done)
        grow(host, 4)
    assert host.disk.paths("snapshots") == [snapshot_path(lsn) for lsn in made[-2:]]


def test_a_damaged_snapshot_does_not_count_as_one_of_two() -> None:
    host = grown(3)
    remove(host, first := advance(host))
    grow(host, 4)
    second = advance(host)
    host.disk.put(snapshot_path(second.lsn), b"damaged")
    grow(host, 4)
    third = advance(host)
    assert third.snapshots == (second.lsn,)
    remove(host, third)
    assert host.disk.paths("snapshots") == [snapshot_path(first.lsn), snapshot_path(third.lsn)]


def test_a_log_that_ends_before_the_asked_lsn_is_corrupt() -> None:
    host = grown(3)
    with pytest.raises(CorruptLog, match="lsn 1000 was durable"):
        host.disk.run(advance_snapshot(SHARD, Lsn(1000), machine=Book))
    with pytest.raises(CorruptLog, match="ends at lsn 0"):
        MemoryDisk().run(advance_snapshot(SHARD, Lsn(1), machine=Book))


# --- what may be removed -------------------------------------------------------------------------------


def segments(*firsts: int) -> list[Segment]:
    return [Segment(str(first), Epoch(1), Lsn(first)) for first in firsts]


def test_a_segment_goes_when_it_ends_below_the_older_snapshot_and_nothing_in_it_lives() -> None:
    log = segments(1, STRETCH, 2 * STRETCH, 3 * STRETCH)
    assert removable(log, older=Lsn(0), live={}) == ()
    assert removable(log, older=Lsn(STRETCH - 1), live={}) == ()
    assert removable(log, older=Lsn(STRETCH), live={}) == ("1",)
    assert removable(log, older=Lsn(9 * STRETCH), live={}) == ("1", str(STRETCH), str(2 * STRETCH))
    assert removable(log, older=Lsn(9 * STRETCH), live={1: 5, 7: 9}) == ("1", str(2 * STRETCH))
    assert removable(log, older=Lsn(9 * STRETCH), live={0: 0, 2: 1}) == ("1", str(STRETCH))


def test_the_segment_that_holds_the_older_snapshot_s_last_record_stays() -> None:
    log = segments(1, 100, 200)
    assert removable(log, older=Lsn(99), live={}) == ()
    assert removable(log, older=Lsn(100), live={}) == ("1",)


def test_a_stretch_that_overlaps_two_segments_counts_for_both() -> None:
    half = STRETCH // 2
    log = segments(1, half, STRETCH + half, 2 * STRETCH + half)
    assert removable(log, older=Lsn(9 * STRETCH), live={1: 1}) == ("1",)
    assert removable(log, older=Lsn(9 * STRETCH), live={0: 1}) == (str(STRETCH + half),)


def test_removal_takes_segments_with_their_index_and_key_and_recovery_still_works_from_either_snapshot() -> None:
    host, done = sparse_log()
    assert len(done.stems) > 2
    remove(host, done)
    for stem in done.stems:
        assert [path for path in host.disk.names if stem in path] == []
    for damaged in (0, 1):
        disk = host.disk.copy()
        disk.put(disk.paths("snapshots")[damaged], b"damaged")
        again = Host(disk)
        assert again.book.dump() == host.book.dump()
        again.send()
        assert Host(disk.copy()).book.dump() == again.book.dump()


def test_both_snapshots_damaged_after_removal_is_a_gap_and_not_an_empty_queue() -> None:
    host, done = sparse_log()
    remove(host, done)
    for path in host.disk.paths("snapshots"):
        host.disk.put(path, b"damaged")
    with pytest.raises(CorruptLog, match=r"lsn 1–\d+ are missing between the beginning and"):
        Host(host.disk)


def sparse_log() -> tuple[Host, Advanced]:
    """A log of several stretches, the first of them dead, with two snapshots of which one is new."""
    host = Host(MemoryDisk())
    host.send(10)
    while host.book.lsn < 2 * STRETCH:
        host.delete(*range(1, 400))
    host.write_indexes()
    host.disk.run(remove_old(advance(host)))
    while host.book.lsn < 3 * STRETCH:
        host.delete(*range(1, 400))
    host.send(60)
    host.send(60)
    host.send(60)
    host.write_indexes()
    return host, advance(host)


def remove_work(_: MemoryDisk, done: Advanced) -> Work[None]:
    return remove_old(done)


def write_work(disk: MemoryDisk, _: Advanced) -> Work[None]:
    """The newest snapshot once more, over itself."""
    state, head = disk.run(load_newest(SHARD, Book))
    return write_snapshot(head, state.dump())


def advance_work(disk: MemoryDisk, done: Advanced) -> Work[Advanced | None]:
    disk.do(Unlink(snapshot_path(done.lsn)))
    disk.do(SyncDir("snapshots"))
    return advance_snapshot(SHARD, done.lsn, machine=Book)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(("work", "operations"), [(remove_work, 20), (write_work, 7), (advance_work, 7)])
def test_a_power_cut_after_every_operation_changes_nothing(
    work: Callable[[MemoryDisk, Advanced], Work[object]], operations: int, share: float
) -> None:
    base, done = sparse_log()
    chance = random.Random(share)
    for cut in range(300):
        disk = base.disk.copy()
        machine = work(disk, done)
        try:
            disk.run(machine, cut_after=cut)
        except PowerCut:
            disk.cut_power(lambda _: chance.random() < share)
        else:
            break
        host = Host(disk)
        assert host.book.dump() == base.book.dump()
        host.send()
        assert Host(disk.copy()).book.dump() == host.book.dump()
    assert cut >= operations


def test_a_removed_segment_is_gone_from_the_log_s_list_and_others_are_still_read() -> None:
    host, done = sparse_log()
    remove(host, done)
    assert not set(done.stems) & set(host.stems)
    assert all(segment_path(stem) in host.disk.names for stem in host.stems)
