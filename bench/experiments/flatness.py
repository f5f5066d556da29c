"""What must cost nothing: CPU per message beside ever more in flight, delayed, FIFO groups and idle connections.

The backlog's depth has its own experiment, since it also asks for memory, disk and recovery.
"""

import itertools
import time
from collections.abc import Callable

from bench.contender import Place, Running
from bench.dialects.dialect import Tally, connect
from bench.dialects.sqs import BATCH, Sqs, acknowledged, receipts_of
from bench.experiments.finding import Finding, Host, host
from bench.load import Connection, Conversation, Loop, converse
from bench.throughput import fill, new_queue, once, run

MODE = "cycle ×10"
POINTS_MIN = 1000
CONNECTIONS_MAX = 10_000
ADDERS = 16
ADD_S_MAX = 120.0
SPARE = 1000
DELAY_S = 900
_groups = itertools.count(1_000_000)  # each is used once, and none of them is a connection's

Talk = Callable[[Tally, int], Conversation]


def flatness(place: Place, seconds: float, *, count_max: int) -> Finding:
    """Each kind on a server of its own: a curve of its number against µs of CPU per message."""
    kinds: dict[str, Callable[[Host, str, int], None]] = {
        "in flight": add_in_flight,
        "delayed": add_delayed,
        "groups": add_groups,
    }
    finding = Finding()
    for kind, add in kinds.items():
        with host(place, kind) as server:
            queue = new_queue(".fifo" if kind == "groups" else "")
            create(server, queue)
            curve = [(1.0, cost(server, queue, seconds))]
            added = 0
            for count in counts(count_max):
                add(server, queue, count - added)
                added = count
                curve.append((float(count), cost(server, queue, seconds)))
        finding.curves[f"flat {kind}"] = curve
        finding.figures[f"flat_{kind.replace(' ', '_')}_ratio"] = curve[-1][1] / curve[0][1]
    finding.curves["flat connections"] = connections = beside_connections(place, seconds, count_max=count_max)
    finding.figures["flat_connections_ratio"] = connections[-1][1] / connections[0][1]
    return finding


def create(server: Host, queue: str) -> None:
    once(server.sqs, lambda connection: server.sqs.create(connection, queue))


def counts(count_max: int) -> list[int]:
    found = [POINTS_MIN]
    while found[-1] * 10 <= count_max:
        found.append(found[-1] * 10)
    return found


def cost(server: Host, queue: str, seconds: float) -> float:
    server.place.top_up()
    return run(Running(server.served, server.sqs, ""), MODE, queue, seconds=seconds).cpu_us


def add_in_flight(server: Host, queue: str, count: int) -> None:
    """Received and never deleted. A run that was cut off may have left some that others hold: so there are more."""
    fill(server.sqs, queue, count + SPARE, seconds_max=ADD_S_MAX)
    _add(server.sqs, count, lambda tally, _: _holds(server.sqs, queue, tally))


def add_delayed(server: Host, queue: str, count: int) -> None:
    _add(server.sqs, count, lambda tally, _: _delays(server.sqs, queue, tally))


def add_groups(server: Host, queue: str, count: int) -> None:
    """One waiting message in each of so many groups."""
    _add(server.sqs, count, lambda tally, _: _new_groups(server.sqs, queue, tally))


def beside_connections(place: Place, seconds: float, *, count_max: int) -> list[tuple[float, float]]:
    with host(place, "connections") as server:
        queue = new_queue()
        create(server, queue)
        curve = [(1.0, cost(server, queue, seconds))]
        idle: list[Connection] = []
        try:
            for count in counts(min(count_max, CONNECTIONS_MAX)):
                idle += [connect(server.sqs) for _ in range(count - len(idle))]
                curve.append((float(count), cost(server, queue, seconds)))
        finally:
            for connection in idle:
                connection.close()
    return curve


def _add(sqs: Sqs, count: int, talk: Talk) -> None:
    loop, tally = Loop(), Tally()
    try:
        for number in range(ADDERS):
            connection = connect(sqs)
            loop.add(connection)
            converse(connection, talk(tally, number))
        deadline = time.perf_counter_ns() + int(ADD_S_MAX * 1e9)
        loop.run(lambda now: tally.messages >= count or now >= deadline)
    finally:
        loop.close()


def _holds(sqs: Sqs, queue: str, tally: Tally) -> Conversation:
    while True:
        receipts = receipts_of((yield sqs.receive(queue, BATCH)))
        tally.messages += len(receipts)  # not in one statement: others count while this one waits


def _delays(sqs: Sqs, queue: str, tally: Tally) -> Conversation:
    entries = b",".join(b'{"Id":"%d","MessageBody":"later","DelaySeconds":%d}' % (n, DELAY_S) for n in range(BATCH))
    request = b'{"QueueUrl":"%b","Entries":[%b]}' % (sqs.urls[queue].encode(), entries)
    while True:
        acknowledged((yield sqs.signer.request("SendMessageBatch", request)), BATCH)
        tally.messages += BATCH


def _new_groups(sqs: Sqs, queue: str, tally: Tally) -> Conversation:
    for group in _groups:
        acknowledged((yield sqs.send(queue, group, group=group)))
        tally.messages += 1
