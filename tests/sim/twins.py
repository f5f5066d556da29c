"""The compiled core does what the pure one does: the same seed gives the same trace in both.

    python -m tests.sim.twins --compiled build/compiled --seeds 20

Limits are inlined when they are compiled, so both run with the real ones.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import msgspec

from holdfast.core.queue import lane
from tests.sim.plan import draw
from tests.sim.run import simulate

ROOT = Path(__file__).resolve().parents[2]


def trace(first: int, count: int) -> None:
    """Prints whether this core is compiled, then a line for each seed."""
    print("pure" if str(lane.__file__).endswith(".py") else "compiled")
    for seed in range(first, first + count):
        outcome = simulate(seed, msgspec.structs.replace(draw(seed), limits={}))
        problem = f"{outcome.invariant}: {' '.join(outcome.violation.split())}" if outcome.violation else "no violation"
        print(f"seed {seed} {outcome.hash} {outcome.commands} commands, {problem}")


def trace_in(folder: Path, arguments: argparse.Namespace) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.sim.twins", "--trace", "--seeds", str(arguments.seeds)]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.Popen(
        [*command, "--first", str(arguments.first)], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    )


def compare(arguments: argparse.Namespace) -> int:
    children = [trace_in(ROOT / "src", arguments), trace_in(arguments.compiled.resolve(), arguments)]
    pure, compiled = (child.communicate()[0].splitlines() for child in children)
    if any(child.returncode for child in children) or pure[0] != "pure" or compiled[0] != "compiled":
        print(f"not a comparison: {pure[:1]} {compiled[:1]}")
        return 1
    unequal = [pair for pair in zip(pure[1:], compiled[1:], strict=True) if pair[0] != pair[1]]
    for one, other in unequal:
        print(f"pure      {one}\ncompiled  {other}")
    print(f"{len(pure) - 1 - len(unequal)} of {len(pure) - 1} seeds have the same trace, pure and compiled")
    return 1 if unequal else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiled", type=Path, default=ROOT / "build" / "compiled")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--trace", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.trace:
        trace(arguments.first, arguments.seeds)
        return 0
    return compare(arguments)


if __name__ == "__main__":
    sys.exit(main())
