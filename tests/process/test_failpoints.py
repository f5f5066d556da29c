"""A server under load dies at every named failpoint, every other time with a power cut, and keeps what it promised.

The names are read from the source, so a new one is tested as soon as it is there.
"""

import re
import signal
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

import holdfast
from tests.process.cuts import SMALL, Cuts

SOURCE = Path(holdfast.__file__).parent
OFTEN = (
    "before a write",
    "written, not synced",
    "synced, not answered",
    "file created",
    "file renamed",
    "folder synced",
)
TIMES = (1, 7, 40)  # in recovery; in the first spare or snapshot; under load
FIRST_START = ("key written", "key renamed")  # where nothing can be lost yet
PIPELINE = ("ledger", "pipeline", "spark")  # no part of a server; tests/pipeline has their deaths
HELPER = "snapshotter done"  # dies, not the server
REPLAYED = ("snapshot made", HELPER)  # reached with states that are too heavy for a draft
HEAVY: dict[str, Any] = {"limits": {**SMALL["limits"], "DRAFT_WEIGHT": 0}}


def names() -> list[str]:
    files = (path for path in SOURCE.rglob("*.py") if path.relative_to(SOURCE).parts[0] not in PIPELINE)
    found = (re.findall(r'\bfailpoint\("([^"]+)"\)', path.read_text(encoding="utf-8")) for path in files)
    return sorted(chain.from_iterable(found))


SERVER = [name for name in names() if name not in (*OFTEN, *FIRST_START, HELPER)]
CHAINS = {
    "files": [f"{name}:{times}" for times in TIMES for name in OFTEN],
    "steps": [f"{name}:{1 + number % 2}" for number, name in enumerate(SERVER)],
}


def test_every_failpoint_has_one_place_and_a_name_of_its_own() -> None:
    assert len(names()) == len(set(names())) >= 20
    assert {*OFTEN, *FIRST_START, HELPER} < set(names())


@pytest.mark.parametrize("chain_name", CHAINS)
def test_a_crash_at_a_failpoint_breaks_no_promise(tmp_path: Path, chain_name: str) -> None:
    cuts = Cuts(tmp_path / "data", 11)
    for number, failpoint in enumerate(CHAINS[chain_name]):
        setting: dict[str, Any] = HEAVY if failpoint.partition(":")[0] in REPLAYED else {}
        status = cuts.crash_at(failpoint, is_power_cut=number % 2 == 0, **setting)
        assert status == -signal.SIGKILL, f"{failpoint} was not reached"
    assert cuts.judge() == []
    assert len(cuts.history.sent) > 100


@pytest.mark.parametrize("name", FIRST_START)
def test_a_first_start_that_is_cut_short_is_followed_by_one_that_works(tmp_path: Path, name: str) -> None:
    cuts = Cuts(tmp_path / "data", 12)
    for _ in range(2):  # at the first key, then at that again or at the next
        assert cuts.crash_at(name, is_power_cut=True) == -signal.SIGKILL
    cuts.cut()
    assert cuts.judge() == []


def test_a_snapshot_whose_process_is_killed_is_made_later(tmp_path: Path) -> None:
    cuts = Cuts(tmp_path / "data", 13)
    cuts.crash_at(
        HELPER,
        is_power_cut=False,
        patience_s=4,
        upkeep={**SMALL["upkeep"], "RETRY_AFTER_S": 0.1},
        **HEAVY,
    )
    assert "no snapshot was made" in (tmp_path / "data.log").read_text()
    assert list((tmp_path / "data").glob("shards/*/snapshots/*.snap"))
    assert cuts.judge() == []
