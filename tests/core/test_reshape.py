"""Layouts that are wanted, and the passes that bring them about; the models of use are in test_lanes_model.py."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from holdfast.core.cluster import reshape
from holdfast.core.cluster.table import KEY_MAX, LaneRow, Layout, Model, Phase
from holdfast.core.coordination.asking import Outcome
from holdfast.core.errors import HoldfastError, NotPrimary
from holdfast.core.limits import FORMER_LANES_MAX, REQUEST_WINDOW, SECOND
from holdfast.core.queue import command as c
from holdfast.core.types import Address, LaneConfig, LaneId, QueueName, ShardId
from tests.core.one_shard import OneShard, receipt_of

QUEUE = QueueName("000000000000", "orders")
CONFIG = LaneConfig()
ONE = LaneRow(LaneId(1), ShardId(1))
ALONE = Layout((ONE,))
HALF = KEY_MAX // 2


def address(lane: int, shard: int = 1) -> Address:
    return Address(ShardId(shard), LaneId(lane))


def brief(layout: Layout) -> list[tuple[int, str, tuple[int, ...]]]:
    return [(row.lane, row.phase.value, row.parents) for row in layout.lanes]


class Lanes:
    """One shard, and whatever the store has last accepted."""

    def __init__(self, layout: Layout) -> None:
        self.one = OneShard()
        self.one.configure(CONFIG)
        self.layout = layout
        self.asked: list[type] = []

    def run(self, *, swap: Outcome = Outcome.DONE, fails_at: type | None = None) -> bool:
        """A pass. `fails_at`: that command meets a host that does not lead."""
        work = reshape.reshape(QUEUE, self.layout, 7, config=CONFIG)
        outcome: Any = None
        try:
            while True:
                step = work.send(outcome)
                outcome = self.swapped(step, swap) if isinstance(step, reshape.Swap) else self.answer(step, fails_at)
        except StopIteration as end:
            return bool(end.value)

    def swapped(self, step: reshape.Swap, swap: Outcome) -> Outcome:
        (check,), (write,) = step.transaction.checks, step.transaction.writes
        assert (check.key, check.revision) == (write.key, 7)
        if swap is Outcome.DONE:
            self.layout = msgspec.json.decode(write.value, type=Layout)  # type: ignore[union-attr]
        return swap

    def answer(self, step: reshape.Ask, fails_at: type | None) -> Any:
        self.asked.append(type(step.command))
        try:
            return NotPrimary() if type(step.command) is fails_at else self.one.do(step.command)
        except HoldfastError as refusal:
            return refusal


def test_a_split_divides_the_keys_evenly_and_completely() -> None:
    layout = reshape.split(ALONE, LaneId(1), [address(n) for n in (2, 3, 4)])
    heirs = layout.lanes[1:]
    assert [row.first for row in heirs] == [0, *(row.last + 1 for row in heirs[:-1])]
    assert heirs[-1].last == KEY_MAX
    assert brief(layout) == [(1, "open", ()), (2, "heir", (1,)), (3, "heir", (1,)), (4, "heir", (1,))]


def test_a_merge_takes_the_keys_of_neighbours() -> None:
    lanes = (LaneRow(LaneId(2), ShardId(1), last=HALF), LaneRow(LaneId(3), ShardId(1), first=HALF + 1))
    layout = reshape.merge(Layout(lanes), [LaneId(3), LaneId(2)], address(4))
    heir = layout.lanes[-1]
    assert (heir.first, heir.last, heir.parents) == (0, KEY_MAX, (2, 3))


def test_what_cannot_be_wanted_is_refused() -> None:
    split = reshape.split(ALONE, LaneId(1), [address(2), address(3)])
    apart = Layout(
        (
            LaneRow(LaneId(2), ShardId(1), last=9),
            LaneRow(LaneId(3), ShardId(1), first=10, last=10),
            LaneRow(LaneId(4), ShardId(1), first=11),
        )
    )
    wrong: tuple[tuple[str, Callable[[], Layout]], ...] = (
        ("has heirs already", lambda: reshape.split(split, LaneId(1), [address(4)])),
        ("is not open", lambda: reshape.split(split, LaneId(2), [address(4)])),
        ("is not open", lambda: reshape.shrink(ALONE, LaneId(9))),
        ("no other lane takes", lambda: reshape.shrink(ALONE, LaneId(1))),
        ("no neighbours", lambda: reshape.merge(apart, [LaneId(2), LaneId(4)], address(5))),
        ("cannot be divided", lambda: reshape.split(apart, LaneId(3), [address(5), address(6)])),
        ("used once", lambda: reshape.expand(ALONE, [address(1)])),
        ("used once", lambda: reshape.expand(Layout((ONE,), former=(LaneId(5),)), [address(5)])),
    )
    for problem, change in wrong:
        with pytest.raises(ValueError, match=problem):
            change()


def test_nothing_is_asked_where_nothing_is_to_be_done() -> None:
    lanes = Lanes(ALONE)
    assert lanes.run() is True
    assert lanes.asked == []


def test_a_queue_expands_and_shrinks() -> None:
    lanes = Lanes(Layout((ONE,), Model.INDEPENDENT))
    lanes.layout = reshape.expand(lanes.layout, [address(2), address(3)])
    assert lanes.run() is False
    assert lanes.asked == [c.Configure, c.Configure]
    assert brief(lanes.layout) == [(1, "open", ()), (2, "open", ()), (3, "open", ())]
    lanes.one.send("a", lane=LaneId(2))
    lanes.layout = reshape.shrink(lanes.layout, LaneId(2))
    assert lanes.run() is False, "it has a message"
    (delivered,) = lanes.one.receive(lane=LaneId(2))
    lanes.one.do(c.ChangeVisibility(LaneId(2), receipt_of(delivered, LaneId(2)), 0))
    lanes.one.do(c.Delete(LaneId(2), receipt_of(lanes.one.receive(lane=LaneId(2))[0], LaneId(2))))
    assert lanes.run() is False, "somebody may ask again"
    lanes.one.advance(REQUEST_WINDOW / SECOND)
    assert lanes.run() is True
    assert (brief(lanes.layout), lanes.layout.former) == ([(1, "open", ()), (3, "open", ())], (2,))
    assert sorted(lanes.one.shard.lanes) == [1, 3]


@pytest.mark.parametrize("command", [c.Configure, c.Found, c.Drain, c.Bequeath, c.Inherit, c.Seal, c.Open, c.Retire])
def test_a_pass_that_meets_a_host_that_does_not_lead_is_taken_up_by_the_next(command: type) -> None:
    lanes = Lanes(reshape.split(ALONE, LaneId(1), [address(2), address(3)]))
    for _ in range(4):
        lanes.run(fails_at=command)
        lanes.one.advance(REQUEST_WINDOW / SECOND)
    assert not lanes.layout.former, "it stops there"
    for _ in range(4):
        is_done = lanes.run()
        lanes.one.advance(REQUEST_WINDOW / SECOND)
    assert is_done
    assert (brief(lanes.layout), lanes.layout.former) == ([(2, "open", ()), (3, "open", ())], (1,))


@pytest.mark.parametrize("swap", [Outcome.REFUSED, Outcome.UNKNOWN])
def test_a_write_that_may_not_have_happened_is_not_counted_on(swap: Outcome) -> None:
    lanes = Lanes(reshape.split(ALONE, LaneId(1), [address(2)]))
    assert lanes.run(swap=swap) is False
    assert brief(lanes.layout) == [(1, "open", ()), (2, "heir", (1,))]
    lanes.run()
    lanes.one.advance(REQUEST_WINDOW / SECOND)
    assert lanes.run(swap=swap) is False, "the lane is retired, and that is not written down"
    assert sorted(lanes.one.shard.lanes) == [2]
    assert lanes.run() is True
    assert lanes.layout.former == (1,)


def test_an_heir_that_is_retired_itself_does_not_hold_up_its_parent() -> None:
    rows = (
        msgspec.structs.replace(ONE, phase=Phase.DRAINING),
        LaneRow(LaneId(2), ShardId(1), Phase.DRAINING, parents=(LaneId(1),)),
        LaneRow(LaneId(3), ShardId(1)),
    )
    lanes = Lanes(Layout(rows))
    lanes.one.configure(CONFIG, LaneId(3))
    lanes.run()
    lanes.one.advance(REQUEST_WINDOW / SECOND)
    assert lanes.run() is True
    assert (brief(lanes.layout), lanes.layout.former) == ([(3, "open", ())], (2, 1))


def test_only_the_last_former_lanes_are_kept() -> None:
    former = tuple(map(LaneId, range(100, 100 + FORMER_LANES_MAX)))
    row = msgspec.structs.replace(ONE, phase=Phase.DRAINING)
    lanes = Lanes(Layout((row, LaneRow(LaneId(2), ShardId(1))), former=former))
    lanes.run()
    lanes.one.advance(REQUEST_WINDOW / SECOND)
    assert lanes.run() is True
    assert lanes.layout.former == (*former[1:], 1)
