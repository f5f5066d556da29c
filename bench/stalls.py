"""How long the machine itself keeps programs waiting: a virtual machine whose cores are given to others now and then.

A program that does nothing but look at the clock, on each core, sees how long it was stopped. A request that comes
while it is stopped waits for the rest of that time, however fast its server is. So a percentile of these waits is what
the best of servers could show here, and latencies should be read beside it.

    python -m bench.stalls
"""

import json
import subprocess
import sys
from collections.abc import Collection, Sequence

from bench.processes import cores

SECONDS = 2.0
GAP_NS = 100_000  # less is the look at the clock itself, and interrupts
MS = 1e6

_WATCH = """
import json, os, sys, time
core, seconds, least = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
os.sched_setaffinity(0, {core})
gaps, now = [], time.perf_counter_ns()
end = now + int(seconds * 1e9)
while now < end:
    before, now = now, time.perf_counter_ns()
    if now - before > least:
        gaps.append(now - before)
print(json.dumps(gaps))
"""


def watch(seconds: float, *, on: Collection[int] | None = None) -> list[int]:
    """How long programs were stopped, in nanoseconds, one on each of these cores at the same time."""
    watched = sorted(set(cores() if on is None else on))
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", _WATCH, str(core), str(seconds), str(GAP_NS)], stdout=subprocess.PIPE, text=True
        )
        for core in watched
    ]
    return [gap for program in programs for gap in json.loads(program.communicate()[0])]


def wait_ns(gaps: Sequence[int], percent: float, *, seconds: float) -> int:
    """So long at most do `percent` of all instants wait for the end of the gap that they lie in, if any."""
    waiting = round(seconds * 1e9 * (1 - percent / 100))
    low, high = 0, max(gaps, default=0)
    while low < high:  # the longest waits are the beginnings of the longest gaps
        middle = (low + high) // 2
        if sum(gap - middle for gap in gaps if gap > middle) > waiting:
            low = middle + 1
        else:
            high = middle
    return low


def main() -> None:
    gaps = watch(SECONDS)
    shown = ", ".join(
        f"p{percent:g} {wait_ns(gaps, percent, seconds=SECONDS) / MS:.2f} ms" for percent in (99, 99.9, 100)
    )
    share = sum(gaps) / 1e9 / SECONDS
    print(f"stopped {len(gaps)} times in {SECONDS:g} s, {share:.1%} of the time on all cores together; {shown}")


if __name__ == "__main__":
    main()
