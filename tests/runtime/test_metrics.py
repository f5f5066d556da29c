"""Counting: what a reply adds to, and what is kept of queues that are gone."""

from dataclasses import dataclass

import pytest

from holdfast.core.errors import QueueDoesNotExist
from holdfast.core.types import QueueName
from holdfast.core.usage import BYTES_IN
from holdfast.frontend.caller import Caller
from holdfast.runtime import metrics
from holdfast.runtime.metrics import BOUNDS_S, DELETED, EMPTY, RECEIVED, SENT, SENT_BYTES, Histogram, Meter, now

ANN = Caller("000000000001", "arn:aws:iam::000000000001:user/ann", "AIDAANN")
ORDERS = QueueName("000000000001", "orders")


@dataclass
class Given:
    messages: int = 1
    size: int = 0
    queue: QueueName | None = ORDERS
    caller: Caller = ANN
    began: float = 0.0


def test_a_duration_is_counted_at_the_first_bound_that_is_not_below_it() -> None:
    histogram = Histogram()
    for seconds in (0.0, BOUNDS_S[0], BOUNDS_S[0] + 1e-9, BOUNDS_S[-1] + 1):
        histogram.note(seconds)
    assert (histogram.counts[:2], histogram.counts[-1], sum(histogram.counts)) == ([2, 1], 1, 4)


def test_replies_add_to_their_action_and_successes_to_their_queue() -> None:
    meter = Meter()
    meter.tally("SendMessageBatch").note(Given(3, 30, began=now()))
    meter.tally("SendMessageBatch").note(Given(3, 30, began=now()), QueueDoesNotExist)
    meter.tally("ReceiveMessage").note(Given(2, 20, began=now()))
    meter.tally("ReceiveMessage").note(Given(0, began=now()))
    meter.tally("DeleteMessageBatch").note(Given(0, began=now()))
    meter.tally("ListQueues").note(Given(queue=None, began=now()))
    meter.update()
    counts = meter.queues[ORDERS]
    assert [counts[place] for place in (SENT, RECEIVED, DELETED, EMPTY, SENT_BYTES)] == [3, 2, 0, 1, 30]
    assert meter.actions["SendMessageBatch"].statuses == {200: 1, 400: 1}
    assert sum(meter.actions["SendMessageBatch"].latency) == 2
    assert list(meter.queues) == [ORDERS]


def test_what_was_counted_is_handed_on_once_whoever_looks_in_between() -> None:
    meter = Meter()
    meter.tally("SendMessage").note(Given())
    meter.update()
    meter.tally("SendMessage").note(Given())
    assert [cell[0] for _, cell in meter.turn()] == [1, 1]
    assert meter.turn() == []
    assert meter.actions["SendMessage"].statuses == {200: 2}


def test_what_nobody_takes_is_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "WAITING_MAX", 10)
    meter = Meter()
    for _ in range(25):
        meter.tally("SendMessage").note(Given(size=7))
        meter.update()
    taken = meter.turn()
    assert len(taken) <= 10
    assert sum(cell[BYTES_IN] for _, cell in taken) == 25 * 7


def test_totals_keep_what_a_queue_did_that_is_gone() -> None:
    meter = Meter()
    other = QueueName("000000000001", "other")
    for name in (ORDERS, other):
        meter.tally("SendMessage").note(Given(1, 10, name))
    meter.forget(ORDERS)
    meter.forget(ORDERS)
    assert (list(meter.queues), meter.totals()[SENT], meter.totals()[SENT_BYTES]) == ([other], 2, 20)
