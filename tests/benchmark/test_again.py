"""An experiment that is measured again takes the place of what was found before, and the results say so."""

from pathlib import Path

import pytest

from bench import machine, session
from bench.contender import Place
from bench.experiments.finding import Finding
from bench.results import load, save
from bench.scope import QUICK
from tests.benchmark.figures import measured


def test_only_the_chosen_experiment_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"start": lambda: Finding({"start_s": 9.0}), "isolation": lambda: Finding({"isolation_ratio": 1.5})}
    monkeypatch.setattr(session, "experiments", lambda *_: known)
    results = measured()
    results.figures["isolation_ratio"] = 3.0
    results.problems["isolation"] = "it failed before"
    file, topped = tmp_path / "host.json", list[int]()

    def top_up() -> int:
        topped.append(1)
        return 0

    session.measure_again(
        ["isolation"],
        Place(tmp_path, 0, top_up),
        results=results,
        scope=QUICK,
        keep=lambda: save(results, file),
    )
    found = load(file)
    assert found.figures == {"start_s": 0.5, "isolation_ratio": 1.5}
    assert found.problems == {}
    assert found.samples == measured().samples
    assert list(found.settings) == ["isolation, measured again"]
    assert found.settings["isolation, measured again"].endswith(f"UTC, rounds: {QUICK.rounds}")
    assert topped == [1]


def test_machines_are_told_apart_by_all_but_their_load(tmp_path: Path) -> None:
    here = machine.describe(tmp_path)
    assert machine.is_same(here, {**here, "load average at the start": "7.0"})
    assert not machine.is_same(here, {**here, "processor": "another"})
    assert not machine.is_same(here, {})
