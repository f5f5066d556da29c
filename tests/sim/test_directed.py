"""T11, T12 and T13 of the known failures of others, on one host: clocks, restarts, deletes that must hold."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from holdfast.core.errors import InvalidParameterValue, PurgeQueueInProgress
from holdfast.core.log.files import FileOp
from holdfast.core.queue.command import Delivered
from tests.sim.account import FOREVER
from tests.sim.hand import Crashed, Hand, at_work, seqs
from tests.sim.host import KILL, POWER
from tests.sim.plan import QUIET, Plan
from tests.sim.world import MS, SECOND

HOUR_MS = 3_600_000
SMALL = Plan(segment_bytes=32_768, snapshot_every=1, limits={"STRETCH_BITS": 4, "LOAD_MAX": 8, "WINDOW_MAX": 8})
CRASHES = pytest.mark.parametrize("kind", [KILL, POWER])
JUMPS = pytest.mark.parametrize("hours", [-30, 30])


# T11: a clock jump ended leases early and stalled receives


@JUMPS
def test_a_jump_of_the_wall_clock_neither_ends_nor_prolongs_a_lease(hours: int) -> None:
    with at_work(QUIET) as hand:
        queue = hand.queues.simple
        hand.send(queue)
        assert seqs(hand.receive(queue, timeout_s=30)) == [1]
        hand.host.clock.jump(hours * HOUR_MS)
        assert hand.receive(queue, timeout_s=30) == []
        hand.wait(29 * SECOND)
        assert hand.receive(queue, timeout_s=30) == []
        hand.wait(1 * SECOND + 100 * MS)
        assert seqs(hand.receive(queue, timeout_s=30)) == [1]
        hand.finish()


@JUMPS
def test_a_jump_of_the_wall_clock_neither_stalls_nor_shortens_a_long_poll(hours: int) -> None:
    with at_work(QUIET) as hand:
        queue = hand.queues.simple
        hand.world.after(1 * SECOND, hand.host.clock.jump, hours * HOUR_MS)
        begun = hand.world.now
        assert hand.receive(queue, wait_s=5) == []
        assert 5 * SECOND <= hand.world.now - begun < 5 * SECOND + 200 * MS
        hand.send(queue, delay_s=3)
        hand.world.after(1 * SECOND, hand.host.clock.jump, -hours * HOUR_MS)
        begun = hand.world.now
        assert seqs(hand.receive(queue, wait_s=20)) == [1]
        assert hand.world.now - begun < 3 * SECOND + 200 * MS
        hand.finish()


@JUMPS
@CRASHES
def test_a_restart_under_another_wall_clock_keeps_leases_delays_and_deduplication(hours: int, kind: str) -> None:
    with at_work(QUIET) as hand:
        queue, fifo = hand.queues.simple, hand.queues.fifo
        hand.send(queue)
        assert seqs(hand.receive(queue, timeout_s=30)) == [1]
        hand.send(queue, delay_s=10)
        first = hand.send(fifo, key="k", group="g")
        hand.restart(kind)
        hand.host.clock.jump(hours * HOUR_MS)
        assert hand.receive(queue, timeout_s=30) == []
        assert hand.send(fifo, key="k", group="g").seq == first.seq
        hand.wait(11 * SECOND)
        assert seqs(hand.receive(queue, timeout_s=60)) == [2]
        hand.wait(20 * SECOND)
        assert seqs(hand.receive(queue, timeout_s=60)) == [1]
        hand.finish()


def test_a_pause_longer_than_the_lease_ends_it_and_its_receipt() -> None:
    with at_work(QUIET) as hand:
        queue = hand.queues.fifo
        hand.send(queue, group="g")
        [old] = hand.receive(queue, timeout_s=30)
        hand.host.pause(100 * SECOND)
        with pytest.raises(InvalidParameterValue):
            hand.delete(queue, old)
        [new] = hand.receive(queue, timeout_s=30)
        assert new.number == old.number + 1
        hand.delete(queue, new)
        hand.finish()


def test_time_that_a_host_is_down_does_not_count() -> None:
    with at_work(QUIET) as hand:
        queue = hand.queues.simple
        hand.send(queue)
        assert seqs(hand.receive(queue, timeout_s=30)) == [1]
        hand.host.crash(POWER, "directed", restart=3600 * SECOND)
        hand.wait(3601 * SECOND)
        assert hand.receive(queue) == []
        hand.wait(31 * SECOND)
        assert seqs(hand.receive(queue)) == [1]
        hand.finish()


# T12: purge, deduplication window and sequence numbers were lost at restart


@CRASHES
@pytest.mark.parametrize("traffic", [0, 150])
def test_a_purge_survives_a_restart(kind: str, traffic: int) -> None:
    with at_work(SMALL) as hand:
        queue = hand.queues.dead
        for _ in range(20):
            hand.send(queue)
        hand.receive(queue)
        hand.purge(queue)
        hand.fill(hand.queues.simple, traffic)
        hand.restart(kind)
        assert hand.receive(queue) == []
        if not traffic:
            with pytest.raises(PurgeQueueInProgress):
                hand.purge(queue)
        letter = hand.send(queue)
        assert letter.seq == 21
        assert seqs(hand.receive(queue)) == [21]
        hand.finish()


@CRASHES
@pytest.mark.parametrize("traffic", [0, 150])
def test_the_deduplication_window_survives_restarts_and_ends_in_time(kind: str, traffic: int) -> None:
    with at_work(SMALL) as hand:
        queue = hand.queues.fifo
        first = hand.send(queue, key="k", group="g")
        [delivered] = hand.receive(queue)
        hand.delete(queue, delivered)
        hand.fill(hand.queues.plain, traffic)
        for _ in range(3):
            hand.restart(kind)
            assert hand.send(queue, key="k", group="g").seq == first.seq
            hand.wait(60 * SECOND)
        assert hand.receive(queue) == []
        hand.wait(301 * SECOND)  # time that it was down, or idle before a crash, did not count
        assert hand.send(queue, key="k", group="g").seq > first.seq
        assert len(hand.receive(queue)) == 1
        hand.finish()


@CRASHES
@pytest.mark.parametrize("traffic", [0, 150])
def test_sequence_numbers_go_on_after_a_restart_of_an_empty_queue(kind: str, traffic: int) -> None:
    with at_work(SMALL) as hand:
        queue = hand.queues.fifo
        for number in range(1, 4):
            letter = hand.send(queue, group="g")
            assert letter.seq == number
            [delivered] = hand.receive(queue)
            hand.delete(queue, delivered)
            hand.fill(hand.queues.plain, traffic)
            hand.restart(kind)
        hand.finish()


# T13: deleted messages came back after restart


def play(hand: Hand) -> None:
    """Messages of three kinds are sent and received, some are deleted, segments roll, snapshots are made."""
    parts = ((hand.queues.simple, ""), (hand.queues.fifo, "g"), (hand.queues.plain, ""))
    for queue, group in parts:
        for _ in range(6):
            with persisting(hand):
                hand.send(queue, group=group, size=700)
    hand.wait(400 * MS)
    for queue, _ in parts:
        received: list[Delivered] = []
        with persisting(hand):
            received = hand.receive(queue, timeout_s=30)
        for delivered in received:
            if delivered.header.seq % 2:
                with persisting(hand):
                    hand.delete(queue, delivered)
    hand.wait(400 * MS)


@contextmanager
def persisting(hand: Hand) -> Iterator[None]:
    """A crash may leave the outcome unknown; the client goes on."""
    try:
        yield
    except Crashed:
        hand.wait(5 * MS)


class CrashAt:
    """Crashes before one operation, the `number`th that changes something."""

    def __init__(self, number: int, kind: str) -> None:
        self.number = number
        self.kind = kind
        self.is_done = False

    def __call__(self, number: int, _: FileOp) -> str:
        self.is_done = self.is_done or number == self.number
        return self.kind if number == self.number else ""


@CRASHES
@pytest.mark.parametrize("part", range(4))
def test_an_acknowledged_delete_holds_whatever_operation_the_crash_falls_on(kind: str, part: int) -> None:
    """Every fourth operation of the play, in four tests; seeds vary what the power cut keeps."""
    plan = Plan(segment_bytes=32_768, snapshot_every=1, limits=SMALL.limits)
    number, crashes = part + 1, 0
    while True:
        crash = CrashAt(number, kind)
        with at_work(plan, number, failpoint=crash) as hand:
            play(hand)
            deleted = [letter for letter in hand.simulation.account.letters if letter.deleted_at != FOREVER]
            hand.finish()
            assert all(not letter.is_drained for letter in deleted)
        if not crash.is_done:
            break
        crashes += 1
        number += 4
    assert crashes > 20
