"""A command pays for its own imports only."""

import subprocess
import sys
from typing import Any

import pytest
from typer.main import get_command

from holdfast.cli.main import COMMANDS, GROUPS, program

SERVERS = ("uvloop", "httptools", "holdfast.core.queue.shard", "pyarrow")


@pytest.mark.parametrize("asked", ["queue", "msg", "dlq", "env", "key", "aws", "doctor"])
def test_a_command_that_talks_to_a_server_does_not_import_one(asked: str) -> None:
    script = f"""
import sys
from holdfast.cli.main import program
program({asked!r})
print(*(name for name in {SERVERS!r} if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("asked", [*GROUPS, *COMMANDS])
def test_a_command_alone_is_the_same_as_among_the_others(asked: str) -> None:
    alone, among = shape(get_command(program(asked))), shape(get_command(program()))
    assert list(alone["commands"]) == [asked]
    assert alone["commands"][asked] == among["commands"][asked]


def shape(command: Any) -> dict[str, Any]:
    """Options and commands below it."""
    below = getattr(command, "commands", {})
    return {
        "help": command.help,
        "settings": command.context_settings,
        "options": [each.opts for each in command.params],
        "commands": {name: shape(each) for name, each in below.items()},
    }


def test_a_mistyped_command_is_answered_with_what_there_is() -> None:
    done = subprocess.run([sys.executable, "-m", "holdfast", "qeue"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "queue" in done.stderr
