"""The simulated cluster asked by the core's own router: its retries, ids and waits under all faults."""

from typing import Any

import msgspec
import pytest

from tests.sim.cluster import cluster
from tests.sim.cluster.hand import at_work
from tests.sim.cluster.plan import CALM, draw
from tests.sim.cluster.routed import RoutedFrontend
from tests.sim.cluster.run import simulate
from tests.sim.cluster.test_cluster import assert_holds
from tests.sim.world import MS, SECOND

FIVE = msgspec.structs.replace(CALM, hosts=5, has=("fair",))


@pytest.fixture(autouse=True)
def routed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every front-end of a cluster is one with a router."""
    monkeypatch.setattr(cluster, "Frontend", RoutedFrontend)


@pytest.mark.parametrize("seed", [8, 23])
def test_a_seed_holds(seed: int) -> None:
    outcome = simulate(seed, msgspec.structs.replace(draw(seed), seconds=5, quiet_s=()))
    assert_holds(outcome)
    assert outcome.acknowledged > 50


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
        one, two = hand.queues.named("fair"), hand.queues.simple
        assert hand.primary(one) is not hand.primary(two)
        front: Any = hand.cluster.frontends[0]
        account = hand.simulation.account
        front.spread({queue.lane: queue.shard for queue in (one, two)})
        before = [hand.send(two).lane for _ in range(20)]
        assert set(before) == {one.lane, two.lane}, "any lane gets messages"
        hand.primary(one).lose_power(60 * SECOND, "directed")
        begun = hand.world.now
        during = [hand.send(two).lane for _ in range(5)]
        assert set(during) == {two.lane}
        assert hand.world.now - begun < SECOND, "nobody waits for a fail-over"
        found = 0
        while found < 25:
            hand.wait(200 * MS)
            found += len(hand.receive(two, timeout_s=60))
        assert all(letter.is_received for letter in account.letters)
