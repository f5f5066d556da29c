"""docs/CLI.md is what the commands say of themselves, and each of them shows an example."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from typer.main import get_command

from holdfast.cli.main import program

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cli_page", ROOT / "scripts" / "cli_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current(script: ModuleType) -> None:
    written = (ROOT / "docs" / "CLI.md").read_text(encoding="utf-8")
    assert written == script.page(), "write it again: .venv/bin/python scripts/cli_page.py"


def test_every_command_has_an_example(script: ModuleType) -> None:
    without = [
        path for path, each in script.commands(get_command(program()), "holdfast") if path not in (each.help or "")
    ]
    assert without == []


# What runs until it is stopped, or prints JSON, TOML or another program's words already.
WITHOUT_JSON = {"serve", "aws", "config example", "msg export"}


def test_every_command_of_the_server_answers_in_json_when_asked(script: ModuleType) -> None:
    without = {
        path.removeprefix("holdfast ")
        for path, each in script.commands(get_command(program()), "holdfast")
        if not any("--json" in option.opts for option in each.params)
    }
    of_server = {path for path in without if not path.startswith(("pipeline", "usage"))}
    assert of_server == WITHOUT_JSON
