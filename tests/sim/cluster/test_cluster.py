"""The simulated cluster itself: without faults everything is served and checked; with them seeds hold."""

import msgspec
import pytest

from tests.sim.__main__ import kept_seeds
from tests.sim.cluster.hand import at_work
from tests.sim.cluster.plan import CALM, draw
from tests.sim.cluster.run import simulate
from tests.sim.plan import OPTIONAL
from tests.sim.run import Outcome
from tests.sim.world import SECOND

SEEDS = range(4)  # shortened; `make sim` runs whole ones


def assert_holds(outcome: Outcome) -> None:
    assert not outcome.violation, f"{outcome.invariant}: {outcome.violation}\n" + "\n".join(outcome.last[-10:])


def test_without_faults_nothing_fails_and_everything_is_checked() -> None:
    outcome = simulate(0, msgspec.structs.replace(CALM, seconds=6, has=OPTIONAL))
    assert_holds(outcome)
    assert outcome.acknowledged > 300
    assert outcome.faults == {}
    expected = ("I1", "I2", "I3", "I5", "I6", "I7", "I9", "I10", "I11", "I12", "I13", "I14", "I15", "I17", "I19", "I20")
    assert [name for name in expected if not outcome.checks[name]] == []


def test_after_the_crash_of_a_primary_another_member_serves_what_was_acknowledged() -> None:
    with at_work() as hand:
        queue = hand.queues.simple
        letters = [hand.send(queue) for _ in range(5)]
        old = hand.primary(queue)
        old.lose_power(60 * SECOND, "directed")
        hand.until_led_by_another(queue, old)
        assert sorted(each.header.seq for each in hand.receive(queue)) == [letter.seq for letter in letters]
        hand.send(queue)
        hand.finish()


@pytest.mark.parametrize("seed", kept_seeds("cluster"))
def test_a_seed_that_once_failed_holds(seed: int) -> None:
    assert_holds(simulate(seed))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_holds(seed: int) -> None:
    assert_holds(simulate(seed, msgspec.structs.replace(draw(seed), seconds=5, quiet_s=())))
