"""P7, P8 and C2: how long one waits. Open loop throughout, so that a stall is charged to all whom it delays."""

import itertools
import time
from statistics import median

from bench.contender import Place, Running
from bench.dialects.dialect import Tally, connect
from bench.dialects.http import checked
from bench.dialects.sqs import Sqs, acknowledged, receipts_of
from bench.experiments.finding import Finding, Host, host
from bench.histogram import Histogram
from bench.load import Connection, Conversation, Loop, Schedule, converse
from bench.throughput import CONNECTIONS, new_queue, once, run

MS = 1e6
SENDERS = 64
POLLERS = 8
POLL_RATE = 200.0  # messages per second to the waiting pollers: they are nearly always waiting
QUIET_RATE = 200.0  # of the queue whose neighbour is under full load
SETTLE_S = 0.5
COUNT_MIN = 100  # fewer say nothing about a percentile; a slow machine gets the time it needs


def send_latency(place: Place, seconds: float) -> Finding:
    """At half of what the same server did in a closed loop just before."""
    with host(place, "latency") as server:
        queue = created(server.sqs)
        peak = run(Running(server.served, server.sqs, ""), "send", queue, seconds=max(1.0, seconds / 5)).rate
        histogram = open_loop(server.sqs, queue, rate=peak / 2, seconds=seconds)
    return _finding("send", histogram, {"send_rate": peak / 2})


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


def _finding(name: str, histogram: Histogram, figures: dict[str, float]) -> Finding:
    for label, percent in (("p50", 50), ("p99", 99), ("p999", 99.9)):
        figures[f"{name}_{label}_ms"] = histogram.percentile(percent) / MS
    steps = [(value / MS, part * 100) for value, part in histogram.steps()]
    return Finding(figures, {f"{name}_latency": steps})


# --- send → long poll


def poll_latency(place: Place, seconds: float) -> Finding:
    """From the instant when a send was due to the instant when a long poll, already waiting, brought it."""
    with host(place, "polls") as server:
        histogram = send_to_poll(server, created(server.sqs), seconds=seconds)
    return _finding("poll", histogram, {})


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
    """A queue with little traffic, alone and then beside another one under full load, by turns: the slowest of a
    hundred is often somebody else's doing, and seldom in most of the rounds."""
    alone, beside = [], []
    with host(place, "isolation") as server:
        quiet, busy = created(server.sqs), created(server.sqs)
        for _ in range(rounds):
            alone.append(open_loop(server.sqs, quiet, rate=QUIET_RATE, seconds=seconds / rounds).percentile(99))
            beside.append(
                open_loop(server.sqs, quiet, rate=QUIET_RATE, seconds=seconds / rounds, busy=busy).percentile(99)
            )
    figures = {
        "alone_p99_ms": median(alone) / MS,
        "beside_p99_ms": median(beside) / MS,
        "isolation_ratio": median(many / max(1, few) for few, many in zip(alone, beside, strict=True)),
    }
    return Finding(figures)
