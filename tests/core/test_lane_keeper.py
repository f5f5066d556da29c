"""Lanes of queues: when there should be more or fewer, where they go, and how a queue lets go of them."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.cluster.lane_keeper import (
    Expand,
    LaneKeeper,
    Merge,
    Order,
    Queue,
    Shards,
    Shrink,
    Split,
    Wish,
    first_shards,
    remove_queue,
    write_down,
)
from holdfast.core.cluster.table import KEY_MAX, LaneRow, Layout, Model, Phase, layout_key, layout_of, put_layout
from holdfast.core.coordination import catalogue
from holdfast.core.coordination.catalogue import QueueRow
from holdfast.core.coordination.cluster import HostId
from holdfast.core.coordination.sizing import LaneLimits, QueueUse
from holdfast.core.coordination.store import Put, State, Transaction
from holdfast.core.limits import EXPAND_AFTER, RESHAPES_MAX, SECOND, SHRINK_AFTER
from holdfast.core.types import LaneId, QueueName, ShardId, WallMs

LIMITS = LaneLimits(messages=1000, bytes=10**9, in_flight=10**6, sends_per_s=10**6)
SHARDS = Shards({ShardId(each): HostId("abc"[each % 3]) for each in range(1, 7)}, {})
ORDERS = QueueName("000000000000", "orders")


def lanes(count: int, *, keyed: bool = False) -> tuple[LaneRow, ...]:
    """Lane n on shard n; with keys each has its part of them."""
    width = (KEY_MAX + 1) // count
    edges = [(n * width, KEY_MAX if n + 1 == count else (n + 1) * width - 1) for n in range(count)]
    return tuple(
        LaneRow(LaneId(n), ShardId(n), Phase.OPEN, *(edges[n - 1] if keyed else (0, KEY_MAX)))
        for n in range(1, count + 1)
    )


def after(
    order: Order, rows: tuple[LaneRow, ...], messages: dict[int, int], *, wait: int, shards: Shards = SHARDS
) -> list[Wish]:
    """What is wanted when the queue has been so for `wait`."""
    keeper = LaneKeeper(LIMITS)
    uses = {LaneId(lane): QueueUse(messages=count) for lane, count in messages.items()}
    queues = {ORDERS: Queue(Layout(rows), order)}
    keeper.look(queues, uses, shards=shards, now=SECOND)
    return keeper.look(queues, uses, shards=shards, now=SECOND + wait)


def test_a_full_standard_queue_gets_lanes_on_other_hosts() -> None:
    assert after(Order.NONE, lanes(1), {1: 900}, wait=EXPAND_AFTER - 1) == []
    assert after(Order.NONE, lanes(1), {1: 900}, wait=EXPAND_AFTER) == [Expand(ORDERS, (ShardId(2),))]
    assert after(Order.NONE, lanes(2), {1: 900, 2: 900}, wait=EXPAND_AFTER) == [
        Expand(ORDERS, (ShardId(3), ShardId(4)))
    ]


def test_a_roomy_standard_queue_lets_go_of_its_emptiest_lane_but_later() -> None:
    idle = {1: 100, 2: 0, 3: 50}
    assert after(Order.NONE, lanes(3), idle, wait=EXPAND_AFTER) == []
    assert after(Order.NONE, lanes(3), idle, wait=SHRINK_AFTER) == [Shrink(ORDERS, LaneId(2))]
    assert after(Order.NONE, lanes(1), {}, wait=SHRINK_AFTER) == []


def test_of_a_fifo_queue_the_full_lane_is_split_and_two_roomy_neighbours_are_merged() -> None:
    rows = lanes(3, keyed=True)
    assert after(Order.GROUP, rows, {2: 900}, wait=EXPAND_AFTER) == [Split(ORDERS, LaneId(2), (ShardId(2), ShardId(4)))]
    assert after(Order.GROUP, rows, {1: 500, 2: 100, 3: 50}, wait=SHRINK_AFTER) == [
        Merge(ORDERS, (LaneId(2), LaneId(3)), ShardId(2))
    ]
    assert after(Order.GROUP, rows, {1: 300, 2: 300, 3: 300}, wait=SHRINK_AFTER) == []


def test_a_lane_of_one_key_cannot_be_split() -> None:
    one = (LaneRow(LaneId(1), ShardId(1), Phase.OPEN, 7, 7),)
    assert after(Order.GROUP, one, {1: 5000}, wait=EXPAND_AFTER) == []


def test_a_fifo_queue_with_one_scope_has_one_lane_whatever_happens() -> None:
    assert after(Order.QUEUE, lanes(1), {1: 10**6}, wait=SHRINK_AFTER) == []


def test_without_other_shards_nothing_is_wanted() -> None:
    alone = Shards({ShardId(1): HostId("a")}, {})
    assert after(Order.NONE, lanes(1), {1: 10**6}, wait=EXPAND_AFTER, shards=alone) == []
    assert after(Order.GROUP, lanes(1, keyed=True), {1: 10**6}, wait=EXPAND_AFTER, shards=alone) == []


def test_a_queue_that_is_changing_is_left_alone_and_only_a_few_change_at_once() -> None:
    keeper = LaneKeeper(LIMITS)
    full = {LaneId(1): QueueUse(messages=900)}
    names = [QueueName("000000000000", f"q{number:02}") for number in range(20)]
    draining = Layout((LaneRow(LaneId(1), ShardId(1), Phase.DRAINING), LaneRow(LaneId(2), ShardId(2))))
    queues = {name: Queue(Layout(lanes(1)), Order.NONE) for name in names}
    queues[names[0]] = Queue(draining, Order.NONE)
    keeper.look(queues, full, shards=SHARDS, now=0)
    for now in (SECOND, EXPAND_AFTER, EXPAND_AFTER + SECOND):
        wanted = [each.queue for each in keeper.look(queues, full, shards=SHARDS, now=now)]
    assert wanted == names[1:RESHAPES_MAX]


def stored(rows: tuple[LaneRow, ...]) -> State:
    """A queue with these lanes; the ids up to 6 have been given out."""
    store = State()
    row = QueueRow(ORDERS, LaneId(1), ShardId(1), {}, {}, WallMs(1), WallMs(1))
    layout = () if len(rows) == 1 else (put_layout(ORDERS, Layout(rows)),)
    store.transact(Transaction((), (catalogue.put_row(row), Put(catalogue.LAST_LANE, b"6"), *layout)))
    return store


def written(wish: Wish, store: State) -> Transaction:
    held = store.get(catalogue.queue_key(ORDERS))
    assert held is not None
    last = store.get(catalogue.LAST_LANE)
    return write_down(wish, catalogue.row_of(held), layout=store.get(layout_key(ORDERS)), last=last)


@given(st.sampled_from(Order), st.integers(1, 6), st.lists(st.integers(0, 2000), min_size=6, max_size=6))
def test_what_is_wanted_is_written_down_once(order: Order, count: int, messages: list[int]) -> None:
    rows = lanes(1 if order is Order.QUEUE else count, keyed=order is Order.GROUP)
    for wait in (EXPAND_AFTER, SHRINK_AFTER):
        for wish in after(order, rows, dict(enumerate(messages, 1)), wait=wait):
            store = stored(rows)
            transaction = written(wish, store)
            assert store.transact(transaction)
            assert not store.transact(transaction), "a late repetition does nothing"
            record, last = store.get(layout_key(ORDERS)), store.get(catalogue.LAST_LANE)
            assert record is not None
            assert last is not None
            after_it = layout_of(record).lanes
            assert int(last.value) == max(6, *(each.lane for each in after_it))
            assert after_it[: len(rows)] == rows or isinstance(wish, Shrink)
            assert any(each.phase is not Phase.OPEN for each in after_it), "a pass has something to do"


def test_each_wish_becomes_a_layout() -> None:
    def phases(wish: Wish, rows: tuple[LaneRow, ...]) -> list[tuple[int, int, str]]:
        store = stored(rows)
        store.transact(written(wish, store))
        record = store.get(layout_key(ORDERS))
        assert record is not None
        return [(each.lane, each.shard, each.phase.value) for each in layout_of(record).lanes if each.phase != "open"]

    keyed = lanes(2, keyed=True)
    assert phases(Expand(ORDERS, (ShardId(4),)), lanes(1)) == [(7, 4, "heir")]
    assert phases(Shrink(ORDERS, LaneId(2)), lanes(2)) == [(2, 2, "draining")]
    assert phases(Split(ORDERS, LaneId(1), (ShardId(3), ShardId(4))), keyed) == [(7, 3, "heir"), (8, 4, "heir")]
    assert phases(Merge(ORDERS, (LaneId(1), LaneId(2)), ShardId(5)), keyed) == [(7, 5, "heir")]


def test_a_queue_that_any_host_may_take_messages_for_keeps_lanes_on_a_few_hosts() -> None:
    keeper = LaneKeeper(LIMITS)
    queues = {ORDERS: Queue(Layout(lanes(4), Model.INDEPENDENT), Order.NONE)}
    keeper.look(queues, {}, shards=SHARDS, now=0)
    assert keeper.look(queues, {}, shards=SHARDS, now=SHRINK_AFTER) == [Shrink(ORDERS, LaneId(4))]
    queues = {ORDERS: Queue(Layout(lanes(3), Model.INDEPENDENT), Order.NONE)}
    assert keeper.look(queues, {}, shards=SHARDS, now=2 * SHRINK_AFTER) == []


def test_a_new_queue_has_one_lane_or_one_on_each_of_a_few_hosts() -> None:
    assert first_shards(Model.PRIMARY, Order.NONE, SHARDS) == (ShardId(1),)
    assert first_shards(Model.INDEPENDENT, Order.GROUP, SHARDS) == (ShardId(1),)
    spread = first_shards(Model.INDEPENDENT, Order.NONE, SHARDS)
    assert [SHARDS.leaders[each] for each in spread] == ["b", "c", "a"]


def test_a_deleted_queue_lets_go_of_all_its_lanes_at_once() -> None:
    store = State()
    row = QueueRow(ORDERS, LaneId(1), ShardId(1), {}, {}, WallMs(1), WallMs(1))
    store.transact(Transaction((), (catalogue.put_row(row), put_layout(ORDERS, Layout(lanes(3))))))
    held, layout = store.get(catalogue.queue_key(ORDERS)), store.get(layout_key(ORDERS))
    assert held is not None
    assert layout is not None
    removal = remove_queue(catalogue.row_of(held), layout, now=WallMs(2), former=())
    assert store.transact(removal)
    loose = [catalogue.loose_of(each) for each in store.range(catalogue.LOOSE).records]
    assert loose == [(1, 1), (2, 2), (3, 3)]
    assert store.get(layout_key(ORDERS)) is None
    assert store.get(catalogue.queue_key(ORDERS)) is None
    assert not store.transact(removal), "a late repetition does nothing"


def test_a_queue_whose_lanes_were_changed_meanwhile_is_not_deleted_by_what_was_known_before() -> None:
    store = State()
    row = QueueRow(ORDERS, LaneId(1), ShardId(1), {}, {}, WallMs(1), WallMs(1))
    store.transact(Transaction((), (catalogue.put_row(row), put_layout(ORDERS, Layout(lanes(2))))))
    held, layout = store.get(catalogue.queue_key(ORDERS)), store.get(layout_key(ORDERS))
    assert held is not None
    store.transact(Transaction((), (put_layout(ORDERS, Layout(lanes(3))),)))
    assert not store.transact(remove_queue(catalogue.row_of(held), layout, now=WallMs(2), former=()))


def test_a_queue_without_a_layout_is_deleted_as_ever() -> None:
    row = QueueRow(ORDERS, LaneId(1), ShardId(1), {}, {}, WallMs(1), WallMs(1), revision=4)
    assert remove_queue(row, None, now=WallMs(2), former=()) == catalogue.remove(row, WallMs(2), former=())
