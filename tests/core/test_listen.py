"""Receiving from several lanes and waiting at them: schedules by hand."""

import pytest

from holdfast.core.cluster import calls
from holdfast.core.cluster.table import LaneRow, Layout, Model, Phase, put_layout
from holdfast.core.coordination.catalogue import queue_key
from holdfast.core.coordination.cluster import ShardState
from holdfast.core.coordination.store import Delete
from holdfast.core.errors import HoldfastError, NotPrimary, OverLimit, Overloaded, QueueDoesNotExist
from holdfast.core.limits import ROUTE_PATIENCE
from holdfast.core.queue import command as c
from holdfast.core.types import Address, LaneId, ShardId
from tests.core.front import HOSTS, Front, delivery, moves_to
from tests.core.test_table import QUEUE

A, B, C, *_ = HOSTS
EMPTY = c.EMPTY_DELIVERY


def request_of(call: calls.Call) -> c.Request:
    (command,) = call.commands
    assert isinstance(command, c.Receive)
    assert command.request is not None
    return command.request


def is_watch(call: calls.Call) -> bool:
    return isinstance(call.commands[0], c.Watch)


def listening(front: Front, wait_s: int = 20) -> list[calls.Call]:
    """A client that has asked everywhere in vain: its questions."""
    made = front.receive(wait_s)
    while made and not is_watch(made[0]):
        made = front.answer(made[0], EMPTY)
    return made


# --- asking -------------------------------------------------------------------------------------------


def test_the_first_lane_that_has_something_answers() -> None:
    front = Front(3)
    front.chosen = [1]
    (call,) = front.receive(count_max=5)
    assert call.host == B
    (again,) = front.answer(call, EMPTY)
    assert again.host == C
    assert front.answer(again, delivery(1, 2)) == []
    assert front.replies[1] == (calls.Placed(delivery(1, 2), Address(ShardId(3), LaneId(3))),)


def test_all_empty_is_empty() -> None:
    front = Front(2)
    (first,) = front.receive()
    (second,) = front.answer(first, EMPTY)
    assert front.answer(second, EMPTY) == []
    assert front.outcome() == EMPTY


def test_a_lane_that_fails_is_passed_over() -> None:
    front = Front(3)
    (first,) = front.receive()
    (second,) = front.lose(first)
    (third,) = front.answer(second, Overloaded())
    assert [call.host for call in (first, second, third)] == [A, B, C]
    front.answer(third, EMPTY)
    assert front.outcome() == EMPTY, "one lane has said so"


def test_a_hint_is_followed_before_the_next_lane() -> None:
    front = Front(2)
    (first,) = front.receive()
    (again,) = front.answer(first, NotPrimary(host=C, epoch=5))
    assert (again.host, again.shard, again.epoch) == (C, 1, 5)


def test_a_short_poll_that_nobody_answers_tries_on_and_then_says_so() -> None:
    front = Front(2)
    made = front.receive()
    tries = 0
    while 1 not in front.replies:
        tries += len(made)
        made = [again for call in made for again in front.answer(call, NotPrimary())] or front.wait(0.1)
    assert isinstance(front.outcome(), NotPrimary)
    assert front.now >= ROUTE_PATIENCE
    assert tries > 10


def test_a_limit_of_the_queue_is_told_when_no_other_lane_has_anything() -> None:
    front = Front(2)
    (first,) = front.receive(wait_s=20)
    (second,) = front.answer(first, OverLimit("too many"))
    assert front.answer(second, EMPTY) == []
    assert isinstance(front.outcome(), OverLimit)
    (first,) = front.receive(wait_s=20)
    (second,) = front.answer(first, OverLimit("too many"))
    front.answer(second, delivery(1))
    assert front.outcome(2) == delivery(1)


def test_a_queue_that_is_gone_is_said_to_be() -> None:
    front = Front(2)
    front.change(Delete(queue_key(QUEUE)))
    assert front.receive() == []
    assert isinstance(front.outcome(), QueueDoesNotExist)


def test_with_an_attempt_every_lane_is_first_asked_whether_it_knows_it() -> None:
    front = Front(2)
    made = front.receive(attempt_id="x")
    seen = []
    while made:
        (call,) = made
        assert isinstance(call.commands[0], c.Receive)
        seen.append((call.host, call.commands[0].is_repeat_only))
        made = front.answer(call, EMPTY)
    assert seen == [(A, True), (B, True), (A, False), (B, False)]


def test_an_ask_in_doubt_is_repeated_at_that_lane_under_its_id() -> None:
    front = Front()
    (call,) = front.receive(wait_s=20)
    assert front.lose(call) == []
    (again,) = front.wait(0.02)
    assert request_of(again).id == request_of(call).id
    assert request_of(again).age > 0
    (third,) = front.answer(again, EMPTY) or front.wait(0.04)
    assert request_of(third).id != request_of(call).id, "that one is settled"


def test_with_several_lanes_an_ask_in_doubt_is_repeated_before_listening() -> None:
    front = Front(2)
    (first,) = front.receive(wait_s=20)
    (second,) = front.lose(first)
    assert front.answer(second, EMPTY) == []
    made = front.wait(0.6)
    while made and made[-1].host != A:
        made = front.answer(made[-1], EMPTY) or front.wait(0.6)
    assert request_of(made[-1]).id == request_of(first).id


# --- one lane: the host waits -------------------------------------------------------------------------


def test_a_queue_with_one_lane_waits_at_its_host() -> None:
    front = Front()
    (call,) = front.receive(wait_s=20)
    assert call.wait_s == 20
    assert front.wait(20) == []
    front.answer(call, EMPTY)
    assert front.outcome() == EMPTY


def test_a_wait_goes_on_at_the_new_leader() -> None:
    front = Front()
    (call,) = front.receive(wait_s=20)
    front.wait(5)
    assert front.change(moves_to(1, B, 2, ShardState.RECOVERING)) == []
    (again,) = front.change(moves_to(1, B, 2)) or front.wait(0.5)
    assert (again.host, again.wait_s) == (B, 15)
    assert front.cancelled == [call.id]
    front.answer(again, delivery(1))
    assert front.outcome() == delivery(1)


@pytest.mark.parametrize("problem", [NotPrimary(), Overloaded(), None])
def test_a_wait_ends_empty_whatever_hosts_say(problem: HoldfastError | None) -> None:
    front = Front()
    made = front.receive(wait_s=3)
    while 1 not in front.replies:
        made = [n for call in made for n in (front.answer(call, problem) if problem else front.lose(call))]
        made = made or front.wait(0.1)
    assert front.outcome() == EMPTY
    assert 3_000_000 <= front.now <= 3_200_000


def test_a_host_that_sends_its_waiters_away_is_asked_again() -> None:
    front = Front()
    (call,) = front.receive(wait_s=20)
    front.wait(3)
    front.answer(call, EMPTY)
    assert 1 not in front.replies
    (again,) = front.wait(0.02)
    assert again.wait_s == 17


# --- several lanes: listening -------------------------------------------------------------------------


def test_when_all_are_empty_it_listens_at_each_and_takes_nothing() -> None:
    front = Front(3)
    questions = listening(front)
    assert [(call.host, is_watch(call), call.wait_s) for call in questions] == [
        (A, True, 20),
        (B, True, 20),
        (C, True, 20),
    ]
    (ask,) = front.answer(questions[1], c.Watched(1))
    assert (ask.host, is_watch(ask)) == (B, False)
    front.answer(ask, delivery(9))
    assert front.outcome() == delivery(9)


def test_who_comes_too_late_listens_again() -> None:
    front = Front(2)
    questions = listening(front)
    (ask,) = front.answer(questions[0], c.Watched(1))
    (question,) = front.answer(ask, EMPTY)
    assert (question.host, is_watch(question)) == (A, True)


def test_a_wait_over_several_lanes_ends_empty_in_time() -> None:
    front = Front(2)
    listening(front, wait_s=5)
    front.wait(4.9)
    assert 1 not in front.replies
    front.wait(0.1)
    assert front.outcome() == EMPTY


def test_a_question_serves_all_who_wait_and_wakes_as_many_as_there_are_messages() -> None:
    front = Front(2)
    questions = listening(front)
    for _ in range(3):
        assert listening(front) == [], "the questions are open already"
    asks = front.answer(questions[0], c.Watched(2))
    assert [is_watch(call) for call in asks] == [False, False]
    made = front.answer(asks[0], delivery(1))
    assert [is_watch(call) for call in made] == [True], "the others want to know"
    assert front.outcome(1) == delivery(1)
    front.answer(asks[1], delivery(2))
    assert front.outcome(2) == delivery(2)
    assert sorted(front.replies) == [1, 2]


def test_a_question_that_nobody_waits_for_any_more_is_left_to_run_out() -> None:
    front = Front(2)
    questions = listening(front)
    (ask,) = front.answer(questions[0], c.Watched(1))
    front.answer(ask, delivery(1))
    assert front.answer(questions[1], c.Watched(3)) == []


def test_a_question_without_result_is_put_again() -> None:
    front = Front(2)
    questions = listening(front)
    (again,) = front.answer(questions[0], c.NOTHING_VISIBLE)
    assert (again.host, is_watch(again)) == (A, True)


def test_a_question_that_failed_is_put_again_in_a_while() -> None:
    front = Front(2)
    questions = listening(front)
    assert front.answer(questions[0], Overloaded()) == []
    assert front.lose(questions[1]) == []
    made = front.wait(0.05)
    assert sorted(call.host for call in made if is_watch(call)) == [A, B]
    front.wait(20)
    assert front.outcome() == EMPTY


def test_who_waits_to_ask_again_is_not_sent_elsewhere_meanwhile() -> None:
    front = Front(2)
    first, second = listening(front)
    (ask,) = front.answer(first, c.Watched(1))
    front.lose(ask)  # it may have taken something: all lanes are asked again, in a while
    assert [call for call in front.answer(second, c.Watched(1)) if not is_watch(call)] == []
    (again,) = [call for call in front.wait(0.5) if not is_watch(call)]
    front.answer(again, delivery(1))
    assert front.outcome() == delivery(1)


def test_a_question_follows_the_leader() -> None:
    front = Front(2)
    questions = listening(front)
    (moved,) = front.answer(questions[0], NotPrimary(host=C, epoch=7)) or front.wait(0.02)
    assert (moved.host, moved.epoch) == (C, 7)
    (changed,) = front.change(moves_to(2, C, 3))
    assert (changed.host, changed.shard) == (C, 2)
    assert questions[1].id in front.cancelled


def test_a_lane_that_was_added_is_asked_and_listened_at() -> None:
    front = Front(2)
    listening(front)
    rows = tuple(LaneRow(LaneId(n), ShardId(n)) for n in (1, 2, 3))
    made = front.change(moves_to(3, C, 1), put_layout(QUEUE, Layout(rows, Model.INDEPENDENT)))
    while made and made[0].host != C:
        made = front.answer(made[0], EMPTY)
    front.answer(made[0], delivery(4))
    assert front.outcome() == delivery(4)


def test_an_heir_is_not_asked() -> None:
    front = Front(2)
    rows = (LaneRow(LaneId(1), ShardId(1), Phase.DRAINING), LaneRow(LaneId(2), ShardId(2), Phase.HEIR))
    front.change(put_layout(QUEUE, Layout(rows)))
    (call,) = front.receive()
    assert call.host == A
    assert front.answer(call, EMPTY) == []
    assert front.outcome() == EMPTY


# --- clients that are gone ----------------------------------------------------------------------------


def test_who_left_while_it_listened_is_not_woken() -> None:
    front = Front(2)
    questions = listening(front)
    front.step(calls.Left(1))
    assert front.answer(questions[0], c.Watched(1)) == []
    assert front.replies == {}


def test_messages_for_who_left_while_it_asked_are_given_back() -> None:
    front = Front()
    (call,) = front.receive(wait_s=20)
    front.step(calls.Left(1))
    assert front.cancelled == [call.id]
    (back,) = front.answer(call, delivery(3, 4))
    changes = [each for each in back.commands if isinstance(each, c.ChangeVisibility)]
    assert [(each.receipt.seq, each.timeout_s) for each in changes] == [(3, 0), (4, 0)]
    assert front.replies == {}


def test_a_cancelled_call_without_an_answer_is_no_sign_of_a_sick_host() -> None:
    front = Front(2)
    (call,) = front.receive()
    front.step(calls.Left(1))
    front.wait(5)
    assert call.id in front.cancelled
    assert front.send("m")[0].host == A
    assert front.router.deadline() is not None
    front.wait(60)
    assert front.replies.keys() == {2}


def test_who_left_and_got_nothing_is_forgotten() -> None:
    front = Front(2)
    (call,) = front.receive(wait_s=20)
    front.step(calls.Left(1))
    assert front.lose(call) == []
    assert front.wait(60) == []
    assert front.router.deadline() is None
