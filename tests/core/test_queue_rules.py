"""Rules of single queues that a scenario cannot show: what is loaded, kept and forgotten, and rare turns of events."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from holdfast.core.errors import InvalidAttributeValue, QueueDoesNotExist, ReceiptHandleIsInvalid
from holdfast.core.queue import command as c
from holdfast.core.queue import receipt, record, state
from holdfast.core.queue.outbox import Inbox
from holdfast.core.queue.shard import Shard
from holdfast.core.queue.wheel import Wheel, on_grid
from holdfast.core.types import (
    Address,
    Cause,
    Counts,
    Epoch,
    Instant,
    Kind,
    LaneConfig,
    LaneId,
    Lsn,
    Receipt,
    Redrive,
    Seq,
    ShardId,
    WallMs,
)
from holdfast.core.untouched import UNTOUCHED, own
from holdfast.protocol.texts import cut
from holdfast.runtime.crypto import ReceiptKey
from tests.core.one_shard import LANE, SMALL, OneShard, receipt_of, seqs
from tests.scenarios.world import changed_limits

FAR = Address(ShardId(2), LaneId(9))
FIFO = LaneConfig(kind=Kind.FIFO, content_deduplication=True)
OTHER = LaneId(2)


@pytest.fixture
def one() -> OneShard:
    shard = OneShard()
    shard.configure(LaneConfig())
    return shard


@pytest.fixture
def small() -> Iterator[None]:
    with changed_limits(SMALL):
        yield


@pytest.fixture
def fifo() -> OneShard:
    shard = OneShard()
    shard.configure(FIFO)
    return shard


def drain(one: OneShard) -> list[str]:
    """Everything that is visible; a queue with groups may not tell all of it at once."""
    found: list[str] = []
    while bodies := one.bodies(10, 1000):
        found += bodies
    return sorted(found)


def send_all(one: OneShard, bodies: str, **options: Any) -> None:
    for body in bodies:
        one.send(body, **options)


# --- configuration ------------------------------------------------------------------------------------


def test_the_same_configuration_writes_nothing(one: OneShard) -> None:
    one.configure(LaneConfig())
    assert one.written == []
    one.configure(LaneConfig(version=2))
    assert one.written == [record.Configured(LANE, LaneConfig(version=2))]


def test_a_queue_stays_of_its_kind(one: OneShard) -> None:
    refusal = one.refusal(c.Configure(LANE, FIFO))
    assert isinstance(refusal, InvalidAttributeValue)
    assert "Modifying queue type is not supported" in refusal.message
    assert one.shard.lanes[LANE].config == LaneConfig()


def test_lanes_that_are_configured_alike_share_one_object(one: OneShard) -> None:
    config = LaneConfig(version=3)
    one.configure(config)
    one.configure(msgspec.structs.replace(config), lane=OTHER)
    assert one.shard.lanes[LANE].config is one.shard.lanes[OTHER].config


# --- what is in memory --------------------------------------------------------------------------------


def test_an_answer_for_a_dropped_lane_is_ignored(one: OneShard) -> None:
    one.send("a")
    one.drop_windows()
    need = one.shard.decide(c.Receive(LANE), one.shard.lsn)
    assert isinstance(need, c.Need)
    one.do(c.Drop(LANE))
    one.shard.load(need, *one.log.headers(need))
    assert one.shard.lanes == {}


def test_a_change_does_not_make_a_lane_that_is_gone_anew(one: OneShard) -> None:
    config = msgspec.structs.replace(one.shard.lanes[LANE].config, version=2, visibility_timeout_s=7)
    one.do(c.Configure(LANE, config, is_known=True))
    assert one.shard.lanes[LANE].config == config
    one.do(c.Drop(LANE))
    with pytest.raises(QueueDoesNotExist):
        one.do(c.Configure(LANE, config, is_known=True))
    assert one.shard.lanes == {}


def test_headers_that_are_there_already_are_not_loaded_twice(one: OneShard) -> None:
    send_all(one, "ab")
    one.drop_windows()
    need = one.shard.decide(c.Receive(LANE), one.shard.lsn)
    assert isinstance(need, c.Need)
    for _ in range(2):
        one.shard.load(need, *one.log.headers(need))
    assert one.bodies() == ["a", "b"]


def test_the_windows_that_were_not_used_longest_go_first(one: OneShard) -> None:
    with changed_limits({"WINDOW_TOTAL": 5}):
        for lane in (LANE, OTHER, LaneId(3)):
            one.configure(LaneConfig(), lane=lane)
            for body in "abc":
                one.send(body, lane=lane)
        one.drop_windows()
        for lane in (LANE, OTHER, LaneId(3)):
            assert one.bodies(1, lane=lane) == ["a"]
        one.tick()
        loaded = [lane for lane in one.shard.lanes.values() if lane.backlog.window is not None]
        assert [lane.lane for lane in loaded] == [OTHER, LaneId(3)]
        assert one.bodies() == ["b", "c"]


def test_the_window_of_a_lane_without_a_backlog_goes(one: OneShard) -> None:
    one.send("a")
    one.receive()
    one.tick()
    assert one.shard.lanes[LANE].backlog.window is None


@pytest.mark.usefixtures("small")
def test_a_lane_holds_a_few_headers_of_many_messages(one: OneShard) -> None:
    send_all(one, "abcdefgh")
    window = one.shard.lanes[LANE].backlog.window
    assert window is not None
    assert window.size() == SMALL["WINDOW_MAX"]
    assert one.bodies() == list("abcdefgh")


@pytest.mark.usefixtures("small")
def test_a_lane_with_groups_answers_what_it_has_before_it_loads_more(one: OneShard) -> None:
    send_all(one, "abcdefgh", group="g")
    first = one.bodies()
    assert first == list("abcdefgh")[: len(first)]
    assert len(first) < 8
    rest = [body for _ in range(8) for body in one.bodies()]
    assert first + rest == list("abcdefgh")


def test_a_tick_that_needs_headers_for_one_lane_first_writes_what_it_has_for_another(one: OneShard) -> None:
    one.configure(LaneConfig(retention_s=60))
    one.configure(LaneConfig(retention_s=60), lane=OTHER)
    one.send("a")
    one.receive()
    one.send("b", lane=OTHER)
    one.drop_windows()
    one.time = Instant(61_000_000)
    one.do(c.Tick())
    assert [type(each) for each in one.written] == [record.Expired]
    one.do(c.Tick())
    assert [type(each) for each in one.written] == [record.Trimmed]


def test_a_tick_writes_no_more_than_it_may(one: OneShard) -> None:
    one.configure(LaneConfig(retention_s=60))
    send_all(one, "abc", delay_s=1)
    send_all(one, "defgh")
    one.advance(1)
    one.receive(5)
    with changed_limits({"TICK_WORK": 2}):
        one.time = Instant(62_000_000)
        written = []
        for _ in range(5):
            one.do(c.Tick())
            assert len(one.written) <= 4  # two for each kind of place
            written += one.written
    assert one.do(c.Count(LANE)) == Counts(0, 0, 0, 0)
    assert len(written) <= 8


# --- committed, and not yet ---------------------------------------------------------------------------


def test_nothing_is_handed_out_before_it_is_committed(one: OneShard) -> None:
    one.send("a")
    one.send("b", delay_s=1)
    one.send("c", group="g")
    one.advance(1)
    before = one.shard.lanes[LANE].newest - 3
    assert one.do(c.Receive(LANE, 10), committed=before).messages == ()
    assert sorted(one.bodies()) == ["a", "b", "c"]


def test_a_message_aside_is_not_handed_out_before_it_is_committed(one: OneShard) -> None:
    one.send("a", delay_s=1)
    one.advance(1)
    assert one.do(c.Receive(LANE, 10), committed=one.shard.lsn - 1).messages == ()
    assert one.bodies() == ["a"]


def test_a_fifo_group_waits_for_the_commit_of_its_first_message(fifo: OneShard) -> None:
    fifo.send("a", group="g")
    committed = fifo.shard.lsn
    fifo.send("b", group="g")
    fifo.send("c", group="h")
    assert seqs(list(fifo.do(c.Receive(LANE, 10), committed=committed).messages)) == [1]


# --- receipts -----------------------------------------------------------------------------------------

KEY = ReceiptKey(b"k" * 32)


def test_the_names_of_a_receive_are_those_of_its_messages() -> None:
    one = OneShard()
    one.configure(LaneConfig())
    for body in "abc":
        one.send(body)
    delivered = one.receive(3)
    each = [receipt.encode(receipt_of(message), KEY).encode() for message in delivered]
    named = receipt.names(ShardId(3), LANE, delivered, KEY)
    assert [named.handle_start + end for end in cut(named.handle_ends, 3)] == each
    assert len(set(each)) == 3
    headers = [message.header for message in delivered]
    ids = [receipt.message_id(ShardId(3), header.epoch, header.lsn).encode() for header in headers]
    assert [named.id_start + end for end in cut(named.id_ends, 3)] == ids


def test_a_receipt_handle_says_what_it_was_made_of() -> None:
    made = Receipt(LANE, Seq(5), Epoch(6), Lsn(7), 8)
    handle = receipt.encode(made, KEY)
    assert len(handle) == receipt.HANDLE_CHARS
    assert receipt.decode(handle, KEY, lane=LANE) == msgspec.structs.replace(made, handle=handle)


def test_every_changed_character_of_a_handle_is_noticed() -> None:
    handle = receipt.encode(Receipt(LANE, Seq(5), Epoch(6), Lsn(7), 8), KEY)
    for place in range(len(handle)):
        changed = handle[:place] + ("A" if handle[place] != "A" else "B") + handle[place + 1 :]
        with pytest.raises(ReceiptHandleIsInvalid):
            receipt.decode(changed, KEY, lane=LANE)


@pytest.mark.parametrize("handle", ["", "a", "garbage", "ä" * 60, "=" * 60, "A" * 60, "A" * 61, "A" * 100_000])
def test_a_handle_that_is_none_is_refused(handle: str) -> None:
    with pytest.raises(ReceiptHandleIsInvalid):
        receipt.decode(handle, KEY, lane=LANE)


def test_the_handles_of_a_batch_are_read_as_one_by_one() -> None:
    made = [Receipt(LANE, Seq(5 + each), Epoch(6), Lsn(7 << each), 8 * each) for each in range(10)]
    handles = [receipt.encode(each, KEY) for each in made]
    good = [msgspec.structs.replace(each, handle=handle) for each, handle in zip(made, handles, strict=True)]
    together = receipt.decode_all(handles, KEY, lane=LANE)
    assert together is not None
    assert together.apart() == good
    elsewhere = receipt.encode(Receipt(LaneId(77), Seq(1), Epoch(1), Lsn(1), 1), KEY)
    other_key = receipt.encode(made[0], ReceiptKey(b"o" * 32))
    for wrong in (elsewhere, other_key, "", "a", "=" * 60, "ä" * 60, "A" * 60, handles[0][:-1], handles[0] + "A"):
        assert receipt.decode_all([*handles[:4], wrong, *handles[4:9]], KEY, lane=LANE) is None
        with pytest.raises(ReceiptHandleIsInvalid):
            receipt.decode(wrong, KEY, lane=LANE)


def test_two_halves_of_handles_are_no_handle() -> None:
    one, two = (receipt.encode(Receipt(LANE, Seq(each), Epoch(6), Lsn(each), 1), KEY) for each in (5, 6))
    for end in range(4, 60, 4):
        joined = one[:end] + two[end:]
        if joined not in (one, two):
            with pytest.raises(ReceiptHandleIsInvalid):
                receipt.decode(joined, KEY, lane=LANE)


def test_a_message_id_is_a_uuid_and_reads_back() -> None:
    text = receipt.message_id(ShardId(3), Epoch(2), Lsn((1 << 60) + 12345))
    assert receipt.message_id_text(receipt.message_id_bytes(ShardId(3), Epoch(2), Lsn((1 << 60) + 12345))) == text
    assert [len(part) for part in text.split("-")] == [8, 4, 4, 4, 12]


def test_a_lost_hand_out_can_be_deleted_after_the_window_was_dropped(one: OneShard) -> None:
    send_all(one, "abc")
    header = one.log.headers(c.Need(LANE, Lsn(0), Seq(2), Seq(2), 1))[0][0]
    one.drop_windows()
    one.do(c.Delete(LANE, Receipt(LANE, header.seq, header.epoch, header.lsn, 1)))
    assert [type(each) for each in one.written] == [record.Expired]
    assert one.bodies() == ["a", "c"]


def test_a_handle_of_a_message_aside_that_is_gone_deletes_nothing_else(one: OneShard) -> None:
    one.send("a")
    one.send("b", delay_s=1)
    one.send("c")
    one.advance(1)
    gone = next(each for each in one.receive(10, 0) if one.body(each) == "b")
    one.do(c.Delete(LANE, receipt_of(gone)))
    one.do(c.Delete(LANE, receipt_of(gone)))
    assert one.written == []
    assert one.do(c.Count(LANE)).visible == 2


def test_a_handle_beyond_the_last_message_deletes_nothing(one: OneShard) -> None:
    one.send("a")
    one.do(c.Delete(LANE, Receipt(LANE, Seq(99), Epoch(1), Lsn(1), 1)))
    assert one.written == []


# --- the way to another shard is full -----------------------------------------------------------------


def full_outbox(one: OneShard, config: LaneConfig) -> None:
    """A queue whose dead-letter queue cannot be reached, with one message on its way already."""
    one.configure(msgspec.structs.replace(config, redrive=Redrive(FAR, 1)))
    one.send("first", group="x" if config.kind is Kind.FIFO else "")
    one.receive(1, 0)
    one.receive(1, 0)
    assert len(one.shard.outboxes[FAR.shard].entries) == 1


def test_a_message_that_can_neither_go_nor_be_handed_out_is_not_forgotten() -> None:
    one = OneShard()
    with changed_limits({"OUTBOX_MAX": 1}):
        full_outbox(one, LaneConfig())
        send_all(one, "ab", time_to_live_s=5)
        one.send("c")
        one.advance(5)
        assert one.bodies(1) == ["c"]
        one.check()
        assert one.bodies() == []
    assert one.bodies() == []
    bodies = [one.log.message(each.header.at).content for each in one.shard.outboxes[FAR.shard].entries.values()]
    assert bodies == [b"first", b"a", b"b"]


def test_nobody_overtakes_a_fifo_message_that_cannot_go() -> None:
    one = OneShard()
    with changed_limits({"OUTBOX_MAX": 1}):
        full_outbox(one, FIFO)
        one.send("a", group="g", time_to_live_s=5)
        one.send("b", group="g")
        one.send("c", group="h")
        one.advance(5)
        assert one.bodies() == ["c"]
    assert one.bodies() == ["b"]


def test_a_lease_that_cannot_go_stays_until_there_is_room() -> None:
    one = OneShard()
    with changed_limits({"OUTBOX_MAX": 1}):
        full_outbox(one, LaneConfig())
        one.send("a", time_to_live_s=5)
        one.receive(1, 100)
        one.advance(5)
        assert one.do(c.Count(LANE)).in_flight == 1
    one.advance(1)
    assert one.do(c.Count(LANE)).in_flight == 0
    assert len(one.shard.outboxes[FAR.shard].entries) == 2


def test_a_message_whose_two_times_are_over_waits_for_its_way_to_the_dead_letter_queue() -> None:
    one = OneShard()
    with changed_limits({"OUTBOX_MAX": 1}):
        full_outbox(one, LaneConfig(retention_s=60))
        one.send("old")
        one.send("a", time_to_live_s=60)
        one.send("b")
        one.advance(60)
        assert one.do(c.Count(LANE)).visible == 2
    one.advance(1)
    assert one.do(c.Count(LANE)).visible == 0
    assert len(one.shard.outboxes[FAR.shard].entries) == 2


def test_a_move_task_waits_for_room() -> None:
    one = OneShard()
    with changed_limits({"OUTBOX_MAX": 1}):
        one.configure(LaneConfig())
        send_all(one, "ab")
        one.do(c.StartMove(LANE, "t", FAR))
        one.advance(1)
        assert one.do(c.Count(LANE)).visible == 1
    one.advance(1)
    assert one.do(c.Count(LANE)).visible == 0
    assert one.do(c.ListMoves(LANE)).tasks[0].state == "RUNNING"


# --- answers of other shards --------------------------------------------------------------------------


def refuse_all(one: OneShard) -> None:
    for number in list(one.shard.outboxes[FAR.shard].entries):
        one.do(c.Settle(FAR.shard, number, True))


def test_an_answer_to_nothing_is_ignored(one: OneShard) -> None:
    one.do(c.Settle(FAR.shard, 7, False))
    one.do(c.Settle(FAR.shard, 7, True))
    assert one.written == []


def test_a_refusal_for_a_deleted_queue_ends_the_message(one: OneShard) -> None:
    one.configure(LaneConfig(redrive=Redrive(FAR, 1)))
    one.send("a")
    one.receive(1, 0)
    one.receive(1, 0)
    one.do(c.Drop(LANE))
    refuse_all(one)
    assert one.shard.outboxes[FAR.shard].entries == {}
    one.check()


def test_a_refusal_of_an_older_task_does_not_fail_the_new_one(one: OneShard) -> None:
    send_all(one, "ab")
    one.do(c.StartMove(LANE, "old", FAR))
    one.advance(1)
    first, second = one.shard.outboxes[FAR.shard].entries
    one.do(c.Settle(FAR.shard, first, True))
    assert [each.state for each in one.do(c.ListMoves(LANE)).tasks] == ["FAILED"]
    one.do(c.StartMove(LANE, "new", Address(ShardId(3), LaneId(8))))
    one.do(c.Settle(FAR.shard, second, True))
    new, old = one.do(c.ListMoves(LANE)).tasks
    assert (new.state, old.state) == ("RUNNING", "FAILED")
    one.advance(1)
    for number in list(one.shard.outboxes[ShardId(3)].entries):
        one.do(c.Settle(ShardId(3), number, False))
    one.advance(1)
    new, old = one.do(c.ListMoves(LANE)).tasks
    assert (new.state, new.moved, old.moved) == ("COMPLETED", 2, 0)


def test_an_older_task_still_counts_what_arrives_late(one: OneShard) -> None:
    send_all(one, "ab")
    one.do(c.StartMove(LANE, "old", FAR))
    one.advance(1)
    first, second = one.shard.outboxes[FAR.shard].entries
    one.do(c.Settle(FAR.shard, first, True))
    one.do(c.StartMove(LANE, "new", Address(ShardId(3), LaneId(8))))
    one.do(c.Settle(FAR.shard, second, False))
    new, old = one.do(c.ListMoves(LANE)).tasks
    assert (new.moved, old.moved) == (0, 1)


def test_a_list_of_tasks_forgets_the_oldest(one: OneShard) -> None:
    for number in range(12):
        one.do(c.StartMove(LANE, f"t{number}", FAR))
        one.advance(1)
    names = [each.task for each in one.do(c.ListMoves(LANE)).tasks]
    assert names == [f"t{number}" for number in range(11, 1, -1)]


def test_a_failed_move_goes_to_the_other_dead_letter_queue_if_there_is_one(one: OneShard) -> None:
    one.configure(LaneConfig(redrive=Redrive(Address(ShardId(3), LaneId(8)), 5)))
    one.send("a")
    one.do(c.StartMove(LANE, "t", FAR))
    one.advance(1)
    refuse_all(one)
    (entry,) = one.shard.outboxes[ShardId(3)].entries.values()
    assert entry.cause is Cause.TARGET_GONE
    one.check()


def test_a_task_passes_over_what_came_after_it_began_also_when_that_is_not_in_memory() -> None:
    """The only candidate is then what has to be loaded, which is more than the task asks for."""
    one = OneShard()
    one.configure(LaneConfig(kind=Kind.FIFO))
    one.send("old", group="g", deduplication_id="1")
    one.do(c.StartMove(LANE, "t", FAR))
    one.advance(1)
    one.send("new", group="g", deduplication_id="2")
    one.drop_windows()
    one.advance(1)
    assert [task.state for task in one.do(c.ListMoves(LANE)).tasks] == ["RUNNING"]
    assert one.bodies() == ["new"]


def test_old_refusals_are_forgotten_when_nobody_can_ask_for_them() -> None:
    inbox = Inbox()
    with changed_limits({"OUTBOX_IN_FLIGHT": 2}):
        for number in range(1, 8):
            inbox.note(number, is_refused=True)
    assert list(inbox.refused) == [3, 4, 5, 6, 7]


def test_a_hand_over_that_comes_too_early_is_sent_again_later(one: OneShard) -> None:
    other = OneShard(2)
    other.configure(LaneConfig(redrive=Redrive(Address(ShardId(1), LANE), 1)))
    handover = c.Handover(ShardId(2), 2, LANE, 0, 1, 0, 0, 0, 0, Cause.RECEIVES, WallMs(0), b"i" * 16, b"a")
    refusal = one.refusal(c.Arrive(handover))
    assert refusal is not None
    assert refusal.status == 503
    one.do(c.Arrive(msgspec.structs.replace(handover, number=1)))
    one.do(c.Arrive(handover))
    assert one.bodies() == ["a", "a"]


# --- compaction ---------------------------------------------------------------------------------------


def move_all(one: OneShard) -> None:
    end = Lsn(one.shard.lsn + 1)
    one.do(c.Compact(tuple(one.log.messages_before(end))))
    one.log.forget_before(end)


def test_everything_that_lives_survives_the_removal_of_its_bytes(one: OneShard) -> None:
    send_all(one, "abc")
    one.send("d", delay_s=60)
    one.send("e", group="g")
    leased = one.receive(1, 100)
    deleted = one.receive(1, 100)
    one.do(c.Delete(LANE, receipt_of(deleted[0])))
    move_all(one)
    assert len(one.written) == 4
    one.check()
    one.drop_windows()
    assert drain(one) == ["c", "e"]
    one.advance(1000)
    assert drain(one) == ["a", "c", "d", "e"]
    one.do(c.Delete(LANE, receipt_of(leased[0])))
    assert one.do(c.Count(LANE)).in_flight == 3


def test_messages_are_moved_again_and_again(one: OneShard) -> None:
    send_all(one, "abcde")
    for _ in range(3):
        move_all(one)
        one.check()
    one.restart()
    assert one.bodies() == list("abcde")


def test_what_is_dead_or_moved_already_is_not_moved(one: OneShard) -> None:
    one.send("a")
    one.send("b", delay_s=60)
    one.send("c")
    old = tuple(one.log.messages_before(Lsn(100)))
    one.do(c.Compact(old))
    assert len(one.written) == 3
    one.do(c.Compact(old))
    assert one.written == []
    for each in one.receive(10):
        one.do(c.Delete(LANE, receipt_of(each)))
    one.do(c.Purge(LANE, "q"))
    one.do(c.Compact(tuple(one.log.messages_before(Lsn(100)))))
    assert one.written == []
    one.do(c.Drop(LANE))
    one.do(c.Compact(tuple(one.log.messages_before(Lsn(100)))))
    assert one.written == []


def test_an_arrived_message_keeps_its_id_and_cause_when_it_is_moved(one: OneShard) -> None:
    handover = c.Handover(ShardId(2), 1, LANE, 0, 1, 5_000_000, 0, 3, 77, Cause.RECEIVES, WallMs(9), b"i" * 16, b"a")
    one.do(c.Arrive(handover))
    before = one.receive(1, 0)[0]
    move_all(one)
    after = one.receive(1, 0)[0]
    message = one.log.message(after.header.at)
    assert isinstance(message, record.Moved)
    assert (message.message_id, message.cause, message.wall) == (b"i" * 16, Cause.RECEIVES, 9)
    assert (after.header.origin, after.count, after.header.time) == (77, before.count + 1, before.header.time)


def test_messages_on_their_way_keep_their_bytes_alive(one: OneShard) -> None:
    one.configure(LaneConfig(redrive=Redrive(FAR, 1)))
    one.send("a")
    assert one.shard.live == {0: 1}
    one.receive(1, 0)
    one.receive(1, 0)
    assert one.do(c.Count(LANE)).visible == 0
    assert one.shard.live == {0: 1}
    one.do(c.Settle(FAR.shard, 1, False))
    assert one.shard.live == {}


# --- time ---------------------------------------------------------------------------------------------


def test_a_lease_is_never_shorter_than_asked(one: OneShard) -> None:
    one.time = Instant(12_345)
    one.send("a")
    one.receive(1, 1)
    one.time = Instant(12_345 + 999_999)
    assert one.bodies() == []
    one.time = on_grid(12_345 + 1_000_000)
    assert one.bodies() == ["a"]


def test_time_in_steps_and_time_at_once_give_the_same_state() -> None:
    def run(steps: list[float]) -> bytes:
        one = OneShard()
        one.configure(LaneConfig(retention_s=3600, delay_s=2))
        for body in "abcdef":
            one.send(body, group="g" if body < "d" else "")
            one.send(body.upper(), delay_s=ord(body) - 95)
        one.time = Instant(9_000_000)
        one.receive(3, 4)
        one.receive(2, 7)
        for step in steps:
            one.time = Instant(one.time + round(step * 1_000_000))
            one.shard.begin(one.log.epoch, one.time, one.wall)
        return one.shard.dump()

    assert run([20]) == run([0.5] * 40) == run([4, 3.001, 12.999])


def test_an_overflow_leaves_nothing_behind_in_a_standard_queue(one: OneShard) -> None:
    one.configure(LaneConfig(messages_max=1, overflow_to_dead_letter=True, redrive=Redrive(FAR, 5)))
    send_all(one, "abcdef")
    lane = one.shard.lanes[LANE]
    assert (len(lane.backlog.gone), lane.aside, len(one.shard.outboxes[FAR.shard].entries)) == (0, None, 5)
    one.drop_windows()
    assert one.bodies() == ["a"]
    one.check()


def test_the_time_that_tenants_spent_is_forgotten(one: OneShard) -> None:
    for _ in range(5):
        one.send("a", group="g")
        one.do(c.Delete(LANE, receipt_of(one.receive(1, 30)[0])))
        one.time = Instant(one.time + 300_000_000)
    tenants = one.shard.lanes[LANE].tenants
    assert tenants is not None
    assert len(tenants.spent) <= 2


def test_many_alarms_that_are_out_of_date_do_not_pile_up(one: OneShard) -> None:
    one.send("a")
    one.receive(1, 43_000)
    handle = receipt_of(c.Delivered(one.shard.lanes[LANE].leases[Seq(1)].header(Seq(1)), 1, 1, WallMs(0)))
    for timeout in range(3000, 0, -1):
        one.do(c.ChangeVisibility(LANE, handle, timeout))
    assert len(one.shard._alarms) < 1100
    one.time = Instant(1_000_000)
    assert one.bodies() == ["a"]


def test_a_timer_that_was_cancelled_does_not_fire() -> None:
    wheel = Wheel()
    wheel.cancel(Instant(50_000), Seq(1))
    wheel.add(Instant(50_000), Seq(1))
    wheel.add(Instant(50_000), Seq(2))
    wheel.cancel(Instant(50_000), Seq(1))
    assert wheel.first() == 50_000
    assert wheel.pop(Instant(50_000)) == [2]
    assert wheel.pop(Instant(1 << 50)) == []


def test_ids_and_attempts_that_nobody_uses_are_forgotten(fifo: OneShard) -> None:
    fifo.send("a", group="g")
    fifo.receive(1, 30, attempt="x")
    before = fifo.shard.lanes[LANE]
    assert (before.dedup is not None, len(before.attempts)) == (True, 1)
    fifo.time = Instant(400_000_000)
    fifo.tick()
    after = fifo.shard.lanes[LANE]
    assert (after.dedup is not None, len(after.attempts)) == (False, 0)


# --- state as bytes -----------------------------------------------------------------------------------


def test_a_state_of_another_version_or_of_other_bytes_is_refused(one: OneShard) -> None:
    data = state.decode(one.shard.dump())
    data.version = 99
    with pytest.raises(ValueError, match="version 99"):
        Shard.restore(state.encode(data))
    with pytest.raises(ValueError, match="cannot be read"):
        Shard.restore(b"rubbish")


def test_a_running_task_goes_on_after_a_restart(one: OneShard) -> None:
    one.send("a")
    one.do(c.StartMove(LANE, "t", FAR))
    one.log.keep_snapshot()
    one.restart()
    one.advance(1)
    assert len(one.shard.outboxes[FAR.shard].entries) == 1


def test_a_lease_whose_retention_ended_does_not_hold_up_others_after_a_restart(one: OneShard) -> None:
    one.configure(LaneConfig(retention_s=60))
    one.send("old")
    one.time = Instant(50_000_000)
    one.send("new")
    one.receive(1, 3600)
    one.receive(1, 30)
    one.time = Instant(61_000_000)
    one.shard.begin(one.log.epoch, one.time, one.wall)
    one.log.frames[-1].now = one.time  # the last frame was written after the first message had ended
    one.log.keep_snapshot()
    one.restart()
    one.advance(0)
    assert one.do(c.Count(LANE)).in_flight == 1
    one.advance(20)
    assert one.bodies() == ["new"]


def test_an_old_first_message_does_not_stop_the_timers_of_its_lane(one: OneShard) -> None:
    """The first stretch of the log began long ago; the message that began it is gone."""
    one.configure(LaneConfig(retention_s=60))
    one.send("old")
    one.time = Instant(55_000_000)
    send_all(one, "ab")
    one.do(c.Delete(LANE, receipt_of(one.receive(1, 1)[0])))
    assert one.bodies(1, 10) == ["a"]
    one.drop_windows()
    one.advance(10)
    assert sorted(one.bodies()) == ["a", "b"]


def test_a_shared_table_cannot_be_written() -> None:
    with pytest.raises(TypeError):
        UNTOUCHED["key"] = 1
    with pytest.raises(TypeError):
        UNTOUCHED.update({"key": 1})
    assert own(UNTOUCHED) is not UNTOUCHED
    mine = {1: 2}
    assert own(mine) is mine
