"""Queues take turns: what core/admission/turns.py promises."""

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.admission.turns import Turns
from holdfast.core.limits import LINE_MIN
from holdfast.core.types import QueueName

BUSY, QUIET = (QueueName("000000000000", name) for name in ("busy", "quiet"))


def drained(turns: Turns[str]) -> list[str]:
    taken = []
    while turns:
        taken.append(turns.take())
    return taken


def test_one_that_comes_late_to_another_queue_is_served_before_those_in_line() -> None:
    turns: Turns[str] = Turns()
    for number in range(5):
        turns.add(BUSY, f"busy {number}")
    assert turns.take() == "busy 0"
    turns.add(QUIET, "quiet")
    assert drained(turns) == ["busy 1", "quiet", "busy 2", "busy 3", "busy 4"]


def test_a_request_is_light_when_it_is_alone_and_the_others_stand_in_line() -> None:
    turns: Turns[str] = Turns()
    turns.add(QUIET, "quiet")
    for _ in range(LINE_MIN + 1):
        turns.add(BUSY, "busy")
    seen = [(turns.take(), turns.is_light) for _ in range(2)]
    turns.add(QUIET, "quiet")
    seen += [(turns.take(), turns.is_light) for _ in range(2)]  # so few are no line any more
    assert seen == [("quiet", True), ("busy", False), ("busy", False), ("quiet", False)]


def test_many_queues_with_one_request_each_are_no_line() -> None:
    turns: Turns[int] = Turns()
    for number in range(10 * LINE_MIN):
        turns.add(QueueName("000000000000", f"queue-{number}"), number)
    while turns:
        turns.take()
        assert not turns.is_light


@given(st.lists(st.one_of(st.none(), st.sampled_from([None, BUSY, QUIET]).map(lambda queue: (queue,))), max_size=60))
def test_order_within_a_queue_and_turns_between_them(steps: list[tuple[QueueName | None] | None]) -> None:
    """A step adds one for a queue, or takes one."""
    turns: Turns[tuple[QueueName | None, int]] = Turns()
    waiting: dict[QueueName | None, list[int]] = defaultdict(list)
    passed: dict[QueueName | None, set[QueueName | None]] = defaultdict(set)  # served since this one had its last turn
    for number, step in enumerate(steps):
        if step is not None:
            turns.add(step[0], (step[0], number))
            waiting[step[0]].append(number)
            continue
        assert bool(turns) == any(waiting.values())
        if not turns:
            continue
        queue, taken = turns.take()
        assert taken == waiting[queue].pop(0)
        for other in (each for each, left in waiting.items() if left and each != queue):
            assert queue not in passed[other], "served twice while another queue waited"
            passed[other].add(queue)
        passed[queue].clear()
