"""Processes die by SIGKILL at every fault point of a commit, and start again: every row is in the ledger once.

Without Spark, for plan, orders, files and commits are plain Python; tests/pipeline/on_spark kills whole runs.
"""

import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.ledger import spool, tables
from holdfast.ledger.store import Snapshot, TableStore
from holdfast.pipeline import checks
from tests.pipeline import plain_run
from tests.pipeline.emitter import HOUR, T0, Emitter

PROGRAM = (sys.executable, "-m", "tests.pipeline.plain_run")
SOURCE = Path(spool.__file__).parent
POINTS = sorted(
    name for path in SOURCE.glob("*.py") for name in re.findall(r'\bfailpoint\("([^"]+)"\)', path.read_text())
)


def start(segments: Path, ledger: Path, *, failpoint: str = "") -> int:
    surroundings = os.environ | {"HOLDFAST_FAILPOINT": failpoint}
    return subprocess.run([*PROGRAM, str(segments), str(ledger)], env=surroundings, check=False, timeout=120).returncode


def places(store: TableStore, seen: Snapshot) -> list[tuple[str, int, int, int]]:
    rows = store.read(seen, columns=["node", "epoch", "seq", "row"]).to_pylist()
    return sorted((row["node"], row["epoch"], row["seq"], row["row"]) for row in rows)


def require_exact(ledger: Path, emitters: list[Emitter]) -> None:
    """To the unit, by three ways of counting; and no row is there twice."""
    store = TableStore(ledger)
    seen = store.snapshot(tables.LEDGERS["meter"])
    assert seen.rows == sum(each.rows for each in emitters)
    assert sum(store.read(seen, columns=["units"]).column("units").to_pylist()) == sum(each.units for each in emitters)
    found = places(store, seen)
    assert len(set(found)) == len(found) == seen.rows
    found_checks = checks.before_closing(store, checks.Sums(store))
    assert [each for each in found_checks if not each.is_good] == []
    daily = store.read(store.snapshot(tables.USAGE_DAILY), columns=["billed_units"]).column("billed_units").to_pylist()
    assert sum(daily) == sum(each.units for each in emitters)


def test_the_fault_points_are_those_of_the_commit_protocol() -> None:
    assert POINTS == ["after_commit", "after_stage", "before_commit", "mid_task"]


@pytest.mark.parametrize("point", POINTS)
def test_every_row_is_there_once_after_kills_at(tmp_path: Path, point: str) -> None:
    emitters = [Emitter(tmp_path / "usage", name) for name in ("a", "b")]
    for each in emitters:
        each.traffic(T0, T0 + HOUR // 3)
    ledger = tmp_path / "ledger"
    for visit in (1, 3):  # a commit of the ledger, and one of the rollups
        assert start(tmp_path / "usage", ledger, failpoint=f"{point}:{visit}") == -signal.SIGKILL
    plain_run.run(tmp_path / "usage", ledger)
    require_exact(ledger, emitters)


def test_a_disk_that_takes_no_more_commits_nothing_and_loses_nothing(tmp_path: Path) -> None:
    emitter = Emitter(tmp_path / "usage")
    emitter.traffic(T0, T0 + HOUR // 6)
    ledger = tmp_path / "ledger"
    TableStore(ledger).create(tables.LEDGERS["meter"])
    refused = subprocess.run(
        [*PROGRAM, str(tmp_path / "usage"), str(ledger)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048)),
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert refused.returncode == 1
    assert b"File too large" in refused.stderr
    assert TableStore(ledger).snapshot(tables.LEDGERS["meter"]).version == 0
    plain_run.run(tmp_path / "usage", ledger)
    require_exact(ledger, [emitter])


def test_a_run_that_died_has_left_no_lock(tmp_path: Path) -> None:
    Emitter(tmp_path / "usage").traffic(T0, T0 + HOUR // 6)
    assert start(tmp_path / "usage", tmp_path / "ledger", failpoint="before_commit") == -signal.SIGKILL
    assert start(tmp_path / "usage", tmp_path / "ledger") == 0


def test_files_of_a_run_that_died_are_no_part_of_the_table(tmp_path: Path) -> None:
    emitter = Emitter(tmp_path / "usage")
    emitter.traffic(T0, T0 + HOUR // 6)
    ledger = tmp_path / "ledger"
    start(tmp_path / "usage", ledger, failpoint="before_commit")
    left = {f"data/{each.name}" for each in (ledger / "ledger/meter/data").iterdir()}
    assert left
    plain_run.run(tmp_path / "usage", ledger)
    store = TableStore(ledger)
    assert not left & {each.path for each in store.snapshot(tables.LEDGERS["meter"]).files}
    assert left <= set(store.vacuum(tables.LEDGERS["meter"], after_h=0, dry_run=True))
    require_exact(ledger, [emitter])
