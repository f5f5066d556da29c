"""The table queue → lanes → shards → hosts follows the store, and takes hints from hosts that know better."""

import msgspec
import pytest

from holdfast.core.cluster.table import (
    KEY_MAX,
    Here,
    LaneRow,
    Layout,
    Model,
    Phase,
    Seat,
    Table,
    There,
    layout_key,
    put_layout,
)
from holdfast.core.coordination import cluster, store
from holdfast.core.coordination.catalogue import QueueRow, put_row, queue_key
from holdfast.core.coordination.cluster import HostId, HostRecord, Life, Member, ShardRecord, ShardState
from holdfast.core.coordination.store import Delete, Put, State, Transaction, Write
from holdfast.core.types import Epoch, LaneId, QueueName, ShardId, WallMs

QUEUE = QueueName("000000000000", "orders")
A, B, C = HostId("a"), HostId("b"), HostId("c")


def put_shard(shard: int, primary: HostId, epoch: int, state: ShardState = ShardState.ACTIVE) -> Put:
    members = (Member(primary, Life(1)),)
    held = ShardRecord(Epoch(epoch), primary, members, state, (), 1)
    return Put(cluster.shard_key(ShardId(shard)), cluster.encode(held))


def put_queue(lane: int, shard: int) -> Put:
    return put_row(QueueRow(QUEUE, LaneId(lane), ShardId(shard), {}, {}, WallMs(0), WallMs(0)))


def lanes(*rows: tuple[int, int], phase: Phase = Phase.OPEN, model: Model = Model.INDEPENDENT) -> Layout:
    return Layout(tuple(LaneRow(LaneId(lane), ShardId(shard), phase) for lane, shard in rows), model)


class Fed:
    """A store, and a table that follows it."""

    def __init__(self) -> None:
        self.store = State()
        self.table = Table()

    def write(self, *writes: Write) -> None:
        before = self.store.revision
        assert self.store.transact(Transaction((), writes))
        for event in self.store.changes("", before).events:
            self.table.feed(event)


@pytest.fixture
def fed() -> Fed:
    fed = Fed()
    fed.write(put_queue(1, 1), put_shard(1, A, 1), put_shard(2, B, 1), put_shard(3, C, 1))
    return fed


def test_a_queue_without_a_layout_has_the_lane_of_its_row(fed: Fed) -> None:
    assert fed.table.layout(QUEUE) == Layout((LaneRow(LaneId(1), ShardId(1)),))
    assert list(fed.table.queues()) == [QUEUE]


def test_a_layout_takes_its_place_and_goes_again(fed: Fed) -> None:
    fed.write(put_layout(QUEUE, lanes((1, 1), (2, 2))))
    assert fed.table.layout(QUEUE) == lanes((1, 1), (2, 2))
    fed.write(Delete(layout_key(QUEUE)))
    assert fed.table.layout(QUEUE) == Layout((LaneRow(LaneId(1), ShardId(1)),))


def test_a_queue_that_is_gone_has_no_layout(fed: Fed) -> None:
    fed.write(put_layout(QUEUE, lanes((1, 1), (2, 2))), Delete(queue_key(QUEUE)))
    assert fed.table.layout(QUEUE) is None
    assert fed.table.at(A, QUEUE, key=None, choose=lambda _: 0) is None


def test_a_table_that_is_read_anew_is_the_one_that_followed(fed: Fed) -> None:
    fed.write(put_layout(QUEUE, lanes((1, 1), (2, 2))), put_shard(4, A, 1))
    fed.write(Delete(cluster.shard_key(ShardId(4))), put_shard(2, C, 2, ShardState.RECOVERING))
    anew = Table()
    anew.feed(store.Event(1, layout_key(QueueName("1", "old")), None))
    anew.reset(fed.store.range(""))
    assert anew.layout(QUEUE) == fed.table.layout(QUEUE)
    assert [anew.seat(ShardId(n)) for n in range(6)] == [fed.table.seat(ShardId(n)) for n in range(6)]
    assert anew.revision == fed.table.revision == fed.store.revision


def test_a_host_is_known_while_it_is_up(fed: Fed) -> None:
    held = HostRecord(cluster.DiskId("d"), 1, "10.0.0.1:9326")
    fed.write(Put(cluster.host_key(A), cluster.encode(held)))
    assert fed.table.host(A) == held
    fed.write(Delete(cluster.host_key(A)))
    assert fed.table.host(A) is None


def test_the_highest_epoch_says_who_leads_whoever_tells(fed: Fed) -> None:
    shard = ShardId(1)
    fed.table.hint(shard, Seat(B, Epoch(1)))
    assert fed.table.seat(shard) == Seat(A, Epoch(1)), "the same epoch says nothing new"
    fed.table.hint(shard, Seat(B, Epoch(3)))
    assert fed.table.seat(shard) == Seat(B, Epoch(3))
    fed.write(put_shard(1, C, 2))
    assert fed.table.seat(shard) == Seat(B, Epoch(3)), "the store's word is older"
    fed.write(put_shard(1, B, 3))
    fed.write(put_shard(1, C, 4, ShardState.RECOVERING))
    assert fed.table.seat(shard) == Seat(C, Epoch(4), is_active=False)


def test_a_hint_serves_where_nothing_is_known() -> None:
    table = Table()
    table.hint(ShardId(9), Seat(A, Epoch(1)))
    assert table.seat(ShardId(9)) == Seat(A, Epoch(1))


def test_any_host_serves_from_its_own_lane_or_forwards(fed: Fed) -> None:
    fed.write(put_layout(QUEUE, lanes((1, 1), (2, 2))))
    first, second = lanes((1, 1), (2, 2)).lanes
    assert fed.table.at(A, QUEUE, key=None, choose=lambda _: 0) == Here(first)
    assert fed.table.at(B, QUEUE, key=None, choose=lambda _: 0) == Here(second)
    assert fed.table.at(C, QUEUE, key=None, choose=lambda n: n - 1) == There(second, Seat(B, Epoch(1)))


def test_a_lane_without_a_leader_or_that_drains_is_not_sent_to(fed: Fed) -> None:
    draining = LaneRow(LaneId(2), ShardId(2), Phase.DRAINING)
    rows = (LaneRow(LaneId(1), ShardId(1)), draining, LaneRow(LaneId(3), ShardId(3)))
    fed.write(put_layout(QUEUE, Layout(rows, Model.INDEPENDENT)), put_shard(1, A, 2, ShardState.RECOVERING))
    for choice in range(3):
        found = fed.table.at(B, QUEUE, key=None, choose=lambda n, choice=choice: min(choice, n - 1))  # type: ignore[misc]
        assert found == There(rows[2], Seat(C, Epoch(1)))


def test_a_key_belongs_to_the_open_lane_of_its_range() -> None:
    middle = KEY_MAX // 2
    layout = Layout(
        (
            LaneRow(LaneId(1), ShardId(1), Phase.DRAINING),
            LaneRow(LaneId(2), ShardId(2), Phase.OPEN, 0, middle, (LaneId(1),)),
            LaneRow(LaneId(3), ShardId(3), Phase.HEIR, middle + 1, KEY_MAX, (LaneId(1),)),
        )
    )
    assert [layout.lane_of(key) for key in (0, middle)] == [layout.lanes[1]] * 2
    assert layout.lane_of(middle + 1) is None, "its lane has not inherited yet"
    assert [row.lane for row in layout.served_lanes()] == [1, 2]
    assert layout.row_of(LaneId(3)) == layout.lanes[2]
    assert layout.row_of(LaneId(4)) is None


def test_a_layout_is_read_as_it_was_written() -> None:
    row = LaneRow(LaneId(5), ShardId(6), Phase.DRAINING, 7, KEY_MAX, (LaneId(8),))
    layout = Layout((row,), Model.INDEPENDENT, (LaneId(9),))
    written = put_layout(QUEUE, layout)
    assert msgspec.json.decode(written.value, type=Layout) == layout
