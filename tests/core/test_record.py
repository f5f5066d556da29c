"""Records and their bytes: what is written is read again, and nothing else is."""

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.limits import RECEIVE_COUNT_MAX
from holdfast.core.queue.codec import (
    PLAIN,
    SENT,
    clear_bytes,
    decode,
    decode_message,
    encode,
    open_sent,
)
from holdfast.core.queue.dedup import BEQUEATHED_BYTES
from holdfast.core.queue.headers import header_of, pack_header, pack_headers, unpack_header
from holdfast.core.queue.record import (
    NO_DIGEST,
    Arrived,
    Changed,
    Configured,
    Deleted,
    Departed,
    Draining,
    Dropped,
    Expired,
    Founded,
    Inherited,
    Moved,
    Opened,
    Purged,
    Received,
    Record,
    Refused,
    Returned,
    Sealed,
    Sent,
    Settled,
    TaskEnded,
    TaskStarted,
    Trimmed,
)
from holdfast.core.types import (
    Address,
    Cause,
    Epoch,
    Header,
    Instant,
    Kind,
    LaneConfig,
    LaneId,
    Lsn,
    Redrive,
    ShardId,
)
from tests.core.memory_disk import Plain, sent

EPOCH, LSN, CIPHER = Epoch(9), Lsn(1234), Plain()

u16 = st.integers(0, 2**16 - 1)
u32 = st.integers(0, 2**32 - 1)
u64 = st.integers(0, 2**64 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)
digests = st.binary(min_size=16, max_size=16)
contents = st.binary(max_size=300)
requests = st.just(b"") | digests
texts = st.text(max_size=20)
flags = st.booleans()
causes = st.sampled_from(Cause)
seqs = st.lists(u64, max_size=5).map(tuple)
addresses = st.builds(Address, u16, st.integers(1, 2**48 - 1))
headers = st.builds(Header, u64, u64, u32, u64, u64, u32, i64, i64, i64, u32, u64, flags)
configs = st.builds(
    LaneConfig,
    version=u32,
    kind=st.sampled_from(Kind),
    retention_s=u32,
    at_most_once=flags,
    redrive=st.none() | st.builds(Redrive, addresses, u32),
)
NONE = st.just(0)
messages: st.SearchStrategy[Sent | Arrived | Moved] = st.one_of(
    st.builds(Sent, u64, u64, u64, u32, u32, u32, u64, digests, flags, contents, requests),
    st.builds(Sent, u64, u64, NONE, u32, NONE, NONE, u64, st.just(NO_DIGEST), st.just(False), contents),
    st.builds(Arrived, u64, u64, u64, u32, i64, i64, u32, u64, causes, u32, u64, u64, digests, contents),
    st.builds(Moved, u64, headers, causes, u64, digests, contents),
)
facts: st.SearchStrategy[Record] = st.one_of(
    st.builds(
        Received,
        u64,
        i64,
        u64,
        st.lists(headers, max_size=3).map(tuple),
        seqs,
        seqs,
        digests,
        flags,
        flags,
        requests,
    ),
    st.builds(Deleted, u64, st.lists(u64, min_size=1, max_size=10).map(tuple)),
    st.builds(Changed, u64, u64, i64, requests),
    st.builds(Expired, u64, headers, flags),
    st.builds(Trimmed, u64, u64, u64, u32, u64),
    st.builds(Purged, u64, requests),
    st.builds(Configured, u64, configs),
    st.builds(Dropped, u64),
    st.builds(Departed, u64, headers, flags, u32, addresses, u64, causes),
    st.builds(Settled, u64, u64),
    st.builds(Returned, u64, u64),
    st.builds(Refused, u64, u64),
    st.builds(TaskStarted, u64, texts, st.none() | addresses, u32, u64, u32, u64),
    st.builds(TaskEnded, u64, texts, texts),
    st.builds(Founded, u64, st.lists(addresses, max_size=3).map(tuple)),
    st.builds(Draining, u64),
    st.builds(Inherited, u64, addresses, u64, requests, st.integers(0, 3).map(lambda n: bytes(BEQUEATHED_BYTES * n))),
    st.builds(Sealed, u64),
    st.builds(Opened, u64, addresses),
)


def body_of(record: Record) -> bytes:
    """From the type byte on; the length before it is checked."""
    data = encode(record, EPOCH, LSN, cipher=CIPHER)
    assert int.from_bytes(data[:4], "little") == len(data) - 4
    return data[4:]


@given(facts)
def test_a_fact_is_read_as_it_was_written(record: Record) -> None:
    assert decode(body_of(record)) == record
    assert decode(memoryview(body_of(record))) == record


@given(messages)
def test_a_message_is_read_with_and_without_its_content(message: Sent | Arrived | Moved) -> None:
    data = body_of(message)
    assert decode(data) == msgspec.structs.replace(message, content=b"")
    assert decode_message(data, EPOCH, LSN, cipher=CIPHER) == message


@given(messages)
def test_what_a_receive_needs_of_a_message_is_what_the_whole_has(message: Sent | Arrived | Moved) -> None:
    data = body_of(message)
    is_plain = isinstance(message, Sent) and not message.request
    length, opened = len(data), ([message.content], [message.wall])
    assert open_sent(data, 0, ((LSN,), (0,), (length,)), EPOCH, cipher=CIPHER) == (opened if is_plain else ([], []))
    places = (LSN, LSN), (102, 105 + length), (length, length)
    several = open_sent(b"??" + data + b"???" + data, 100, places, EPOCH, cipher=CIPHER)
    assert several == ((opened[0] * 2, opened[1] * 2) if is_plain else ([], []))
    assert open_sent(b"", 0, ((LSN,), (0,), (0,)), EPOCH, cipher=CIPHER) == ([], [])


@given(st.lists(messages, min_size=1, max_size=12), st.data())
def test_messages_are_opened_up_to_the_first_that_is_damaged_or_no_sent_one(
    several: list[Sent | Arrived | Moved], data: st.DataObject
) -> None:
    records = [encode(each, EPOCH, Lsn(LSN + number), cipher=CIPHER)[4:] for number, each in enumerate(several)]
    ends = list(itertools.accumulate(map(len, records)))
    places = (
        tuple(LSN + number for number in range(len(records))),
        tuple(end - len(record) for end, record in zip(ends, records, strict=True)),
        tuple(map(len, records)),
    )
    content = bytearray(b"".join(records))
    damaged = data.draw(st.integers(0, len(content) - 1) | st.none())
    if damaged is not None:
        content[damaged] ^= data.draw(st.integers(1, 255))
    expected = []
    for message, end in zip(several, ends, strict=True):
        if not isinstance(message, Sent) or message.request or (damaged is not None and damaged < end):
            break
        expected.append(message)
    contents, walls = open_sent(bytes(content), 0, places, EPOCH, cipher=CIPHER)
    assert (contents, walls) == ([each.content for each in expected], [each.wall for each in expected])


@given(messages, st.data())
def test_damage_to_a_message_is_refused(message: Sent | Arrived | Moved, data: st.DataObject) -> None:
    damaged = bytearray(body_of(message))
    damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ValueError):  # noqa: PT011  # whichever part was hit says why
        decode_message(bytes(damaged), EPOCH, LSN, cipher=CIPHER)


@given(messages, st.data())
def test_a_message_that_was_cut_short_is_refused(message: Sent | Arrived | Moved, data: st.DataObject) -> None:
    whole = body_of(message)
    with pytest.raises(ValueError):  # noqa: PT011
        decode_message(whole[: data.draw(st.integers(0, len(whole) - 1))], EPOCH, LSN, cipher=CIPHER)


@given(facts, st.data())
def test_a_fact_of_another_length_is_refused(record: Record, data: st.DataObject) -> None:
    whole = body_of(record)
    with pytest.raises(ValueError, match="record"):
        decode(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(ValueError, match="record"):
        decode(whole + b"\0")


@given(messages)
def test_another_key_place_or_epoch_opens_nothing(message: Sent | Arrived | Moved) -> None:
    data = body_of(message)
    for cipher, epoch, lsn in (
        (Plain(b"other"), EPOCH, LSN),
        (CIPHER, Epoch(EPOCH + 1), LSN),
        (CIPHER, EPOCH, Lsn(LSN + 1)),
    ):
        with pytest.raises(ValueError, match="not what was sealed"):
            decode_message(data, epoch, lsn, cipher=cipher)


@given(headers)
def test_a_header_is_read_as_it_was_packed(header: Header) -> None:
    assert unpack_header(b"??" + pack_header(header), 2) == header
    for count in (0, 1, 2, RECEIVE_COUNT_MAX, RECEIVE_COUNT_MAX + 1):
        assert pack_headers([header] * count) == pack_header(header) * count


@pytest.mark.parametrize("data", [b"", b"\0", b"\x40", b"\xff" * 40])
def test_an_unknown_type_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="unknown record type"):
        decode(data)


def test_a_fact_is_no_message() -> None:
    data = body_of(Purged(LaneId(1)))
    with pytest.raises(ValueError, match="is no message"):
        decode_message(data, EPOCH, LSN, cipher=CIPHER)


def test_only_a_message_with_nothing_special_is_written_as_a_plain_one() -> None:
    plain = msgspec.structs.replace(sent(1), group=0)
    assert body_of(plain)[0] == PLAIN
    for name, value in (("group", 1), ("delay_s", 1), ("time_to_live_s", 1), ("is_aside", True), ("digest", b"1" * 16)):
        assert body_of(msgspec.structs.replace(plain, **{name: value}))[0] == SENT
    assert body_of(msgspec.structs.replace(plain, request=bytes(16)))[0] == SENT | 0x80


def test_the_clear_part_of_a_message_does_not_hold_its_content() -> None:
    data = body_of(sent(1, b"secret"))
    assert data[clear_bytes(data[0]) :].startswith(b"secret")
    assert b"secret" not in data[: clear_bytes(data[0])]


def test_the_header_of_a_send_has_its_delay_and_time_to_live() -> None:
    record = msgspec.structs.replace(sent(4), delay_s=2, time_to_live_s=3)
    header = header_of(record, EPOCH, LSN, Instant(10))
    assert (header.seq, header.lsn, header.at, header.epoch) == (4, LSN, LSN, EPOCH)
    assert (header.time, header.visible_at, header.deadline) == (10, 2_000_010, 3_000_010)


def test_the_header_of_an_arrival_keeps_its_age_and_of_a_copy_its_origin() -> None:
    arrived = Arrived(
        *(LaneId(1), 2, 3, 4, 50, 60, 7, 8, Cause.REDRIVE, ShardId(9), 1, 5, bytes(16), b"x")  # type: ignore[arg-type]
    )
    header = header_of(arrived, EPOCH, LSN, Instant(1000))
    assert (header.time, header.visible_at, header.deadline, header.count) == (950, 1000, 1060, 7)
    moved = Moved(LaneId(1), header, Cause.NONE, arrived.wall, bytes(16), b"x")
    assert header_of(moved, Epoch(77), Lsn(4000), Instant(0)) == msgspec.structs.replace(header, at=Lsn(4000))
