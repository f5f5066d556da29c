"""Closed-loop runs: how many messages per second, and how much CPU of the server each of them takes."""

import itertools
import time
from collections.abc import Callable

import msgspec

from bench.contender import Running
from bench.dialects.dialect import Dialect, Tally, connect
from bench.load import Connection, Loop, converse
from bench.processes import waited_s

WARM_S = 0.2  # connections are made and greet; not measured
DRAINED_WARM = 0.1  # of a backlog: a quick server would drain a small one before it is measured
DRAINED = 0.9  # of a backlog, when it ends: where little is left, connections find nothing
FILL_S_MAX = 10.0
_names = itertools.count(1)
_numbers = itertools.count()  # of connections: what a run that was cut off still holds stands in nobody's way

CONNECTIONS = {"send": 64, "send ×10": 16, "cycle": 64, "cycle ×10": 16, "drain": 16}


class Sample(msgspec.Struct, frozen=True):
    """One run of one mode against one server."""

    messages: int
    seconds: float
    cpu_s: float  # the server's, and the kernel's for it
    generator_cpu_s: float
    generator_waited_s: float = 0.0  # it wanted its core, and a neighbour had it
    backlog: int = 0  # how many were waiting when it began

    @property
    def rate(self) -> float:
        return self.messages / self.seconds

    @property
    def cpu_us(self) -> float:
        return self.cpu_s / max(1, self.messages) * 1e6

    @property
    def generator_load(self) -> float:
        """Near 1 the generator was the slower of the two, and the server could do more."""
        return self.generator_cpu_s / self.seconds

    @property
    def disturbance(self) -> float:
        """Nobody else should be on the generator's core; what neighbours took there, they took from servers too."""
        return self.generator_waited_s / self.seconds


def new_queue(suffix: str = "") -> str:
    return f"bench-{next(_names)}{suffix}"


def measure(running: Running, mode: str, seconds: float, *, backlog: int = 50_000, suffix: str = "") -> Sample:
    """On a queue of its own, which is removed afterwards."""
    queue = new_queue(suffix)
    dialect = running.dialect
    once(dialect, lambda connection: dialect.create(connection, queue))
    try:
        filled = fill(dialect, queue, backlog) if mode == "drain" else 0
        return run(running, mode, queue, seconds=seconds, backlog=filled)
    finally:
        once(dialect, lambda connection: dialect.remove(connection, queue))


def once(dialect: Dialect, act: Callable[[Connection], object]) -> None:
    connection = connect(dialect)
    try:
        act(connection)
    finally:
        connection.close()


def begin(dialect: Dialect, mode: str, queue: str, *, connections: int = 0) -> tuple[Loop, Tally]:
    loop, tally = Loop(), Tally()
    for number in itertools.islice(_numbers, connections or CONNECTIONS[mode]):
        connection = connect(dialect)
        loop.add(connection)
        converse(connection, dialect.conversation(mode, queue, tally=tally, number=number))
    return loop, tally


def fill(dialect: Dialect, queue: str, count: int, *, seconds_max: float = FILL_S_MAX) -> int:
    """Sends until `count` wait, or the time is over: the slowest peers would take minutes."""
    return send_until(dialect, queue, count, mode="send ×10", seconds_max=seconds_max)[0]


def send_until(dialect: Dialect, queue: str, count: int, *, mode: str, seconds_max: float) -> tuple[int, int]:
    """How many messages were sent, and how many bytes came back."""
    loop, tally = begin(dialect, mode, queue)
    deadline = time.perf_counter_ns() + int(seconds_max * 1e9)
    try:
        loop.run(lambda now: tally.messages >= count or now >= deadline)
    finally:
        loop.close()
    return tally.messages, loop.received


def run(running: Running, mode: str, queue: str, *, seconds: float, backlog: int = 0, connections: int = 0) -> Sample:
    loop, tally = begin(running.dialect, mode, queue, connections=connections)
    waiting = backlog if mode == "drain" else float("inf")
    try:
        warm = time.perf_counter_ns() + int(WARM_S * 1e9)
        loop.run(lambda now: now >= warm or tally.messages >= waiting * DRAINED_WARM)
        before, cpu, own, waited = tally.messages, running.served.cpu_s(), time.process_time(), waited_s()
        start = time.perf_counter_ns()
        until = start + int(seconds * 1e9)
        loop.run(lambda now: now >= until or tally.messages >= waiting * DRAINED)
        return Sample(
            tally.messages - before,
            seconds=(time.perf_counter_ns() - start) / 1e9,
            cpu_s=running.served.cpu_s() - cpu,
            generator_cpu_s=time.process_time() - own,
            generator_waited_s=waited_s() - waited,
            backlog=backlog,
        )
    finally:
        loop.close()
