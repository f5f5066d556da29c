"""A batch of plain messages, which is decided, written and applied at once, leaves what its sends one by one leave."""

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.log.files import Write
from holdfast.core.log.journal import Journal
from holdfast.core.queue import command as c
from holdfast.core.queue.columns import AcceptedAll, DeleteAll, DeletedAll, SendAll
from holdfast.core.queue.plain import SentAll
from holdfast.core.queue.record import NO_DIGEST, Sent
from holdfast.core.queue.send import together
from holdfast.core.queue.state import dump_lane
from holdfast.core.types import Epoch, Group, Kind, LaneConfig, LaneId, Lsn, Receipt, Receipts, Seq, WallMs
from tests.core.memory_disk import LANE as DISK_LANE
from tests.core.memory_disk import SEGMENT, Host, MemoryDisk
from tests.core.one_shard import SETTINGS, SMALL
from tests.core.test_primary import LANE, Lead
from tests.scenarios.world import changed_limits

PLAIN: dict[str, Any] = {}
PARTS = ("body", "content", "size")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.lists(st.sampled_from([1, 5, 300]), min_size=1, max_size=10)),
        st.tuples(st.just("receive"), st.integers(1, 10)),
        st.tuples(st.just("forget"), st.just(0)),
    ),
    max_size=25,
)


def send(size: int = 1, **options: Any) -> c.Send:
    return c.Send(LANE, b"b" * size, b"c" * size, size, **options)


def take(lead: Lead, count: int) -> list[int]:
    lead.ask(c.Receive(LANE, count), "receive")
    while lead.load():
        pass
    (answer,) = [answer for token, answer in lead.sync() if token == "receive"]
    return [each.header.seq for each in cast(c.Delivery, answer).messages]


@given(steps=STEPS, limits=st.sampled_from([{}, SMALL, {**SMALL, "STRETCH_BITS": 5}]))
@SETTINGS
def test_a_batch_and_single_sends_leave_the_same_log_state_and_order(
    steps: list[tuple[str, Any]], limits: dict[str, int]
) -> None:
    with changed_limits(limits):
        batch, columns, single = leads = Lead(), Lead(), Lead()
        for step, value in steps:
            for lead in leads:
                lead.time += 1
            if step == "send":
                sends = [send(size) for size in value]
                batch.primary.submit_all(sends, "batch", batch.own, batch.wall)
                sent = SendAll(LANE, *([getattr(each, part) for each in sends] for part in PARTS))
                columns.primary.submit_plain(sent, "columns", columns.own, columns.wall)
                for each in sends:
                    single.ask(each, "single")
                ((_, outcomes),) = batch.sync()
                ((_, accepted),) = columns.sync()
                assert outcomes == cast(AcceptedAll, accepted).apart() == [answer for _, answer in single.sync()]
            elif step == "receive":
                assert take(batch, value) == take(columns, value) == take(single, value)
            else:
                for lead in leads:
                    lead.drop_windows()
            assert len({lead.primary.shard.dump() for lead in leads}) == 1
        logs = [[frame.records for frame in lead.log.frames] for lead in leads]
        assert logs[0] == logs[1] == logs[2]
        batch.log.assert_replayable(batch.primary.shard)


@pytest.mark.parametrize(
    ("config", "option"),
    [
        (LaneConfig(), {"group": "g"}),
        (LaneConfig(), {"delay_s": 0}),
        (LaneConfig(), {"time_to_live_s": 60}),
        (LaneConfig(), {"request": c.Request(bytes(16))}),
        (LaneConfig(request_deduplication=True), {"deduplication_id": "d"}),
        (LaneConfig(request_deduplication=True), PLAIN),
        (LaneConfig(delay_s=5), PLAIN),
        (LaneConfig(time_to_live_s=60), PLAIN),
        (LaneConfig(messages_max=10), PLAIN),
        (LaneConfig(bytes_max=1000), PLAIN),
        (LaneConfig(message_bytes_max=2), PLAIN),
    ],
)
def test_what_needs_more_than_a_place_is_decided_one_by_one(config: LaneConfig, option: dict[str, Any]) -> None:
    batch, single = Lead(config), Lead(config)
    sends: list[c.Command] = [send(), send(3, **option), send()]
    columns = together(sends)
    assert columns is None or batch.primary.shard.decide_sends(columns, batch.log.committed) is None
    batch.primary.submit_all(sends, "batch", batch.own, batch.wall)
    for each in sends:
        single.ask(each, "single")
    ((_, outcomes),) = batch.sync()
    assert [type(each) for each in cast(list[object], outcomes)] == [type(answer) for _, answer in single.sync()]
    assert batch.primary.shard.dump() == single.primary.shard.dump()


def test_a_batch_for_a_lane_that_is_not_there_and_one_with_another_command_are_decided_one_by_one() -> None:
    lead = Lead()
    elsewhere = c.Send(LaneId(99), b"", b"", 0)
    columns = SendAll(elsewhere.lane, [b""], [b""], [0])
    assert together([elsewhere]) == columns
    assert lead.primary.submit_plain(columns, "batch", lead.own, lead.wall) is None
    assert lead.sync() == []
    assert together([send(), c.Count(LANE)]) is None
    assert together([send(), elsewhere]) is None
    assert together([]) is None


def plain(seq: int, size: int) -> Sent:
    return Sent(DISK_LANE, Seq(seq), Group(0), size, 0, 0, WallMs(5), NO_DIGEST, False, bytes([seq % 251]) * size)


@given(sizes=st.lists(st.lists(st.sampled_from([1, 700, SEGMENT // 6]), min_size=1, max_size=4), max_size=12))
@SETTINGS
def test_records_that_are_appended_together_lie_and_are_found_where_single_ones_do(sizes: list[list[int]]) -> None:
    together, apart = Host(MemoryDisk()), Host(MemoryDisk())
    seq = 0
    for some in sizes:
        records = [plain(seq + number + 1, size) for number, size in enumerate(some)]
        seq += len(records)
        stems = together.stems
        if together.add().holds_all(some):
            contents = [record.content for record in records]
            together.journal.append_plain(SentAll(DISK_LANE, records[0].seq, WallMs(5), some, contents))
            assert together.stems == stems, "no segment is left on the way"
        else:
            for record in records:
                together.journal.append(record)
        written = together.journal.flush()
        assert any(type(op) is Write for op in written)
        apart.add(*records)
        assert written == apart.journal.flush()
        for host in (together, apart):
            host.disk.do_all(written)
            host.journal.synced()
    assert entries(together.journal) == entries(apart.journal)


def entries(journal: Journal) -> list[dict[LaneId, bytes]]:
    indexes = [segment.index for segment in journal.segments if segment.index is not None]
    return [{lane: bytes(packed) for lane, packed in index.entries.items()} for index in indexes]


DELETES = st.lists(
    st.tuples(
        st.integers(1, 14),  # which message: some are not handed out, and some do not exist
        st.sampled_from([0, 0, 0, 0, 1]),  # of another epoch
        st.sampled_from([0, 0, 0, 0, 1]),  # of another place
        st.sampled_from([0, 0, 0, 1]),  # of another receive
    ),
    min_size=1,
    max_size=10,
)


@given(batches=st.lists(DELETES, min_size=1, max_size=4), kind=st.sampled_from(Kind))
@SETTINGS
def test_a_batch_and_single_deletes_say_and_leave_the_same(
    batches: list[list[tuple[int, int, int, int]]], kind: Kind
) -> None:
    leads = tuple(Lead(LaneConfig(kind=kind)) for _ in range(3))
    for lead in leads:
        for number in range(12):
            lead.ask(send(1, **({"group": "g", "deduplication_id": f"{number}"} if kind is Kind.FIFO else {})), "send")
        lead.sync()
        take(lead, 9)
    together, columns, single = leads
    for deletes in batches:
        leases = single.primary.shard.lanes[LANE].leases
        receipts: list[Receipt] = []
        for seq, epoch, lsn, number in deletes:
            held = leases.get(Seq(seq))
            known = (held.epoch, held.lsn, held.number) if held is not None else (Epoch(1), Lsn(seq + 1), 1)
            given_out = (Epoch(known[0] + epoch), Lsn(known[1] + lsn), known[2] + number)
            receipts.append(Receipt(LANE, Seq(seq), *given_out, handle=f"{seq}"))
        commands = [c.Delete(LANE, receipt) for receipt in receipts]
        together.primary.submit_all(commands, "batch", together.own, together.wall)
        delete_by_columns(columns, receipts)
        for place, each in enumerate(commands):
            single.ask(each, place)
        for lead in leads:
            while lead.load():
                pass
        ((_, outcomes),) = together.sync()
        ((_, said),) = columns.sync()
        alone = dict(single.sync())
        assert list(map(repr, cast(list[Any], outcomes))) == [repr(alone[place]) for place in range(len(commands))]
        assert repr(outcomes) == repr(said.apart() if isinstance(said, DeletedAll) else said)
        one, two, three = (dump_lane(lead.primary.shard.lanes[LANE], lead.own) for lead in leads)
        assert one == two == three


def delete_by_columns(lead: Lead, receipts: list[Receipt]) -> None:
    """As a host does it."""
    rows = [(each.seq, each.epoch, each.lsn, each.number, each.handle) for each in receipts]
    batch = DeleteAll(LANE, Receipts(LANE, *zip(*rows, strict=True)))
    assert batch.apart() == [c.Delete(LANE, receipt) for receipt in receipts]
    if lead.primary.submit_plain(batch, "columns", lead.own, lead.wall) is None:
        lead.primary.submit_all(batch.apart(), "columns", lead.own, lead.wall)


def test_a_batch_that_deletes_what_it_was_handed_is_done_at_once_and_of_another_kind_is_not() -> None:
    for kind, is_done in ((Kind.STANDARD, True), (Kind.FIFO, False)):
        lead = Lead(LaneConfig(kind=kind))
        options = {"group": "g", "deduplication_id": "d"} if kind is Kind.FIFO else {}
        lead.ask(send(1, **options), "send")
        lead.sync()
        (seq,) = take(lead, 1)
        lease = lead.primary.shard.lanes[LANE].leases[Seq(seq)]
        columns = Receipts(LANE, (Seq(seq),), (lease.epoch,), (lease.lsn,), (1,), ("h",))
        done = lead.primary.submit_plain(DeleteAll(LANE, columns), "batch", lead.own, lead.wall)
        assert done == (DeletedAll(1) if is_done else None)
        assert [token for token, _ in lead.sync()] == (["batch"] if is_done else [])
        assert (Seq(seq) in lead.primary.shard.lanes[LANE].leases) != is_done
    nowhere = DeleteAll(LaneId(99), columns)
    assert lead.primary.submit_plain(nowhere, "batch", lead.own, lead.wall) is None
