"""Requests to the store that are applied long after they were sent: the histories that the model found, on real code.

Each would lose an acknowledged message if one of the rules of decision 0013 were missing. The checkers watch; a test
says who must not have acted meanwhile.
"""

import pytest

from holdfast.core.coordination.cluster import ShardState
from holdfast.core.coordination.store import Transaction
from tests.sim.cluster.hand import ClusterHand, at_work
from tests.sim.cluster.play import LONG, Courier, Try, back, down, names_of, record_in
from tests.sim.hand import seqs
from tests.sim.queues import Queue
from tests.sim.request import ANSWERED
from tests.sim.world import MS, SECOND

SEEDS = pytest.mark.parametrize("seed", range(2))


def hold_active(courier: Courier, queue: Queue, members: int) -> None:
    """Configurations of so many members that would be active do not reach the store."""

    def holds(transaction: Transaction) -> bool:
        record = record_in(transaction, queue)
        return record is not None and record.state is ShardState.ACTIVE and len(record.members) == members

    courier.holds = holds


def release(courier: Courier) -> list[bool]:
    courier.holds = lambda _: False
    held, courier.held = courier.held, []
    return [courier.bring(transaction) for transaction in held]


def everything_is_there(hand: ClusterHand, queue: Queue, sent: list[int]) -> None:
    hand.until(lambda: hand.record(queue).state is ShardState.ACTIVE)
    assert set(sent) <= set(seqs(hand.receive(queue)))
    hand.finish()


@SEEDS
def test_a_primary_acknowledges_nothing_while_it_does_not_know_its_configuration(seed: int) -> None:
    with at_work(seed=seed) as hand:
        queue = hand.queues.simple
        sent = [hand.send(queue).seq]
        courier = Courier(hand.cluster.store)
        hold_active(courier, queue, 2)
        primary, _, third = hand.members(queue)
        down(third)
        hand.until(lambda: bool(courier.held))
        back(hand, third)  # all three are there again, and the record is as it was
        epoch = hand.record(queue).epoch
        request = Try(hand, queue)
        hand.wait(2 * SECOND)
        assert request.fate != ANSWERED
        assert hand.record(queue).epoch == epoch
        assert any(release(courier))  # and now it is applied
        assert third.name not in names_of(hand.record(queue))
        assert hand.primary(queue) is primary
        sent += [hand.send(queue).seq for _ in range(3)]
        everything_is_there(hand, queue, sent)


@SEEDS
def test_a_candidate_that_restarts_does_not_lead_by_what_it_asked_for_before(seed: int) -> None:
    with at_work(seed=seed) as hand:
        queue = hand.queues.simple
        sent = [hand.send(queue).seq for _ in range(3)]
        old = hand.primary(queue)
        courier = Courier(hand.cluster.store)
        hold_active(courier, queue, 2)
        down(old)
        hand.until(lambda: bool(courier.held))
        record = record_in(courier.held[0], queue)
        assert record is not None
        candidate = hand.cluster.node(record.primary)
        candidate.lose_power(20 * MS, "directed")
        assert any(release(courier))  # the store says that it leads, and it knows nothing of that
        back(hand, old)
        hand.until(lambda: hand.record(queue).epoch > record.epoch)
        sent += [hand.send(queue).seq for _ in range(3)]
        everything_is_there(hand, queue, sent)


@SEEDS
def test_a_candidate_that_was_passed_over_changes_nothing_when_its_request_arrives(seed: int) -> None:
    with at_work(seed=seed) as hand:
        queue = hand.queues.simple
        sent = [hand.send(queue).seq for _ in range(3)]
        old = hand.primary(queue)
        courier = Courier(hand.cluster.store)
        hold_active(courier, queue, 2)
        down(old, length=LONG)
        hand.until(lambda: bool(courier.held))
        late, courier.held = courier.held, []
        first = record_in(late[0], queue)
        assert first is not None
        hand.cluster.node(first.primary).pause(20 * SECOND)
        back(hand, old)
        courier.holds = lambda _: False
        hand.until(lambda: hand.record(queue).epoch > first.epoch and hand.record(queue).state is ShardState.ACTIVE)
        sent += [hand.send(queue).seq for _ in range(3)]
        assert not any(courier.bring(transaction) for transaction in late)
        sent += [hand.send(queue).seq for _ in range(3)]
        everything_is_there(hand, queue, sent)
