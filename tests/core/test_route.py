"""Where a front-end sends what, and what it does when hosts fail: schedules by hand."""

import msgspec

from holdfast.core.cluster import calls
from holdfast.core.cluster.parts import join
from holdfast.core.cluster.table import KEY_MAX, LaneRow, Layout, Model, Phase, layout_key, put_layout
from holdfast.core.coordination.catalogue import queue_key
from holdfast.core.coordination.cluster import ShardState
from holdfast.core.coordination.store import Delete
from holdfast.core.errors import (
    InvalidParameterValue,
    LaneDraining,
    NotPrimary,
    OutcomeUnknown,
    Overloaded,
    PurgeQueueInProgress,
    QueueDoesNotExist,
    ReceiptHandleIsInvalid,
)
from holdfast.core.limits import CALL_PATIENCE, ROUTE_PATIENCE, SECOND
from holdfast.core.queue import command as c
from holdfast.core.queue.dedup import group_of
from holdfast.core.types import Address, Counts, LaneId, QueueName, ShardId
from tests.core.front import HOSTS, Front, accepted, delivery, moves_to, receipt
from tests.core.test_table import QUEUE

A, B, C, *_ = HOSTS
HALF = KEY_MAX // 2


def lanes_of(call: calls.Call) -> list[int]:
    return [each.lane for each in call.commands]  # type: ignore[union-attr]


def request_of(call: calls.Call, index: int = 0) -> c.Request:
    request = call.commands[index].request  # type: ignore[union-attr]
    assert isinstance(request, c.Request)
    return request


def split(*phases: Phase, former: tuple[int, ...] = ()) -> Layout:
    """Lane 1 for all keys; lanes 2 and 3 for the lower and the upper half."""
    ranges = ((0, KEY_MAX), (0, HALF), (HALF + 1, KEY_MAX))
    rows = [
        LaneRow(LaneId(n), ShardId(n), phase, *ranges[n - 1], (LaneId(1),) if n > 1 else ())
        for n, phase in enumerate(phases, 1)
    ]
    return Layout(tuple(rows), Model.PRIMARY, tuple(map(LaneId, former)))


def groups_of_both_halves() -> tuple[str, str]:
    names = [f"g{n}" for n in range(50)]
    return (
        next(name for name in names if group_of(name) <= HALF),
        next(name for name in names if group_of(name) > HALF),
    )


# --- sends --------------------------------------------------------------------------------------------


def test_a_send_goes_to_the_leader_in_its_epoch_under_an_id_of_its_own() -> None:
    front = Front()
    (call,) = front.send("m")
    assert (call.host, call.shard, call.epoch, lanes_of(call)) == (A, 1, 1, [1])
    assert request_of(call) == c.Request(b"frontend" + (1).to_bytes(8), 0)
    assert front.answer(call, accepted(7)) == []
    assert front.replies[1] == (calls.Placed(accepted(7), Address(ShardId(1), LaneId(1))),)


def test_a_standard_send_goes_to_a_lane_by_chance() -> None:
    front = Front(3)
    front.chosen = [2, 0, 1]
    assert [front.send("m")[0].host for _ in range(3)] == [C, A, B]


def test_a_batch_is_split_over_lanes_and_joined_in_its_order() -> None:
    front = Front(2)
    front.chosen = [1, 0, 1]
    second, first = front.send("x", "y", "z")
    assert (lanes_of(second), lanes_of(first)) == ([2, 2], [1])
    assert front.answer(first, accepted(20)) == []
    assert 1 not in front.replies
    front.answer(second, accepted(10), accepted(30))
    assert [each.outcome for each in front.replies[1]] == [accepted(10), accepted(20), accepted(30)]
    assert [each.address.lane for each in front.replies[1] if each.address] == [2, 1, 2]


def test_a_fifo_message_goes_to_the_lane_of_its_group() -> None:
    front = Front(3)
    front.change(put_layout(QUEUE, split(Phase.DRAINING, Phase.OPEN, Phase.OPEN)))
    low, high = groups_of_both_halves()
    assert lanes_of(front.send("m", "n", group=low, is_fifo=True)[0]) == [2, 2]
    assert lanes_of(front.send("m", group=high, is_fifo=True)[0]) == [3]


def test_equal_contents_meet_in_one_lane_where_they_are_deduplicated() -> None:
    front = Front(3)
    front.change(put_layout(QUEUE, split(Phase.DRAINING, Phase.OPEN, Phase.OPEN)))
    lanes = {body: lanes_of(front.send(body, is_deduplicated=True)[0]) for body in "abcdefgh"}
    assert {body: lanes_of(front.send(body, is_deduplicated=True)[0]) for body in "abcdefgh"} == lanes
    assert sorted(set(map(tuple, lanes.values()))) == [(2,), (3,)]


def test_a_queue_that_does_not_exist_is_said_not_to_exist_for_every_entry() -> None:
    front = Front()
    nowhere = calls.Asked("t", QueueName("1", "other"), calls.SendAll((c.Send(LaneId(0), b"", b"", 0),) * 2))
    front.step(nowhere)
    assert [type(each.outcome) for each in front.replies["t"]] == [QueueDoesNotExist] * 2


# --- hosts that refuse --------------------------------------------------------------------------------


def test_a_hint_is_followed_at_once() -> None:
    front = Front()
    (call,) = front.send("m")
    (again,) = front.answer(call, NotPrimary(host=B, epoch=4))
    assert (again.host, again.epoch) == (B, 4)
    assert request_of(again).id == request_of(call).id
    front.answer(again, accepted())
    assert front.outcome() == accepted()


def test_a_hint_that_says_nothing_new_is_no_reason_to_hurry() -> None:
    front = Front()
    (call,) = front.send("m")
    assert front.answer(call, NotPrimary(host=A, epoch=1)) == []
    (again,) = front.wait(0.02)
    assert again.host == A


def test_hints_in_a_circle_come_to_an_end() -> None:
    front = Front()
    made = front.send("m")
    for epoch in range(2, 40):
        made = front.answer(made[0], NotPrimary(host=B, epoch=epoch))
        if not made:
            break
    assert epoch < 12, "then it pauses"


def test_a_refused_standard_send_goes_to_another_lane_at_once() -> None:
    front = Front(3)
    (call,) = front.send("m")
    (second,) = front.answer(call, NotPrimary())
    assert second.host == B
    (third,) = front.answer(second, Overloaded())
    assert third.host == C
    assert request_of(third).age == 0, "this lane was never asked"
    front.answer(third, Overloaded())
    assert isinstance(front.outcome(), Overloaded), "when all are overloaded the client is told"


def test_a_fifo_send_waits_for_its_lane() -> None:
    front = Front()
    (call,) = front.send("m", group="g", is_fifo=True)
    assert front.answer(call, NotPrimary()) == []
    (again,) = front.wait(0.02)
    assert lanes_of(again) == [1]
    assert front.answer(again, Overloaded()) == []
    assert isinstance(front.outcome(), Overloaded)


def test_what_no_host_takes_is_refused_after_a_while_and_was_not_done() -> None:
    front = Front()
    made = front.send("m")
    tries = 0
    while 1 not in front.replies:
        tries += len(made)
        made = [again for call in made for again in front.answer(call, NotPrimary())] or front.wait(0.1)
    assert isinstance(front.outcome(), NotPrimary)
    assert ROUTE_PATIENCE <= front.now <= ROUTE_PATIENCE + SECOND
    assert 20 <= tries <= 60, "with growing pauses"


def test_a_shard_without_a_leader_is_waited_for_and_found_when_the_table_says_so() -> None:
    front = Front()
    front.change(moves_to(1, B, 2, ShardState.RECOVERING))
    assert front.send("m") == []
    (call,) = front.change(moves_to(1, B, 2))
    assert (call.host, call.epoch) == (B, 2)


def test_a_lane_that_drains_sends_a_message_on_to_its_heir_when_that_is_open() -> None:
    front = Front(3)
    low, _ = groups_of_both_halves()
    front.change(put_layout(QUEUE, split(Phase.OPEN)))
    (call,) = front.send("m", group=low, is_fifo=True)
    assert front.answer(call, LaneDraining()) == []
    assert front.change(put_layout(QUEUE, split(Phase.DRAINING, Phase.HEIR, Phase.HEIR))) == []
    (again,) = front.change(put_layout(QUEUE, split(Phase.DRAINING, Phase.OPEN, Phase.OPEN)))
    assert lanes_of(again) == [2]


def test_a_lane_that_is_gone_is_no_queue_that_is_gone() -> None:
    front = Front(3)
    (call,) = front.send("m")
    (again,) = front.answer(call, QueueDoesNotExist())
    assert again.host == B
    front.change(Delete(queue_key(QUEUE)), Delete(layout_key(QUEUE)))
    front.answer(again, QueueDoesNotExist())
    assert isinstance(front.outcome(), QueueDoesNotExist)


# --- hosts that do not answer -------------------------------------------------------------------------


def test_a_host_that_cannot_be_reached_is_avoided_for_a_while() -> None:
    front = Front(2)
    (call,) = front.send("m")
    (again,) = front.lose(call, is_sent=False)
    assert (call.host, again.host) == (A, B)
    assert front.send("n")[0].host == B
    front.wait(0.6)
    assert front.send("o")[0].host == A


def test_who_answered_is_not_avoided() -> None:
    front = Front(2)
    (other,) = front.send("m")
    (call,) = front.send("n")
    front.lose(call)
    front.answer(other, accepted())
    assert front.send("o")[0].host == A


def test_a_send_in_doubt_with_one_lane_is_asked_again_there_under_its_id() -> None:
    front = Front()
    (call,) = front.send("m")
    assert front.lose(call) == []
    (again,) = front.wait(0.02)
    assert request_of(again).id == request_of(call).id
    assert request_of(again).age > 0
    front.answer(again, accepted(3))
    assert front.outcome() == accepted(3)


def test_a_fifo_send_in_doubt_stays_with_its_lane_even_if_that_drains() -> None:
    front = Front(3)
    low, _ = groups_of_both_halves()
    front.change(put_layout(QUEUE, split(Phase.OPEN)))
    (call,) = front.send("m", group=low, is_fifo=True)
    front.lose(call)
    (again,) = front.change(put_layout(QUEUE, split(Phase.DRAINING, Phase.OPEN, Phase.OPEN)))
    assert lanes_of(again) == [1], "it may have been done there"
    (moved,) = front.answer(again, LaneDraining())
    assert lanes_of(moved) == [2], "it was not, and will not be"


def test_a_batch_in_doubt_is_repeated_in_its_order() -> None:
    front = Front()
    (call,) = front.send("x", "y", "z", group="g", is_fifo=True)
    front.lose(call)
    (again,) = front.wait(0.02)
    bodies = [each.body for each in again.commands if isinstance(each, c.Send)]
    assert bodies == [b"x", b"y", b"z"]
    assert [request_of(again, n).id for n in range(3)] == [request_of(call, n).id for n in range(3)]


def test_what_stays_in_doubt_is_said_to_be() -> None:
    front = Front()
    (call,) = front.send("m", group="g", is_fifo=True)
    made = front.lose(call)
    while 1 not in front.replies:
        made = [again for call in made for again in front.answer(call, Overloaded())] or front.wait(0.1)
    assert isinstance(front.outcome(), OutcomeUnknown)


def test_a_standard_send_in_doubt_goes_to_another_lane_at_once() -> None:
    front = Front(2)
    (call,) = front.send("m")
    (again,) = front.lose(call)
    assert (call.host, again.host) == (A, B)
    (back,) = front.lose(again) or front.wait(0.02)
    assert request_of(back).id == request_of(call).id


def test_a_call_that_takes_too_long_is_in_doubt_and_its_late_answer_is_nobodys() -> None:
    front = Front()
    (call,) = front.send("m")
    (again,) = front.wait(CALL_PATIENCE / SECOND + 0.02)
    assert request_of(again).id == request_of(call).id
    assert front.answer(call, accepted(1)) == []
    assert front.replies == {}
    front.answer(again, accepted(1))
    assert front.outcome() == accepted(1)


def test_a_shard_that_does_not_remember_so_far_back_leaves_it_in_doubt() -> None:
    front = Front()
    (call,) = front.send("m")
    front.lose(call)
    (again,) = front.wait(0.02)
    front.answer(again, OutcomeUnknown())
    assert isinstance(front.outcome(), OutcomeUnknown)


def test_a_client_that_left_is_not_answered_and_its_message_is_sent() -> None:
    front = Front()
    (call,) = front.send("m")
    front.step(calls.Left(1))
    front.lose(call)
    (again,) = front.wait(0.02)
    front.answer(again, accepted())
    assert front.replies == {}


# --- receipts and whole queues ------------------------------------------------------------------------


def test_receipts_go_to_their_lanes_and_answers_come_in_order() -> None:
    front = Front(2)
    one, two, three = (c.Delete(LaneId(0), receipt(lane, seq)) for lane, seq in ((2, 1), (1, 2), (2, 3)))
    second, first = front.by_receipt(one, two, three)
    assert (second.commands, first.commands) == ((one, three), (two,))
    gone = InvalidParameterValue("gone")
    front.answer(first, gone)
    front.answer(second, c.DONE, c.DONE)
    assert [each.outcome for each in front.replies[1]] == [c.DONE, gone, c.DONE]


def test_a_delete_that_was_lost_is_simply_asked_again() -> None:
    front = Front()
    (call,) = front.by_receipt(c.Delete(LaneId(0), receipt(1)))
    front.lose(call)
    (again,) = front.wait(0.02)
    assert again.commands == call.commands
    front.answer(again, c.DONE)
    assert front.outcome() == c.DONE


def test_a_change_that_was_lost_is_asked_again_under_its_id() -> None:
    front = Front()
    (call,) = front.by_receipt(c.ChangeVisibility(LaneId(0), receipt(1), 30))
    front.lose(call)
    (again,) = front.wait(0.02)
    assert request_of(again).id == request_of(call).id


def test_a_receipt_of_a_lane_that_is_gone_deletes_nothing_and_changes_nothing() -> None:
    front = Front(3)
    front.change(put_layout(QUEUE, split(Phase.OPEN, former=(9,))))
    assert front.by_receipt(c.Delete(LaneId(0), receipt(9))) == []
    assert front.outcome(1) == c.DONE
    front.by_receipt(c.ChangeVisibility(LaneId(0), receipt(9), 5))
    assert isinstance(front.outcome(2), InvalidParameterValue)


def test_a_receipt_of_another_queue_is_refused() -> None:
    front = Front()
    front.by_receipt(c.Delete(LaneId(0), receipt(8)))
    refusal = front.outcome()
    assert isinstance(refusal, ReceiptHandleIsInvalid)
    assert "handle-8-1" in refusal.message


def test_counts_of_all_lanes_are_added() -> None:
    front = Front(2)
    first, second = front.everywhere(c.Count(LaneId(0)))
    front.answer(second, Counts(1, 2, 3, 4))
    front.answer(first, Counts(10, 20, 30, 40))
    assert join(front.replies[1]) == Counts(11, 22, 33, 44)


def test_a_purge_goes_everywhere_under_different_ids_and_one_refusal_is_the_answer() -> None:
    front = Front(2)
    first, second = front.everywhere(c.Purge(LaneId(0), "orders"))
    assert request_of(first).id != request_of(second).id
    front.answer(first, c.DONE)
    front.answer(second, PurgeQueueInProgress("wait"))
    assert isinstance(join(front.replies[1]), PurgeQueueInProgress)
    assert join(front.replies[1][:1]) == c.DONE


def test_a_lane_that_went_meanwhile_has_nothing_to_add() -> None:
    front = Front(3)
    front.change(put_layout(QUEUE, split(Phase.DRAINING, Phase.OPEN, Phase.OPEN)))
    first, second, third = front.everywhere(c.Count(LaneId(0)))
    front.answer(second, Counts(1, 0, 0, 1))
    front.answer(third, Counts(1, 0, 0, 1))
    front.answer(first, QueueDoesNotExist())
    rows = split(Phase.DRAINING, Phase.OPEN, Phase.OPEN, former=(1,))
    front.change(put_layout(QUEUE, msgspec.structs.replace(rows, lanes=rows.lanes[1:])))
    assert join(front.replies[1]) == Counts(2, 0, 0, 2)


def test_tasks_of_all_lanes_are_listed() -> None:
    reply = c.MovesReply((c.MoveStatus("t", "RUNNING", None, 0, 0, 0, "", 0),))  # type: ignore[arg-type]
    placed = [calls.Placed(reply), calls.Placed(c.DONE), calls.Placed(reply)]
    joined = join(placed)
    assert isinstance(joined, c.MovesReply)
    assert len(joined.tasks) == 2


def test_messages_that_could_not_be_handed_over_are_given_back() -> None:
    front = Front(2)
    (call,) = front.step(calls.Undelivered(QUEUE, Address(ShardId(2), LaneId(2)), delivery(5, 6).messages))
    assert call.host == B
    changes = [each for each in call.commands if isinstance(each, c.ChangeVisibility)]
    assert [(each.receipt.seq, each.timeout_s) for each in changes] == [(5, 0), (6, 0)]
    front.answer(call, c.DONE, c.DONE)
    assert front.replies == {}
