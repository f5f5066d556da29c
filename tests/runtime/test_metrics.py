"""Counting: what a reply adds to, and what is kept of queues that are gone."""

from holdfast.runtime.metrics import BOUNDS_S, DELETED, EMPTY, RECEIVED, SENT, SENT_BYTES, Histogram, Meter, now


def test_a_duration_is_counted_at_the_first_bound_that_is_not_below_it() -> None:
    histogram = Histogram()
    for seconds in (0.0, BOUNDS_S[0], BOUNDS_S[0] + 1e-9, BOUNDS_S[-1] + 1):
        histogram.note(seconds)
    assert (histogram.counts[:2], histogram.counts[-1], sum(histogram.counts)) == ([2, 1], 1, 4)


def test_replies_add_to_their_action_and_successes_to_their_queue() -> None:
    meter = Meter()
    meter.tally("SendMessageBatch").note(200, now(), 7, 3, 30)
    meter.tally("SendMessageBatch").note(400, now(), 7, 3, 30)
    meter.tally("ReceiveMessage").note(200, now(), 7, 2, 0)
    meter.tally("ReceiveMessage").note(200, now(), 7, 0, 0)
    meter.tally("DeleteMessageBatch").note(200, now(), 7, 0, 0)
    meter.tally("ListQueues").note(200, now(), 0, 1, 0)
    counts = meter.queues[7]
    assert [counts[place] for place in (SENT, RECEIVED, DELETED, EMPTY, SENT_BYTES)] == [3, 2, 0, 1, 30]
    assert meter.tally("SendMessageBatch").statuses == {200: 1, 400: 1}
    assert sum(meter.tally("SendMessageBatch").durations.counts) == 2
    assert list(meter.queues) == [7]


def test_totals_keep_what_a_queue_did_that_is_gone() -> None:
    meter = Meter()
    for lane in (1, 2):
        meter.tally("SendMessage").note(200, now(), lane, 1, 10)
    meter.forget(1)
    meter.forget(1)
    assert (list(meter.queues), meter.totals()[SENT], meter.totals()[SENT_BYTES]) == ([2], 2, 20)
