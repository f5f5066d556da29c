"""The names of messages that are handed out together are made by columns, and are what their layout says."""

import base64
import struct

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.queue import receipt
from holdfast.core.queue.command import Delivered
from holdfast.core.types import Epoch, Group, Header, Instant, LaneId, Lsn, Receipt, Seq, ShardId, WallMs
from holdfast.protocol.texts import cut
from holdfast.runtime.crypto import ReceiptKey
from tests.core.one_shard import SETTINGS

KEY = ReceiptKey(b"k" * 32)
U63 = st.integers(0, (1 << 63) - 1)  # no number of a message gets larger
NEAR = st.integers(0, 3)
MESSAGES = st.lists(
    st.tuples(U63, NEAR | st.integers(0, (1 << 32) - 1), NEAR | U63, NEAR | st.integers(1, 1 << 33)),
    min_size=1,
    max_size=12,
)


def given_out(seq: int, epoch: int, lsn: int, number: int) -> Delivered:
    zero = Instant(0)
    header = Header(Seq(seq), Lsn(lsn), Epoch(epoch), Lsn(lsn), Group(0), 1, zero, zero, zero, 0, 0, is_aside=False)
    return Delivered(header, number, number, WallMs(1))


def handle(lane: int, seq: int, epoch: int, lsn: int, number: int) -> bytes:
    """As the head of core/queue/receipt.py draws it."""
    one, two = struct.pack("<QQ", lane, seq), struct.pack("<IQI", epoch, lsn, number % (1 << 32))
    return base64.urlsafe_b64encode(b"\2" + KEY.with_macs(one + two, 32, 0, 0))


@given(lane=U63, messages=MESSAGES)
@SETTINGS
def test_names_are_what_their_layout_says(lane: int, messages: list[tuple[int, int, int, int]]) -> None:
    named = receipt.names(ShardId(3), LaneId(lane), [given_out(*each) for each in messages], KEY)
    handles = [named.handle_start + end for end in cut(named.handle_ends, len(messages))]
    assert handles == [handle(lane, *each) for each in messages]
    ids = [receipt.message_id(ShardId(3), Epoch(epoch), Lsn(lsn)).encode() for _, epoch, lsn, _ in messages]
    assert [named.id_start + end for end in cut(named.id_ends, len(messages))] == ids
    texts = [each.decode() for each in handles]
    read = [
        Receipt(LaneId(lane), Seq(seq), Epoch(epoch), Lsn(lsn), number % (1 << 32), text)
        for (seq, epoch, lsn, number), text in zip(messages, texts, strict=True)
    ]
    together = receipt.decode_all(texts, KEY, lane=LaneId(lane))
    assert together is not None
    assert together.apart() == read == [receipt.decode(each, KEY, lane=LaneId(lane)) for each in texts]
