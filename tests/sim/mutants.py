"""Deliberate weakenings of the core. The simulator has to notice every one of them within a minute.

`python -m tests.sim.mutants [--sample N] [--only NAME] [--write]`: each mutant runs in its own process, on seeds from 0
on, until an invariant is violated. This tests the simulator, not the product. Unmutated controls have to pass.
Those of replication run as clusters, the others as one host.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.sim.cluster.plan import RESTLESS, ROUGH, draw, rough
from tests.sim.cluster.run import simulate as simulate_cluster
from tests.sim.cluster.weakenings import TROUBLES
from tests.sim.cluster.weakenings import WEAKENINGS as OF_CLUSTERS
from tests.sim.run import Outcome
from tests.sim.run import simulate as simulate_host
from tests.sim.weakenings import WEAKENINGS as OF_ONE_HOST

LIMIT_S = 60.0  # of CPU
CONTROLS = {"control": 20, "control-cluster": 4, "control-restless": 4}  # seeds of each
WEAKENINGS = {**OF_ONE_HOST, **OF_CLUSTERS}
REPORT = Path(__file__).parents[2] / "bench" / "results" / "mutants.md"


def simulator_of(name: str) -> Callable[[int], Outcome]:
    """Of one host; or of a cluster, by turns a rough one and one as any other run has it."""
    if name in OF_ONE_HOST or name == "control":
        return simulate_host
    troubles = (RESTLESS,) if name == "control-restless" else TROUBLES.get(name, ROUGH)

    def simulate_by_turns(number: int) -> Outcome:
        seed = number // 2
        return simulate_cluster(seed, draw(seed) if number % 2 else rough(seed, troubles))

    return simulate_by_turns


def run_one(name: str, limit_s: float) -> dict[str, Any]:
    """In this process, which is changed by it for good."""
    if name not in CONTROLS:
        WEAKENINGS[name]()
    simulate = simulator_of(name)
    started = time.process_time()
    seed = 0
    while time.process_time() - started < limit_s and seed != CONTROLS.get(name):
        outcome = simulate(seed)
        seed += 1
        if outcome.violation:
            text = outcome.violation.strip().splitlines()[-1]
            return _row(name, outcome.invariant, seed, time.process_time() - started, text)
    return _row(name, "", seed, time.process_time() - started, "")


def _row(name: str, invariant: str, seeds: int, cpu_s: float, text: str) -> dict[str, Any]:
    return {"name": name, "invariant": invariant, "seeds": seeds, "cpu_s": round(cpu_s, 1), "text": text}


def in_process(name: str, limit_s: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.sim.mutants", "--run", name, "--limit", str(limit_s)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20 * limit_s)
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr}")
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def says(name: str) -> str:
    return "nothing is changed" if name in CONTROLS else (WEAKENINGS[name].__doc__ or "").strip()


def is_right(row: dict[str, Any]) -> bool:
    is_noticed, is_control = bool(row["invariant"]), row["name"] in CONTROLS
    return is_noticed != is_control


def show(row: dict[str, Any]) -> None:
    found = row["invariant"] or ("passes" if row["name"] in CONTROLS else "SURVIVES")
    print(f"{row['name']:34} {found:9} {row['seeds']:3} seeds {row['cpu_s']:6.1f} s  {row['text'][:110]}", flush=True)


def write(rows: list[dict[str, Any]]) -> None:
    lines = [
        "# Mutants",
        "",
        "Weakenings of the core that the simulator has to notice, each within a minute of CPU time. Written by",
        "`python -m tests.sim.mutants --write`. Invariants: docs, or `tests/sim/tally.py`.",
        "",
        "| mutant | what is weakened | noticed by | seeds | seconds |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        found = row["invariant"] or ("passes, as it must" if row["name"] in CONTROLS else "**survives**")
        lines.append(f"| {row['name']} | {says(row['name'])} | {found} | {row['seeds']} | {row['cpu_s']} |")
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.mutants", description=__doc__)
    parser.add_argument("--sample", type=int, help="so many, chosen anew every day")
    parser.add_argument("--only", help="one of them")
    parser.add_argument("--write", action="store_true", help="write the table to bench/results/mutants.md")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds of CPU for each")
    arguments = parser.parse_args()
    if arguments.run:
        print(json.dumps(run_one(arguments.run, arguments.limit)))
        return 0
    names = list(WEAKENINGS)
    if arguments.only:
        names = [arguments.only]
    elif arguments.sample:
        names = random.Random(int(time.time()) // 86_400).sample(names, arguments.sample)
    rows = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for row in pool.map(lambda name: in_process(name, arguments.limit), [*CONTROLS, *names]):
            rows.append(row)
            show(row)
    if arguments.write:
        write(rows)
    wrong = [row["name"] for row in rows if not is_right(row)]
    print(f"{len(rows) - len(CONTROLS)} mutants, {len(wrong)} not as they should be: {', '.join(wrong) or 'none'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
