"""The journal: what it writes, in which order, where messages are found again, and when there is no room."""

import msgspec
import pytest

from holdfast.core.errors import CorruptLog
from holdfast.core.limits import FRAME_BYTES_MAX
from holdfast.core.log.archive import Found, IndexNeeded, Location
from holdfast.core.log.files import FileOp, Rename, Sync, SyncDir, Write
from holdfast.core.log.index import SegmentIndex
from holdfast.core.log.journal import Journal
from holdfast.core.log.segment import SECTOR, decode_frame, decode_header
from holdfast.core.log.segment_files import load_index, prepare_segment
from holdfast.core.queue.codec import decode_message
from holdfast.core.queue.command import Need
from holdfast.core.queue.headers import header_of
from holdfast.core.queue.record import NO_DIGEST, Arrived, Deleted, Moved, Purged
from holdfast.core.types import Cause, Epoch, Header, Instant, LaneId, Lsn, Seq, ShardId, WallMs
from tests.core.memory_disk import (
    LANE,
    RESERVE,
    SEGMENT,
    SHARD,
    Host,
    MemoryDisk,
    Plain,
    PowerCut,
    record_bytes,
    sent,
)


def fresh() -> Host:
    return Host(MemoryDisk())


def kinds(ops: tuple[FileOp, ...]) -> list[str]:
    return [type(op).__name__ for op in ops]


def found(host: Host, at: int, *, indexes: dict[str, SegmentIndex] | None = None) -> bytes:
    """The content of the message at a log position, read from the disk."""
    place = host.journal.locate(LANE, Lsn(at), indexes)
    assert isinstance(place, Location)
    data = host.disk.get(place.path)[place.offset : place.offset + place.length]
    cipher = host.journal.ciphers[place.stem]
    return decode_message(data, place.epoch, Lsn(at), cipher=cipher).content


# --- frames --------------------------------------------------------------------------------------------


def test_the_first_flush_puts_the_spare_into_use_before_it_writes() -> None:
    host = fresh()
    ops = host.add(sent(1)).flush()
    stem = host.stems[0]
    assert ops[:4] == (
        Rename("keys/spare-1.key", f"keys/{stem}.key"),
        SyncDir("keys"),
        Rename("segments/spare-1.log", f"segments/{stem}.log"),
        SyncDir("segments"),
    )
    assert kinds(ops[4:]) == ["Write", "Sync"]
    written = ops[4]
    assert isinstance(written, Write)
    assert decode_header(written.data).first == 1
    assert decode_frame(written.data, SECTOR).count == 1


def test_a_flush_is_one_write_and_one_sync_and_carries_what_was_durable_before() -> None:
    host = fresh()
    host.send(3)
    ops = host.add(sent(4), sent(5)).flush()
    assert kinds(ops) == ["Write", "Sync"]
    assert isinstance(ops[0], Write)
    frame = decode_frame(ops[0].data, 0)
    assert (frame.first, frame.count, frame.durable) == (4, 2, 3)


def test_durable_advances_only_when_the_flush_is_synced() -> None:
    host = fresh()
    journal = host.add(sent(1), sent(2))
    assert (journal.appended, journal.durable, journal.is_flushing) == (2, 0, False)
    host.disk.do_all(journal.flush())
    host.add(sent(3))
    assert (journal.appended, journal.durable, journal.is_flushing) == (3, 0, True)
    journal.synced()
    assert (journal.appended, journal.durable, journal.is_flushing) == (3, 2, False)


def test_only_one_flush_may_be_under_way() -> None:
    journal = fresh().add(sent(1))
    with pytest.raises(AssertionError):
        journal.synced()
    journal.flush()
    with pytest.raises(AssertionError):
        journal.flush()


def test_nothing_to_flush_is_no_operation() -> None:
    host = fresh()
    host.begin()
    assert host.journal.flush() == ()
    host.send()
    assert host.journal.flush() == ()


def test_the_stamp_follows_time_also_while_records_are_collected_and_never_falls() -> None:
    host = fresh()
    journal = host.journal
    host.prepare()
    assert journal.begin(Instant(50), WallMs(1)) == 50
    assert journal.begin(Instant(60), WallMs(1)) == 60
    journal.append(sent(1))
    assert journal.begin(Instant(70), WallMs(1)) == 70
    journal.append(sent(2))
    assert journal.begin(Instant(65), WallMs(1)) == 70
    host.disk.do_all(journal.flush())
    journal.synced()
    assert journal.begin(Instant(40), WallMs(1)) == 70
    state = Host(host.disk).book
    assert [header.time for header in state.messages.values()] == [60, 70]


def test_a_frame_is_closed_at_its_limit_and_one_record_may_exceed_it() -> None:
    host = Host(MemoryDisk(), segment=4_000_000)
    content = b"x" * (FRAME_BYTES_MAX // 3)
    ops = host.add(*(sent(seq, content) for seq in (1, 2, 3)), sent(4, content * 7)).flush()
    assert kinds(ops[-2:]) == ["Write", "Sync"]
    assert isinstance(ops[-2], Write)
    data, at, frames = ops[-2].data, SECTOR, []
    while at < len(data):
        frames.append(decode_frame(data, at))
        at += frames[-1].size
    assert [frame.count for frame in frames] == [2, 1, 1]
    assert [frame.length <= FRAME_BYTES_MAX for frame in frames] == [True, True, False]
    assert frames[1].previous == frames[0].crc
    assert [frame.durable for frame in frames] == [0, 0, 0]  # none of them knows more than the first


def test_a_full_segment_is_synced_before_its_successor_gets_its_name() -> None:
    host = fresh()
    host.send(60, 100)
    host.prepare()
    ops = host.add(*(sent(seq, b"y" * 100) for seq in range(61, 90))).flush()
    assert kinds(ops) == ["Write", "Sync", "Rename", "SyncDir", "Rename", "SyncDir", "Write", "Sync"]
    first, second = (f"segments/{stem}.log" for stem in host.stems)
    assert isinstance(ops[0], Write)
    assert (ops[0].path, ops[1]) == (first, Sync(first))
    assert isinstance(ops[6], Write)
    assert (ops[6].path, ops[7]) == (second, Sync(second))
    header = decode_header(ops[6].data)
    assert header.durable == header.first - 1
    assert host.journal.segments[0].last == header.first - 1


def test_records_are_sealed_under_the_key_of_the_segment_they_are_in() -> None:
    host = fresh()
    for _ in range(4):
        host.send(40, 100)
    assert len(host.stems) > 1
    assert [found(host, at) for at in range(1, 161)] == [bytes([seq % 251]) * 100 for seq in range(1, 161)]


# --- the idle frame ------------------------------------------------------------------------------------


def test_an_idle_log_says_once_that_its_end_is_durable() -> None:
    host = fresh()
    journal = host.journal
    assert not journal.idle_frame_due(Instant(10**9))
    assert journal.idle_deadline() is None
    host.send(2)
    assert journal.idle_deadline() == host.time + 500_000
    soon, later = Instant(host.time + 1000), Instant(host.time + 600_000)
    assert not journal.idle_frame_due(soon)
    journal.begin(soon, WallMs(0))  # looking at the time does not put it off
    assert journal.idle_frame_due(later)
    host.add(sent(3))
    assert not journal.idle_frame_due(later)
    host.disk.do_all(journal.flush())
    assert not journal.idle_frame_due(later)
    journal.synced()
    host.idle()
    assert not journal.idle_frame_due(later)
    path = f"segments/{host.stems[0]}.log"
    frame = decode_frame(host.disk.get(path), 3 * SECTOR)
    assert (frame.count, frame.first, frame.durable) == (0, 4, 3)


def test_an_empty_frame_is_no_link_of_the_chain() -> None:
    host = fresh()
    host.send()
    host.idle()
    host.send()
    data = host.disk.get(f"segments/{host.stems[0]}.log")
    before, idle, after = (decode_frame(data, sector * SECTOR) for sector in (1, 2, 3))
    assert before.crc == idle.previous == after.previous != idle.crc


def test_a_segment_that_is_left_takes_nothing_more_also_if_nothing_follows() -> None:
    host = fresh()
    host.send(3)
    host.idle()
    assert host.journal.idle_deadline() is None
    host.prepare()
    left = host.journal.segments[0]
    host.journal.leave(left)
    assert host.journal.idle_deadline() is not None
    host.idle()
    assert [segment.first for segment in host.journal.segments] == [1, 4]
    assert left.last == 3
    assert host.journal.idle_deadline() is None
    host.send(1)
    assert [segment.first for segment in host.journal.segments] == [1, 4]
    assert Host(host.disk.copy()).book.dump() == host.book.dump()


def test_the_next_record_begins_another_segment_when_this_one_is_left_and_not_before_there_is_one() -> None:
    host = fresh()
    host.send(3)
    first = host.journal.segments[0]
    host.journal.leave(first)
    host.send(1)
    assert len(host.journal.segments) == 1
    assert not host.journal.wants_spare()
    host.journal.leave(first)
    host.send(1)
    assert [segment.first for segment in host.journal.segments] == [1, 5]
    host.journal.leave(first)  # it was
    host.send(1)
    assert len(host.journal.segments) == 2


def test_an_idle_frame_moves_on_to_the_spare_when_its_segment_is_full() -> None:
    host = fresh()
    room = SEGMENT - 2 * SECTOR
    host.send(1, room - record_bytes(sent(1, b"")))
    assert host.journal._left() < SECTOR
    assert not host.journal.idle_frame_due(Instant(10**9))
    assert host.journal.flush(is_idle=True) == ()
    host.prepare()
    assert host.journal.idle_frame_due(Instant(10**9))
    host.idle()
    assert len(host.stems) == 2
    assert Host(host.disk.copy()).book.dump() == host.book.dump()


# --- room ----------------------------------------------------------------------------------------------


def test_without_a_spare_sends_stop_at_the_reserve_and_deletes_go_on_until_it_is_nearly_used() -> None:
    host = fresh()
    journal = host.journal
    assert (journal.has_room(0), journal.is_exhausted()) == (False, True)
    host.prepare()
    assert (journal.has_room(100), journal.is_exhausted()) == (True, False)
    host.send()
    assert journal.wants_spare()

    def write(size: int) -> None:
        host.seq += 1
        journal.append(sent(host.seq, b"z" * size))
        host.disk.do_all(journal.flush())
        journal.synced()

    while journal.has_room(300):
        write(300)
    assert journal._left() >= RESERVE
    assert not journal.is_exhausted()
    while not journal.is_exhausted():
        journal.append(Deleted(LANE, (Seq(1),)))
    assert 0 < journal._left() < RESERVE // 4
    assert host.prepare()
    assert (journal.has_room(300), journal.is_exhausted()) == (True, False)


def test_a_message_that_no_segment_can_take_has_no_room() -> None:
    host = fresh()
    host.prepare()
    assert host.journal.has_room(SEGMENT - RESERVE - 4 * SECTOR)
    assert not host.journal.has_room(SEGMENT)


def test_appending_where_there_is_no_room_is_the_owner_s_mistake() -> None:
    host = fresh()
    with pytest.raises(AssertionError, match="has_room"):
        host.journal.append(sent(1))
    host.prepare()
    with pytest.raises(AssertionError, match="has_room"):
        host.journal.append(sent(1, b"x" * SEGMENT))


def test_a_spare_is_made_twice_as_fast_as_its_segment_is_used_and_is_urgent_when_it_lags_far() -> None:
    host = fresh()
    host.prepare()
    host.journal.append(sent(2, b"x" * (SEGMENT // 4)))
    used = host.journal._fill
    assert SEGMENT // 4 < used < SEGMENT // 3
    for ready in (0, SEGMENT // 4, 2 * used - 1, 2 * used, SEGMENT):
        assert host.journal.spare_lag(ready) == max(0, 2 * used - ready)
    assert host.journal.is_spare_urgent(SEGMENT // 16 + 1)
    assert not host.journal.is_spare_urgent(SEGMENT // 16)


def test_a_spare_is_late_by_all_that_is_missing_and_urgent_when_sends_wait_for_it() -> None:
    host = fresh()
    assert host.journal.spare_lag(100) == SEGMENT - 100  # there is no segment at all
    host.prepare()
    host.journal.append(sent(2, b"x" * (SEGMENT - RESERVE - 2 * SECTOR)))
    assert not host.journal.has_room(0)
    assert host.journal.spare_lag(SEGMENT - 1) == 1
    assert host.journal.is_spare_urgent(1)


def test_one_spare_is_prepared_at_a_time() -> None:
    journal = Journal(SHARD, Epoch(1))
    assert journal.wants_spare()
    assert journal.start_spare() == 1
    assert not journal.wants_spare()
    with pytest.raises(AssertionError):
        journal.start_spare()
    journal.end_spare(None)
    assert journal.wants_spare()
    assert journal.start_spare() == 2
    journal.end_spare(Plain())
    assert not journal.wants_spare()


def test_preparing_makes_the_key_durable_before_the_segment_exists() -> None:
    host = fresh()
    start = len(host.disk.done)
    host.prepare()
    host.disk.cut_power()
    assert host.disk.get("keys/spare-1.key") == host.key_of(1)
    assert host.disk.get("segments/spare-1.log") == bytes(SEGMENT)
    order = [str(op) for op in host.disk.done[start:]]
    assert order.index("SyncDir(path='keys')") < order.index(f"Create(path='segments/spare-1.log', size={SEGMENT})")


@pytest.mark.parametrize("capacity", [100, 5_000])
def test_a_full_disk_leaves_no_spare_and_no_rubbish(capacity: int) -> None:
    host = fresh()
    host.disk.capacity = capacity
    if capacity == 100:
        host.disk.capacity = sum(len(file.data) for file in host.disk.names.values()) + 1
    assert not host.prepare()
    assert host.disk.paths("segments") == host.disk.paths("keys") == []
    assert host.journal.wants_spare()
    host.disk.capacity = 1 << 40
    assert host.prepare()


def test_another_error_while_preparing_is_not_swallowed() -> None:
    disk = MemoryDisk()
    disk.put("segments/spare-1.log", b"in the way")
    with pytest.raises(FileExistsError):
        disk.run(prepare_segment(1, key=b"k", size=SEGMENT))


def test_a_power_cut_anywhere_in_prepare_loses_nothing() -> None:
    base = fresh()
    base.send(5)
    for cut in range(100):
        disk = base.disk.copy()
        host = Host(disk)
        start = len(disk.done)
        try:
            disk.run(prepare_segment(host.journal.start_spare(), key=b"k", size=SEGMENT), cut_after=cut)
        except PowerCut:
            assert len(disk.done) == start + cut
        else:
            break
        disk.cut_power()
        again = Host(disk)
        assert again.book.dump() == base.book.dump()
        assert [path for path in disk.names if "spare" in path] == []
        again.send()
    assert cut == 8


# --- finding messages ----------------------------------------------------------------------------------


def test_a_message_in_an_indexed_segment_needs_that_index() -> None:
    host = fresh()
    for _ in range(6):
        host.send(30)
    first = host.stems[0]
    host.write_indexes()
    assert host.journal.locate(LANE, Lsn(1)) == IndexNeeded(first)
    index = host.disk.run(load_index(SHARD, host.journal.segments[0]))
    assert found(host, 1, indexes={first: index}) == bytes([1]) * 100


def test_a_message_that_is_nowhere_is_corruption() -> None:
    host = fresh()
    host.send(3)
    with pytest.raises(CorruptLog, match="lane 3 is not in segment"):
        host.journal.locate(LANE, Lsn(4))
    host.journal.segments[0].first = Lsn(2)
    with pytest.raises(CorruptLog, match="before the first segment"):
        host.journal.locate(LANE, Lsn(1))


def test_arrivals_and_copies_are_found_like_sends() -> None:
    host = fresh()
    old = Header(Seq(9), Lsn(1), Epoch(1), Lsn(1), *(0, 5, 1, 1, 0, 0, 0, False))  # type: ignore[arg-type]
    host.write(
        Arrived(
            *(LANE, Seq(2), 0, 5, 0, 0, 0, 0, Cause.NONE, ShardId(1), 1, WallMs(0)),  # type: ignore[arg-type]
            message_id=NO_DIGEST,
            content=b"from afar",
        ),
        Moved(LANE, old, Cause.NONE, WallMs(0), NO_DIGEST, b"moved"),
        Purged(LaneId(5)),
    )
    assert (found(host, 1), found(host, 2)) == (b"from afar", b"moved")
    answer = host.journal.headers(Need(LANE, Lsn(1), Seq(9), Seq(9), 5))
    assert isinstance(answer, Found)
    assert answer.headers == [msgspec.structs.replace(old, at=Lsn(2))]


def ask(host: Host, need: Need) -> Found:
    """As a shell does that can keep one index only: each is asked for once."""
    loaded: dict[str, SegmentIndex] = {}
    asked: list[str] = []
    while isinstance(answer := host.journal.headers(need, loaded), IndexNeeded):
        segment = next(each for each in host.journal.segments if each.stem == answer.stem)
        assert segment.stem not in asked
        asked.append(segment.stem)
        loaded = {segment.stem: host.disk.run(load_index(SHARD, segment))}
    return answer


@pytest.mark.parametrize("is_indexed", [False, True])
def test_headers_come_from_as_many_segments_as_it_takes(is_indexed: bool) -> None:
    host = fresh()
    for _ in range(8):
        host.send(30, 200)
    assert len(host.stems) > 3
    if is_indexed:
        host.write_indexes()
    everything = ask(host, Need(LANE, Lsn(1), Seq(1), Seq(240), 1000))
    assert [header.seq for header in everything.headers] == list(range(1, 241))
    assert everything.upto == 240
    some = ask(host, Need(LANE, Lsn(50), Seq(50), Seq(240), 100))
    assert [header.seq for header in some.headers] == list(range(50, 150))
    assert some.upto == 149
    beyond = ask(host, Need(LANE, Lsn(200), Seq(239), Seq(300), 100))
    assert ([header.seq for header in beyond.headers], beyond.upto) == ([239, 240], 300)


def test_a_removed_segment_is_passed_over_without_loading_the_one_before_it() -> None:
    host = fresh()
    for _ in range(8):
        host.send(30, 200)
    host.write_indexes()
    first, second, third = host.journal.segments[:3]
    host.journal.forget(second.stem)
    need = Need(LANE, second.first, Seq(second.first), Seq(240), 10)
    assert host.journal.headers(need) == IndexNeeded(third.stem)
    assert ask(host, need).headers[0].at == third.first
    assert first.stem in host.stems


def test_copies_of_messages_that_wait_aside_neither_disturb_order_nor_end_the_search() -> None:
    host = fresh()
    aside = msgspec.structs.replace(sent(2), is_aside=True)
    header = header_of(aside, Epoch(1), Lsn(2), Instant(1000))
    copy = Moved(LANE, header, Cause.NONE, WallMs(0), NO_DIGEST, b"")
    host.write(sent(1), aside, copy, sent(3), sent(4))
    answer = ask(host, Need(LANE, Lsn(1), Seq(1), Seq(4), 10))
    assert [(header.seq, header.at) for header in answer.headers] == [(1, 1), (2, 3), (3, 4), (4, 5)]
    full = ask(host, Need(LANE, Lsn(1), Seq(1), Seq(4), 3))
    assert ([header.seq for header in full.headers], full.upto) == ([1, 2], 2)


# --- sealed segments -----------------------------------------------------------------------------------


def test_a_segment_is_sealed_when_it_is_left_and_durable() -> None:
    host = fresh()
    host.send(60)
    host.prepare()
    journal = host.add(*(sent(seq, b"y" * 100) for seq in range(61, 90)))
    assert journal.sealed_without_index() == []
    host.disk.do_all(journal.flush())
    assert journal.sealed_without_index() == []
    journal.synced()
    assert journal.sealed_without_index() == [host.stems[0]]
    assert journal.sealed_upto() == journal.segments[1].first - 1
    host.write_indexes()
    assert journal.sealed_without_index() == []
    assert host.disk.paths("index") == [f"index/{host.stems[0]}.idx"]


def test_an_index_file_says_the_same_as_the_index_in_memory() -> None:
    host = fresh()
    for _ in range(6):
        host.send(30)
    segment = host.journal.segments[0]
    in_memory = segment.index
    assert in_memory is not None
    host.write_indexes()
    assert segment.index is None
    index = host.disk.run(load_index(SHARD, segment))
    assert bytes(index.entries[LANE]) == bytes(in_memory.entries[LANE])


def test_a_power_cut_anywhere_in_write_index_loses_nothing() -> None:
    base = fresh()
    for _ in range(6):
        base.send(30)
    for cut in range(100):
        disk = base.disk.copy()
        host = Host(disk)
        stem = host.journal.sealed_without_index()[0]
        try:
            disk.run(host.journal.write_index(stem), cut_after=cut)
        except PowerCut:
            pass
        else:
            break
        disk.cut_power(lambda number, cut=cut: bool(number >> cut & 1))  # type: ignore[misc]
        again = Host(disk)
        assert again.book.dump() == base.book.dump()
        assert not any(path.endswith(".tmp") for path in disk.names)
        again.write_indexes()
        place = again.disk.run(load_index(SHARD, again.journal.segments[0])).find(LANE, Lsn(1))
        assert place is not None
    assert cut == 5


def test_the_active_segment_cannot_be_forgotten() -> None:
    host = fresh()
    host.send()
    with pytest.raises(AssertionError):
        host.journal.forget(host.stems[0])
