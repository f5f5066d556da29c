"""Recovery: every acknowledged record comes back, torn tails are cut, rot stops the host, and a power cut at any
moment of any of it changes nothing of this."""

import random
from collections.abc import Callable

import msgspec
import pytest

from holdfast.core.errors import CorruptLog
from holdfast.core.limits import STRETCH_BITS
from holdfast.core.log.files import FileOp, Sync, SyncDir, Write
from holdfast.core.log.promise import decode_promise, encode_promise
from holdfast.core.log.recovery import recover
from holdfast.core.log.segment import SECTOR, decode_frame, encode_frame, frame_length, segment_path
from holdfast.core.log.snapshot import SnapshotHead, advance_snapshot, remove_old, write_snapshot
from holdfast.core.queue.record import Deleted, Record
from holdfast.core.types import Epoch, Instant, Lsn
from tests.core.memory_disk import (
    LANE,
    SEGMENT,
    SHARD,
    Book,
    Host,
    MemoryDisk,
    Plain,
    PowerCut,
    sent,
)


def flip(disk: MemoryDisk, path: str, at: int) -> None:
    data = disk.get(path)
    disk.put(path, data[:at] + bytes([data[at] ^ 8]) + data[at + 1 :])


def frames(disk: MemoryDisk, path: str) -> list[tuple[int, int]]:
    """(offset, length without padding) of the frames in a segment."""
    data, at, found = disk.get(path), SECTOR, []
    while length := frame_length(data, at):
        found.append((at, length))
        at += decode_frame(data, at).size
    return found


def only_segment(disk: MemoryDisk) -> str:
    (path,) = disk.paths("segments")
    return path


def short_log() -> tuple[MemoryDisk, list[bytes]]:
    """Four frames, all synced, and the state after each. No frame says that the last one is durable."""
    host = Host(MemoryDisk())
    states = [host.book.dump()]
    for count in (2, 1, 3, 2):
        host.send(count, 40)
        states.append(host.book.dump())
    host.disk.do(SyncDir("keys"))
    for path in host.disk.paths("segments") + host.disk.paths("keys"):
        if "spare" in path:
            del host.disk.names[path]
    return host.disk.copy(), states


# --- starting ------------------------------------------------------------------------------------------


def test_an_empty_folder_gives_an_empty_shard_at_epoch_one() -> None:
    host = Host(MemoryDisk())
    assert (host.journal.epoch, host.journal.next_lsn, host.journal.durable) == (1, 1, 0)
    assert (host.book.lsn, host.stems, host.recovered.replayed) == (0, [], 0)


def test_every_start_raises_the_epoch_durably_before_anything_else() -> None:
    disk = MemoryDisk()
    for epoch in range(1, 6):
        assert Host(disk).journal.epoch == epoch
        disk.cut_power()
    assert decode_promise(disk.get("promise")) == (5, b"host")


def test_the_epoch_is_above_every_segment_s_even_when_the_promise_is_behind() -> None:
    disk, _ = short_log()
    disk.put("promise", encode_promise(Epoch(0), b"host"))
    assert Host(disk).journal.epoch == 2


def test_everything_synced_is_there_again_and_the_log_goes_on_in_a_new_segment() -> None:
    disk, states = short_log()
    host = Host(disk)
    assert host.book.dump() == states[-1]
    assert (host.journal.next_lsn, host.recovered.replayed, host.recovered.torn_bytes) == (9, 8, 0)
    host.send(2)
    assert host.stems == ["00000001-0000000000000001", "00000002-0000000000000009"]
    assert Host(disk.copy()).book.dump() == host.book.dump()


def test_time_goes_on_from_the_last_stamp() -> None:
    disk, _ = short_log()
    host = Host(disk)
    assert host.journal.stamp == 4000
    assert host.journal.begin(Instant(17), host.book.frame[2]) == 4000


def test_after_a_start_the_log_s_end_is_declared_durable_again() -> None:
    disk, _ = short_log()
    host = Host(disk)
    host.prepare()
    assert host.journal.idle_frame_due(Instant(10**9))
    host.idle()
    assert not host.journal.idle_frame_due(Instant(10**9))
    flip(disk, f"segments/{host.stems[0]}.log", frames(disk, f"segments/{host.stems[0]}.log")[-1][0] + 60)
    with pytest.raises(CorruptLog):
        Host(disk)


@pytest.mark.parametrize(
    ("promise", "why"),
    [
        (None, "missing beside a log"),
        (b"", "damaged"),
        (encode_promise(Epoch(9), b"host")[:-1], "damaged"),
        (encode_promise(Epoch(9), b"another"), "belongs to another host"),
    ],
)
def test_a_log_without_its_promise_is_refused(promise: bytes | None, why: str) -> None:
    disk, _ = short_log()
    if promise is None:
        del disk.names["promise"]
    else:
        disk.put("promise", promise)
    with pytest.raises(CorruptLog, match=why):
        Host(disk)


def test_a_flipped_bit_anywhere_in_the_promise_is_noticed() -> None:
    data = encode_promise(Epoch(9), b"host")
    for at in range(len(data)):
        with pytest.raises(CorruptLog, match="promise"):
            decode_promise(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])


# --- torn tails ----------------------------------------------------------------------------------------


def check_torn(disk: MemoryDisk, state: bytes, *, is_torn: bool = True) -> None:
    host = Host(disk)
    assert host.book.dump() == state
    assert bool(host.recovered.torn_bytes) == is_torn
    assert bool(disk.paths("quarantine")) == is_torn
    disk.cut_power()
    again = Host(disk)
    assert (again.book.dump(), again.recovered.torn_bytes) == (state, 0)
    again.send()
    assert Host(disk.copy()).book.dump() == again.book.dump()


def test_damage_at_every_byte_of_the_last_frame_is_a_torn_tail() -> None:
    disk, states = short_log()
    path = only_segment(disk)
    at, length = frames(disk, path)[-1]
    for byte in range(at, at + length):
        damaged = disk.copy()
        flip(damaged, path, byte)
        check_torn(damaged, states[-2])


def test_damage_in_the_padding_of_the_last_frame_costs_nothing() -> None:
    disk, states = short_log()
    path = only_segment(disk)
    at, length = frames(disk, path)[-1]
    for byte in range(at + length, -(-(at + length) // SECTOR) * SECTOR, 7):
        damaged = disk.copy()
        flip(damaged, path, byte)
        check_torn(damaged, states[-1], is_torn=False)


def test_a_log_that_ends_at_any_byte_of_the_last_frame_keeps_everything_before_it() -> None:
    disk, states = short_log()
    path = only_segment(disk)
    at, length = frames(disk, path)[-1]
    whole = disk.get(path)
    for end in range(at + 1, at + length):
        damaged = disk.copy()
        damaged.put(path, whole[:end].ljust(len(whole), b"\0"))
        if damaged.get(path) != whole:
            check_torn(damaged, states[-2])
    for end in (at, at + length):
        damaged = disk.copy()
        damaged.put(path, whole[:end].ljust(len(whole), b"\0"))
        check_torn(damaged, states[-2 if end == at else -1], is_torn=False)


def test_a_last_segment_that_is_shorter_than_it_was_made_is_rot() -> None:
    disk, _ = short_log()
    path = only_segment(disk)
    whole = disk.get(path)
    for end in (0, 512, len(whole) // 2, len(whole) - 1):
        damaged = disk.copy()
        damaged.put(path, whole[:end])
        with pytest.raises(CorruptLog, match=f"{path} ends at byte {end} of {len(whole)}"):
            Host(damaged)


def test_any_subset_of_the_sectors_of_a_flush_gives_all_or_nothing_of_each_frame() -> None:
    for keep in range(64):
        host = Host(MemoryDisk())
        host.send(2)
        before = host.book.dump()
        ops = host.add(sent(3, b"a" * 900), sent(4, b"b" * 900)).flush()
        host.disk.do_all(ops[:-1])
        host.disk.cut_power(lambda number, keep=keep: bool(keep >> number & 1))  # type: ignore[misc]
        assert Host(host.disk).book.dump() in (before, host.book.dump())


def test_the_torn_bytes_are_kept_with_their_key() -> None:
    host = Host(MemoryDisk())
    host.disk.do_all(host.add(sent(1, b"t" * 600)).flush())
    torn = host.stems[0]
    path = segment_path(torn)
    host.disk.put(path, bytes(SECTOR) + host.disk.get(path)[SECTOR:])
    lost = host.disk.get(path).rstrip(b"\0")
    again = Host(host.disk)
    assert again.stems == []
    (kept,) = host.disk.paths("quarantine")
    assert host.disk.get(kept) == lost
    assert f"keys/{torn}.key" in host.disk.names
    assert path not in host.disk.names


def test_the_first_flush_of_a_segment_may_be_torn_in_its_header() -> None:
    base = Host(MemoryDisk())
    base.send(3)
    base.idle()
    for sector in (0, 1):
        host = Host(base.disk.copy())
        host.disk.do_all(host.add(sent(4, b"w" * 600), sent(5)).flush())
        host.disk.put(
            (path := segment_path(host.stems[-1])),
            host.disk.get(path)[: sector * SECTOR] + bytes(SECTOR) + host.disk.get(path)[(sector + 1) * SECTOR :],
        )
        again = Host(host.disk)
        assert again.book.dump() == base.book.dump()
        assert again.recovered.torn_bytes > 0
        if sector == 0:
            assert again.stems == base.stems
        host.disk.cut_power()
        assert Host(host.disk).recovered.torn_bytes == 0


def test_a_segment_that_was_named_and_never_written_is_removed_with_its_key() -> None:
    base = Host(MemoryDisk())
    base.send(3)
    host = Host(base.disk.copy())
    host.disk.do_all(host.add(sent(4)).flush()[:4])
    stem = host.stems[-1]
    assert segment_path(stem) in host.disk.names
    again = Host(host.disk)
    assert again.book.dump() == base.book.dump()
    assert again.stems == base.stems
    assert [path for path in host.disk.names if stem in path] == []


# --- rot -----------------------------------------------------------------------------------------------


def test_a_flipped_bit_in_an_older_frame_is_named_and_stops_the_host() -> None:
    disk, _ = short_log()
    path = only_segment(disk)
    at, length = frames(disk, path)[1]  # lsn 3 alone
    for byte in range(at, at + length):
        damaged = disk.copy()
        flip(damaged, path, byte)
        with pytest.raises(CorruptLog, match=rf"{path} bytes {at}–\d+, lsn 3–[35]: .*was durable"):
            Host(damaged)


def test_a_frame_that_reads_as_zeros_is_rot_when_a_later_one_knows_it() -> None:
    disk, _ = short_log()
    path = only_segment(disk)
    at, _ = frames(disk, path)[1]
    data = disk.get(path)
    disk.put(path, data[:at] + bytes(SECTOR) + data[at + SECTOR :])
    with pytest.raises(CorruptLog, match="lsn 3–"):
        Host(disk)


def test_damage_to_the_header_is_rot_when_a_later_frame_knows_its_first() -> None:
    disk, _ = short_log()
    for byte in range(0, SECTOR, 17):
        damaged = disk.copy()
        flip(damaged, only_segment(disk), byte)
        with pytest.raises(CorruptLog, match="bytes 0–"):
            Host(damaged)


def test_the_idle_frame_turns_damage_of_the_last_frame_into_rot() -> None:
    disk, _ = short_log()
    host = Host(disk)
    host.send(1)
    host.idle()
    path = segment_path(host.stems[-1])
    (at, length), _ = frames(disk, path)
    for byte in range(at, at + length):
        damaged = disk.copy()
        flip(damaged, path, byte)
        with pytest.raises(CorruptLog, match=r"lsn 9–9: "):
            Host(damaged)


def test_damage_in_a_segment_with_a_successor_is_rot() -> None:
    host = Host(MemoryDisk())
    for _ in range(6):
        host.send(30)
    path = segment_path(host.stems[0])
    for at, length in frames(host.disk, path):
        damaged = host.disk.copy()
        flip(damaged, path, at + length // 2)
        with pytest.raises(CorruptLog, match=rf"missing between {path} byte {at} "):
            Host(damaged)


def test_garbage_behind_the_last_frame_of_a_sealed_segment_is_no_part_of_the_log() -> None:
    host = Host(MemoryDisk())
    for _ in range(6):
        host.send(30)
    flip(host.disk, segment_path(host.stems[0]), SEGMENT - 1)
    assert Host(host.disk).book.dump() == host.book.dump()


def test_a_missing_segment_is_named_as_a_gap() -> None:
    host = Host(MemoryDisk())
    for _ in range(9):
        host.send(30)
    for segment in host.journal.segments[:2]:
        first, last, damaged = segment.first, segment.last, host.disk.copy()
        del damaged.names[segment_path(segment.stem)]
        with pytest.raises(CorruptLog, match=f"lsn {first}–{last} are missing"):
            Host(damaged)


def test_a_segment_in_the_place_of_another_is_refused() -> None:
    disk, _ = short_log()
    other = Host(MemoryDisk())
    other.send(2, 30)
    disk.put(only_segment(disk), other.disk.get(segment_path(other.stems[0])))
    host = Host(disk)
    host.send(1)
    theirs = Host(MemoryDisk())
    theirs.send(8, 33)
    theirs = Host(theirs.disk)
    theirs.send(1)
    disk.put(segment_path(host.stems[-1]), theirs.disk.get(segment_path(theirs.stems[-1])))
    with pytest.raises(CorruptLog):
        Host(disk)


def test_a_segment_that_follows_another_log_is_refused() -> None:
    logs = []
    for size in (40, 41):
        host = Host(MemoryDisk())
        host.send(4, size)
        host = Host(host.disk)
        host.send(1)
        logs.append(host)
    ours, theirs = logs
    path = segment_path(ours.stems[1])
    ours.disk.put(path, theirs.disk.get(path))
    with pytest.raises(CorruptLog, match="lsn 5 follows another log"):
        Host(ours.disk)


def test_a_record_of_a_later_version_in_a_sound_frame_is_refused() -> None:
    disk, _ = short_log()
    path = only_segment(disk)
    at, _ = frames(disk, path)[-1]
    data = disk.get(path)
    last = decode_frame(data, at)
    fields = msgspec.structs.asdict(last)
    kept = {name: fields[name] for name in ("previous", "epoch", "first", "time", "wall", "durable")}
    forged, _ = encode_frame(b"\1\0\0\0\x63", count=1, **kept)
    disk.put(path, data[:at] + forged + bytes(len(data) - at - len(forged)))
    with pytest.raises(CorruptLog, match=rf"{path} bytes {at}–\d+, lsn 7–7: unknown record type 99"):
        Host(disk)


# --- the page cache ------------------------------------------------------------------------------------


def test_what_only_seemed_to_be_on_disk_is_there_once_recovery_has_answered() -> None:
    host = Host(MemoryDisk())
    host.send(2)
    host.disk.do_all(host.add(sent(3), sent(4, b"x" * 900)).flush()[:-1])
    host.disk.lose_sync()  # the pages look clean, and are not on disk
    twin = host.disk
    assert Host(twin).book.dump() == host.book.dump()
    twin.cut_power()
    assert Host(twin).book.dump() == host.book.dump()


def test_all_frames_of_the_last_flush_are_written_again() -> None:
    host = Host(MemoryDisk(), segment=1_000_000)
    host.send(2)
    ops = host.add(*(sent(seq, b"x" * 100_000) for seq in (3, 4, 5))).flush()
    host.disk.do_all(ops[:-1])
    host.disk.lose_sync()
    assert len(frames(host.disk, segment_path(host.stems[0]))) == 3
    assert Host(host.disk).book.dump() == host.book.dump()
    host.disk.cut_power()
    assert Host(host.disk).book.dump() == host.book.dump()


def test_the_tail_is_written_again_in_place_and_nothing_else_is() -> None:
    disk, _ = short_log()
    path = only_segment(disk)
    offsets = [at for at, _ in frames(disk, path)]
    before = disk.get(path)
    host = Host(disk)
    writes = [op for op in disk.done if isinstance(op, Write) and op.path == path]
    assert [op.offset for op in writes] == offsets[-1:]
    assert disk.get(path) == before
    after: list[FileOp] = disk.done[disk.done.index(writes[0]) + 1 :]
    assert after[:3] == [Sync(path), SyncDir("segments"), SyncDir("keys")]
    assert host.journal.durable == 8


# --- indexes, leftovers --------------------------------------------------------------------------------


def test_segments_without_a_good_index_file_get_one_in_memory_again() -> None:
    host = Host(MemoryDisk())
    for _ in range(9):
        host.send(30)
    host.write_indexes()
    first, second, third = (f"index/{stem}.idx" for stem in host.stems[:3])
    flip(host.disk, first, 20)
    host.disk.put(second, host.disk.get(second)[:-1])
    again = Host(host.disk)
    rebuilt = [segment.stem for segment in again.journal.segments if segment.index is not None]
    assert rebuilt == [*host.stems[:2], host.stems[-1]]
    assert third in host.disk.names
    for at in (1, 100, 150):
        place = again.journal.locate(LANE, Lsn(at))
        assert getattr(place, "offset", None)


def test_leftovers_are_removed_and_nothing_else() -> None:
    host = Host(MemoryDisk())
    for _ in range(6):
        host.send(30)
    host.write_indexes()
    good = {path for path in host.disk.names if "spare" not in path}
    for path in (
        "segments/spare-9.log",
        "keys/spare-9.key",
        "keys/spare-9.key.tmp",
        "index/00000001-0000000000000001.idx.tmp",
        "snapshots/0000000000000009.snap.tmp",
        "quarantine/x.torn.tmp",
        "promise.tmp",
        "keys/00000009-0000000000000001.key",
        "index/00000009-0000000000000001.idx",
    ):
        host.disk.put(path, b"?")
    host.disk.put("quarantine/old.torn", b"keep")
    Host(host.disk)
    assert set(host.disk.names) == good | {"quarantine/old.torn"}


def test_living_messages_whose_segment_is_gone_stop_the_host() -> None:
    class Rich(Book):
        @property
        def live(self) -> dict[int, int]:
            return super().live | {5: 10, 6: 0}

    disk, _ = short_log()
    first = 5 << STRETCH_BITS
    with pytest.raises(CorruptLog, match=f"living messages between lsn {first} and {first + 4095}"):
        disk.run(recover(SHARD, machine=Rich, identity=b"host", segment_bytes=SEGMENT))


# --- snapshots -----------------------------------------------------------------------------------------


def long_log(count: int = 6) -> Host:
    host = Host(MemoryDisk())
    for _ in range(count):
        host.send(30)
    host.write_indexes()
    return host


def advance(host: Host) -> None:
    done = host.disk.run(advance_snapshot(SHARD, host.journal.sealed_upto(), machine=Book))
    assert done is not None
    for stem in done.stems:
        host.journal.forget(stem)
    host.disk.run(remove_old(done))


def test_recovery_begins_at_the_newest_snapshot() -> None:
    host = long_log()
    advance(host)
    again = Host(host.disk)
    assert again.book.dump() == host.book.dump()
    assert again.recovered.replayed == 180 - host.journal.sealed_upto()


@pytest.mark.parametrize("byte", [0, 13, 25, 40, 60, -1])
def test_a_damaged_snapshot_is_passed_over_for_the_older_one(byte: int) -> None:
    host = long_log(3)
    advance(host)
    for _ in range(5):
        host.send(30)
    advance(host)
    older, newest = host.disk.paths("snapshots")
    flip(host.disk, newest, byte)
    again = Host(host.disk.copy())
    assert again.book.dump() == host.book.dump()
    flip(host.disk, older, byte)
    last = Host(host.disk.copy())
    assert (last.book.dump(), last.recovered.replayed) == (host.book.dump(), host.book.lsn)


def test_a_log_that_ends_before_the_snapshot_is_rot() -> None:
    host = long_log(3)
    advance(host)
    upto = host.journal.sealed_upto()
    path = segment_path(host.stems[0])
    at, _ = frames(host.disk, path)[-1]
    for stem in host.stems[1:]:
        del host.disk.names[segment_path(stem)]
    del host.disk.names[f"index/{host.stems[0]}.idx"]
    whole = host.disk.get(path)
    host.disk.put(path, whole[:at].ljust(len(whole), b"\0"))
    with pytest.raises(CorruptLog, match=f"lsn {upto} was durable"):
        Host(host.disk.copy())
    damaged = host.disk.copy()
    damaged.put(damaged.paths("snapshots")[0], b"its name still says that this lsn was durable")
    with pytest.raises(CorruptLog, match=f"lsn {upto} was durable"):
        Host(damaged)
    del host.disk.names[path]
    with pytest.raises(CorruptLog, match="the snapshot's last, is missing"):
        Host(host.disk)


def test_damage_below_the_snapshot_in_the_segment_that_holds_it_is_noticed() -> None:
    host = long_log(3)
    advance(host)
    flip(host.disk, segment_path(host.stems[0]), SECTOR + 60)
    with pytest.raises(CorruptLog, match="missing between segments/"):
        Host(host.disk)


def test_a_snapshot_within_a_frame_or_of_another_log_is_refused() -> None:
    disk, _ = short_log()
    for lsn, crc, why in ((7, 0, "lies within a frame"), (6, 1, "lsn 7 follows another log")):
        damaged = disk.copy()
        book = Book(SHARD)
        book.lsn = Lsn(lsn)
        head = SnapshotHead(SHARD, Lsn(lsn), Epoch(1), crc, Instant(1))
        damaged.run(write_snapshot(head, book.dump()))
        with pytest.raises(CorruptLog, match=why):
            Host(damaged)


def test_snapshots_without_any_log_of_their_own_shard_are_passed_over() -> None:
    disk, states = short_log()
    book = Book(SHARD)
    disk.run(write_snapshot(SnapshotHead(SHARD, Lsn(2), Epoch(1), 0, Instant(1)), book.dump()))
    disk.run(write_snapshot(SnapshotHead(SHARD, Lsn(4), Epoch(1), 0, Instant(1)), b"\xc1"))
    assert Host(disk).book.dump() == states[-1]


# --- power cuts ----------------------------------------------------------------------------------------


def keeps(seed: int) -> Callable[[int], bool]:
    """Which unsynced things survive: none, all, or some."""
    chance = random.Random(seed)
    share = (0.0, 1.0, 0.5)[seed % 3]
    return lambda _: chance.random() < share


@pytest.mark.parametrize("seed", range(6))
def test_a_power_cut_after_every_operation_of_recovery_changes_nothing(seed: int) -> None:
    base = long_log(4)
    advance(base)
    base.send(3)
    state = base.book.dump()
    ops = base.add(sent(500, b"u" * 800), sent(501, b"v" * 800)).flush()
    base.disk.do_all(ops[:-1])
    base.disk.put("keys/spare-77.key", b"left over")
    for cut in range(200):
        disk = base.disk.copy()
        path = segment_path(base.stems[-1])
        torn_at = frames(disk, path)[-1][0]
        flip(disk, path, torn_at + 100)
        torn = disk.get(path)[torn_at:].rstrip(b"\0")
        try:
            Host(disk, cut_after=cut)
        except PowerCut:
            pass
        else:
            break
        disk.cut_power(keeps(seed))
        host = Host(disk)
        assert host.book.dump() == state
        assert torn in [disk.get(kept) for kept in disk.paths("quarantine")]
        host.send()
        assert Host(disk.copy()).book.dump() == host.book.dump()
    assert cut > 15


@pytest.mark.parametrize("seed", range(9))
def test_a_power_cut_after_every_operation_of_a_flush_keeps_what_was_acknowledged(seed: int) -> None:
    base = Host(MemoryDisk())
    base.send(60)
    state = base.book.dump()
    for cut in range(9):
        disk = base.disk.copy()
        host = Host(disk)
        host.send(60)
        host.prepare()
        before = host.book.dump()
        ops = host.add(*(sent(seq, b"y" * 100) for seq in range(200, 230))).flush()
        assert len(ops) == 8
        disk.do_all(ops[:cut])
        disk.cut_power(keeps(seed))
        again = Host(disk)
        assert again.book.lsn >= 120
        if cut == 8:
            assert again.book.dump() == host.book.dump()
        if again.book.lsn == 120:
            assert again.book.dump() == before
        again.send()
        assert Host(disk.copy()).book.dump() == again.book.dump()
    assert state != before


@pytest.mark.parametrize("seed", range(60))
def test_a_life_of_power_cuts_keeps_every_acknowledged_record(seed: int) -> None:
    """Sends, deletes, idle frames, indexes, snapshots and removals, cut anywhere, again and again."""
    chance = random.Random(seed)
    disk = MemoryDisk()
    told: dict[int, bytes] = {0: Book(SHARD).history}
    acknowledged = 0
    for _ in range(12):
        host = Host(disk)
        assert host.book.lsn >= acknowledged
        assert host.book.history == told[host.book.lsn]
        told = {lsn: history for lsn, history in told.items() if lsn <= host.book.lsn}
        acknowledged = max(acknowledged, host.book.lsn)
        for _ in range(chance.randrange(12)):
            host.add(*records(host, chance))
            told |= host.book.histories
            disk.do_all(host.journal.flush())
            host.journal.synced()
            acknowledged = host.book.lsn
            upkeep(host, chance)
        host.add(*records(host, chance))
        told |= host.book.histories
        ops = host.journal.flush()
        disk.do_all(ops[: chance.randrange(len(ops) + 1)])
        disk.cut_power(lambda _: chance.random() < 0.6)
    assert acknowledged > 100


def records(host: Host, chance: random.Random) -> list[Record]:
    made: list[Record] = []
    for _ in range(chance.randrange(1, 25)):
        if chance.random() < 0.4 and host.book.messages:
            lane, seq = chance.choice(sorted(host.book.messages))
            made.append(Deleted(lane, (seq,)))
        else:
            host.seq += 1
            made.append(sent(host.seq, b"m" * chance.randrange(300)))
    return made


def upkeep(host: Host, chance: random.Random) -> None:
    """Housekeeping, cut short or not; what is cut short is done again by the next start."""
    match chance.randrange(6):
        case 0:
            host.idle()
        case 1:
            host.write_indexes()
        case 2 if host.journal.sealed_upto():
            done = host.disk.run(advance_snapshot(SHARD, host.journal.sealed_upto(), machine=Book))
            if done is not None:
                for stem in done.stems:
                    host.journal.forget(stem)
                host.disk.run(remove_old(done))
        case _:
            pass


def test_keys_are_used_once() -> None:
    """The pair of key and nonce never repeats: one key per segment, one segment per epoch or later."""
    disk = MemoryDisk()
    seen: set[tuple[bytes, int, int]] = set()

    class Watched(Plain):
        def seal(self, epoch: int, lsn: int, content: bytes, clear: bytes) -> bytes:
            assert (self.key, epoch, lsn) not in seen
            seen.add((self.key, epoch, lsn))
            return super().seal(epoch, lsn, content, clear)

    for _ in range(4):
        host = Host(disk, cipher=Watched)
        for _ in range(4):
            host.send(40)
        host.disk.do_all(host.add(sent(host.seq + 1)).flush()[:-1])
        disk.cut_power(lambda number: number % 2 == 0)
    assert len(seen) > 600
