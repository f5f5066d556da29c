"""The answer to a batch that went well is made at once, and says what entry by entry would say."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import HoldfastError
from holdfast.core.queue import receipt
from holdfast.core.queue.columns import AcceptedAll
from holdfast.core.types import Epoch, Lsn, Seq, ShardId
from holdfast.protocol import batches, json, texts
from holdfast.protocol.actions import SendEntry
from holdfast.protocol.messages import Slips

SUMS = st.binary(min_size=16, max_size=16)
NAMES = st.from_regex(r"\A[A-Za-z0-9_-]{1,80}\Z")
ENTRIES = st.lists(st.tuples(NAMES, SUMS), min_size=1, max_size=12)  # Holdfast's own clients may send more
LSNS = st.one_of(st.integers(1, 1 << 60), st.integers((1 << 36) - 12, 1 << 36))  # ids are made of two parts of them


@given(
    entries=ENTRIES,
    first=LSNS,
    epoch=st.integers(1, 0xFFFFFFFF),
    shard=st.integers(1, 0xFFF),
)
def test_entries_that_were_accepted_together_are_shown_as_single_ones_are(
    entries: list[tuple[str, bytes]], first: int, epoch: int, shard: int
) -> None:
    slips = Slips([name for name, _ in entries], [body_md5 for _, body_md5 in entries], [7] * len(entries))
    accepted = AcceptedAll(Epoch(epoch), Lsn(first), Seq(5), len(entries))
    apart = accepted.apart()
    assert [each.seq for each in apart] == list(range(5, 5 + len(entries)))
    singly = [receipt.message_id(ShardId(shard), each.epoch, each.lsn) for each in apart]
    ids = receipt.message_ids(ShardId(shard), accepted)
    assert ids == singly
    shown = [
        f'{{"Id":"{slips.names[at]}",{json.sent(answer, slips.at(at), message_id=singly[at], is_fifo=False)}}}'
        for at, answer in enumerate(apart)
    ]
    assert texts.accepted(slips.names, ids, slips.sums) == json.batch(shown, [])


@given(
    names=st.lists(st.text("aZ9_-.é\0 ", max_size=3).map(lambda text: text * 30), min_size=1, max_size=4, unique=True)
)
def test_ids_of_a_batch_are_taken_where_each_would_be(names: list[str]) -> None:
    entries = [SendEntry(id=name) for name in names]
    are_ids = all(re.fullmatch("[A-Za-z0-9_-]{1,80}", name) for name in names)
    if are_ids:
        assert batches.check(entries, "SendMessageBatch") == (names, entries)
    else:
        with pytest.raises(HoldfastError):
            batches.check(entries, "SendMessageBatch")
