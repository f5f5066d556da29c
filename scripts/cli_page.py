"""Writes docs/CLI.md from the commands themselves; `--check` only says whether it is current.

.venv/bin/python scripts/cli_page.py
"""

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from holdfast.cli.main import program

PAGE = Path(__file__).parent.parent / "docs" / "CLI.md"

TYPES = {int: "N", float: "N", Path: "PATH"}

INTRODUCTION = """\
# The command line

Written by `scripts/cli_page.py` from the commands' own help; change it there. `holdfast COMMAND --help` shows the same.

## Which server, which key

| given | the command asks |
|---|---|
| `--data DIR`, or `HOLDFAST__SERVER__DATA` | the server of that folder on this machine, as its root |
| `--endpoint URL`, or `AWS_ENDPOINT_URL_SQS` or `AWS_ENDPOINT_URL` | that server, with the key of the environment |
| neither | the server of `./data` |

The key of the environment is `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`; where they are not set, the root key of
`./data` is taken. Keys of the environment are used with an endpoint only, and secrets are never taken from arguments.
`AWS_CA_BUNDLE` names a certificate authority to trust.

## What comes out

Results go to standard output, remarks and progress to standard error. On a terminal tables fit its width; in a pipe
nothing is cut off. `--json` is for programs: one document, or a line per message where messages are followed.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | done, and there is something to look at: damage, a problem, messages that were not moved or sent |
| 2 | the command, or what it was given, is wrong; nothing was done |
| 3 | no server answered |
| 4 | the server refused |

Completion for the shell that runs it: `holdfast --install-completion`.
"""


def page() -> str:
    return "\n".join(
        [INTRODUCTION, *(section(path, each) for path, each in commands(get_command(program()), "holdfast"))]
    )


def commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, each in getattr(command, "commands", {}).items():
        if hasattr(each, "commands"):
            yield from commands(each, f"{path} {name}")
        elif not each.hidden:
            yield f"{path} {name}", each


def section(path: str, command: Any) -> str:
    shown = [each for each in command.params if not getattr(each, "hidden", False) and each.name != "help"]
    words = [placeholder(each) for each in shown if each.param_type_name == "argument"]
    rows = [f"| {names(each)} | {text(each)} |" for each in shown]
    lines = [f"## {path}", "", f"`{' '.join([path, *words, '[OPTIONS]'])}`", "", *paragraphs(command.help)]
    return "\n".join([*lines, *(["| | |", "|---|---|", *rows, ""] if rows else [])])


def placeholder(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    return name if argument.required or name.startswith("[") else f"[{name}]"


def names(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar or parameter.name.upper()}`"
    kind = "PATH" if isinstance(parameter.default, Path) else TYPES.get(parameter.bare_type, "TEXT")
    takes = "" if parameter.is_flag else f" {parameter.metavar or kind}".replace("|", "\\|")
    return ", ".join(f"`{each}{takes}`" for each in (*parameter.opts, *parameter.secondary_opts))


def text(parameter: Any) -> str:
    said = (getattr(parameter, "help", None) or "").replace("|", "\\|").replace("\n", " ")
    shown = getattr(parameter, "show_default", None)
    default = shown if isinstance(shown, str) else parameter.default
    if isinstance(default, str | int | float | Path) and not isinstance(default, bool) and str(default) != "":
        said += f" Default: `{default}`."
    return said


def paragraphs(help_text: str | None) -> list[str]:
    """The last one is the example, and becomes code."""
    lines: list[str] = []
    for paragraph in inspect.cleandoc(help_text or "").split("\n\n"):
        flat = " ".join(paragraph.split())
        lines += [f"    {flat.removeprefix('Example: ')}" if flat.startswith("Example: ") else flat, ""]
    return lines


def main() -> int:
    current = page()
    if "--check" in sys.argv:
        is_current = PAGE.exists() and PAGE.read_text(encoding="utf-8") == current
        print("docs/CLI.md is current" if is_current else f"docs/CLI.md is not current: {sys.executable} {__file__}")
        return 0 if is_current else 1
    PAGE.write_text(current, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
