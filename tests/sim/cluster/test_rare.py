"""What hardly ever happens, played by hand: a store that is restored from a backup, a shard that nobody writes to."""

from tests.sim.cluster.hand import at_work
from tests.sim.cluster.play import down, names_of
from tests.sim.world import SECOND


def test_while_the_store_is_an_old_backup_queues_go_on_and_configurations_stay() -> None:
    with at_work() as hand:
        queue, store = hand.queues.simple, hand.cluster.store
        store.save()
        _, _, away = hand.members(queue)
        down(away, length=30 * SECOND)
        hand.until(lambda: away.name not in names_of(hand.record(queue)))
        hand.send(queue)
        store.restore()
        restored = hand.record(queue)
        for _ in range(8):
            hand.wait(SECOND)
            hand.send(queue)
        assert hand.record(queue) == restored, "nobody changes a record of a store that was restored"
        hand.cluster.set_right()
        assert away.name not in names_of(hand.record(queue))
        hand.finish()
        assert hand.simulation.drain.drained == 9  # type: ignore[attr-defined]


def test_a_host_that_starts_while_the_store_is_an_old_backup_takes_part_in_nothing() -> None:
    with at_work() as hand:
        queue, store = hand.queues.simple, hand.cluster.store
        _, other, _ = hand.members(queue)
        store.save()
        hand.wait(SECOND)
        store.restore()
        down(other, length=SECOND)
        hand.wait(8 * SECOND)
        assert other.is_up
        assert other.daemon is not None
        assert other.daemon.identity is None
        hand.cluster.set_right()
        hand.until(lambda: other.daemon is not None and other.daemon.identity is not None)
        assert other.enrolments == 2
        hand.finish()


def test_a_delay_is_not_longer_because_a_shard_was_idle_before_its_primary_died() -> None:
    with at_work() as hand:
        queue = hand.queues.simple
        hand.send(queue, delay_s=60)
        hand.wait(55 * SECOND)
        old = hand.primary(queue)
        down(old, length=60 * SECOND)
        hand.until_led_by_another(queue, old)
        assert hand.receive(queue) == []
        hand.wait(6 * SECOND)
        assert [each.header.seq for each in hand.receive(queue)] == [1]
        hand.finish()
