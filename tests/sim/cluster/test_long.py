"""Hours in the life of a cluster: they cost little, nothing goes on in them that is not wanted, and promises last."""

from tests.sim.cluster.doze import doze
from tests.sim.cluster.hand import at_work
from tests.sim.cluster.long import HOUR, simulate_day
from tests.sim.hand import seqs
from tests.sim.world import SECOND


def test_a_cluster_that_dozes_for_hours_stays_as_it_is_and_serves_at_once() -> None:
    with at_work() as hand:
        queue = hand.queues.simple
        letter = hand.send(queue)
        before, calls = [hand.cluster.record(shard) for shard in hand.cluster.shards], hand.cluster.wire.sent
        doze(hand.cluster, hand.world.now + 6 * HOUR)
        assert [hand.cluster.record(shard) for shard in hand.cluster.shards] == before
        assert hand.cluster.wire.sent - calls < 6 * 3600  # one message in a second; awake it is a hundred
        assert seqs(hand.receive(queue)) == [letter.seq]
        hand.finish()


def test_after_a_doze_a_dead_primary_is_replaced_as_quickly_as_ever() -> None:
    with at_work() as hand:
        queue = hand.queues.simple
        doze(hand.cluster, hand.world.now + HOUR)
        old, died = hand.primary(queue), hand.world.now
        old.lose_power(60 * SECOND, "directed")
        hand.until_led_by_another(queue, old)
        hand.send(queue)
        assert hand.world.now - died < 4 * SECOND
        hand.finish()


def test_a_lease_of_twelve_hours_lasts_for_twelve_hours() -> None:
    with at_work() as hand:
        queue = hand.queues.fifo
        letter = hand.send(queue, group="a")
        taken = hand.world.now
        assert seqs(hand.receive(queue, timeout_s=43_200)) == [letter.seq]
        doze(hand.cluster, taken + 43_199 * SECOND)
        assert hand.receive(queue) == []
        hand.wait(5 * SECOND)
        assert seqs(hand.receive(queue)) == [letter.seq]
        hand.finish()


def test_a_morning_holds_and_is_the_same_every_time() -> None:
    first, second = (simulate_day(5, length=2 * HOUR) for _ in range(2))
    assert not first.violation, f"{first.invariant}: {first.violation}\n" + "\n".join(first.last[-10:])
    assert first.hash == second.hash
    assert first.simulated_us >= 2 * HOUR
