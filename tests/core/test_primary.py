"""The primary of one shard: answers wait for the disk, clients are served in their order, loads are asked for once."""

from typing import cast

import pytest

from holdfast.core.errors import (
    InvalidParameterValue,
    NoRoom,
    NotPrimary,
    OutcomeUnknown,
    OverLimit,
    Overloaded,
    QueueDoesNotExist,
    ReceiptHandleIsInvalid,
)
from holdfast.core.limits import LOBBY_BYTES_MAX, LOBBY_INTERVAL, SECOND
from holdfast.core.log.journal import Journal
from holdfast.core.log.primary import Primary, Reply
from holdfast.core.queue import command as c
from holdfast.core.queue.codec import decode
from holdfast.core.queue.columns import SendAll
from holdfast.core.queue.command import Delivery, Need
from holdfast.core.queue.poll import Polls, Waiter
from holdfast.core.queue.record import Deleted
from holdfast.core.queue.shard import Shard
from holdfast.core.types import Instant, Kind, LaneConfig, LaneId, Lsn, Receipt, Seq, ShardId, WallMs
from tests.core.memory_disk import Plain
from tests.scenarios.memory_log import MemoryLog
from tests.scenarios.world import changed_limits

LANE, OTHER = LaneId(1), LaneId(2)


def send(body: bytes, group: str = "") -> c.Send:
    return c.Send(LANE, body, body, len(body), group)


class Lead:
    """A primary and what its host does for it, one step at a time."""

    def __init__(self, config: LaneConfig | None = None) -> None:
        self.log = MemoryLog(ShardId(1))
        self.primary = Primary(Shard(ShardId(1)), cast(Journal, self.log))
        self.time = 0
        self.ask(c.Configure(LANE, config or LaneConfig()), "made")
        assert [token for token, _ in self.sync()] == ["made"]

    @property
    def own(self) -> Instant:
        return Instant(self.time * SECOND)

    @property
    def wall(self) -> WallMs:
        return WallMs(self.time * 1000)

    def ask(self, command: c.Command, token: object, wait_s: int = 0) -> None:
        self.primary.submit(command, token, self.own, self.wall, wait_s=wait_s)

    def send(self, body: bytes, token: object = "send", *, group: str = "") -> None:
        self.ask(send(body, group), token)

    def tick(self) -> None:
        self.primary.tick(self.own, self.wall)

    def sync(self) -> list[Reply]:
        """One flush, if there is something to write; then what may leave."""
        if self.primary.flush():
            self.primary.synced()
        self.tick()
        return self.primary.replies()

    def load(self) -> int:
        needs = self.primary.needs()
        for need in needs:
            self.primary.loaded(need, *self.log.headers(need), self.own, self.wall)
        return len(needs)

    def drop_windows(self) -> None:
        for lane in self.primary.shard.lanes.values():
            lane.backlog.window = None


def bodies(lead: Lead, replies: list[Reply]) -> dict[object, list[bytes]]:
    return {
        token: [lead.log.message(each.header.at).content for each in answer.messages]
        for token, answer in replies
        if isinstance(answer, Delivery)
    }


# --- answers ------------------------------------------------------------------------------------------


def test_an_answer_leaves_when_its_frame_is_synced_and_not_when_an_older_one_is() -> None:
    lead = Lead()
    lead.send(b"a", "a")
    assert lead.primary.flush()
    lead.send(b"b", "b")
    assert lead.primary.flush() == ()
    assert lead.primary.replies() == []
    lead.primary.synced()
    assert [token for token, _ in lead.primary.replies()] == ["a"]
    assert lead.primary.flush()
    lead.primary.synced()
    assert [token for token, _ in lead.primary.replies()] == ["b"]


def test_an_answer_that_wrote_nothing_waits_for_what_was_written_before() -> None:
    lead = Lead()
    lead.send(b"a", "send")
    lead.ask(c.Count(LANE), "count")
    lead.ask(c.Count(LaneId(99)), "refused")
    assert lead.primary.replies() == []
    replies = lead.sync()
    assert [token for token, _ in replies] == ["send", "count", "refused"]
    assert isinstance(replies[2][1], QueueDoesNotExist)


def test_an_answer_that_waits_for_nothing_leaves_at_once() -> None:
    lead = Lead()
    lead.ask(c.Count(LANE), "count")
    assert [token for token, _ in lead.primary.replies()] == ["count"]


def test_the_outcomes_of_a_batch_leave_together_and_in_its_order() -> None:
    lead = Lead(LaneConfig(messages_max=2))
    sends = [c.Send(LANE, body, body, len(body)) for body in (b"a", b"b", b"c")]
    lead.primary.submit_all(sends, "batch", lead.own, lead.wall)
    assert lead.primary.replies() == []
    ((token, outcomes),) = lead.sync()
    assert token == "batch"
    assert [type(outcome) for outcome in cast(list[object], outcomes)] == [c.Accepted, c.Accepted, OverLimit]


def test_a_batch_leaves_the_same_log_as_its_commands_one_by_one() -> None:
    sends = [c.Send(LANE, b"a", b"a", 1), c.Send(LaneId(99), b"b", b"b", 1), c.Send(LANE, b"c", b"c", 1, delay_s=5)]
    batch, single = Lead(), Lead()
    batch.primary.submit_all(sends, "batch", batch.own, batch.wall)
    for send in sends:
        single.ask(send, "single")
    assert [frame.records for frame in batch.log.frames] == [frame.records for frame in single.log.frames]
    assert batch.primary.shard.dump() == single.primary.shard.dump()


def test_a_batch_waits_for_the_headers_that_one_of_its_deletes_needs() -> None:
    lead = Lead()
    lead.send(b"a")
    lead.send(b"b")
    accepted = [cast(c.Accepted, answer) for _, answer in lead.sync()]
    lead.drop_windows()
    deletes = [c.Delete(LANE, Receipt(LANE, each.seq, each.epoch, each.lsn, 1)) for each in accepted]
    deletes.insert(1, c.Delete(LaneId(99), deletes[0].receipt))
    lead.primary.submit_all(deletes, "batch", lead.own, lead.wall)
    assert lead.sync() == []
    assert lead.load() == 2
    ((token, outcomes),) = lead.sync()
    assert token == "batch"
    assert [type(outcome) for outcome in cast(list[object], outcomes)] == [c.Done, QueueDoesNotExist, c.Done]
    assert lead.primary.shard.lanes[LANE].count == 0


def test_a_batch_of_deletes_is_one_record_and_refuses_what_each_alone_would() -> None:
    lead = Lead()
    for body in (b"a", b"b", b"c", b"d"):
        lead.send(body)
    lead.sync()
    lead.ask(c.Receive(LANE, 4), "receive")
    ((_, delivery),) = lead.sync()
    first, second, third, fourth = [
        Receipt(LANE, each.header.seq, each.header.epoch, each.header.lsn, each.number)
        for each in cast(Delivery, delivery).messages
    ]
    wrong = Receipt(LANE, fourth.seq, fourth.epoch, Lsn(fourth.lsn + 1), fourth.number)
    gone = Receipt(LANE, Seq(99), fourth.epoch, Lsn(99), 1)
    deletes = [c.Delete(LANE, each) for each in (first, first, wrong, gone, third)]
    lead.primary.submit_all([*deletes, c.Delete(LaneId(99), second)], "batch", lead.own, lead.wall)
    ((_, outcomes),) = lead.sync()
    kinds = [c.Done, c.Done, ReceiptHandleIsInvalid, c.Done, c.Done, QueueDoesNotExist]
    assert [type(outcome) for outcome in cast(list[object], outcomes)] == kinds
    assert [decode(data) for data in lead.log.frames[-1].records] == [Deleted(LANE, (first.seq, third.seq))]
    assert list(lead.primary.shard.lanes[LANE].leases) == [second.seq, fourth.seq]
    lead.log.assert_replayable(lead.primary.shard)


def test_a_batch_of_deletes_on_a_fifo_queue_takes_only_current_receipts() -> None:
    lead = Lead(LaneConfig(kind=Kind.FIFO))
    for number in ("1", "2"):
        lead.ask(c.Send(LANE, b"a", b"a", 1, group="g", deduplication_id=number), "send")
    lead.sync()
    lead.ask(c.Receive(LANE, 2), "receive")
    ((_, delivery),) = lead.sync()
    receipts = [
        Receipt(LANE, each.header.seq, each.header.epoch, each.header.lsn, number)
        for each, number in zip(cast(Delivery, delivery).messages, (1, 2), strict=True)
    ]
    lead.primary.submit_all([c.Delete(LANE, each) for each in receipts], "batch", lead.own, lead.wall)
    ((_, outcomes),) = lead.sync()
    assert [type(outcome) for outcome in cast(list[object], outcomes)] == [c.Done, InvalidParameterValue]
    assert list(lead.primary.shard.lanes[LANE].leases) == [receipts[1].seq]


def test_every_record_is_applied_at_the_time_of_its_frame() -> None:
    lead = Lead()
    lead.send(b"a")
    lead.send(b"b")
    lead.time = 5
    lead.send(b"c")
    lead.sync()
    frames = [(frame.now, len(frame.records)) for frame in lead.log.frames]
    assert frames == [(0, 1), (0, 2), (5 * SECOND, 1)]
    lead.log.assert_replayable(lead.primary.shard)


def test_own_time_that_goes_back_does_not_take_cluster_time_with_it() -> None:
    lead = Lead()
    lead.time = 10
    lead.send(b"a")
    lead.sync()
    lead.time = 3
    lead.send(b"b")
    lead.sync()
    assert [frame.now for frame in lead.log.frames[1:]] == [10 * SECOND, 10 * SECOND]


def test_compaction_may_use_the_reserve_that_sends_may_not() -> None:
    lead = Lead()
    lead.send(b"a")
    lead.sync()
    lead.log.is_full = True
    found = tuple(lead.log.messages_before(lead.log.next_lsn))
    lead.ask(c.Compact(found), "compact")
    lead.send(b"b")
    answers = dict(lead.sync())
    assert isinstance(answers["compact"], c.Done)
    assert isinstance(answers["send"], NoRoom)
    lead.log.is_used_up = True  # and full, still
    lead.ask(c.Compact(found), "again")
    assert isinstance(dict(lead.sync())["again"], NoRoom)


def test_sends_wait_for_the_next_segment_in_their_order() -> None:
    lead = Lead()
    lead.log.is_between = True
    lead.send(b"a", "a")
    lead.primary.submit_all([send(b"b"), send(b"c")], "b and c", lead.own, lead.wall)
    lead.send(b"d", "d")
    lead.ask(c.Receive(LANE), "receive")
    assert [token for token, _ in lead.sync()] == ["receive"]
    lead.log.is_between = False
    lead.tick()
    answers = dict(lead.sync())
    one, (two, three), four = answers["a"], cast(list[object], answers["b and c"]), answers["d"]
    accepted = [cast(c.Accepted, each).seq for each in (one, two, three, four)]
    assert accepted == sorted(accepted)
    lead.ask(c.Receive(LANE, 10), "receive")
    assert bodies(lead, lead.sync()) == {"receive": [b"a", b"b", b"c", b"d"]}


def test_it_is_looked_soon_whether_the_next_segment_is_there() -> None:
    lead = Lead()
    lead.log.is_between = True
    lead.time = 100
    lead.tick()
    lead.send(b"a")
    looked = lead.own
    for _ in range(3):
        due = lead.primary.deadline()
        assert looked < due <= looked + LOBBY_INTERVAL
        lead.primary.tick(due, lead.wall)
        looked = due


def test_sends_that_wait_for_a_segment_that_cannot_be_made_are_told_that_the_disk_is_full() -> None:
    lead = Lead()
    lead.log.is_between = True
    lead.send(b"a")
    lead.log.is_between, lead.log.is_full = False, True
    lead.tick()
    assert isinstance(dict(lead.sync())["send"], NoRoom)


def test_only_so_much_waits_for_the_next_segment() -> None:
    lead = Lead()
    lead.log.is_between = True
    large = bytes(LOBBY_BYTES_MAX // 4)
    for number in range(4):
        lead.send(large, number)
    lead.send(b"a")
    lead.primary.submit_all([send(b"b"), send(b"c")], "batch", lead.own, lead.wall)
    answers = dict(lead.sync())
    assert isinstance(answers.pop("send"), Overloaded)
    assert [type(each) for each in cast(list[object], answers.pop("batch"))] == [Overloaded, Overloaded]
    assert not answers
    lead.log.is_between = False
    lead.tick()
    assert [token for token, _ in lead.sync()] == [0, 1, 2, 3]
    lead.log.is_between = True
    lead.send(large, "again")
    assert lead.sync() == []


def test_columns_are_not_taken_where_their_messages_would_wait_or_be_refused() -> None:
    lead = Lead()
    lead.log.is_between = True
    columns = SendAll(LANE, [b"b", b"c"], [b"b", b"c"], [1, 1])
    assert lead.primary.submit_plain(columns, "batch", lead.own, lead.wall) is None
    lead.log.is_between = False
    with changed_limits({"REPLIES_MAX": 1}):
        lead.send(b"a")
        assert lead.primary.submit_plain(columns, "batch", lead.own, lead.wall) is None
    assert [token for token, _ in lead.sync()] == ["send"]


def test_who_sent_columns_that_another_host_may_have_is_told_so_for_each_message() -> None:
    lead = Lead()
    columns = SendAll(LANE, [b"b", b"c"], [b"b", b"c"], [1, 1])
    assert lead.primary.submit_plain(columns, "batch", lead.own, lead.wall) is not None
    ((_, answers),) = lead.primary.abandon()
    assert [type(each) for each in cast(list[object], answers)] == [OutcomeUnknown, OutcomeUnknown]


def test_sends_that_wait_when_another_host_takes_over_were_not_done() -> None:
    lead = Lead()
    lead.log.is_between = True
    lead.send(b"a")
    lead.primary.submit_all([send(b"b"), send(b"c")], "batch", lead.own, lead.wall)
    answers = dict(lead.primary.abandon())
    assert type(answers["send"]) is NotPrimary
    assert [type(each) for each in cast(list[object], answers["batch"])] == [NotPrimary, NotPrimary]
    lead.log.is_between = False
    assert lead.sync() == []


# --- those who wait -----------------------------------------------------------------------------------


def test_a_waiting_client_is_served_by_the_sync_that_commits_its_message() -> None:
    lead = Lead()
    lead.ask(c.Receive(LANE), "w", wait_s=20)
    lead.send(b"a")
    assert "w" not in dict(lead.sync())
    assert bodies(lead, lead.sync()) == {"w": [b"a"]}


def test_a_cancelled_client_takes_nothing() -> None:
    lead = Lead()
    lead.ask(c.Receive(LANE), "w", wait_s=20)
    lead.primary.cancel("w")
    lead.primary.cancel("w")
    lead.send(b"a")
    assert [token for token, _ in lead.sync()] == ["send"]
    assert lead.sync() == []
    assert lead.primary.shard.lanes[LANE].counts(lead.own).visible == 1
    assert not lead.primary.shard.lanes[LANE].is_watched


def test_a_client_that_is_cancelled_while_headers_are_loaded_takes_nothing() -> None:
    lead = Lead()
    lead.send(b"a")
    lead.sync()
    lead.drop_windows()
    lead.ask(c.Receive(LANE), "gone")
    lead.ask(c.Receive(LANE), "here")
    lead.primary.cancel("gone")
    assert lead.load() == 1
    assert bodies(lead, lead.sync()) == {"here": [b"a"]}


def test_the_same_headers_are_asked_for_once() -> None:
    lead = Lead()
    lead.send(b"a")
    lead.send(b"b")
    lead.sync()
    lead.drop_windows()
    lead.ask(c.Receive(LANE), "one")
    lead.ask(c.Receive(LANE), "two")
    assert len(lead.primary.needs()) == 1
    assert lead.primary.needs() == []


def test_clients_of_different_queues_do_not_serve_each_other() -> None:
    lead = Lead()
    lead.ask(c.Configure(OTHER, LaneConfig()), None)
    lead.ask(c.Receive(LANE), "w", wait_s=20)
    lead.ask(c.Receive(OTHER), "o", wait_s=20)
    lead.send(b"a")
    lead.sync()
    assert bodies(lead, lead.sync()) == {"w": [b"a"]}
    lead.time = 20
    lead.tick()
    assert bodies(lead, lead.sync()) == {"o": []}


def test_a_waiting_client_has_its_headers_loaded() -> None:
    lead = Lead(LaneConfig(delay_s=10))
    lead.send(b"a")
    lead.sync()
    lead.ask(c.Receive(LANE), "w", wait_s=20)
    lead.drop_windows()
    lead.time = 10
    lead.tick()
    assert lead.load() == 1
    assert bodies(lead, lead.sync()) == {"w": [b"a"]}


def test_who_waits_behind_a_held_group_costs_no_time() -> None:
    lead = Lead(LaneConfig(kind=Kind.FIFO, content_deduplication=True))
    lead.send(b"a", group="g")
    lead.send(b"b", group="g")
    lead.sync()
    lead.ask(c.Receive(LANE, 1, 600), "r")
    lead.ask(c.Receive(LANE), "w", wait_s=20)
    lead.sync()
    lead.sync()
    deadline = lead.primary.deadline()
    assert deadline >= lead.own + SECOND


def test_a_tick_comes_every_second_and_at_every_end() -> None:
    lead = Lead()
    assert lead.primary.deadline() == SECOND
    lead.time = 5
    lead.tick()
    assert lead.primary.deadline() == 6 * SECOND
    lead.send(b"a")
    lead.sync()
    lead.ask(c.Receive(LANE, 1, 1), "r")
    lead.ask(c.Receive(LANE), "w", wait_s=20)
    lead.sync()
    lead.primary.tick(Instant(5_900_000), lead.wall)
    assert lead.primary.deadline() == 6 * SECOND


def test_everybody_can_be_sent_away() -> None:
    lead = Lead()
    for token in ("a", "b"):
        lead.ask(c.Receive(LANE), token, wait_s=20)
    assert [waiter.token for waiter in lead.primary.polls.drain()] == ["a", "b"]


def test_a_table_of_waiters_forgets_those_who_left() -> None:
    polls = Polls()
    early, late = (Waiter(token, c.Receive(LANE), Instant(until)) for token, until in (("early", 5), ("late", 9)))
    assert polls.add(early)
    assert polls.add(late)
    assert polls.remove("early") is early
    assert polls.remove("early") is None
    assert polls.has(LANE)
    assert polls.first(LANE) is late
    assert polls.deadline() == 9
    assert polls.expired(Instant(9)) == [late]
    assert polls.remove("late") is late
    assert not polls.has(LANE)
    assert polls.first(LANE) is None
    assert polls.deadline() is None


def test_the_tests_cipher_notices_what_was_changed() -> None:
    """Replay in these tests proves something only if reading wrong bytes fails."""
    cipher = Plain()
    sealed = cipher.seal(1, 2, b"content", b"clear")
    assert cipher.open(1, 2, sealed, b"clear") == b"content"
    with pytest.raises(ValueError, match="not what was sealed"):
        cipher.open(1, 3, sealed, b"clear")


def test_needs_of_a_dropped_lane_end_with_a_refusal() -> None:
    lead = Lead()
    lead.send(b"a")
    lead.sync()
    lead.drop_windows()
    lead.ask(c.Receive(LANE), "r")
    lead.ask(c.Drop(LANE), "drop")
    assert isinstance(lead.primary.needs()[0], Need)
    lead.primary._asked.clear()
    lead.load()
    assert isinstance(dict(lead.sync())["r"], QueueDoesNotExist)


# --- time ---------------------------------------------------------------------------------------------


def test_a_long_backlog_that_has_expired_goes_without_waiting_for_the_next_second() -> None:
    lead = Lead(LaneConfig(retention_s=60))
    for number in range(3000):
        lead.send(b"%d" % number)
    lead.sync()
    lead.time = 61
    steps = 0
    while lead.primary.deadline() <= lead.own:
        lead.sync()
        lead.load()
        steps += 1
        assert steps < 100, "it never comes to rest"
    assert lead.primary.shard.lanes[LANE].count == 0
    assert steps > 3, "one step has a bound"


def test_who_asks_in_the_moment_when_a_lease_ends_does_not_overtake_who_waits() -> None:
    lead = Lead()
    lead.send(b"a")
    lead.sync()
    lead.ask(c.Receive(LANE, 1, 10), "first")
    lead.sync()
    lead.ask(c.Receive(LANE, 1, 10), "waits", wait_s=20)
    lead.sync()
    lead.time = 10
    lead.ask(c.Receive(LANE, 1, 10), "late")
    assert bodies(lead, lead.sync()) == {"waits": [b"a"], "late": []}
