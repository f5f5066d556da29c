"""Which simulator runs: the compiled one only while it is what its source says."""

import os
from pathlib import Path

import pytest

from tests.sim.compiled import fastest, ready, target

NOON = 1_700_000_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A source and what was compiled of it, all as old."""
    for name in ("src/holdfast/core/lane.py", "tests/sim/world.py", "scripts/slots.h", "hatch_build.py"):
        touch(tmp_path / name, NOON)
    touch(ready(tmp_path), NOON)
    return tmp_path


def touch(path: Path, when: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.utime(path, (when, when))


def test_a_compiled_simulator_is_used(root: Path) -> None:
    assert fastest(root) == target(root)


def test_without_one_the_source_is_used(root: Path) -> None:
    ready(root).unlink()
    assert fastest(root) == root


@pytest.mark.parametrize(
    "changed", ["src/holdfast/core/lane.py", "tests/sim/new.py", "scripts/slots.h", "hatch_build.py"]
)
def test_one_that_is_older_than_what_it_was_made_of_is_not_used(root: Path, changed: str) -> None:
    touch(root / changed, NOON + 1)
    assert fastest(root) == root


def test_the_copy_knows_of_no_other_copy(root: Path) -> None:
    assert fastest(target(root)) == target(root)
