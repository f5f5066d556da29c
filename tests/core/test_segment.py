"""Frames and headers: what is written is read again; damage is named, and judged torn or rotten."""

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.log.segment import (
    HEAD_BYTES,
    SECTOR,
    Damaged,
    Frame,
    SegmentHeader,
    align,
    decode_frame,
    decode_header,
    encode_frame,
    encode_header,
    frame_length,
    judge,
    link_problem,
    parse_stem,
    split_records,
    stem_of,
)
from holdfast.core.queue.codec import encode
from holdfast.core.types import Epoch, Instant, Lsn, ShardId, WallMs
from tests.core.memory_disk import Plain, sent

EPOCH = Epoch(4)
HEADER = SegmentHeader(ShardId(7), EPOCH, Lsn(100), 0xDEAD, Instant(55), Lsn(99))


def frame(first: int, count: int = 1, *, durable: int = 0, previous: int = 0, epoch: int = EPOCH) -> bytes:
    body = b"".join(
        encode(sent(lsn, b"c" * 100), Epoch(epoch), Lsn(lsn), cipher=Plain()) for lsn in range(first, first + count)
    )
    return encode_frame(
        body,
        previous=previous,
        epoch=Epoch(epoch),
        count=count,
        first=Lsn(first),
        time=Instant(10),
        wall=WallMs(20),
        durable=Lsn(durable),
    )[0]


def flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_a_header_fills_one_sector_and_is_read_again() -> None:
    data = encode_header(HEADER)
    assert len(data) == SECTOR
    assert decode_header(data) == HEADER


@pytest.mark.parametrize("at", range(SECTOR))
def test_a_flipped_bit_anywhere_in_a_header_is_noticed(at: int) -> None:
    with pytest.raises(Damaged):
        decode_header(flip(encode_header(HEADER), at))


def test_a_short_file_and_another_version_are_no_header() -> None:
    with pytest.raises(Damaged, match="shorter"):
        decode_header(encode_header(HEADER)[:-1])
    other = b"HFSEGMNT\2" + encode_header(HEADER)[9 : SECTOR - 4]
    crc = google_crc32c.value(other).to_bytes(4, "little")
    with pytest.raises(Damaged, match="no segment of version 1"):
        decode_header(other + crc)


@given(st.integers(0, 9), st.integers(1, 2**60))
def test_a_frame_is_padded_to_sectors_and_read_again(count: int, first: int) -> None:
    data = b"x" * SECTOR + frame(first, count, durable=first - 1, previous=77)
    assert len(data) % SECTOR == 0
    found = decode_frame(data, SECTOR)
    assert (found.first, found.count, found.last) == (first, count, first + count - 1)
    assert (found.epoch, found.previous, found.durable) == (EPOCH, 77, first - 1)
    assert (found.time, found.wall) == (10, 20)
    assert SECTOR + found.size == len(data)
    assert frame_length(data, SECTOR) == found.length
    records = list(split_records(found))
    assert [lsn for lsn, _, _ in records] == list(range(first, first + count))
    for lsn, offset, record in records:
        assert data[SECTOR + offset : SECTOR + offset + len(record)] == record
        assert encode(sent(lsn, b"c" * 100), EPOCH, lsn, cipher=Plain())[4:] == record


def test_a_flipped_bit_in_a_frame_is_noticed_and_one_in_its_padding_is_harmless() -> None:
    data = frame(1, 3)
    length = frame_length(data, 0)
    for at in range(length):
        with pytest.raises(Damaged):
            decode_frame(flip(data, at), 0)
    for at in range(length, len(data)):
        assert decode_frame(flip(data, at), 0) == decode_frame(data, 0)


def test_a_frame_that_was_cut_short_says_why() -> None:
    data = frame(1, 3)
    with pytest.raises(Damaged, match="head"):
        decode_frame(data[: HEAD_BYTES - 1], 0)
    with pytest.raises(Damaged, match="does not fit"):
        decode_frame(data[:HEAD_BYTES], 0)
    with pytest.raises(Damaged, match="length is 0"):
        decode_frame(bytes(SECTOR), 0)
    assert frame_length(data[: HEAD_BYTES - 1], 0) == 0


def made(body: bytes, count: int) -> Frame:
    fields = {"previous": 0, "epoch": EPOCH, "first": Lsn(1), "durable": Lsn(0)}
    data, _ = encode_frame(body, count=count, time=Instant(0), wall=WallMs(0), **fields)  # type: ignore[arg-type]
    return decode_frame(data, 0)


@pytest.mark.parametrize(
    ("body", "count", "why"),
    [
        (b"\1\0\0", 1, "ends before record 1"),
        (b"\5\0\0\0abc", 1, "record 1 reaches beyond"),
        (b"\1\0\0\0ab", 1, "1 bytes follow record 1"),
        (b"\1\0\0\0a", 2, "ends before record 2"),
    ],
)
def test_records_that_do_not_fill_their_frame_are_refused(body: bytes, count: int, why: str) -> None:
    with pytest.raises(Damaged, match=why):
        list(split_records(made(body, count)))


def test_a_frame_has_to_continue_the_log() -> None:
    good = decode_frame(frame(5, previous=9, durable=4), 0)
    follows = {"epoch": EPOCH, "expected": Lsn(5), "previous": 9, "time": Instant(10)}
    assert link_problem(good, **follows) == ""  # type: ignore[arg-type]
    for change, why in (
        ({"epoch": Epoch(5)}, "epoch 4 in a segment of epoch 5"),
        ({"expected": Lsn(4)}, "begins at lsn 5 instead of 4"),
        ({"previous": 8}, "does not follow its predecessor"),
        ({"time": Instant(11)}, "impossible"),
    ):
        assert why in link_problem(good, **(follows | change))  # type: ignore[arg-type]
    boastful = decode_frame(frame(5, previous=9, durable=5), 0)
    assert "impossible" in link_problem(boastful, **follows)  # type: ignore[arg-type]


def test_stems_name_epoch_and_first_lsn() -> None:
    stem = stem_of(Epoch(3), Lsn(255))
    assert stem == "00000003-00000000000000ff"
    assert parse_stem(stem) == (3, 255)
    for wrong in ("3-255", "spare-1", "x", "00000003-00000000000000FF"):
        with pytest.raises(ValueError, match=r".+"):
            parse_stem(wrong)


def test_lengths_are_aligned_to_sectors() -> None:
    assert [align(length) for length in (0, 1, 512, 513)] == [0, 512, 512, 1024]


# --- the verdict ---------------------------------------------------------------------------------------

ZEROS = bytes(4 * SECTOR)


def is_rot(tail: bytes, *, expected: int = 10, floor: int = 0, start: int = SECTOR) -> bool | None:
    damage = judge(tail, start=start, expected=Lsn(expected), epoch=EPOCH, floor=Lsn(floor))
    return None if damage is None else damage.is_rot


def test_zeros_are_a_clean_end() -> None:
    assert is_rot(ZEROS) is None
    assert is_rot(b"") is None


def test_zeros_where_something_was_durable_are_rot() -> None:
    assert is_rot(ZEROS, floor=9) is None
    assert is_rot(ZEROS, floor=10) is True
    assert is_rot(b"", floor=10) is True


def test_garbage_at_the_end_is_torn() -> None:
    damage = judge(b"garbage" + ZEROS, start=SECTOR, expected=Lsn(10), epoch=EPOCH, floor=Lsn(9))
    assert damage is not None
    assert (damage.is_rot, damage.length) == (False, 7)


def test_a_lost_frame_is_torn_when_those_behind_it_come_from_the_same_flush() -> None:
    lost = bytes(SECTOR)
    assert is_rot(lost + frame(11, durable=9) + frame(12, durable=9) + ZEROS) is False


def test_a_damaged_frame_is_rot_when_a_later_one_says_it_was_durable() -> None:
    tail = flip(frame(10), 60) + frame(11, durable=9) + frame(12, durable=11)
    damage = judge(tail + ZEROS, start=SECTOR, expected=Lsn(10), epoch=EPOCH, floor=Lsn(0))
    assert damage is not None
    assert (damage.is_rot, damage.last) == (True, 11)
    assert damage.length == 2 * SECTOR
    assert "lsn 11 was durable" in damage.proof


def test_a_damaged_empty_frame_is_rot_when_anything_follows_it() -> None:
    assert is_rot(flip(frame(10, 0, durable=9), 20) + frame(10, durable=9)) is True


def test_a_damaged_header_is_torn_with_its_own_frame_and_rot_with_a_later_one() -> None:
    header = flip(encode_header(HEADER), 3)
    assert is_rot(header + frame(10, durable=9), start=0) is False
    assert is_rot(header + frame(10, 0, durable=9) + frame(10, durable=9), start=0) is True
    assert is_rot(header + frame(10, durable=9) + frame(11, durable=10), start=0) is True


@pytest.mark.parametrize(
    "stranger",
    [
        frame(9, durable=8),  # older than what is missing
        frame(12, durable=12),  # says that it was durable before it was written
        frame(12, durable=11, epoch=5),  # another epoch
        flip(frame(12, durable=11), 70),
        frame(12, 5, durable=11)[:SECTOR],  # its second half is missing
    ],
)
def test_frames_that_are_not_of_this_log_prove_nothing(stranger: bytes) -> None:
    assert is_rot(flip(frame(10), 60) + stranger + bytes(SECTOR)) is False


def test_a_proof_is_looked_for_at_sector_boundaries_only() -> None:
    assert is_rot(b"x" * 7 + frame(12, durable=11) + ZEROS) is False
