"""`python -m tests.sim.long --hours H`: whole days of clusters (cluster/long.py), until H hours have been simulated.

As many processes as there are cores run days (`--jobs`), which are counted in the order of their seeds. What is known
so far is written after each day (`--write`), so that a run which is stopped has a result. A day that fails is shown
with the command that runs it again; the others go on, and the program ends with 1.
"""

import argparse
import io
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

from tests.sim.__main__ import Sums
from tests.sim.cluster.long import DAY, HOUR, simulate_day
from tests.sim.pool import cores, in_order
from tests.sim.run import Outcome

ROOT = Path(__file__).resolve().parents[2]


def commit() -> str:
    """Of the code that runs; a `+` when files were changed since."""
    asked = ["git", "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"]
    told = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    return told.stdout.strip() or "unknown"


def summary(sums: Sums, failed: list[Outcome], *, first: int, made_of: str) -> str:
    hours = sums.simulated_us / HOUR
    lines = [
        f"{hours:.1f} simulated hours of clusters, {sums.seeds} days (seeds {first} to {first + sums.seeds - 1})",
        f"lost         {'nothing' if not failed else 'see below'}; {len(failed)} of the days violate an invariant",
        f"code         commit {made_of}, Python {platform.python_version()}",
        f"CPU          {sums.cpu_s:.0f} s on one core, {sums.cpu_s / max(hours, 1e-9):.2f} s for an hour",
    ]
    shown = io.StringIO()
    with redirect_stdout(shown):
        sums.show("days")
    lines += shown.getvalue().splitlines()
    lines += [f"seed {each.seed} violates {each.invariant}: {each.violation.strip()}" for each in failed]
    return "\n".join(lines) + "\n"


def wanted(arguments: argparse.Namespace) -> Iterator[int]:
    """Days, of which each is a day long at least."""
    days = -(-arguments.hours * HOUR // DAY) if arguments.days is None else arguments.days
    return iter(range(arguments.first, arguments.first + int(days)))


def show_failure(outcome: Outcome) -> None:
    print("\n".join(outcome.last))
    print(f"\nday {outcome.seed} violates {outcome.invariant}: {outcome.violation}")
    print(f"again: python -m tests.sim.long --first {outcome.seed} --days 1", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.long", description=__doc__)
    parser.add_argument("--hours", type=float, default=1000)
    parser.add_argument("--days", type=int, help="so many days at most")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--write", type=Path, help="where the summary goes, after each day")
    parser.add_argument("--hash", action="store_true", help="print the trace hash of each day")
    parser.add_argument("--jobs", type=int, default=cores(), help="so many processes; else one for each core")
    arguments = parser.parse_args()
    if arguments.write:
        arguments.write.parent.mkdir(parents=True, exist_ok=True)  # now, not after the first day
    sums, failed, made_of = Sums(), list[Outcome](), commit()
    for seed, outcome in in_order(simulate_day, wanted(arguments), jobs=arguments.jobs):
        sums.add(outcome)
        if arguments.hash:
            print(f"day {seed} {outcome.hash}", flush=True)
        if outcome.violation:
            failed.append(outcome)
            show_failure(outcome)
        if arguments.write:
            arguments.write.write_text(summary(sums, failed, first=arguments.first, made_of=made_of))
        if sums.simulated_us >= arguments.hours * HOUR:
            break
    print(summary(sums, failed, first=arguments.first, made_of=made_of), end="")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
