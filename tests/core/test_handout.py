"""Messages that are handed out together leave the lane as if they had been handed out one by one."""

from typing import Any

import pytest

from holdfast.core.limits import SECOND
from holdfast.core.queue import command as c
from holdfast.core.queue.handout import hold_next, remove_all
from holdfast.core.queue.lane import Lane
from holdfast.core.queue.shard import Shard
from holdfast.core.queue.state import dump_lane
from holdfast.core.types import Header, Instant, Kind, LaneConfig, Seq, WallMs
from tests.core.one_shard import LANE, OneShard, seqs

NOW, WALL = Instant(5 * SECOND), WallMs(5000)


def filled(config: LaneConfig | None = None, *, third: dict[str, Any] | None = None) -> tuple[OneShard, list[Header]]:
    """A lane with six messages, and the headers of what waits in its stream. `third`: options of the third."""
    one = OneShard()
    one.configure(config or LaneConfig())
    for number in range(6):
        one.send(f"message {number}", **(third or {} if number == 2 else {}))
    window = one.shard.lanes[LANE].backlog.window
    assert window is not None
    return one, list(window.queue)


def both(shard: Shard) -> tuple[Lane, Lane]:
    """The same lane twice."""
    return shard.lanes[LANE], Shard.restore(shard.dump()).lanes[LANE]


def hold_each(lane: Lane, headers: list[Header], until: Instant) -> None:
    for header in headers:
        lane.hold(header, until=until, now=NOW, wall=WALL, attempt=None)


@pytest.mark.parametrize("is_windowed", [True, False])
def test_together_and_one_by_one_leave_the_same_lane(is_windowed: bool) -> None:
    one, headers = filled()
    if not is_windowed:
        one.drop_windows()
    together, apart = both(one.shard)
    until = Instant(35 * SECOND)
    for some in (headers[:3], headers[3:5]):
        assert hold_next(together, some, until=until, now=NOW, wall=WALL)
        hold_each(apart, some, until)
        assert dump_lane(together, NOW) == dump_lane(apart, NOW)
    assert (together.in_flight, together.next_event()) == (5, until)
    assert is_windowed == (together.backlog.window is not None)
    assert together.backlog.window is None or list(together.backlog.window.queue) == headers[5:]
    together.elapse(until)
    apart.elapse(until)
    assert dump_lane(together, until) == dump_lane(apart, until)
    assert together.in_flight == 0


def test_a_window_that_ends_before_them_does_not_matter() -> None:
    one, headers = filled()
    lane = one.shard.lanes[LANE]
    assert lane.backlog.window is not None
    while len(lane.backlog.window.queue) > 2:
        lane.backlog.window.queue.pop()
    lane.backlog.window.next, lane.backlog.window.tail = headers[2].seq, headers[1]
    assert hold_next(lane, headers[:4], until=Instant(35 * SECOND), now=NOW, wall=WALL)
    assert not lane.backlog.window.queue
    assert seqs(one.receive(10)) == [header.seq for header in headers[4:]]


@pytest.mark.parametrize("option", [{"time_to_live_s": 60}, {"delay_s": 1}])
def test_an_unusual_one_among_them_keeps_all_from_it(option: dict[str, int]) -> None:
    one, headers = filled(third=option)
    lane = one.shard.lanes[LANE]
    before = dump_lane(lane, NOW)
    assert not hold_next(lane, headers[:4], until=Instant(35 * SECOND), now=NOW, wall=WALL)
    assert dump_lane(lane, NOW) == before


def test_those_that_the_cursor_does_not_meet_next_are_not_taken() -> None:
    one, headers = filled()
    lane = one.shard.lanes[LANE]
    for some in ([], headers[:1], headers[1:3], [headers[0], headers[2]]):
        assert not hold_next(lane, some, until=Instant(35 * SECOND), now=NOW, wall=WALL)
    one.do(c.Receive(LANE, 1))
    assert not hold_next(lane, headers[:2], until=Instant(35 * SECOND), now=NOW, wall=WALL)


def test_a_lease_beyond_the_retention_needs_a_timer_of_its_own() -> None:
    one, headers = filled(LaneConfig(retention_s=60))
    lane = one.shard.lanes[LANE]
    assert not hold_next(lane, headers[:2], until=Instant(61 * SECOND), now=NOW, wall=WALL)
    assert hold_next(lane, headers[:2], until=Instant(60 * SECOND), now=NOW, wall=WALL)


def test_fifo_lanes_hand_out_one_by_one() -> None:
    one = OneShard()
    one.configure(LaneConfig(kind=Kind.FIFO))
    for number in "12":
        one.send("a", group="g", deduplication_id=number)
    lane = one.shard.lanes[LANE]
    assert lane.backlog.window is not None
    assert not hold_next(lane, list(lane.backlog.window.queue), until=Instant(35 * SECOND), now=NOW, wall=WALL)


# --- deleted together ---------------------------------------------------------------------------------


def received(one: OneShard, *counts: int) -> list[Seq]:
    """The messages of some receives, each a second later than the one before."""
    taken: list[Seq] = []
    for count in counts:
        taken += seqs(one.receive(count))
        one.advance(1)
    return taken


def test_deleted_together_and_one_by_one_leave_the_same_lane() -> None:
    one, _ = filled()
    received(one, 3, 1, 2)
    together, apart = both(one.shard)
    for some in ([Seq(2), Seq(4), Seq(5)], [Seq(1), Seq(3)]):
        assert remove_all(together, some)
        for seq in some:
            apart.remove_leased(seq, NOW)
        assert dump_lane(together, NOW) == dump_lane(apart, NOW)
        assert together.next_event() == apart.next_event()
    assert (together.count, together.in_flight) == (1, 1)


def test_one_that_is_visible_again_keeps_all_from_being_deleted_together() -> None:
    one, _ = filled()
    received(one, 3)
    lane = one.shard.lanes[LANE]
    lane.change(Seq(2), until=NOW, now=NOW)
    before = dump_lane(lane, NOW)
    assert not remove_all(lane, [Seq(1), Seq(2)])
    assert dump_lane(lane, NOW) == before
    assert remove_all(lane, [Seq(1), Seq(3)])


@pytest.mark.parametrize("kind", [Kind.STANDARD, Kind.FIFO])
def test_what_has_a_group_is_deleted_one_by_one(kind: Kind) -> None:
    one = OneShard()
    one.configure(LaneConfig(kind=kind))
    for number in "123":
        one.send("a", group="g", deduplication_id=number if kind is Kind.FIFO else "")
    taken = seqs(one.receive(3))
    assert not remove_all(one.shard.lanes[LANE], taken)
    assert not remove_all(one.shard.lanes[LANE], taken[:1])
