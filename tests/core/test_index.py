"""The index of a segment: finds every message, loads headers, and survives its file."""

import zlib
from hashlib import blake2b

import google_crc32c
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.limits import INDEX_PACK_BYTES, RECEIVE_COUNT_MAX, RUN_COUNT_MAX
from holdfast.core.log.index import ENTRY_BYTES, SegmentIndex
from holdfast.core.log.index_file import (
    DIGEST_BYTES,
    HEAD_BYTES,
    IndexFile,
    IndexHead,
    decode_index,
    decode_index_head,
)
from holdfast.core.queue.cipher import Places
from holdfast.core.queue.command import Need
from holdfast.core.queue.headers import header_of
from holdfast.core.types import Epoch, Header, Instant, LaneId, Lsn, Seq, ShardId
from tests.core.memory_disk import LANE, sent

HEAD = IndexHead(ShardId(7), Epoch(2), 9000, Lsn(1), Lsn(60))
OTHER = LaneId(4)


def header(seq: int, at: int, *, lsn: int = 0) -> Header:
    made = header_of(sent(seq), Epoch(2), Lsn(lsn or at), Instant(1))
    return msgspec.structs.replace(made, at=Lsn(at))


def filled(places: list[tuple[int, int, int]]) -> SegmentIndex:
    """From (seq, at, lsn or 0) of one lane, with another lane's entries between."""
    index = SegmentIndex()
    for seq, at, lsn in places:
        index.add(LANE, header(seq, at, lsn=lsn), at * 1000, at)
        index.add(OTHER, header(seq, at), at * 1000 + 1, at)
    return index


def encoded(index: SegmentIndex, head: IndexHead) -> bytes:
    return IndexFile(index, head).data()


def both(index: SegmentIndex) -> list[SegmentIndex]:
    """The index, and what is left of it after it went through its file."""
    return [index, decode_index(encoded(index, HEAD))[0]]


def need(first: int, last: int, *, lsn: int = 1, count_max: int = 100) -> Need:
    return Need(LANE, Lsn(lsn), Seq(first), Seq(last), count_max)


@pytest.mark.parametrize("begun", [0, 1, 40, 100])
@pytest.mark.parametrize("count", [0, 1, 70_000])
def test_a_file_that_was_begun_step_by_step_is_the_same(count: int, begun: int) -> None:
    index = filled([(1, 10, 0)] if count else [])
    if count:
        index.entries[LANE] = bytearray(bytes(index.entries[OTHER]) * count)
    file = IndexFile(index, HEAD)
    steps = [file.go_on() for _ in range(begun)]
    assert steps == sorted(steps, reverse=True)  # once it is done there is no more
    assert any(steps) == bool(count and begun)
    assert all(steps[: count // 1000])  # none of them takes long
    assert file.data() == encoded(index, HEAD)
    assert not file.go_on()


def test_no_step_compresses_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """With columns that differ throughout, as those of addresses do."""
    sizes: list[int] = []
    real = zlib.compressobj

    class Deflate:
        def __init__(self, level: int) -> None:
            self._real = real(level)
            self.flush = self._real.flush

        def compress(self, data: bytes) -> bytes:
            sizes.append(len(data))
            return self._real.compress(data)

    monkeypatch.setattr(zlib, "compressobj", Deflate)
    index = filled([(number + 1, number * 199 + 1, 0) for number in range(20_000)])
    file = IndexFile(index, HEAD)
    steps = 0
    while file.go_on():
        steps += 1
    assert max(sizes) <= INDEX_PACK_BYTES
    assert steps > sum(sizes) // (2 * INDEX_PACK_BYTES)
    assert decode_index(file.data())[0].count(LANE) == 20_000


@given(st.lists(st.integers(1, 10**6), unique=True, max_size=40).map(sorted))
def test_every_message_is_found_where_it_is_and_nowhere_else(positions: list[int]) -> None:
    index = filled([(number + 1, at, 0) for number, at in enumerate(positions)])
    for each in both(index):
        assert each.count(LANE) == len(positions)
        for at in positions:
            assert each.find(LANE, Lsn(at)) == (at * 1000, at)
            assert each.find(OTHER, Lsn(at)) == (at * 1000 + 1, at)
            if at + 1 not in positions:
                assert each.find(LANE, Lsn(at + 1)) is None
        for at in (*positions, *reversed(positions)):
            assert each.find(LANE, Lsn(at)) == (at * 1000, at)
        assert each.find(LaneId(99), Lsn(1)) is None


RUNS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12), st.booleans()), max_size=20)


@given(st.lists(st.integers(1, 10**6), unique=True, min_size=1, max_size=40).map(sorted), RUNS)
def test_those_that_stand_together_are_found_together(positions: list[int], asked: list[tuple[int, int, bool]]) -> None:
    index = filled([(number + 1, at, 0) for number, at in enumerate(positions)])
    for each in both(index):
        for start, count, has_gap in asked:
            wanted = positions[start : start + count]
            if not wanted or (has_gap and len(wanted) < 3):
                continue
            if has_gap:
                del wanted[1]
            found = each.find_run(LANE, wanted)
            if has_gap or len(wanted) > RECEIVE_COUNT_MAX:
                assert found is None
            else:
                assert found == places(wanted)
        assert each.find_run(LANE, [positions[-1], positions[-1] + 1]) is None
        assert each.find_run(LaneId(99), [1]) is None


def places(positions: list[int]) -> Places:
    """As `filled` has them."""
    return tuple(positions), tuple(at * 1000 for at in positions), tuple(positions)


def test_who_reads_in_order_finds_those_that_follow() -> None:
    positions = list(range(1, 200))
    for each in both(filled([(at, at, 0) for at in positions])):
        assert each.find_run(LANE, [1, 2, 3], 10_000) == places(positions[:10]), "as many as fit"
        assert each.find_run(OTHER, [1]) == ((1,), (1001,), (1,)), "each lane has an order of its own"
        assert each.find_run(LANE, [11], 10**9) == places(positions[10 : 10 + RUN_COUNT_MAX])
        assert each.find_run(LANE, [40, 41], 10**9) == places([40, 41]), "not behind the last"
        assert each.find_run(LANE, [42, 43], 1) == places([42, 43]), "what is asked for is found, however long"
        assert each.find_run(LANE, [44, 45], 0) == places([44, 45])
        assert each.find_run(LANE, [46, 48], 10**9) is None
        assert each.find_run(LANE, [198], 10**9) == places([198])
        assert each.find_run(LANE, [199], 10**9) == places([199]), "there are no more"


def test_a_send_is_entered_as_its_header_would_be() -> None:
    record = msgspec.structs.replace(sent(3), delay_s=4, time_to_live_s=5, is_aside=True)
    for each in (record, sent(3)):
        direct, by_header = SegmentIndex(), SegmentIndex()
        direct.add_sent(each, (Epoch(2), Lsn(8), Instant(77)), 512, 90)
        by_header.add(LANE, header_of(each, Epoch(2), Lsn(8), Instant(77)), 512, 90)
        assert encoded(direct, HEAD) == encoded(by_header, HEAD)


def test_headers_are_collected_in_order_from_a_position_on() -> None:
    for each in both(filled([(seq, 10 + seq, 0) for seq in range(1, 21)])):
        found: list[Header] = []
        assert each.collect(need(5, 8), found)
        assert [each.seq for each in found] == [5, 6, 7, 8]
        found = []
        assert each.collect(need(5, 20, lsn=18, count_max=3), found)
        assert [(each.seq, each.at) for each in found] == [(8, 18), (9, 19), (10, 20)]
        found = []
        assert not each.collect(need(19, 30), found)
        assert [each.seq for each in found] == [19, 20]
        assert not each.collect(Need(LaneId(99), Lsn(1), Seq(1), Seq(9), 5), found)


@given(st.integers(1, 200), st.integers(0, 200), st.integers(1, 250), st.lists(st.integers(1, 180), max_size=2))
def test_many_headers_are_collected_as_few_are(first: int, length: int, count_max: int, copied: list[int]) -> None:
    headers = [
        msgspec.structs.replace(
            header(seq, 10 + seq, lsn=1 if seq in copied else 0), time=Instant(seq // 50), size=seq % 3
        )
        for seq in range(1, 201)
    ]
    index = SegmentIndex()
    for one in headers:
        index.add(LANE, one, 0, 0)
    for each in both(index):
        found: list[Header] = []
        each.collect(need(first, first + length, count_max=count_max), found)
        assert found == [one for one in headers if first <= one.seq <= first + length][:count_max]


def test_equal_numbers_of_headers_are_one_object() -> None:
    """A hundred thousand of them may be leased."""
    index = filled([(seq, 1000 + seq, 0) for seq in range(1, 65)])
    found: list[Header] = []
    index.collect(need(1, 64), found)
    for name in ("size", "time", "visible_at"):
        assert len({id(getattr(each, name)) for each in found}) == 1
    assert all(each.at is each.lsn for each in found)


def test_the_lane_s_own_next_message_ends_the_search_and_a_copy_does_not() -> None:
    copies = [(50, 10, 3), (2, 11, 0), (60, 12, 4), (3, 13, 0), (9, 14, 0), (4, 15, 6)]
    index = filled(copies)
    found: list[Header] = []
    assert index.collect(need(2, 7), found)
    assert [each.seq for each in found] == [2, 3]
    found = []
    assert index.collect(need(4, 4, lsn=15), found)
    assert [each.at for each in found] == [15]


def test_entries_are_found_by_number_and_numbers_by_place() -> None:
    for each in both(filled([(seq, 10 + 2 * seq, 0) for seq in range(1, 6)])):
        assert each.entry(LANE, 1) == (header(2, 14), 14_000, 14)
        assert each.entry(LANE, 4) == (header(5, 20), 20_000, 20)
        assert each.entry(LANE, 5) is None
        assert each.entry(LaneId(99), 0) is None
        assert [each.position(LANE, Lsn(at)) for at in (1, 12, 13, 14, 20, 21)] == [0, 0, 1, 1, 4, 5]
        assert each.lanes() == [LANE, OTHER]


def test_the_head_says_what_segment_it_is_of_without_the_rest() -> None:
    data = encoded(filled([(1, 10, 0)]), HEAD)
    head = decode_index_head(data[:HEAD_BYTES])
    assert head == msgspec.structs.replace(HEAD, length=len(data), lanes=2)
    assert decode_index(data)[1] == head


def test_an_index_from_a_file_does_not_grow() -> None:
    index, _ = decode_index(encoded(filled([(1, 10, 0)]), HEAD))
    with pytest.raises(AssertionError):
        index.add(LANE, header(2, 11), 0, 0)


def as_version(version: int, index: SegmentIndex, packed: bytes) -> SegmentIndex:
    """What is read from a file of that version, which has `packed` behind its table."""
    start = encoded(index, HEAD)
    table = start[HEAD_BYTES : HEAD_BYTES + 32]
    length = HEAD_BYTES + len(table) + len(packed) + DIGEST_BYTES
    head = b"HFINDEX\0" + bytes([version]) + start[9:48] + length.to_bytes(8, "little")
    data = b"".join((head, google_crc32c.value(head).to_bytes(4, "little"), table, packed))
    return decode_index(data + blake2b(data, digest_size=DIGEST_BYTES).digest())[0]


@pytest.mark.parametrize("count", [2, 900, 3000])
def test_indexes_of_earlier_versions_are_read(count: int) -> None:
    index = filled([(seq, 10 + seq, 0) for seq in range(1, count + 1)])
    entries = b"".join(index.entries.values())
    columns = b"".join(entries[number::ENTRY_BYTES] for number in range(ENTRY_BYTES))
    for each in (as_version(1, index, entries), as_version(2, index, zlib.compress(columns, 1)), *both(index)):
        assert bytes(each.entries[LANE]) == bytes(index.entries[LANE])
        assert bytes(each.entries[OTHER]) == bytes(index.entries[OTHER])


def test_an_entry_takes_a_few_bytes_in_the_file() -> None:
    index = filled([(seq, 10 + seq, 0) for seq in range(1, 5001)])
    assert len(encoded(index, HEAD)) < 2 * 5000 * 8


def test_a_flipped_bit_anywhere_in_the_file_is_noticed() -> None:
    data = encoded(filled([(1, 10, 0), (2, 11, 0)]), HEAD)
    for at in range(len(data)):
        damaged = data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]
        with pytest.raises(ValueError, match="index"):
            decode_index(damaged)


def test_a_short_file_and_another_version_are_no_index() -> None:
    data = encoded(filled([(1, 10, 0)]), HEAD)
    for length in (0, HEAD_BYTES - 1, HEAD_BYTES, len(data) - DIGEST_BYTES, len(data) - 1):
        with pytest.raises(ValueError, match="index"):
            decode_index(data[:length])
    head = b"HFINDEX\0\4" + data[9 : HEAD_BYTES - 4]
    with pytest.raises(ValueError, match="no index of version 3"):
        decode_index_head(head + google_crc32c.value(head).to_bytes(4, "little"))
