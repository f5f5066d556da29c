"""P7, P8 and C2: how long one waits. Open loop throughout, so that a stall is charged to all whom it delays.

All in rounds, and the figure is the median of theirs: the slowest of a hundred is often somebody else's doing, and
seldom in most of the rounds. After each round of P7 the machine's own stalls are watched for as long, and how long its
disk takes for a sync alone.
"""

import itertools
import time
from statistics import median

from bench import bare_disk
from bench.contender import Place, Running
from bench.dialects.dialect import Tally, connect
from bench.dialects.http import checked
from bench.dialects.sqs import Sqs, acknowledged, receipts_of
from bench.experiments.finding import Finding, Host, host
from bench.histogram import Histogram
from bench.load import Connection, Conversation, Loop, Schedule, converse
from bench.stalls import wait_ns, watch
from bench.throughput import CONNECTIONS, new_queue, once, run

MS = 1e6
SENDERS = 64
POLLERS = 8
POLL_RATE = 200.0  # messages per second to the waiting pollers: they are nearly always waiting
QUIET_RATE = 200.0  # of the queue whose neighbour is under full load
SETTLE_S = 0.5
COUNT_MIN = 100  # fewer say nothing about a percentile; a slow machine gets the time it needs


def send_latency(place: Place, seconds: float, *, rounds: int) -> Finding:
    """At half of what the same server did in a closed loop just before."""
    span = seconds / rounds
    histograms: list[Histogram] = []
    stalls: list[int] = []
    disks: list[Histogram] = []
    with host(place, "latency") as server:
        queue = created(server.sqs)
        peak = run(Running(server.served, server.sqs, ""), "send", queue, seconds=max(1.0, seconds / 5)).rate
        for _ in range(rounds):
            place.top_up()
            histograms.append(open_loop(server.sqs, queue, rate=peak / 2, seconds=span))
            stalls.append(wait_ns(watch(span), 99, seconds=span))
            disks.append(bare_disk.syncs(server.place.folder, span))
    figures = {"send_rate": peak / 2} | _figures("stall_p99", stalls)
    for label, percent in (("p50", 50), ("p99", 99)):
        figures |= _figures(f"disk_{label}", [each.percentile(percent) for each in disks])
    return _finding("send", histograms, figures)


def created(sqs: Sqs) -> str:
    queue = new_queue()
    once(sqs, lambda connection: sqs.create(connection, queue))
    return queue


def open_loop(sqs: Sqs, queue: str, *, rate: float, seconds: float, busy: str = "") -> Histogram:
    """Sends to `queue` at a fixed rate; meanwhile `busy`, another queue, may be under full load."""
    loop = Loop()
    schedule = Schedule(rate, lambda number: sqs.send(queue, number), acknowledged, start=time.perf_counter_ns())
    for _ in range(SENDERS):
        connection = connect(sqs)
        loop.add(connection)
        schedule.employ(connection)
    for number in range(CONNECTIONS["send"] if busy else 0):
        connection = connect(sqs)
        loop.add_other(connection)
        converse(connection, sqs.conversation("send", busy, tally=Tally(), number=number))
    try:
        _run(loop, schedule, SETTLE_S)
        schedule.histogram = Histogram()
        _run(loop, schedule, seconds, histogram=schedule.histogram)
    finally:
        loop.close()
    return schedule.histogram


def _run(loop: Loop, schedule: Schedule, seconds: float, *, histogram: Histogram | None = None) -> None:
    """For so long, and on until `histogram` has something to say."""
    until = time.perf_counter_ns() + int(seconds * 1e9)
    loop.run(
        lambda now: now >= until and (histogram is None or histogram.count >= COUNT_MIN),
        tick=schedule.tick,
    )


def _finding(name: str, histograms: list[Histogram], figures: dict[str, float]) -> Finding:
    """One for each round. The curve is that of all together."""
    for label, percent in (("p50", 50), ("p99", 99), ("p999", 99.9)):
        figures |= _figures(f"{name}_{label}", [each.percentile(percent) for each in histograms])
    steps = [(value / MS, part * 100) for value, part in Histogram.of(histograms).steps()]
    return Finding(figures, {f"{name}_latency": steps})


def _figures(name: str, rounds: list[int]) -> dict[str, float]:
    """Nanoseconds of the rounds, as the median, the lowest and the highest."""
    shown = {"": median(rounds), "_lowest": min(rounds), "_highest": max(rounds)}
    return {f"{name}_ms{label}": value / MS for label, value in shown.items()}


# --- send → long poll


def poll_latency(place: Place, seconds: float, *, rounds: int) -> Finding:
    """From the instant when a send was due to the instant when a long poll, already waiting, brought it."""
    with host(place, "polls") as server:
        histograms: list[Histogram] = []
        for _ in range(rounds):
            place.top_up()
            histograms.append(send_to_poll(server, created(server.sqs), seconds=seconds / rounds))
    return _finding("poll", histograms, {})


def send_to_poll(server: Host, queue: str, *, seconds: float) -> Histogram:
    sqs, loop = server.sqs, Loop()
    schedule = Schedule(
        POLL_RATE, lambda number: _numbered(sqs, queue, number), acknowledged, start=time.perf_counter_ns()
    )
    histogram = Histogram()
    for _ in range(POLLERS):
        loop.add(_poller(sqs, queue, schedule=schedule, histogram=histogram))
    for _ in range(POLLERS):
        connection = connect(sqs)
        loop.add(connection)
        schedule.employ(connection)
    try:
        _run(loop, schedule, seconds, histogram=histogram)
    finally:
        loop.close()
    return histogram


def _numbered(sqs: Sqs, queue: str, number: int) -> bytes:
    body = b'{"QueueUrl":"%b","MessageBody":"number %d."}' % (sqs.urls[queue].encode(), number)
    return sqs.signer.request("SendMessage", body)


def _poller(sqs: Sqs, queue: str, *, schedule: Schedule, histogram: Histogram) -> Connection:
    connection = connect(sqs)
    talk = _polls(sqs, queue)
    request = next(talk)

    def on_reply(reply: bytes, now: int) -> bytes:
        for part in reply.split(b"number ")[1:]:
            histogram.add(now - schedule.due(int(part.split(b".", 1)[0])))
        return talk.send(reply)

    connection.on_reply = on_reply
    connection.socket.sendall(request)
    return connection


def _polls(sqs: Sqs, queue: str) -> Conversation:
    for _ in itertools.count():
        receipts = receipts_of((yield sqs.receive(queue, 1, wait_s=20)))
        if receipts:
            checked((yield sqs.delete(queue, receipts, is_batch=False)))


# --- isolation


def isolation(place: Place, seconds: float, *, rounds: int) -> Finding:
    """A queue with little traffic, alone and then beside another one under full load, by turns."""
    alone: list[int] = []
    beside: list[int] = []
    with host(place, "isolation") as server:
        quiet, busy = created(server.sqs), created(server.sqs)
        for _, (neighbour, found) in itertools.product(range(rounds), (("", alone), (busy, beside))):
            place.top_up()
            histogram = open_loop(server.sqs, quiet, rate=QUIET_RATE, seconds=seconds / rounds, busy=neighbour)
            found.append(histogram.percentile(99))
    ratios = [many / max(1, few) for few, many in zip(alone, beside, strict=True)]
    figures = _figures("alone_p99", alone) | _figures("beside_p99", beside)
    figures |= {"isolation_ratio": median(ratios)}
    figures |= {"isolation_ratio_lowest": min(ratios), "isolation_ratio_highest": max(ratios)}
    return Finding(figures)
