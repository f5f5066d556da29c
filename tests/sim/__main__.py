"""`python -m tests.sim --seeds N --first K` or `--seconds S`: runs seeds, kept ones first, and says what was proven.

A failing seed prints what was violated, the last events, and the command that runs it again; the program ends with 1.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from itertools import chain, count
from pathlib import Path

from tests.sim.run import Outcome, simulate
from tests.sim.tally import NAMES

KEPT = Path(__file__).with_name("seeds.txt")
RATE = 200  # commands per second that "real time" means


def kept_seeds() -> list[int]:
    """Seeds that once failed: a number per line, `#` and what it found after it."""
    lines = (line.partition("#")[0].strip() for line in KEPT.read_text(encoding="utf-8").splitlines())
    return [int(line) for line in lines if line]


class Sums:
    def __init__(self) -> None:
        self.seeds = self.commands = self.acknowledged = self.drained = self.starts = 0
        self.simulated_us = self.loaded_us = 0
        self.cpu_s = 0.0
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
        tables = ((self.faults, outcome.faults), (self.events, outcome.events), (self.checks, outcome.checks))
        for table, more in tables:
            for name, number in more.items():
                table[name] = table.get(name, 0) + number

    def show(self) -> None:
        cpu_s = max(self.cpu_s, 1e-9)
        speed = self.commands / RATE / cpu_s
        print(f"seeds        {self.seeds}, {self.seeds / cpu_s:.2f} per second of CPU")
        print(f"simulated    {self.simulated_us / 3.6e9:.2f} hours, {self.loaded_us / 3.6e9:.2f} of them under load")
        print(f"commands     {self.commands}: {speed:.0f}x real time at {RATE} commands per second")
        print(f"messages     {self.acknowledged} acknowledged, {self.drained} drained at the end")
        print(f"starts       {self.starts}; " + _list(self.events))
        print(f"faults       {sum(self.faults.values())}: {_list(self.faults)}")
        for name, number in self.checks.items():
            print(f"  {name:9} {number:9}  {NAMES[name]}")


def _list(table: dict[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(table.items()))


def show_failure(outcome: Outcome) -> None:
    print("\n".join(outcome.last))
    print(f"\nseed {outcome.seed} violates {outcome.invariant}: {outcome.violation}")
    print(f"again: python -m tests.sim --seeds 1 --first {outcome.seed}")


def chosen(arguments: argparse.Namespace) -> Iterator[int]:
    if arguments.seeds is not None:
        yield from range(arguments.first, arguments.first + arguments.seeds)
    else:
        yield from count(arguments.first)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seeds", type=int, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seconds", type=float, help="stop after so many seconds")
    parser.add_argument("--hash", action="store_true", help="print the trace hash of each seed")
    parser.add_argument("--only", action="store_true", help="without the kept seeds")
    arguments = parser.parse_args()
    if arguments.seeds is None and arguments.seconds is None:
        arguments.seeds = 100
    kept = [] if arguments.only or arguments.seeds == 1 else kept_seeds()
    end = time.monotonic() + arguments.seconds if arguments.seconds is not None else None
    sums = Sums()
    for seed in chain(kept, chosen(arguments)):
        outcome = simulate(seed)
        if arguments.hash:
            print(f"{seed} {outcome.hash}", flush=True)
        if outcome.violation:
            show_failure(outcome)
            return 1
        sums.add(outcome)
        if end is not None and time.monotonic() > end:
            break
    sums.show()
    return 0


if __name__ == "__main__":
    sys.exit(main())
