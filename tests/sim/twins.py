"""Compiled code does what the pure one does: the same seed gives the same trace in both.

    python -m tests.sim.twins --compiled build/compiled --seeds 20
    python -m tests.sim.twins --compiled build/compiled-sim --seeds 20

The first is the wheel, with the simulator of one host as it is. Limits are inlined there, so both run with the real
ones. The second is the simulator with the part of the core that it runs, and each seed is a host and a cluster, with
the limits that it draws.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import msgspec

from holdfast.core.queue import lane
from tests.sim.cluster.run import simulate as simulate_cluster
from tests.sim.compiled import ROOT
from tests.sim.plan import draw
from tests.sim.run import Outcome
from tests.sim.run import simulate as simulate_host


def simulate(seed: int, *, is_whole: bool) -> list[Outcome]:
    """`is_whole`: the simulator is compiled as well."""
    if is_whole:
        return [simulate_host(seed), simulate_cluster(seed)]
    return [simulate_host(seed, msgspec.structs.replace(draw(seed), limits={}))]


def trace(first: int, count: int, *, is_whole: bool) -> None:
    """Prints whether this core is compiled, then a line for each run."""
    print("pure" if str(lane.__file__).endswith(".py") else "compiled")
    for seed in range(first, first + count):
        for outcome in simulate(seed, is_whole=is_whole):
            problem = f"{outcome.invariant}: {' '.join(outcome.violation.split())}" if outcome.violation else "fine"
            print(f"{outcome.kind} {seed} {outcome.hash} {outcome.commands} commands, {problem}")


def trace_in(folder: Path, arguments: argparse.Namespace, *, is_whole: bool) -> subprocess.Popen[str]:
    """What lies in the folder that Python is started in comes before all else, then what the environment names."""
    command = [sys.executable, "-m", "tests.sim.twins", "--trace", *(["--whole"] if is_whole else [])]
    command += ["--seeds", str(arguments.seeds), "--first", str(arguments.first)]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    start = folder if (folder / "tests").exists() else ROOT
    return subprocess.Popen(command, cwd=start, env=environment, stdout=subprocess.PIPE, text=True)


def compare(arguments: argparse.Namespace) -> int:
    compiled_in = arguments.compiled.resolve()
    is_whole = (compiled_in / "tests").exists()
    children = [trace_in(folder, arguments, is_whole=is_whole) for folder in (ROOT / "src", compiled_in)]
    pure, compiled = (child.communicate()[0].splitlines() for child in children)
    if any(child.returncode for child in children) or pure[0] != "pure" or compiled[0] != "compiled":
        print(f"not a comparison: {pure[:1]} {compiled[:1]}")
        return 1
    unequal = [pair for pair in zip(pure[1:], compiled[1:], strict=True) if pair[0] != pair[1]]
    for one, other in unequal:
        print(f"pure      {one}\ncompiled  {other}")
    what = "hosts and clusters" if is_whole else "hosts"
    print(f"{len(pure) - 1 - len(unequal)} of {len(pure) - 1} {what} have the same trace, pure and compiled")
    return 1 if unequal else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiled", type=Path, default=ROOT / "build" / "compiled")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--trace", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--whole", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.trace:
        trace(arguments.first, arguments.seeds, is_whole=arguments.whole)
        return 0
    return compare(arguments)


if __name__ == "__main__":
    sys.exit(main())
