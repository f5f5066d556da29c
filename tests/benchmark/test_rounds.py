"""Contenders have their core to themselves while they are measured."""

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from bench.contender import Running
from bench.dialects.dialect import Dialect
from bench.processes import Served, cores
from bench.rounds import alone

PROGRAM = """
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
pathlib.Path(sys.argv[1]).write_text("there")
time.sleep(60)
"""


@pytest.fixture
def running(tmp_path: Path) -> Iterator[dict[str, Running]]:
    """Servers of two processes each."""
    with contextlib.ExitStack() as stack:
        made = {}
        for name in ("ours", "theirs"):
            ready = tmp_path / name
            served = Served([sys.executable, "-c", PROGRAM, str(ready)], log=tmp_path / f"{name}.log", core=cores()[0])
            stack.callback(served.kill)
            served.wait_for(ready)
            made[name] = Running(served, cast(Dialect, None), "")
        yield made


def states(one: Running, *, wanted: str) -> set[str]:
    """A signal takes a moment."""
    deadline = time.monotonic() + 10
    found: set[str] = set()
    while found != {wanted} and time.monotonic() < deadline:
        stats = [Path(f"/proc/{pid}/stat").read_text(encoding="utf-8") for pid in one.served.pids()]
        found = {stat.rpartition(")")[2].split()[0] for stat in stats}
    return found


def test_others_stand_still_while_one_is_measured_and_go_on_afterwards(running: dict[str, Running]) -> None:
    assert len(running["theirs"].served.pids()) == 2
    with contextlib.suppress(OSError), alone("ours", running):
        assert states(running["theirs"], wanted="T") == {"T"}
        assert states(running["ours"], wanted="S") == {"S"}
        raise OSError("the measurement failed")
    assert states(running["theirs"], wanted="S") == {"S"}
