"""Known failures of others, played on a cluster: T1 to T5, T9 to T11, T14, T15; T12 and T13 across a fail-over.

All checkers watch as in random runs; `finish` heals, waits for a whole cluster, drains, and settles all accounts. So a
test says what has to be seen besides: who may lead, what is refused, how long it takes in simulated time.
"""

from typing import Any

import msgspec
import pytest

from holdfast.core.coordination.cluster import Assignment, ShardState, decode_shard, encode, shard_key
from holdfast.core.coordination.store import Check, Put, Transaction
from holdfast.core.types import Epoch
from tests.sim.cluster.hand import ClusterHand, at_work
from tests.sim.cluster.node import Node
from tests.sim.cluster.plan import CALM
from tests.sim.cluster.play import LONG, Courier, Try, back, down, names_of, record_in
from tests.sim.cluster.wire import around
from tests.sim.hand import seqs
from tests.sim.queues import Queue
from tests.sim.request import ANSWERED
from tests.sim.world import MS, SECOND

FOUR = msgspec.structs.replace(CALM, hosts=4)
FIVE = msgspec.structs.replace(CALM, hosts=5)
SEEDS = pytest.mark.parametrize("seed", range(2))
JUMPS = pytest.mark.parametrize("hours", [-30, 30])


def until_members(hand: ClusterHand, queue: Queue, *nodes: Node) -> None:
    wanted = {node.name for node in nodes}

    def is_so() -> bool:
        record = hand.record(queue)
        return record.state is ShardState.ACTIVE and names_of(record) == wanted

    hand.until(is_so)


def pair_and_rest(hand: ClusterHand, queue: Queue) -> tuple[list[Node], list[Node]]:
    """The shard on two members, all others switched off: they lack the last messages."""
    members = hand.members(queue)
    rest = [node for node in hand.cluster.nodes if node not in members[:2]]
    down(*rest)
    until_members(hand, queue, *members[:2])
    return members[:2], rest


# T1: the last replica alone kept acknowledging, died, and a lagging one was elected


def test_a_primary_that_is_left_alone_refuses_sends() -> None:
    with at_work() as hand:
        queue = hand.queues.simple
        hand.send(queue)
        _, *others = hand.members(queue)
        down(*others)
        hand.wait(5 * SECOND)
        assert Try(hand, queue).end() != ANSWERED
        back(hand, *others)
        hand.send(queue)
        hand.finish()


def test_nobody_outside_the_last_configuration_is_elected() -> None:
    with at_work(FIVE) as hand:
        queue = hand.queues.simple
        pair, rest = pair_and_rest(hand, queue)
        letters = [hand.send(queue) for _ in range(5)]
        epoch = hand.record(queue).epoch
        down(*pair)
        back(hand, *rest)  # three of five hosts live, and none of them has the messages
        hand.wait(30 * SECOND)
        record = hand.record(queue)
        assert names_of(record) == {node.name for node in pair}
        assert record.primary in names_of(record)
        assert record.state is ShardState.RECOVERING or record.epoch == epoch
        assert Try(hand, queue).end() != ANSWERED
        back(hand, pair[1])
        hand.until_led_by_another(queue, pair[0])
        assert {letter.seq for letter in letters} <= set(seqs(hand.receive(queue)))
        hand.finish()


# T2: the last replica crashed uncleanly, came back short, and the others truncated to it


@SEEDS
def test_after_a_power_cut_of_the_last_members_the_others_wait_for_one_of_them(seed: int) -> None:
    with at_work(seed=seed) as hand:
        queue = hand.queues.simple
        pair, rest = pair_and_rest(hand, queue)
        letters = [hand.send(queue) for _ in range(5)]
        down(*pair)
        back(hand, *rest)
        hand.wait(10 * SECOND)
        assert Try(hand, queue).end() != ANSWERED
        first = pair[seed % 2]
        back(hand, first)
        hand.until(lambda: hand.record(queue).state is ShardState.ACTIVE and hand.primary(queue) is first)
        assert {letter.seq for letter in letters} <= set(seqs(hand.receive(queue)))
        hand.finish()


# T3: truncation to a lagging high-water mark lost acknowledged data


@SEEDS
def test_two_fail_overs_before_anybody_hears_what_was_committed_lose_nothing(seed: int) -> None:
    with at_work(FIVE, seed) as hand:
        queue = hand.queues.simple
        letters = []
        for _ in range(2):
            letters += [hand.send(queue) for _ in range(3)]
            old = hand.primary(queue)
            down(old)  # at the moment of the answer: the members have the frames, not the word that they count
            hand.until_led_by_another(queue, old)
        assert sorted(seqs(hand.receive(queue))) == [letter.seq for letter in letters]
        hand.finish()


# T4: fast fail-overs left logs diverged for ever


@SEEDS
def test_three_fail_overs_within_a_second_leave_equal_logs(seed: int) -> None:
    with at_work(seed=seed) as hand:
        queue = hand.queues.simple
        for _ in range(5):
            hand.send(queue)
        begun = hand.world.now
        for number in range(3):
            _call(hand, queue, hand.members(queue)[(number + 1) % 3])
            hand.until(lambda: hand.record(queue).state is ShardState.ACTIVE)
            hand.send(queue)
        assert hand.world.now - begun < SECOND
        hand.until(lambda: not hand.simulation.missing())  # type: ignore[attr-defined]
        hand.send(queue)
        hand.wait(2 * SECOND)
        record = hand.record(queue)
        sealed = [each for each in record.ranges if each.end is not None]
        assert len(sealed) >= 3
        holds = hand.cluster.checkers.platters.holds
        for each in sealed:
            assert each.end is not None
            for node in hand.members(queue):
                lsns = range(each.start, each.end + 1)
                assert all(holds(node.disk, queue.shard, epoch=each.epoch, lsn=lsn) for lsn in lsns)
        hand.finish()


def _call(hand: ClusterHand, queue: Queue, node: Node) -> None:
    """As a manager would that suspects the primary, rightly or not."""
    found = hand.cluster.store.state.get(shard_key(queue.shard))
    assert found is not None
    record = decode_shard(found.value)
    wanted = msgspec.structs.replace(
        record, epoch=Epoch(record.epoch + 1), primary=node.name, state=ShardState.RECOVERING
    )
    key = shard_key(queue.shard)
    transaction = Transaction((Check(key, found.revision),), (Put(key, encode(wanted)),))
    assert hand.cluster.store.apply("transact", (transaction,))


# T5: a stale configuration change re-added a replaced disk


def test_a_late_configuration_does_not_add_a_disk_that_was_replaced_meanwhile() -> None:
    with at_work(FOUR) as hand:
        queue = hand.queues.simple
        hand.send(queue)
        courier = Courier(hand.cluster.store)
        primary, second, third = hand.members(queue)
        learner = next(node for node in hand.cluster.nodes if node not in (primary, second, third))

        def grows(transaction: Transaction) -> bool:
            record = record_in(transaction, queue)
            return record is not None and learner.name in names_of(record)

        courier.holds = grows
        down(third)
        hand.until(lambda: bool(courier.held), seconds=120)
        life = next(each.life for each in _members_in(courier.held[0], queue) if each.host == learner.name)
        learner.replace_disk(learner.new_disk())
        hand.until(lambda: learner.identity is not None and learner.identity.life != life)
        assert not any(courier.bring(transaction) for transaction in courier.held)
        assert learner.name not in names_of(hand.record(queue))
        courier.holds = lambda _: False
        hand.send(queue)
        hand.until(lambda: learner.name in names_of(hand.record(queue)))
        hand.finish()


def _members_in(transaction: Transaction, queue: Queue) -> tuple[Any, ...]:
    record = record_in(transaction, queue)
    assert record is not None
    return record.members


# T9: one crash and pauses made a persistent split brain


@SEEDS
def test_a_paused_primary_that_wakes_after_its_successor_died_serves_nothing_old(seed: int) -> None:
    with at_work(FIVE, seed) as hand:
        queue = hand.queues.simple
        hand.send(queue)
        old = hand.primary(queue)
        old.pause(14 * SECOND)  # longer than any lease
        new = hand.until_led_by_another(queue, old)
        letters = [hand.send(queue) for _ in range(3)]
        down(new, length=5 * SECOND)
        hand.wait(20 * SECOND)
        assert {letter.seq for letter in letters} <= set(seqs(hand.receive(queue)))
        hand.finish()


@SEEDS
def test_a_primary_that_is_cut_off_while_its_successor_dies_serves_nothing_old(seed: int) -> None:
    with at_work(FIVE, seed) as hand:
        queue = hand.queues.simple
        hand.send(queue)
        old = hand.primary(queue)
        hosts = [str(node.name) for node in hand.cluster.nodes]
        hand.cluster.wire.cut_for(around(old.name, hosts), 12 * SECOND)  # clients and the store still reach it
        new = hand.until_led_by_another(queue, old)
        letters = [hand.send(queue) for _ in range(3)]
        down(new, length=3 * SECOND)
        hand.until(lambda: hand.record(queue).state is ShardState.ACTIVE and hand.primary(queue).is_up)
        letters += [hand.send(queue) for _ in range(3)]
        hand.wait(15 * SECOND)
        assert {letter.seq for letter in letters} <= set(seqs(hand.receive(queue)))
        hand.finish()


# T10: one slow disk slowed the whole cluster


def test_a_member_with_a_slow_disk_is_let_go_and_sends_are_quick_again() -> None:
    with at_work(FOUR) as hand:
        queue = hand.queues.simple
        primary, slow, _ = hand.members(queue)
        slow.slow_until = hand.world.now + LONG
        begun = hand.world.now
        while slow.name in names_of(hand.record(queue)):
            hand.send(queue)
            assert hand.world.now - begun < 10 * SECOND
        assert _slowest_send(hand, queue, 50) < 100 * MS
        assert hand.primary(queue) is primary
        hand.finish()


def _slowest_send(hand: ClusterHand, queue: Queue, count: int) -> int:
    slowest = 0
    for _ in range(count):
        begun = hand.world.now
        hand.send(queue)
        slowest = max(slowest, hand.world.now - begun)
        hand.wait(20 * MS)
    return slowest


# T11: a clock jump ended leases early and stalled receives


@JUMPS
def test_jumps_of_all_clocks_neither_end_a_lease_nor_depose_a_primary(hours: int) -> None:
    with at_work() as hand:
        queue = hand.queues.simple
        hand.send(queue)
        assert seqs(hand.receive(queue, timeout_s=30)) == [1]
        before = hand.record(queue)
        for node in hand.cluster.nodes:
            node.clock.jump(hours * 3_600_000)
            hand.wait(2 * SECOND)
            assert hand.receive(queue, timeout_s=30) == []
        assert hand.record(queue) == before
        hand.wait(25 * SECOND)
        assert seqs(hand.receive(queue, timeout_s=30)) == [1]
        hand.finish()


@JUMPS
def test_a_successor_with_another_clock_keeps_delays_and_deduplication(hours: int) -> None:
    with at_work(FIVE) as hand:
        queue, fifo = hand.queues.simple, hand.queues.fifo
        hand.send(queue, delay_s=10)
        first = hand.send(fifo, key="k", group="g")
        for node in hand.cluster.nodes[1:]:
            node.clock.jump(hours * 3_600_000)
        _fail_over(hand, queue, fifo)
        assert hand.receive(queue) == []
        assert hand.send(fifo, key="k", group="g").seq == first.seq
        hand.wait(11 * SECOND)
        assert seqs(hand.receive(queue)) == [1]
        hand.finish()


def _fail_over(hand: ClusterHand, *queues: Queue) -> None:
    """The primaries lose their power, and come back long after others lead."""
    for queue in queues:
        old = hand.primary(queue)
        down(old, length=20 * SECOND)
        hand.until_led_by_another(queue, old)


# T12: purge, deduplication window and sequence numbers were lost; T13: deleted messages came back


def test_a_purge_a_deletion_and_sequence_numbers_survive_a_fail_over() -> None:
    with at_work(FIVE) as hand:
        queue, fifo = hand.queues.simple, hand.queues.fifo
        for _ in range(4):
            hand.send(queue)
            hand.send(fifo, group="g")
        hand.purge(queue)
        received = hand.receive(fifo)
        for delivered in received[:2]:
            hand.delete(fifo, delivered)
        _fail_over(hand, queue, fifo)
        assert hand.receive(queue) == []
        assert hand.send(queue).seq == 5
        assert hand.send(fifo, group="g").seq == 5
        hand.wait(40 * SECOND)
        assert seqs(hand.receive(fifo)) == [3, 4, 5]
        hand.finish()


# T14: long polls answered 50x during fail-over


@pytest.mark.parametrize("has_message", [False, True])
def test_a_long_poll_across_a_fail_over_ends_with_messages_or_none(has_message: bool) -> None:
    with at_work() as hand:
        queue = hand.queues.simple
        old = hand.primary(queue)
        hand.world.after(2 * SECOND, down, old)
        if has_message:
            hand.send(queue, delay_s=4)
        begun = hand.world.now
        received = hand.receive(queue, wait_s=15)  # raises if the answer is an error, or none
        assert seqs(received) == ([1] if has_message else [])
        assert hand.world.now - begun < 40 * SECOND  # the front-end waits in vain for the old primary, then asks again
        assert hand.primary(queue) is not old
        hand.finish()


# T15: a delayed command from an old manager stopped a live replica


@SEEDS
def test_commands_of_managers_that_come_late_change_nothing(seed: int) -> None:
    with at_work(FOUR, seed) as hand:
        queue = hand.queues.simple
        courier = Courier(hand.cluster.store)
        for _ in range(2):
            old = hand.primary(queue)
            down(old, length=8 * SECOND)
            hand.until_led_by_another(queue, old)
            hand.send(queue)
        hand.until(lambda: not hand.simulation.missing())  # type: ignore[attr-defined]
        hand.wait(10 * SECOND)
        late = [each for each in courier.seen if any(_is_command(write.key) for write in each.writes)]
        assert len(late) >= 4
        before = hand.record(queue)
        for transaction in late:
            assert not courier.bring(transaction), transaction
            hand.send(queue)
        assert hand.record(queue) == before
        hand.finish()


def _is_command(key: str) -> bool:
    return key.partition("/")[0] in ("shards", "assignments", "manager", "drains")


def test_an_assignment_that_is_as_old_as_the_cluster_is_refused() -> None:
    with at_work(FOUR) as hand:
        courier, queue = Courier(hand.cluster.store), hand.queues.simple
        key = f"assignments/{queue.shard}"
        old = Transaction((Check(key, 1),), (Put(key, encode(Assignment((hand.primary(queue).name,)))),))
        before = hand.record(queue)
        assert not courier.bring(old)
        hand.wait(5 * SECOND)
        assert hand.record(queue) == before
        hand.finish()
