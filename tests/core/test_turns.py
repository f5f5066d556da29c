"""Queues take turns: what core/admission/turns.py promises."""

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.admission.turns import Turns
from holdfast.core.limits import LINE_MIN, SERVED_LATELY, SERVED_LATELY_HEAVY
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


def served(turns: Turns[str], queue: QueueName | None, count: int) -> bool:
    """So many, one after the other, as of a client that waits for its answers. Whether the last was light."""
    for _ in range(count):
        turns.add(queue, "one")
        turns.take()
    return turns.is_light


def test_a_request_is_light_beside_a_queue_that_has_nearly_all_others_also_if_nobody_waits_just_now() -> None:
    turns: Turns[str] = Turns()
    assert not served(turns, BUSY, SERVED_LATELY)
    assert served(turns, QUIET, 1)
    assert not served(turns, BUSY, 1)
    turns.add(QUIET, "quiet")
    turns.add(QUIET, "quiet")
    assert (turns.take(), turns.is_light) == ("quiet", False)  # it is not alone
    assert (turns.take(), turns.is_light) == ("quiet", True)


def test_nothing_is_light_when_no_queue_has_nearly_all_requests() -> None:
    for others in (SERVED_LATELY - SERVED_LATELY_HEAVY, SERVED_LATELY - SERVED_LATELY_HEAVY + 1):
        turns: Turns[str] = Turns()
        for number in range(others):
            served(turns, QueueName("000000000000", f"queue-{number}"), 1)
        served(turns, BUSY, SERVED_LATELY - others)
        assert served(turns, QUIET, 1) == (SERVED_LATELY - others >= SERVED_LATELY_HEAVY)


def test_a_load_that_is_over_is_forgotten() -> None:
    turns: Turns[str] = Turns()
    served(turns, BUSY, SERVED_LATELY)
    assert not served(turns, QUIET, SERVED_LATELY)
    assert served(turns, BUSY, 1)


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
