"""`holdfast usage`: what was used, as files. What is made of them: `holdfast pipeline`."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from holdfast.backend.ownership import DataFolderError, lock_folder
from holdfast.cli import connect, folder, screen
from holdfast.usage import convert as conversion
from holdfast.usage import places, schema
from holdfast.usage.stores import StoreError, has_arrow

app = typer.Typer(no_args_is_help=True, help="Usage: the files that bills, audits and reports are made from.")
Folder = Annotated[
    Path | None, typer.Option("--folder", envvar="HOLDFAST__USAGE__FOLDER", help="Where usage is, if not in the data.")
]


@app.command()
def convert(*, data: folder.Data = folder.DEFAULT, where: Folder = None) -> None:
    """Make Parquet segments of usage that was kept without pyarrow.

    A server that has pyarrow does it by itself. The server may go on working: a window that is not complete follows the
    next time. May be interrupted and repeated; nothing is counted twice.

    Example: holdfast usage convert --data ./data
    """
    with connect.explained():
        root = _root(data, where)
        found = _convert(root, conversion.nodes(root), data=data)
    for node, count in found.items():
        print(f"{node}: {count} windows are in segments")
    if not found:
        screen.note("There is nothing to convert.")


def convert_kept(root: Path, data: Path) -> dict[str, int]:
    """What servers without pyarrow have kept, before a run of the pipeline looks for segments. How many windows of each
    node that were. In a folder that is not the server's own, nobody knows which of the nodes are at work: their last
    epochs stay open, as if all were."""
    is_own = root.absolute() == (data / "usage").absolute()
    return _convert(root, conversion.keeping(root), data=data if is_own else None)


def _convert(root: Path, nodes: list[str], *, data: Path | None) -> dict[str, int]:
    """While it works no server starts on `data`; one that is there already goes on."""
    if not nodes:
        return {}
    with _stopped(data) as is_stopped:
        convert_one = conversion.finish_all if is_stopped else conversion.follow
        try:
            found = {node: convert_one(root, node) for node in nodes}
        except StoreError as problem:
            raise connect.Mistake(f"{problem}. `holdfast usage check` looks at all segments.") from None
    return {node: count for node, count in found.items() if count}


@app.command()
def check(*, data: folder.Data = folder.DEFAULT, where: Folder = None, as_json: connect.AsJson = False) -> None:
    """Look at every segment: its name, its footer, its rows, and whether it follows the one before.

    Ends with status 1 if anything is wrong. Example: holdfast usage check --data ./data
    """
    with connect.explained():
        root = _root(data, where)
        from holdfast.usage import segment  # noqa: PLC0415 - pyarrow need not be there for other commands

        rows: list[tuple[str, str, int, int]] = []
        problems: list[str] = []
        for kind in schema.KINDS:
            streams = places.streams(root, kind)
            for node in sorted({each.node for each in streams}):
                own = [each for each in streams if each.node == node]
                problems += [str(each) for each in segment.check(root, kind, node)]
                rows.append((kind, node, len(own), sum(len(places.numbers(root, each)) for each in own)))
    if as_json:
        named = ("kind", "node", "epochs", "segments")
        screen.show_json({"streams": [dict(zip(named, row, strict=True)) for row in rows], "problems": problems})
    else:
        screen.table(("KIND", "NODE", ">EPOCHS", ">SEGMENTS"), rows, empty=f"{root} has no segments.")
        for each in problems:
            screen.note(each)
    if problems:
        raise typer.Exit(1)


def _root(data: Path, where: Path | None) -> Path:
    root = where or data / "usage"
    if not root.is_dir():
        raise connect.Mistake(f"{root} is no folder with usage. Name the server's folder with --data, or --folder.")
    if not has_arrow():
        raise connect.Mistake("This needs pyarrow. Install it: pip install 'holdfast[usage]'")
    return root


@contextlib.contextmanager
def _stopped(data: Path | None) -> Iterator[bool]:
    """Whether no server works on `data`, and none begins to meanwhile."""
    if data is None or not data.is_dir():
        yield data is not None  # the folder alone was brought here
        return
    try:
        descriptor = lock_folder(data)
    except DataFolderError:
        yield False
        return
    try:
        yield True
    finally:
        os.close(descriptor)
