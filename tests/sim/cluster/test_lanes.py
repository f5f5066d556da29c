"""Front-ends of a simulated cluster, which follow the core's router, and queues with several lanes: played by hand."""

import msgspec
import pytest

from holdfast.core.cluster.lane_keeper import Expand, Merge, Split
from holdfast.core.cluster.table import Layout, Phase, layout_key, layout_of
from holdfast.core.queue.dedup import group_of
from holdfast.core.types import LaneId
from tests.sim.cluster.frontend import name_of
from tests.sim.cluster.hand import ClusterHand, at_work
from tests.sim.cluster.plan import CALM
from tests.sim.cluster.play import want
from tests.sim.queues import ONE, TWO, Queue
from tests.sim.world import MS, SECOND

FIVE = msgspec.structs.replace(CALM, hosts=5, has=("wide",))
KEYED = msgspec.structs.replace(CALM, has=("keyed",), limits={"REQUEST_WINDOW": 20 * SECOND})


def layout(hand: ClusterHand, queue: Queue) -> Layout:
    record = hand.cluster.store.state.get(layout_key(name_of(queue.lane)))
    assert record is not None
    return layout_of(record)


def open_lanes(hand: ClusterHand, queue: Queue) -> list[LaneId]:
    return [row.lane for row in layout(hand, queue).lanes if row.phase is Phase.OPEN]


@pytest.mark.parametrize("has_message", [False, True])
def test_a_wait_across_a_fail_over_goes_on_at_the_new_primary(has_message: bool) -> None:
    with at_work() as hand:
        queue = hand.queues.simple
        old = hand.primary(queue)
        hand.world.after(2 * SECOND, old.lose_power, 60 * SECOND, "directed")
        if has_message:
            hand.send(queue, delay_s=4)
        begun = hand.world.now
        received = hand.receive(queue, wait_s=15)
        assert [each.header.seq for each in received] == ([1] if has_message else [])
        assert hand.world.now - begun < 16 * SECOND, "nobody waits for the one that is gone"
        assert hand.primary(queue) is not old
        hand.finish()


def test_a_send_whose_answer_was_lost_is_there_once() -> None:
    with at_work() as hand:
        queue = hand.queues.simple
        old = hand.primary(queue)
        for _ in range(3):
            hand.world.after(700, old.lose_power, 5 * SECOND, "directed")  # before it can answer
            hand.send(queue)
            hand.until(lambda: old.is_up)
        hand.wait(2 * SECOND)
        received = hand.receive(queue) + hand.receive(queue)
        assert sorted(each.header.seq for each in received) == [1, 2, 3]
        hand.finish()


def test_a_queue_of_independent_hosts_goes_on_without_the_one_that_failed_and_gets_its_messages_back() -> None:
    with at_work(FIVE) as hand:
        queue = hand.queues.named("wide")
        one, two = (hand.cluster.node(hand.cluster.record(shard).primary) for shard in (ONE, TWO))  # type: ignore[union-attr]
        assert one is not two
        want(hand, queue, Expand(name_of(queue.lane), (TWO,)))
        hand.until(lambda: len(open_lanes(hand, queue)) == 2)
        hand.wait(SECOND)
        first, other = open_lanes(hand, queue)
        assert {hand.send(queue).lane for _ in range(20)} == {first, other}, "any lane gets messages"
        one.lose_power(60 * SECOND, "directed")
        begun = hand.world.now
        assert {hand.send(queue).lane for _ in range(5)} == {other}
        assert hand.world.now - begun < SECOND, "nobody waits for a fail-over"
        found = 0
        while found < 25:
            hand.wait(200 * MS)
            found += len(hand.receive(queue, timeout_s=60))
        assert all(letter.is_received for letter in hand.simulation.account.letters)
        hand.finish()


def test_a_group_stays_in_order_over_a_split_and_a_merge_with_a_fail_over_in_each() -> None:
    with at_work(KEYED) as hand:
        queue = hand.queues.named("keyed")
        name, groups = name_of(queue.lane), ("a", "b", "c", "d")
        sent: list[int] = []

        def send() -> None:
            sent.extend(hand.send(queue, group=group).number for group in groups)

        send()
        want(hand, queue, Split(name, queue.lane, (ONE, TWO)))
        hand.primary(queue).lose_power(4 * SECOND, "directed")
        hand.until(lambda: len(open_lanes(hand, queue)) == 2)
        send()
        assert len({layout(hand, queue).lane_of(group_of(group)) for group in groups}) == 2, "some have moved"
        heirs = open_lanes(hand, queue)
        want(hand, queue, Merge(name, (heirs[0], heirs[1]), TWO))
        hand.primary(queue).lose_power(4 * SECOND, "directed")
        hand.until(lambda: len(open_lanes(hand, queue)) == 1)
        send()
        hand.finish()  # takes out everything, and checks the order
        letters = [hand.simulation.account.letters[number] for number in sent]
        assert all(letter.is_drained for letter in letters)
        assert len({letter.lane for letter in letters}) == 4, "each was in a lane of its time"
        assert layout(hand, queue).former == (queue.lane, *heirs)


def test_an_id_is_accepted_once_also_where_its_group_has_moved() -> None:
    with at_work(KEYED) as hand:
        queue = hand.queues.named("keyed")
        first = hand.send(queue, group="a", key="a/once")
        want(hand, queue, Split(name_of(queue.lane), queue.lane, (ONE, TWO)))
        hand.until(lambda: len(open_lanes(hand, queue)) == 2)
        hand.wait(SECOND)
        again = hand.send(queue, group="a", key="a/once")
        assert again.lane != first.lane
        assert again.name == first.name
        hand.finish()
