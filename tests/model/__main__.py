"""`python -m tests.model`: searches the replication protocol, then its weakenings, and says what was searched.

    python -m tests.model                           what `make model` runs
    python -m tests.model --traces                  also the shortest history of every weakening
    python -m tests.model --only no-fencing         one weakening, with its history
    python -m tests.model --epochs 4 --lsns 2 ...   one search with bounds of your own; --walk N: N steps at random

Ends with 1 if the protocol violates an invariant, or if a weakening is not noticed.
"""

import argparse
import os
import sys
import time
from collections import Counter
from multiprocessing import Pool
from typing import NamedTuple

from tests.model.healing import heal_all
from tests.model.search import Found, exhaust, wander
from tests.model.state import Bounds, Rules
from tests.model.trace import show
from tests.model.weakenings import FURTHER, LISTED

SEARCHES = (
    Bounds(epochs=2, lsns=1, crashes=1, wipes=1, requests=2),
    Bounds(epochs=2, lsns=2, crashes=1, wipes=0, requests=2, outside=1),
    Bounds(epochs=3, lsns=1, crashes=1, wipes=0, requests=1),
    Bounds(hosts=2, epochs=3, lsns=2, crashes=1, wipes=0, rots=1, requests=2, has_slow_disks=True),
    Bounds(hosts=2, epochs=4, lsns=2, crashes=0, wipes=0, requests=2, has_snapshots=True),
)
WIDE = Bounds(
    hosts=4,
    outside=1,
    epochs=8,
    lsns=5,
    crashes=4,
    wipes=2,
    rots=1,
    requests=3,
    has_snapshots=True,
    has_slow_disks=True,
)
WALKS = 8
WALK_STEPS = 50_000
HISTORIES = 1_000
STATES_MAX = 600_000
WEAKENED_STATES_MAX = 300_000


class Job(NamedTuple):
    kind: str  # "search", "walk", "heal" or "weakened"
    bounds: Bounds
    name: str = ""
    seed: int = 0
    size: int = 0  # states at most; of a walk: steps; to heal: histories


def run(job: Job) -> tuple[Job, Found]:
    match job.kind:
        case "search":
            return job, exhaust(job.bounds, Rules(), states_max=job.size)
        case "walk":
            return job, wander(job.bounds, Rules(), seed=job.seed, steps=job.size)
        case "heal":
            return job, heal_all(job.bounds, seed=job.seed, histories=job.size)
    weakening = (LISTED | FURTHER)[job.name]
    return job, exhaust(weakening.bounds, weakening.rules, states_max=job.size, judge=weakening.judge)


def describe(bounds: Bounds) -> str:
    parts = [f"{bounds.hosts} hosts"]
    if bounds.outside:
        parts[0] += f" ({bounds.outside} outside)"
    parts += [f"{bounds.epochs} epochs", f"{bounds.lsns} lsns", f"{bounds.requests} requests"]
    for number, name in ((bounds.crashes, "power cuts"), (bounds.wipes, "wiped"), (bounds.rots, "damaged")):
        parts += [f"{number} {name}"] if number else []
    parts += ["snapshots"] * bounds.has_snapshots + ["slow disks"] * bounds.has_slow_disks
    return ", ".join(parts)


def report(job: Job, found: Found) -> bool:
    """Prints what the protocol's own search did; whether all is well."""
    how = "all" if found.is_complete else "first"
    if job.kind != "search":
        how = f"seed {job.seed}:" if job.kind == "walk" else "served again after"
    size = f"{how} {found.states:,} states, {found.steps:,} steps, depth {found.depth}, {found.seconds:.0f} s"
    print(f"{size:62} {describe(job.bounds)}", flush=True)
    if found.said:
        print(f"VIOLATED: {found.said}\n{show(found.trace, found.said)}")
    return not found.said


def report_weakening(job: Job, found: Found, *, has_trace: bool) -> bool:
    said = found.said or "NOT NOTICED"
    row = f"{job.name:30} {len(found.trace):3} steps {found.states:9,} states {found.seconds:6.1f} s  {said}"
    print(row, flush=True)
    if has_trace and found.said:
        print(show(found.trace, found.said))
    return bool(found.said)


def coverage(founds: list[Found]) -> str:
    """How often each kind of step was taken: one that never was would prove nothing."""
    kinds = sum((found.kinds for found in founds), start=Counter[str]())
    return ", ".join(f"{kind} {number:,}" for kind, number in sorted(kinds.items(), key=lambda pair: -pair[1]))


def search_all(*, has_traces: bool, processes: int) -> bool:
    began = time.monotonic()
    jobs = [Job("search", bounds, size=STATES_MAX) for bounds in SEARCHES]
    jobs += [Job("walk", WIDE, seed=seed, size=WALK_STEPS) for seed in range(WALKS)]
    jobs += [Job("heal", WIDE, seed=seed, size=HISTORIES) for seed in range(2)]
    weakened = [Job("weakened", SEARCHES[0], name, size=WEAKENED_STATES_MAX) for name in (*LISTED, *FURTHER)]
    is_well, founds, cpu_s = True, [], 0.0
    with Pool(processes) as pool:
        later = pool.imap(run, weakened)
        print("The protocol: every state within bounds, then histories at random, then whether these can go on")
        for job, found in pool.imap(run, jobs):
            is_well &= report(job, found)
            founds.append(found)
            cpu_s += found.seconds
        print(f"steps taken: {coverage(founds)}")
        for title, names in (("Weakenings of the protocol's list", LISTED), ("Further weakenings", FURTHER)):
            print(f"\n{title}, each with the length of its shortest history")
            for _ in names:
                job, found = next(later)
                cpu_s += found.seconds
                is_well &= report_weakening(job, found, has_trace=has_traces)
    states = sum(found.states for found in founds)
    steps = sum(found.steps for found in founds)
    outcome = "no invariant is violated, every weakening is noticed" if is_well else "NOT well: see above"
    spent = f"{time.monotonic() - began:.0f} s, {cpu_s:.0f} s of CPU"
    print(f"\n{states:,} states, {steps:,} steps of the protocol: {outcome} ({spent})")
    return is_well


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.model")
    parser.add_argument("--traces", action="store_true", help="print the shortest history of every weakening")
    parser.add_argument("--only", choices=[*LISTED, *FURTHER], help="one weakening")
    parser.add_argument("--walk", type=int, default=0, metavar="STEPS", help="at random, with the bounds given")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--states", type=int, default=10**9, help="of one search, at most")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    for name, value in Bounds()._asdict().items():
        option = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            parser.add_argument(option, action="store_true", default=None)
        else:
            parser.add_argument(option, type=int)
    chosen = parser.parse_args()
    own = {name: value for name in Bounds._fields if (value := getattr(chosen, name)) is not None}
    if chosen.only:
        job, found = run(Job("weakened", SEARCHES[0], chosen.only, size=chosen.states))
        is_well = report_weakening(job, found, has_trace=True)
    elif chosen.walk:
        is_well = report(*run(Job("walk", WIDE._replace(**own), seed=chosen.seed, size=chosen.walk)))
    elif own:
        is_well = report(*run(Job("search", Bounds(**own), size=chosen.states)))
    else:
        is_well = search_all(has_traces=chosen.traces, processes=chosen.processes)
    sys.exit(0 if is_well else 1)


if __name__ == "__main__":
    main()
