"""The answer to a batch that went well is made at once, and says what entry by entry would say."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import HoldfastError, OverLimit
from holdfast.core.queue import receipt
from holdfast.core.queue.command import Accepted
from holdfast.core.types import Epoch, Lsn, Seq, ShardId
from holdfast.protocol import batches, json
from holdfast.protocol.actions import SendEntry
from holdfast.protocol.messages import Slip

DIGITS = st.text("0123456789abcdef", min_size=32, max_size=32)
SLIPS = st.builds(Slip, st.just(0), DIGITS, st.one_of(st.just(""), DIGITS), st.one_of(st.just(""), DIGITS))
ENTRIES = st.lists(st.tuples(st.from_regex(r"\A[A-Za-z0-9_-]{1,80}\Z"), SLIPS), min_size=1, max_size=10)


@given(entries=ENTRIES, first=st.integers(1, 1 << 60), epoch=st.integers(1, 0xFFFFFFFF), shard=st.integers(1, 0xFFF))
def test_entries_that_were_accepted_together_are_shown_as_single_ones_are(
    entries: list[tuple[str, Slip]], first: int, epoch: int, shard: int
) -> None:
    accepted = [Accepted(Epoch(epoch), Lsn(first + at), Seq(at)) for at in range(len(entries))]
    singly = [receipt.message_id(ShardId(shard), each.epoch, each.lsn) for each in accepted]
    ids = receipt.message_ids(ShardId(shard), accepted)
    if ids is None:
        assert first >> 36 != (first + len(entries) - 1) >> 36, "their ids have a common start"
        return
    assert ids == singly
    shown = [
        f'{{"Id":"{name}",{json.sent(answer, slip, message_id=message_id, is_fifo=False)}}}'
        for (name, slip), answer, message_id in zip(entries, accepted, singly, strict=True)
    ]
    assert json.sent_all(entries, ids) == json.batch(shown, [])


@pytest.mark.parametrize(
    "other",
    [
        OverLimit("full"),
        Accepted(Epoch(2), Lsn(6), Seq(6)),  # of an earlier start: a duplicate of a message from then
        Accepted(Epoch(1), Lsn(1 << 36), Seq(6)),
        Accepted(Epoch(1), Lsn(6), Seq(6), ShardId(7)),
    ],
)
def test_ids_without_a_common_start_are_not_made_at_once(other: object) -> None:
    usual = Accepted(Epoch(1), Lsn(5), Seq(5))
    assert receipt.message_ids(ShardId(1), [usual, usual]) is not None
    assert receipt.message_ids(ShardId(1), [usual, other]) is None
    assert receipt.message_ids(ShardId(1), [other, usual]) is None


@given(
    names=st.lists(st.text("aZ9_-.é\0 ", max_size=3).map(lambda text: text * 30), min_size=1, max_size=4, unique=True)
)
def test_ids_of_a_batch_are_taken_where_each_would_be(names: list[str]) -> None:
    entries = [SendEntry(id=name) for name in names]
    are_ids = all(re.fullmatch("[A-Za-z0-9_-]{1,80}", name) for name in names)
    if are_ids:
        assert [name for name, _ in batches.check(entries, "SendMessageBatch")] == names
    else:
        with pytest.raises(HoldfastError):
            batches.check(entries, "SendMessageBatch")
