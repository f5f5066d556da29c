"""Messages on their way to a lane that has heirs follow them: nothing fails or is doubled, groups stay in order."""

import pytest

from holdfast.core.cluster.redirect import settle
from holdfast.core.cluster.reshape import merge, split
from holdfast.core.cluster.table import LaneRow, Layout, Phase, layout_key, put_layout
from holdfast.core.coordination.store import Delete
from holdfast.core.queue import command as c
from holdfast.core.queue.command import ArriveReply
from holdfast.core.queue.outbox import Entry
from holdfast.core.queue.redrive import GONE
from holdfast.core.types import Address, Kind, LaneConfig, LaneId, Redrive, ShardId
from tests.core.one_shard import LANE, OneShard
from tests.core.test_table import QUEUE, Fed, put_queue

ORIGIN = Address(ShardId(2), LaneId(9))
LEFT, RIGHT = Address(ShardId(3), LaneId(10)), Address(ShardId(4), LaneId(11))
FIFO = LaneConfig(kind=Kind.FIFO, content_deduplication=True)


def split_origin(*, is_retired: bool) -> Layout:
    layout = split(Layout((LaneRow(ORIGIN.lane, ORIGIN.shard),)), ORIGIN.lane, (LEFT, RIGHT))
    rows = [row for row in layout.lanes if row.lane != ORIGIN.lane]
    heirs = tuple(LaneRow(row.lane, row.shard, Phase.OPEN, row.first, row.last) for row in rows)
    if is_retired:
        return Layout(heirs, former=(ORIGIN.lane,))
    return Layout((LaneRow(ORIGIN.lane, ORIGIN.shard, Phase.DRAINING), *heirs))


@pytest.fixture
def fed() -> Fed:
    fed = Fed()
    fed.write(put_queue(ORIGIN.lane, ORIGIN.shard))
    return fed


def moving(config: LaneConfig, bodies: str) -> OneShard:
    """A lane whose messages a task takes to the lane that has heirs."""
    one = OneShard()
    one.configure(config)
    for body in bodies:
        one.send(body, group=body.lower() if config.kind is Kind.FIFO else "")
    one.do(c.StartMove(LANE, "back", ORIGIN))
    one.advance(1)
    return one


def entries(one: OneShard, shard: ShardId) -> list[Entry]:
    outbox = one.shard.outboxes.get(shard)
    return list(outbox.entries.values()) if outbox is not None else []


def refuse(one: OneShard, fed: Fed, entry: Entry) -> None:
    told = settle(fed.table, entry, ArriveReply(entry.target.shard, entry.number, True))
    assert told is not None
    one.do(told)


def accept_all(one: OneShard) -> None:
    for shard in (LEFT.shard, RIGHT.shard):
        for entry in entries(one, shard):
            one.do(c.Settle(shard, entry.number, False))
    one.advance(1)


@pytest.mark.parametrize("is_retired", [False, True])
def test_a_task_goes_on_to_the_heirs_of_its_target(fed: Fed, is_retired: bool) -> None:
    one = moving(LaneConfig(), "abc")
    fed.write(put_layout(QUEUE, split_origin(is_retired=is_retired)))
    for entry in entries(one, ORIGIN.shard):
        refuse(one, fed, entry)
    assert entries(one, ORIGIN.shard) == []
    assert [entry.target for entry in entries(one, LEFT.shard)] == [LEFT] * 3  # without a group the first one does
    accept_all(one)
    (task,) = one.do(c.ListMoves(LANE)).tasks
    assert (task.state, task.moved, task.failure) == ("COMPLETED", 3, "")
    one.check()


def test_each_group_goes_to_the_heir_of_its_keys_and_stays_in_order(fed: Fed) -> None:
    one = moving(FIFO, "aAbBcCdDeEfF")
    fed.write(put_layout(QUEUE, split_origin(is_retired=True)))
    layout = fed.table.layout(QUEUE)
    assert layout is not None
    while waiting := entries(one, ORIGIN.shard):
        for entry in reversed(waiting):  # answers come in any order
            refuse(one, fed, entry)
    for address in (LEFT, RIGHT):
        gone = entries(one, address.shard)
        assert gone
        assert [row.address for entry in gone if (row := layout.lane_of(entry.header.group))] == [address] * len(gone)
        assert [entry.header.seq for entry in gone] == sorted(entry.header.seq for entry in gone)
    accept_all(one)
    assert one.do(c.ListMoves(LANE)).tasks[0].state == "COMPLETED"
    one.check()


def test_while_the_heirs_are_not_open_nothing_is_told(fed: Fed) -> None:
    one = moving(LaneConfig(), "a")
    draining = LaneRow(ORIGIN.lane, ORIGIN.shard, Phase.DRAINING)
    fed.write(put_layout(QUEUE, Layout((draining, LaneRow(LEFT.lane, LEFT.shard, Phase.HEIR)))))
    (entry,) = entries(one, ORIGIN.shard)
    assert settle(fed.table, entry, ArriveReply(entry.target.shard, entry.number, True)) is None
    assert settle(fed.table, entry, ArriveReply(entry.target.shard, entry.number, False)) == c.Settle(
        ORIGIN.shard, entry.number, False
    )


def test_of_a_queue_that_is_gone_the_task_fails_as_before(fed: Fed) -> None:
    one = moving(LaneConfig(), "a")
    fed.write(put_layout(QUEUE, split_origin(is_retired=True)))
    fed.write(Delete(layout_key(QUEUE)))
    (entry,) = entries(one, ORIGIN.shard)
    refuse(one, fed, entry)
    (task,) = one.do(c.ListMoves(LANE)).tasks
    assert (task.state, task.failure) == ("FAILED", GONE)
    assert one.bodies(10) == ["a"]


def test_dead_letters_follow_the_heirs_of_their_queue_too(fed: Fed) -> None:
    one = OneShard()
    one.configure(LaneConfig(redrive=Redrive(ORIGIN, 1)))
    one.send("a")
    for _ in range(2):
        one.receive(1, 0)
    fed.write(put_layout(QUEUE, split_origin(is_retired=False)))
    (entry,) = entries(one, ORIGIN.shard)
    refuse(one, fed, entry)
    (again,) = entries(one, LEFT.shard)
    assert (again.cause, again.header.seq, again.count) == (entry.cause, entry.header.seq, entry.count)
    one.check()


def test_a_merged_lane_has_one_heir(fed: Fed) -> None:
    heirs = split_origin(is_retired=True)
    fed.write(put_layout(QUEUE, merge(heirs, (LEFT.lane, RIGHT.lane), Address(ShardId(5), LaneId(12)))))
    assert fed.table.owner(LaneId(12)) == fed.table.owner(ORIGIN.lane) == QUEUE
    fed.write(put_layout(QUEUE, Layout((LaneRow(LaneId(12), ShardId(5)),), former=(LEFT.lane, RIGHT.lane))))
    assert fed.table.owner(LEFT.lane) == QUEUE
    assert fed.table.owner(ORIGIN.lane) is None
