"""`python -m tests.sim --seeds N --first K` or `--seconds S`: runs seeds, kept ones first, and says what was proven.

Each seed is run as one host (`--kind host`) and as a cluster (`--kind cluster`); without `--kind`, both by turns. There
are as many processes as cores (`--jobs`); what is printed does not depend on that, but for times.
A failing seed prints what was violated, the last events, and the command that runs it again; the program ends with 1.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

from tests.sim.pool import KINDS, cores, in_order, simulate
from tests.sim.run import Outcome
from tests.sim.tally import NAMES

KEPT = Path(__file__).with_name("seeds.txt")
RATE = 200  # commands per second that "real time" means


def kept_seeds(kind: str) -> list[int]:
    """Seeds that once failed: kind and number in a line, `#` and what it found after it."""
    lines = (line.partition("#")[0].split() for line in KEPT.read_text(encoding="utf-8").splitlines())
    return [int(line[1]) for line in lines if line and line[0] == kind]


class Sums:
    def __init__(self) -> None:
        self.seeds = self.commands = self.acknowledged = self.drained = self.starts = 0
        self.simulated_us = self.loaded_us = 0
        self.cpu_s = 0.0
        self.gaps: list[int] = []
        self.faults: dict[str, int] = {}
        self.events: dict[str, int] = {}
        self.checks: dict[str, int] = dict.fromkeys(NAMES, 0)

    def add(self, outcome: Outcome) -> None:
        self.seeds += 1
        self.commands += outcome.commands
        self.acknowledged += outcome.acknowledged
        self.drained += outcome.drained
        self.starts += outcome.starts
        self.simulated_us += outcome.simulated_us
        self.loaded_us += outcome.loaded_us
        self.cpu_s += outcome.cpu_s
        self.gaps += outcome.gaps
        tables = ((self.faults, outcome.faults), (self.events, outcome.events), (self.checks, outcome.checks))
        for table, more in tables:
            for name, number in more.items():
                table[name] = table.get(name, 0) + number

    def show(self, kind: str) -> None:
        print(f"--- {kind}")
        cpu_s = max(self.cpu_s, 1e-9)
        speed = self.commands / RATE / cpu_s
        print(f"seeds        {self.seeds}, {self.seeds / cpu_s:.2f} per second of CPU")
        print(f"simulated    {self.simulated_us / 3.6e9:.2f} hours, {self.loaded_us / 3.6e9:.2f} of them under load")
        print(f"commands     {self.commands}: {speed:.0f}x real time at {RATE} commands per second")
        print(f"messages     {self.acknowledged} acknowledged, {self.drained} drained at the end")
        print(f"starts       {self.starts}; " + _list(self.events))
        print(f"faults       {sum(self.faults.values())}: {_list(self.faults)}")
        if self.gaps:
            p50, p99 = (sorted(self.gaps)[len(self.gaps) * part // 100] / 1e6 for part in (50, 99))
            print(
                f"fail-over    {len(self.gaps)} crashes of a primary; the next send was acknowledged "
                f"after {p50:.2f} s (median), {p99:.2f} s (p99)"
            )
        for name, number in self.checks.items():
            if number:
                print(f"  {name:9} {number:9}  {NAMES[name]}")


def _list(table: dict[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(table.items()))


def show_failure(outcome: Outcome) -> None:
    print("\n".join(outcome.last))
    print(f"\n{outcome.kind} seed {outcome.seed} violates {outcome.invariant}: {outcome.violation}")
    print(f"again: python -m tests.sim --kind {outcome.kind} --seeds 1 --first {outcome.seed}")


def chosen(arguments: argparse.Namespace, kinds: list[str]) -> Iterator[tuple[str, int]]:
    """Kept seeds, then as many as were asked for, kind by kind in turns."""
    if not arguments.only and arguments.seeds != 1:
        yield from ((kind, seed) for kind in kinds for seed in kept_seeds(kind))
    numbers = count(arguments.first)
    for seed in numbers if arguments.seeds is None else islice(numbers, arguments.seeds):
        yield from ((kind, seed) for kind in kinds)


def in_time(wanted: Iterator[tuple[str, int]], seconds: float | None) -> Iterator[tuple[str, int]]:
    """At least one."""
    end = time.monotonic() + seconds if seconds is not None else None
    for which in wanted:
        yield which
        if end is not None and time.monotonic() > end:
            return


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seeds", type=int, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seconds", type=float, help="stop after so many seconds")
    parser.add_argument("--kind", choices=list(KINDS), help="one host, or a cluster; both by turns when not given")
    parser.add_argument("--hash", action="store_true", help="print the trace hash of each seed")
    parser.add_argument("--only", action="store_true", help="without the kept seeds")
    parser.add_argument("--jobs", type=int, default=cores(), help="so many processes; else one for each core")
    arguments = parser.parse_args()
    if arguments.seeds is None and arguments.seconds is None:
        arguments.seeds = 100
    kinds = [arguments.kind] if arguments.kind else list(KINDS)
    begun = time.monotonic()
    sums = {kind: Sums() for kind in kinds}
    wanted = in_time(chosen(arguments, kinds), arguments.seconds)
    for (kind, seed), outcome in in_order(simulate, wanted, jobs=arguments.jobs):
        if arguments.hash:
            print(f"{kind} {seed} {outcome.hash}", flush=True)
        if outcome.violation:
            show_failure(outcome)
            return 1
        sums[kind].add(outcome)
    for kind in kinds:
        sums[kind].show(kind)
    taken, cpu_s = time.monotonic() - begun, sum(each.cpu_s for each in sums.values())
    print(f"--- {taken:.0f} s with {arguments.jobs} processes, {cpu_s:.0f} s of CPU in runs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
