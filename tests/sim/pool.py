"""Runs by seed in several processes, given back in the order in which they were asked for.

A run depends on its seed and on nothing else, so it is the same whichever process it is in and whatever runs beside it.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from typing import Final, TypeVar

from tests.sim.cluster.run import simulate as simulate_cluster
from tests.sim.run import Outcome
from tests.sim.run import simulate as simulate_host

KINDS: Final = {"host": simulate_host, "cluster": simulate_cluster}
Which = TypeVar("Which")
Result = TypeVar("Result")


def cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def simulate(which: tuple[str, int]) -> Outcome:
    """A kind and a seed. Here, and not where it is used: processes have to find it by the name of a module."""
    kind, seed = which
    return KINDS[kind](seed)


def in_order(run: Callable[[Which], Result], wanted: Iterator[Which], *, jobs: int) -> Iterator[tuple[Which, Result]]:
    """`wanted` is asked for the next when a process is free. Who stops early waits for what is under way."""
    if jobs == 1:
        yield from ((each, run(each)) for each in wanted)
        return
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))
    begun: deque[tuple[Which, Future[Result]]] = deque()
    try:
        while _fill(pool, run, wanted, begun, jobs):
            which, future = begun.popleft()
            yield which, future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _fill(
    pool: ProcessPoolExecutor,
    run: Callable[[Which], Result],
    wanted: Iterator[Which],
    begun: "deque[tuple[Which, Future[Result]]]",
    jobs: int,
) -> bool:
    """Two for each process, since the first may take longest. False: all is done."""
    while len(begun) < 2 * jobs and (which := next(wanted, None)) is not None:
        begun.append((which, pool.submit(run, which)))
    return bool(begun)
