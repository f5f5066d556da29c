"""P13, P14 and P17: what is there and does nothing, and how soon a server is there."""

import os
import resource
import time
from statistics import median

from bench.contender import Place
from bench.dialects.dialect import Tally, connect
from bench.dialects.http import checked
from bench.dialects.sqs import Sqs
from bench.experiments.finding import Finding, Host, host
from bench.experiments.latency import created
from bench.load import Conversation, Loop, converse
from bench.throughput import new_queue, once

CREATORS = 16
POLL_S = 20
WATCH_S = 10.0


def idle_queues(place: Place, *, count: int) -> Finding:
    with host(place, "queues") as server:
        create_queues(server.sqs, 10)
        _restart(server)
        before = server.served.resident()
        create_queues(server.sqs, count)
        took = _restart(server)  # making them takes memory as well, which is not what an idle one costs
        used = server.served.resident() - before
    return Finding({"idle_queues": count, "bytes_per_queue": max(0, used) / count, "restart_with_queues_s": took})


def _restart(server: Host) -> float:
    """Seconds until it serves again."""
    server.served.stop()
    start = time.monotonic()
    server.restart()
    return time.monotonic() - start


def create_queues(sqs: Sqs, count: int) -> None:
    loop, tally = Loop(), Tally()
    for number in range(min(count, CREATORS)):
        connection = connect(sqs)
        loop.add(connection)
        converse(connection, _creations(sqs, len(range(number, count, CREATORS)), tally))
    try:
        loop.run(lambda _: tally.messages >= count)
    finally:
        loop.close()


def _creations(sqs: Sqs, count: int, tally: Tally) -> Conversation:
    for _ in range(count):
        checked((yield sqs.signer.request("CreateQueue", b'{"QueueName":"%b"}' % new_queue().encode())))
        tally.messages += 1


def waiting_polls(place: Place, seconds: float = WATCH_S, *, count: int) -> Finding:
    """Long polls on one empty queue, each on its own connection: memory, and CPU while nothing happens."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = min(count, hard - 200)
    with host(place, "waiting") as server:
        queue = created(server.sqs)
        once(server.sqs, lambda connection: connection.ask(server.sqs.receive(queue, 1)))
        before = server.served.resident()
        connections = []
        try:
            for _ in range(count):
                connections.append(connect(server.sqs))
                connections[-1].socket.sendall(server.sqs.receive(queue, 1, wait_s=POLL_S))
            os.sync()  # what was done before has been written: kernel workers are counted, whoever they work for
            time.sleep(1.0)
            used = server.served.resident() - before
            cpu = server.served.cpu_s()
            time.sleep(seconds)
            cpu = server.served.cpu_s() - cpu
        finally:
            for connection in connections:
                connection.close()
    figures = {"bytes_per_poll": max(0, used) / count, "polls_core_percent": cpu / seconds * 100}
    return Finding({"waiting_polls": count, **figures})


def starts(place: Place, *, rounds: int) -> Finding:
    """From the start of the process to the ready file, on an empty folder."""
    took = []
    for _ in range(rounds):
        begin = time.monotonic()
        with host(place, "start"):
            took.append(time.monotonic() - begin)
    return Finding({"start_s": median(took)})
