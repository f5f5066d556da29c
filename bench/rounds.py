"""Contenders take turns, mode by mode and round by round, so that all of them meet the same weather."""

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Iterator

from bench.contender import Absent, Contender, Place, Running
from bench.dialects.sqs import Sqs
from bench.load import PeerError
from bench.processes import StartError
from bench.results import Facts, Results
from bench.throughput import Sample, measure

FIFO = " fifo"
WARM_RUN_S = 1.0
GAIN = 0.9
WARM_S_MIN = 45.0  # in a restless hour two passes without gain came after 20 s, and the compiler went on for minutes
SETTLE_S = 0.2
SETTLE_S_MAX = 20.0
IDLE = 0.1  # of a core, all of them together


@contextlib.contextmanager
def started(contenders: list[Contender], place: Place, results: Results) -> Iterator[dict[str, Running]]:
    """All that can be had, all running, so that a Java server stays warm."""
    running: dict[str, Running] = {}
    try:
        for contender in contenders:
            try:
                one = contender.start(place.inside(contender.name))
            except Absent as reason:
                results.absent[contender.name] = str(reason)
                continue
            except StartError as problem:
                results.problems[contender.name] = str(problem)
                continue
            running[contender.name] = one
            results.contenders[contender.name] = Facts(one.version, contender.is_durable, contender.setting)
        yield running
    finally:
        for one in running.values():
            one.served.stop()


def warm(running: Running, seconds_max: float, *, core: int) -> tuple[int, bool]:
    """Until a just-in-time compiler has nothing more to gain, on all cores: messages, and whether it got so far.

    Two passes in a row that are not clearly cheaper than the best one before end it, but not too soon.
    """
    began = time.monotonic()
    deadline, soonest = began + seconds_max, began + min(WARM_S_MIN, seconds_max)
    best, idle_passes, messages = float("inf"), 0, 0
    running.served.pin(None)
    while (idle_passes < 2 or time.monotonic() < soonest) and time.monotonic() < deadline:
        samples = [measure(running, mode, WARM_RUN_S, backlog=2000) for mode in running.dialect.modes]
        messages += sum(sample.messages for sample in samples)
        cost = sum(sample.cpu_us for sample in samples)
        idle_passes = 0 if cost < best * GAIN else idle_passes + 1
        best = min(best, cost)
    running.served.pin(core)
    return messages, idle_passes >= 2


def compare(
    contenders: list[Contender],
    results: Results,
    running: dict[str, Running],
    *,
    plan: "Plan",
    top_up: Callable[[], object],
) -> None:
    for number, mode in itertools.product(range(plan.rounds), plan.modes):
        for contender in contenders:
            if contender.name not in running or number >= contender.rounds_max:
                continue
            settle(running)
            top_up()
            with alone(contender.name, running):
                _once(contender.name, results, running[contender.name], mode=mode, plan=plan)


def settle(running: dict[str, Running]) -> None:
    """Waits until all servers are idle and what they wrote is on the disk. A slow one goes on for a while with requests
    whose clients have left, on the core that the next one needs."""
    os.sync()
    deadline = time.monotonic() + SETTLE_S_MAX
    used = float("inf")
    while used > SETTLE_S * IDLE and time.monotonic() < deadline:
        before = sum(one.served.own_cpu_s() for one in running.values())
        time.sleep(SETTLE_S)
        used = sum(one.served.own_cpu_s() for one in running.values()) - before


@contextlib.contextmanager
def alone(name: str, running: dict[str, Running]) -> Iterator[None]:
    """The others stand still meanwhile. Idle ones wake up, too, and some of them hundreds of times a second."""
    others = [one for other, one in running.items() if other != name]
    for one in others:
        one.served.pause()
    try:
        yield
    finally:
        for one in others:
            one.served.resume()


class Plan:
    """What is measured, how often and for how long."""

    def __init__(self, modes: list[str], *, rounds: int, seconds: float, backlog: int) -> None:
        self.modes = modes
        self.rounds = rounds
        self.seconds = seconds
        self.backlog = backlog


def _once(name: str, results: Results, running: Running, *, mode: str, plan: Plan) -> None:
    plain = mode.removesuffix(FIFO)
    if plain not in running.dialect.modes or f"{name}, {mode}" in results.problems:
        return
    suffix = ".fifo" if mode.endswith(FIFO) else ""
    if suffix and not isinstance(running.dialect, Sqs):  # the others have nothing that corresponds to it
        return
    try:
        sample = measure(running, plain, plan.seconds, backlog=plan.backlog, suffix=suffix)
        if not sample.messages:
            raise PeerError(f"no message in {sample.seconds:.1f} s")
    except (PeerError, OSError) as problem:
        results.problems[f"{name}, {mode}"] = str(problem)[:300]
        print(f"  {name:20} {mode:15} failed: {str(problem)[:100]}", flush=True)
        return
    results.samples.setdefault(mode, {}).setdefault(name, []).append(sample)
    _say(name, mode, sample)


def _say(name: str, mode: str, sample: Sample) -> None:
    print(
        f"  {name:20} {mode:15} {sample.rate:9,.0f}/s {sample.cpu_us:9,.1f} µs"
        f"   generator {sample.generator_load:4.0%} of its core",
        flush=True,
    )
