"""What commands show: tables, blocks, JSON, progress, and the question before something is destroyed.

On a terminal tables are drawn by rich and fit its width. Piped they are plain columns, nothing is cut off, and there
is neither colour nor progress; a program should ask for --json.
"""

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from holdfast.cli.connect import Mistake

NUMBER = ">"  # a heading that begins so is of a column of numbers
GAP = 2  # between columns
WORTH_A_BAR = 50  # steps; what has fewer is over before it could be read

Cell = str | int


class Meter(Protocol):
    def __call__(self, count: int, /) -> None:
        """So many more are done."""


def is_terminal() -> bool:
    return sys.stdout.isatty()


def show_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def show_line(value: Any) -> None:
    """One line of a stream of JSON."""
    print(json.dumps(value, ensure_ascii=False), flush=True)


def table(headings: Sequence[str], rows: Sequence[Sequence[Cell]], *, empty: str) -> None:
    """`empty` is what to say when there are no rows, to a person only; maybe nothing."""
    if not rows:
        if empty:
            note(empty)
        return
    cells = [[_cell(each) for each in row] for row in rows]
    if is_terminal():
        _draw(headings, cells)
    else:
        _print_plain(headings, cells)


def _cell(value: Cell) -> str:
    return f"{value:,}" if isinstance(value, int) and is_terminal() else str(value)


def _draw(headings: Sequence[str], rows: list[list[str]]) -> None:
    """Every column gets what it needs, except the last, which gets what is left."""
    console = Console()
    drawn = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    left = console.width
    for place, heading in enumerate(headings):
        title = heading.removeprefix(NUMBER)
        width = max(cell_len(each) for each in (title, *(row[place] for row in rows)))
        if place == len(headings) - 1:
            width = max(len(title), min(width, left))
        drawn.add_column(
            title, justify="right" if heading is not title else "left", width=width, no_wrap=True, overflow="ellipsis"
        )
        left -= width + GAP
    for row in rows:
        drawn.add_row(*(Text(each) for each in row))
    console.print(drawn)


def _print_plain(headings: Sequence[str], rows: list[list[str]]) -> None:
    titles = [heading.removeprefix(NUMBER) for heading in headings]
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    for row in (titles, *rows):
        parts = [
            each.rjust(width) if heading.startswith(NUMBER) else each.ljust(width)
            for heading, each, width in zip(headings, row, widths, strict=True)
        ]
        print("  ".join(parts).rstrip())


def facts(rows: Sequence[tuple[str, Cell]]) -> None:
    """Names and values below each other."""
    width = max(len(name) for name, _ in rows)
    console = Console(highlight=False, soft_wrap=True)
    for name, value in rows:
        console.print(Text(f"{name:<{width}}  ", style="bold" if is_terminal() else ""), Text(_cell(value)), sep="")


def note(text: str) -> None:
    """For people: not part of what a pipe carries."""
    typer.echo(text, err=True)


@contextlib.contextmanager
def progress(what: str, total: int | None, *, is_bytes: bool = False) -> Iterator[Meter]:
    """A bar on a terminal's standard error, nothing elsewhere and for little work. `total` None: unknown."""
    if not sys.stderr.isatty() or (total is not None and total < WORTH_A_BAR):
        yield lambda _: None
        return
    amount = DownloadColumn(binary_units=True) if is_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), amount, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)


@contextlib.contextmanager
def steps(what: str, total: int | None = None) -> Iterator[Callable[[str], None]]:
    """For work of few long steps: what is being done, and for how long, on a terminal's standard error."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)

        def step(name: str) -> None:
            bar.update(task, description=f"{what}: {name}", advance=1)

        yield step


def confirm(name: str, *, yes: str | None, what: str) -> None:
    """Asks for the name of what is to be destroyed; `yes` answers in advance. `what` ends with what will happen."""
    if yes is not None:
        if yes != name:
            raise Mistake(f"--yes has to repeat the name that is meant: --yes {name}, and it says {yes}.")
        return
    if not sys.stdin.isatty():
        raise Mistake(f"{what} Nobody is there to confirm it; in a script add --yes {name}")
    note(what)
    if input(f"Type {name} to go on: ").strip() != name:
        raise Mistake("that is another name; nothing was changed.")


def age(milliseconds: int | str) -> str:
    """How long ago an instant since 1970 was, in the unit that says most."""
    return duration(max(0, time.time() - int(milliseconds) / 1000))


def duration(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError("the last unit takes everything")


def one_line(text: str) -> str:
    """A body that may be long and have line breaks, as part of a row."""
    return " ".join(text.split())
