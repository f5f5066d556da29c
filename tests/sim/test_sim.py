"""The simulator itself: the same seed is the same run; kept seeds and a few others hold."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.sim.__main__ import kept_seeds
from tests.sim.mutants import is_right, run_one
from tests.sim.plan import OPTIONAL, Plan, draw
from tests.sim.pool import KINDS, in_order
from tests.sim.pool import simulate as simulate_one
from tests.sim.run import Outcome, simulate
from tests.sim.tally import CLUSTER_ONLY

ROOT = Path(__file__).parents[2]
SEEDS = range(30)  # shortened; `make sim` runs whole ones


def run_in_process(kind: str, hash_seed: str) -> list[str]:
    command = [sys.executable, "-m", "tests.sim", "--only", "--kind", kind, "--seeds", "2", "--first", "4", "--hash"]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[:2]


def assert_holds(outcome: Outcome) -> None:
    assert not outcome.violation, f"{outcome.invariant}: {outcome.violation}\n" + "\n".join(outcome.last[-10:])


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_seed_gives_the_same_trace_in_every_run_and_under_every_hash_seed(kind: str) -> None:
    first, second = run_in_process(kind, "1"), run_in_process(kind, "2")
    assert first == second
    assert first[0] == f"{kind} 4 {KINDS[kind](4).hash}"


def test_several_processes_give_the_same_as_one_in_the_same_order() -> None:
    wanted = [("host", seed) for seed in (6, 3, 1)]
    runs = [list(in_order(simulate_one, iter(wanted), jobs=jobs)) for jobs in (1, 2)]
    one, two = ([(which, outcome.hash, outcome.checks) for which, outcome in each] for each in runs)
    assert one == two
    assert [which for which, *_ in one] == wanted


def test_different_seeds_give_different_traces_and_different_faults() -> None:
    assert simulate(4).hash != simulate(5).hash
    assert draw(4) != draw(5)


@pytest.mark.parametrize("seed", kept_seeds("host"))
def test_a_seed_that_once_failed_holds(seed: int) -> None:
    assert_holds(simulate(seed))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_holds(seed: int) -> None:
    assert_holds(simulate(seed, msgspec.structs.replace(draw(seed), seconds=4, quiet_s=())))


def test_without_faults_nothing_fails_and_everything_is_checked() -> None:
    outcome = simulate(0, Plan(seconds=10, has=OPTIONAL))
    assert_holds(outcome)
    assert outcome.acknowledged > 500
    assert outcome.faults == {}
    unchecked = [name for name, count in outcome.checks.items() if not count]
    assert unchecked == [*CLUSTER_ONLY[:-1], "I16", "I18"]  # nothing was damaged


def test_a_mutant_that_survives_and_a_control_that_fails_are_both_wrong() -> None:
    assert is_right(run_one("control", 0.1))
    assert not is_right({"name": "control", "invariant": "I1"})
    assert not is_right({"name": "lease-too-short", "invariant": ""})
    assert is_right({"name": "lease-too-short", "invariant": "I13"})


def test_every_mutant_finds_what_it_weakens() -> None:
    """A rule that moved takes its mutant along; in a process of its own, which is of no use afterwards."""
    code = "from tests.sim.mutants import WEAKENINGS\nfor weaken in WEAKENINGS.values():\n    weaken()"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
