"""`holdfast pipeline bill | report | show | audit verify | demo`: what the ledger has to say."""

import datetime
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli import connect, screen, toolbox
from holdfast.cli.connect import Mistake
from holdfast.cli.toolbox import Master, Places, RatesFile

SHOW_MAX = 50
CELL_MAX = 60  # characters of a cell of `show`, to a person

audit = typer.Typer(help="The sealed record of who did what.", no_args_is_help=True)

Month = Annotated[str, typer.Option("--month", metavar="YYYY-MM", help="Of usage. None: the newest.")]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Where to. None: `reports` in the ledger.")]


@toolbox.placed_ledger
def bill(
    *,
    month: Month = "",
    account: Annotated[str, typer.Option(metavar="DIGITS", help="Only of this account.")] = "",
    focus: Annotated[
        Path | None, typer.Option("--focus", metavar="FILE", help="Write the rows as FOCUS 1.2, in CSV.")
    ] = None,
    rates: RatesFile = None,
    at: Places,
    master: Master = toolbox.LOCAL,
    as_json: connect.AsJson = False,
) -> None:
    """What accounts pay for a month of closed hours, and what SQS would have charged. Exact, with corrections.

    With --rates the month is priced anew where that file says something else than the one before.

    Example: holdfast pipeline bill --month 2026-11 --focus november.csv
    """
    with toolbox.explained():
        if rates is not None:
            with screen.steps("pricing") as step:
                toolbox.workshop().open_shop(at, rates=rates, master=master, progress=step).publish()
        rows = toolbox.workshop().costs(at, month=_month(month) if month else None, account=account)
        if focus is not None:
            toolbox.workshop().write_focus(focus, rows)
            screen.note(f"{len(rows)} rows written to {focus}")
    lines = _bill_lines(rows)
    if as_json:
        screen.show_json(lines)
        return
    table = [(e["account"], e["name"], e["sku"], e["units"], e["cost"], e["at_sqs"]) for e in lines]
    screen.table(("ACCOUNT", "NAME", "SKU", ">UNITS", ">COST", ">AT SQS"), table, empty="No hour of it has closed.")


def _bill_lines(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    keys = sorted({(row["BillingAccountId"], row["SkuId"]) for row in rows})
    groups = [(*key, [row for row in rows if (row["BillingAccountId"], row["SkuId"]) == key]) for key in keys]
    whole = [("all", "", rows)] if len(keys) > 1 else []
    return [
        {
            "account": account,
            "name": own[0]["BillingAccountName"] if sku else "",
            "sku": sku,
            "units": int(sum(row["PricingQuantity"] for row in own)),
            "cost": _money(own, "BilledCost"),
            "at_sqs": _money(own, "x_SqsEquivalentCost"),
        }
        for account, sku, own in [*groups, *whole]
    ]


def _money(rows: list[dict[str, Any]], column: str) -> str:
    total = sum((row[column] for row in rows), Decimal(0))
    return f"{total.normalize():f} {rows[0]['BillingCurrency']}"


@toolbox.placed_ledger
def report(
    *,
    day: Annotated[str, typer.Option(metavar="YYYY-MM-DD", help="The first day. None: the newest with a report.")] = "",
    days: Annotated[int, typer.Option(min=1, max=366, help="How many days.")] = 1,
    account: Annotated[
        str, typer.Option(metavar="DIGITS", help="Only what this account may see: its queues, costs and actions.")
    ] = "",
    out: Out = None,
    at: Places,
) -> None:
    """Write one HTML page on a day or more, and its tables as CSV and JSON. Needs no JVM; prints the page's path.

    Example: holdfast pipeline report --day 2026-11-15 --out ./report
    """
    with toolbox.explained():
        first = _day(day) if day else None
        print(toolbox.workshop().write_report(at, day=first, days=days, account=account, out=out))


@toolbox.placed_ledger
def show(
    table: Annotated[str, typer.Argument(metavar="[TABLE]", help="Its name; without one they are listed.")] = "",
    *,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Rows.")] = SHOW_MAX,
    at: Places,
    as_json: connect.AsJson = False,
) -> None:
    """Show rows of a table of the ledger, or which tables there are. Needs no JVM.

    Example: holdfast pipeline show report.alerts --json
    """
    with toolbox.explained():
        if table:
            rows = toolbox.workshop().rows(at, table, limit=limit)
        else:
            listed = toolbox.workshop().listed(at)
    if not table:
        if as_json:
            screen.show_json([{"table": name, "rows": rows, "by": by} for name, rows, by in listed])
        else:
            screen.table(("TABLE", ">ROWS", "KEPT APART BY"), listed, empty="")
        return
    if as_json:
        screen.show_json(rows)
        return
    names = [name for name in (rows[0] if rows else {}) if name not in ("run_id", "schema_version")]
    width = CELL_MAX if screen.is_terminal() else None
    cells = [[screen.one_line(str(row[name]))[:width] for name in names] for row in rows]
    screen.table([name.upper() for name in names], cells, empty=f"{table} has no rows.")


@audit.command()
@toolbox.placed_ledger
def verify(
    *,
    at: Places,
    as_json: connect.AsJson = False,
) -> None:
    """Check every sealed audit file against the chain of digests and the ledger: a changed byte is found and named.

    Prints the last digest: write it down elsewhere, and nobody can exchange the whole chain. Exit code 1 when something
    is wrong.

    Example: holdfast pipeline audit verify --data ./data
    """
    with toolbox.explained():
        entries, findings = toolbox.workshop().verify(at)
    last = entries[-1].digest if entries else ""
    if as_json:
        found = [{"path": each.path, "problem": each.problem} for each in findings]
        screen.show_json({"files": len(entries), "last_digest": last, "findings": found})
    else:
        screen.table(("FILE", "PROBLEM"), [(each.path, each.problem) for each in findings], empty="")
        print(f"{len(entries)} files, {len(findings)} problems; last digest {last or 'none'}")
    if findings:
        raise typer.Exit(connect.FINDINGS)


def demo(
    *,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Keep everything here. None: a new folder.")
    ] = None,
    day: Annotated[str, typer.Option(metavar="YYYY-MM-DD", help="The day to make. None: yesterday.")] = "",
) -> None:
    """Make up a day of four accounts, with an outage and much that goes wrong; run the pipeline; write the report.

    Prints the path of the page. Nothing of a server is read or changed.

    Example: holdfast pipeline demo --out ./demo
    """
    with toolbox.explained():
        chosen = _day(day) if day else datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
        workshop = toolbox.workshop()  # without Spark it ends here, and leaves no folder behind
        root = _demo_folder(out)
        places = Places(root / "ledger", root / "usage", "us-east-1")
        with screen.steps("demo", total=DEMO_STEPS) as step:
            page = workshop.demo(places, chosen.date(), progress=step)
        print(page)
    screen.note(f"Look around: holdfast pipeline show --ledger {places.ledger}")


DEMO_STEPS = (
    15  # what `progress` is told in one: segments, Spark, three steps of the ledger, eight reports, checks, page
)


def _demo_folder(out: Path | None) -> Path:
    if out is None:
        return Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
    if (out / "ledger").exists() or (out / "usage").exists():
        raise Mistake(f"{out} holds a demo already. Remove it (rm -r {out}), or name another folder with --out.")
    out.mkdir(parents=True, exist_ok=True)
    return out


def _day(text: str) -> datetime.datetime:
    try:
        return datetime.datetime.strptime(text + "+0000", "%Y-%m-%d%z")
    except ValueError:
        raise Mistake(f"{text!r} is no day. Write it as 2026-11-15.") from None


def _month(text: str) -> datetime.datetime:
    try:
        return datetime.datetime.strptime(text + "+0000", "%Y-%m%z")
    except ValueError:
        raise Mistake(f"{text!r} is no month. Write it as 2026-11.") from None
