"""Pipeline commands that cannot do what they are asked say why and what to do, in one line, without a JVM."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from holdfast.backend.ownership import lock_folder
from holdfast.cli import toolbox
from holdfast.cli.connect import Mistake
from holdfast.cli.main import program
from holdfast.ledger import lock
from holdfast.usage.spool import Spool
from holdfast.usage.stores import Kept
from tests.pipeline.emitter import MINUTE, T0, Emitter, meter
from tests.usage.test_spool import NODE, SECOND, batch, journals, requests


def told(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(program(), ["pipeline", *words])
    return done.exit_code, done.stderr.strip()


def test_nothing_of_the_extra_is_imported_before_a_command_needs_it() -> None:
    heavy = "{'pyspark', 'pyarrow', 'deltalake', 'jinja2', 'pandas'}"
    script = f"""
import sys, holdfast.cli.serve
from holdfast.cli.main import program
program()
print(sorted({heavy} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.fixture
def without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)


@pytest.mark.usefixtures("without_java")
def test_a_missing_java_is_named_when_a_session_is_needed() -> None:
    with pytest.raises(Mistake, match="Java 17 or later"):
        toolbox.workshop().start_session(toolbox.LOCAL, lambda _: None)


def keep(root: Path) -> None:
    """As a server without pyarrow does, which then dies."""
    writing = Spool(root, NODE, Kept(root, NODE), window_us=10 * SECOND)
    for second in range(25):
        writing.add(batch(second))


@pytest.mark.usefixtures("without_java")
def test_a_run_converts_what_servers_without_pyarrow_have_kept(tmp_path: Path) -> None:
    keep(tmp_path / "usage")
    code, _ = told("once", "--data", str(tmp_path))
    assert (code, toolbox.workshop().ledger_rows(tmp_path / "ledger")) == (0, 3)  # so few that no Java is needed
    assert requests(tmp_path / "usage") == 25
    assert journals(tmp_path / "usage") == []


def test_doctor_says_that_journals_will_be_converted(tmp_path: Path) -> None:
    keep(tmp_path / "usage")
    done = CliRunner().invoke(program(), ["pipeline", "doctor", "--data", str(tmp_path)])
    assert "of a server without pyarrow; a run converts them" in done.stdout


@pytest.mark.usefixtures("without_java")
def test_a_run_leaves_the_last_epoch_of_a_server_that_works_open(tmp_path: Path) -> None:
    keep(tmp_path / "usage")
    descriptor = lock_folder(tmp_path)
    told("once", "--data", str(tmp_path))
    os.close(descriptor)
    assert requests(tmp_path / "usage") == 20  # of complete windows
    assert journals(tmp_path / "usage") != []


@pytest.mark.usefixtures("without_java")
def test_what_is_done_to_a_ledger_is_told_as_json(tmp_path: Path) -> None:
    def value(*words: str) -> Any:
        done = CliRunner().invoke(program(), ["pipeline", *words, "--data", str(tmp_path), "--json"])
        assert done.exit_code == 0, done.stderr
        return json.loads(done.stdout)

    node = Emitter(tmp_path / "usage")
    for number in range(2):
        node.emit([meter(T0 + number * MINUTE)], until=T0 + (number + 1) * MINUTE)
        assert value("once", "--no-reports")["rows"] == 1
    assert value("backfill", "--begin", "2026-11-16", "--end", "2026-11-17") == {"hours": 1}
    assert {row["is_same"] for row in value("replay", str(tmp_path / "second"))} == {True}
    assert {"table": "ledger.meter", "files_fewer": 1} in value("compact")
    assert value("vacuum", "--dry-run") == []
    assert value("prune", "--keep-days", "9999") == {"files": []}
    assert {row["is_good"] for row in value("check")} == {True}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("once", "--usage", "/nowhere"), "/nowhere is no folder"),
        (("once", "--rates", "/none.toml"), "no rates at /none.toml"),
        (("bill",), "has no costs yet. Make them: holdfast pipeline once"),
        (("report",), "has no reports yet. Make them: holdfast pipeline once"),
        (("report", "--day", "2026-11-15"), "has no reports yet. Make them: holdfast pipeline once"),
        (("report", "--day", "15.11.2026"), "is no day. Write it as 2026-11-15."),
        (("bill", "--month", "November"), "is no month. Write it as 2026-11."),
        (("show", "report.bills"), "there is no table report.bills"),
        (("show", "report.alert"), "Did you mean report.alerts?"),
        (("backfill", "--begin", "yesterday", "--end", "2026-11-15"), "'yesterday' is no time"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_do(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    code, text = told(*words, "--data", str(tmp_path))
    assert code == 2
    assert said in text
    assert "\n" not in text


def test_two_runs_at_once_are_refused(tmp_path: Path) -> None:
    (tmp_path / "usage").mkdir()
    with lock.only_run(tmp_path / "ledger"):
        code, text = told("once", "--data", str(tmp_path))
    assert code == 2
    assert "another run" in text


def test_watch_waits_and_ends_when_it_is_told_to(tmp_path: Path) -> None:
    (tmp_path / "usage").mkdir()
    program = [sys.executable, "-m", "holdfast", "pipeline", "watch", "--data", str(tmp_path)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        while not (tmp_path / "ledger" / lock.FILE).exists() and running.poll() is None:
            time.sleep(0.05)
        running.send_signal(signal.SIGTERM)
        out, said = running.communicate(timeout=60)
    assert (running.returncode, out, said) == (0, "", "")


def test_a_demo_does_not_write_into_another_one(tmp_path: Path) -> None:
    (tmp_path / "ledger").mkdir()
    code, text = told("demo", "--out", str(tmp_path))
    assert code == 2
    assert "holds a demo already" in text


@pytest.mark.usefixtures("without_java")
def test_doctor_names_what_is_missing(tmp_path: Path) -> None:
    done = CliRunner().invoke(program(), ["pipeline", "doctor", "--data", str(tmp_path)])
    assert done.exit_code == 1
    assert "Spark needs Java 17 or later" in done.stdout
    assert "usage is not there" in done.stdout


def test_an_empty_ledger_lists_its_tables_and_has_an_empty_chain(tmp_path: Path) -> None:
    listed = CliRunner().invoke(program(), ["pipeline", "show", "--data", str(tmp_path)])
    assert "report.focus_cost" in listed.stdout
    verified = CliRunner().invoke(program(), ["pipeline", "audit", "verify", "--data", str(tmp_path)])
    assert verified.stdout == "0 files, 0 problems; last digest none\n"
