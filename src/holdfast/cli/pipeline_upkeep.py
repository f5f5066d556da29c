"""`holdfast pipeline backfill | replay | check | compact | vacuum | prune | doctor`: a ledger is kept up."""

import datetime
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import connect, screen, toolbox
from holdfast.cli.connect import Mistake
from holdfast.cli.toolbox import Master, Places, RatesFile

Moment = Annotated[str, typer.Option(metavar="TIME", help="2026-11-15, or 2026-11-15T09:00, in UTC.")]


@toolbox.placed
def backfill(
    *,
    begin: Moment,
    end: Moment,
    at: Places,
    master: Master = toolbox.LOCAL,
    as_json: connect.AsJson = False,
) -> None:
    """Compute the rollups of some hours anew from the ledger. The same rows give the same rollups, hash for hash.

    Example: holdfast pipeline backfill --begin 2026-11-01 --end 2026-12-01
    """
    with toolbox.explained(), screen.steps("backfill") as step:
        shop = toolbox.workshop().open_shop(at, master=master, progress=step)
        hours = shop.backfill(begin_us=_us(begin), end_us=_us(end))
    if as_json:
        screen.show_json({"hours": hours})
    else:
        print(f"{hours} hours computed anew")


@toolbox.placed
def replay(
    into: Annotated[Path, typer.Argument(metavar="DIR", help="An empty folder for the second ledger.")],
    *,
    at: Places,
    master: Master = toolbox.LOCAL,
    as_json: connect.AsJson = False,
) -> None:
    """Build the ledger a second time from all segments, and compare: exit code 1 when a table differs.

    Example: holdfast pipeline replay ./second-ledger
    """
    with toolbox.explained(), screen.steps("replay") as step:
        shop = toolbox.workshop().open_shop(at, master=master, progress=step)
        other = toolbox.workshop().open_shop(at._replace(ledger=into), master=master, progress=step)
        _, same = shop.replay(other)
    if as_json:
        screen.show_json([{"table": name, "is_same": ok} for name, ok in same.items()])
    else:
        screen.table(("TABLE", "ROWS"), [(name, "the same" if ok else "DIFFER") for name, ok in same.items()], empty="")
    if not all(same.values()):
        raise typer.Exit(connect.FINDINGS)


@toolbox.placed
def check(
    *,
    at: Places,
    as_json: connect.AsJson = False,
) -> None:
    """Check the ledger: no gaps, units as the nodes counted them, bills, costs and audit chain. Needs no JVM.

    Exit code 1 when something is wrong.

    Example: holdfast pipeline check --data ./data
    """
    with toolbox.explained():
        shop = toolbox.workshop().open_shop(at)
        found = shop.check()
    if as_json:
        screen.show_json([{name: getattr(each, name) for name in each.__struct_fields__} for each in found])
    else:
        rows = [("ok" if c.is_good else "WRONG", c.check, c.subject, c.expected, c.found or c.detail) for c in found]
        screen.table(("STATE", "CHECK", "OF WHAT", ">EXPECTED", ">FOUND"), rows, empty="")
    if not all(each.is_good for each in found):
        raise typer.Exit(connect.FINDINGS)


@toolbox.placed
def compact(
    *,
    at: Places,
    as_json: connect.AsJson = False,
) -> None:
    """Put the small files of each hour together. Changes no row; runs do it by themselves when there are many.

    Example: holdfast pipeline compact --data ./data
    """
    with toolbox.explained():
        shop = toolbox.workshop().open_shop(at)
        gone = shop.compact()
    rows = [(name, count) for name, count in gone.items() if count]
    if as_json:
        screen.show_json([{"table": name, "files_fewer": count} for name, count in rows])
    else:
        screen.table(("TABLE", ">FILES FEWER"), rows, empty="Nothing to do.")


@toolbox.placed
def vacuum(
    *,
    at: Places,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    as_json: connect.AsJson = False,
) -> None:
    """Remove files that no version of the last week knows: replaced hours, and what runs left that died.

    Example: holdfast pipeline vacuum --dry-run
    """
    with toolbox.explained():
        shop = toolbox.workshop().open_shop(at)
        gone = shop.vacuum(dry_run=dry_run)
    if as_json:
        screen.show_json([{"table": name, "files": sorted(files)} for name, files in gone.items() if files])
    else:
        rows = [(name, len(files)) for name, files in gone.items() if files]
        screen.table(("TABLE", ">FILES"), rows, empty="Nothing to remove.")


@toolbox.placed
def prune(
    *,
    at: Places,
    keep_days: Annotated[int, typer.Option("--keep-days", min=1, help="How old they have to be.")] = 30,
    as_json: connect.AsJson = False,
) -> None:
    """Remove usage files that are in the ledger. Those that are not, and each node's newest, stay.

    What is removed cannot be replayed into another ledger. Example: holdfast pipeline prune --keep-days 90
    """
    before = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=keep_days)
    with toolbox.explained():
        shop = toolbox.workshop().open_shop(at)
        gone = shop.prune(before_us=int(before.timestamp() * 1e6))
    if as_json:
        screen.show_json({"files": [str(each) for each in gone]})
    else:
        print(f"{len(gone)} usage files removed")


@toolbox.placed
def doctor(
    *,
    at: Places,
    rates: RatesFile = None,
    as_json: connect.AsJson = False,
) -> None:
    """Check what the pipeline needs: packages, Java, memory, disk, usage folder, rates. Exit code 1 when it cannot run.

    Example: holdfast pipeline doctor --data ./data
    """
    findings = toolbox.examine(at, rates)
    if as_json:
        screen.show_json([each._asdict() for each in findings])
    else:
        screen.table(("CHECK", "STATE", "SEEN"), [(f.check, f.state, f.seen) for f in findings], empty="")
        for each in findings:
            if each.fix:
                print(f"\n{each.check}: {each.fix}")
    if any(each.state == toolbox.BAD for each in findings):
        raise typer.Exit(connect.FINDINGS)


def _us(text: str) -> int:
    try:
        at = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise Mistake(f"{text!r} is no time. Write 2026-11-15, or 2026-11-15T09:00; it is taken as UTC.") from None
    return int(at.replace(tzinfo=at.tzinfo or datetime.UTC).timestamp()) * 1_000_000
