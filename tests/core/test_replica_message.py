"""Messages between replicas survive the wire, places compare as the log does, and what is no message is refused."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.coordination.cluster import HostId, Life
from holdfast.core.log.segment import stem_of
from holdfast.core.replication.replica_message import (
    NOWHERE,
    VERSION,
    Ack,
    Append,
    Chunk,
    Copied,
    Cut,
    Doubt,
    Envelope,
    Fence,
    Fenced,
    Fetch,
    Message,
    Place,
    Pull,
    Refused,
    Restart,
    decode_envelope,
    encode_envelope,
)
from holdfast.core.types import Epoch, Instant, Lsn, ShardId

E, PLACE = Epoch(3), Place(stem_of(Epoch(2), Lsn(17)), 1024, Lsn(20), 0xFFFFFFFF)
MESSAGES: list[Message] = [
    Append(E, PLACE, PLACE.stem, b"\x00\xff", b"key", Lsn(19), Instant(5), is_leading=False),
    Ack(E, Life(7), PLACE, Instant(5)),
    Refused(E),
    Fence(E),
    Fenced(E, Life(7), NOWHERE),
    Pull(E, PLACE, is_lost=True),
    Cut(E, PLACE, PLACE.stem, 512),
    Restart(E, PLACE, Lsn(10), (Copied(PLACE.stem, 1024),)),
    Fetch(E, "", Lsn(10), 5, 100),
    Chunk(E, "", Lsn(10), 5, b"data"),
    Doubt(E, PLACE.stem),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_comes_back_as_it_was(message: Message) -> None:
    envelope = Envelope(ShardId(1), HostId("a"), message)
    assert decode_envelope(encode_envelope(envelope)) == envelope


def test_places_compare_as_the_log_does() -> None:
    places = [
        NOWHERE,
        Place(stem_of(Epoch(1), Lsn(1)), 512, Lsn(0), 0),
        Place(stem_of(Epoch(1), Lsn(1)), 1024, Lsn(1), 9),
        Place(stem_of(Epoch(1), Lsn(300)), 1024, Lsn(300), 1),
        Place(stem_of(Epoch(16), Lsn(301)), 512, Lsn(300), 1),
    ]
    assert all(earlier < later for earlier, later in pairwise(places))


def test_another_version_is_refused() -> None:
    data = encode_envelope(Envelope(ShardId(1), HostId("a"), Fence(E)))
    with pytest.raises(ValueError, match="version"):
        decode_envelope(bytes((VERSION + 1,)) + data[1:])


@given(st.binary(max_size=200))
def test_what_is_no_message_is_refused_and_nothing_else_happens(data: bytes) -> None:
    with pytest.raises(ValueError, match="no message"):
        decode_envelope(bytes((VERSION,)) + b"\xc1" + data)
