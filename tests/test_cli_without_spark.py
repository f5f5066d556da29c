"""The server's own environment has no Spark: pipeline commands are listed there, and say what they need."""

import importlib.util

import pytest
from typer.testing import CliRunner

from holdfast.cli.main import program

HAS_EXTRA = importlib.util.find_spec("pyspark") is not None

pytestmark = pytest.mark.skipif(HAS_EXTRA, reason="this environment has the extra `spark`")


@pytest.mark.parametrize("command", ["once", "watch", "check", "bill", "report", "show", "demo", "compact"])
def test_a_command_without_the_extra_names_it(command: str) -> None:
    done = CliRunner().invoke(program(), ["pipeline", command])
    assert done.exit_code == 2
    assert "pip install 'holdfast[spark]'" in done.stderr
    assert done.stdout == ""


def test_doctor_says_what_is_missing_and_what_to_install() -> None:
    done = CliRunner().invoke(program(), ["pipeline", "doctor"])
    assert done.exit_code == 1
    assert "pyspark" in done.stdout
    assert "pip install 'holdfast[spark]'" in done.stdout
