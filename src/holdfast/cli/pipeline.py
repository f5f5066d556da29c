"""`holdfast pipeline`: the ledger's runs. What they print goes to standard output, progress to standard error.

Commands are declared here without the pipeline, which is an extra; what they do is in workshop.py.
"""

import datetime
import signal
import threading
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli import connect, pipeline_reports, screen, toolbox
from holdfast.cli import usage as kept_usage
from holdfast.cli.connect import Mistake
from holdfast.cli.toolbox import Master, Places, RatesFile
from holdfast.ledger.errors import LedgerError

REPORT_EVERY_S = 600  # `watch` publishes when an hour closes, and at least this often when something is new
CONVERT_EVERY_S = 60.0

app = typer.Typer(help="The ledger: usage, bills, service levels and audit, on Spark.", no_args_is_help=True)
app.command("bill")(pipeline_reports.bill)
app.command("report")(pipeline_reports.report)
app.command("show")(pipeline_reports.show)
app.command("demo")(pipeline_reports.demo)
app.add_typer(pipeline_reports.audit, name="audit")

Moment = Annotated[str, typer.Option(metavar="TIME", help="2026-11-15, or 2026-11-15T09:00, in UTC.")]
Abandon = Annotated[
    list[str] | None,
    typer.Option("--abandon", metavar="NODE", help="A node that never comes back and holds hours open; repeatable."),
]


@app.command()
@toolbox.placed
def once(
    *,
    at: Places,
    rates: RatesFile = None,
    master: Master = toolbox.LOCAL,
    abandon: Abandon = None,
    reports: Annotated[
        bool, typer.Option("--reports/--no-reports", help="Whether reports are brought up to date.")
    ] = True,
    as_json: connect.AsJson = False,
) -> None:
    """Take over what is new, roll it up, check, close hours, publish reports; then stop.

    Journals of servers without pyarrow are converted first. With nothing new it takes a second and starts no JVM. Exit
    code 1 when a node has a problem: its hours stay open.

    Example: holdfast pipeline once --data ./data
    """
    with toolbox.explained(), screen.steps("ledger") as step:
        shop = toolbox.workshop().open_shop(at, rates=rates, master=master, abandon=abandon or [], progress=step)
        kept_usage.convert_kept(at.usage, at.data)
        done = shop.ledger.once()
        published = shop.publish() if reports else None
    told = {
        **_outcome(done),
        **({"days_published": published.days, "months_priced": published.months} if published else {}),
    }
    if as_json:
        screen.show_json(told)
    else:
        screen.facts([(name.replace("_", " "), value) for name, value in told.items() if not isinstance(value, list)])
        _tell_problems(done)
    if not done.is_good:
        raise typer.Exit(connect.FINDINGS)


def _outcome(done: Any) -> dict[str, Any]:
    return {
        "segments": done.segments,
        "rows": done.rows,
        "hours_rolled_up": done.hours_rolled_up,
        "hours_closed": done.hours_closed,
        "problems": [f"{each.kind}/{each.node}: {each.detail}" for each in done.problems],
    }


def _tell_problems(done: Any) -> None:
    for text in _outcome(done)["problems"]:
        screen.note(f"holdfast: {text}")


@app.command()
@toolbox.placed
def watch(
    *,
    at: Places,
    rates: RatesFile = None,
    master: Master = toolbox.LOCAL,
    abandon: Abandon = None,
) -> None:
    """Do the same again and again, until it is stopped: usage is rolled up seconds after it was handed over.

    Reports follow when an hour closes, and every ten minutes. A line of JSON for each run that did something.

    Example: holdfast pipeline watch --data ./data
    """
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    with toolbox.explained():
        shop = toolbox.workshop().open_shop(at, rates=rates, master=master, abandon=abandon or [], is_brief=False)
        convert = _Converter(at)

        def stop(pause_s: float) -> bool:
            convert()
            return stopped.wait(pause_s)

        shop.ledger.watch(stop=stop, on_run=_Publisher(shop))


class _Converter:
    """Journals of servers without pyarrow become segments now and then: each time all of an epoch is read."""

    def __init__(self, at: Places) -> None:
        self._at = at
        self._next_s = 0.0

    def __call__(self) -> None:
        if time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + CONVERT_EVERY_S
        try:
            kept_usage.convert_kept(self._at.usage, self._at.data)
        except (Mistake, OSError) as problem:
            screen.note(f"holdfast: {problem}")


class _Publisher:
    """Tells what a run did, and publishes when that is worth its seconds."""

    def __init__(self, shop: Any) -> None:
        self._shop = shop
        self._last_s = 0.0

    def __call__(self, run: Any) -> None:
        if isinstance(run, Exception):
            screen.note(f"holdfast: {run}")
            return
        screen.show_line(_outcome(run))
        now_s = datetime.datetime.now(datetime.UTC).timestamp()
        if run.hours_closed or now_s - self._last_s >= REPORT_EVERY_S:
            self._publish()
            self._last_s = now_s

    def _publish(self) -> None:
        try:
            self._shop.publish_locked()
        except LedgerError as problem:  # the ledger goes on; reports are tried again with the next run
            screen.note(f"holdfast: {problem}")


@app.command()
@toolbox.placed
def backfill(
    *,
    begin: Moment,
    end: Moment,
    at: Places,
    master: Master = toolbox.LOCAL,
) -> None:
    """Compute the rollups of some hours anew from the ledger. The same rows give the same rollups, hash for hash.

    Example: holdfast pipeline backfill --begin 2026-11-01 --end 2026-12-01
    """
    with toolbox.explained(), screen.steps("backfill") as step:
        shop = toolbox.workshop().open_shop(at, master=master, progress=step)
        hours = shop.backfill(begin_us=_us(begin), end_us=_us(end))
    print(f"{hours} hours computed anew")


@app.command()
@toolbox.placed
def replay(
    into: Annotated[Path, typer.Argument(metavar="DIR", help="An empty folder for the second ledger.")],
    *,
    at: Places,
    master: Master = toolbox.LOCAL,
) -> None:
    """Build the ledger a second time from all segments, and compare: exit code 1 when a table differs.

    Example: holdfast pipeline replay ./second-ledger
    """
    with toolbox.explained(), screen.steps("replay") as step:
        shop = toolbox.workshop().open_shop(at, master=master, progress=step)
        other = toolbox.workshop().open_shop(at._replace(ledger=into), master=master, progress=step)
        _, same = shop.replay(other)
    screen.table(("TABLE", "ROWS"), [(name, "the same" if ok else "DIFFER") for name, ok in same.items()], empty="")
    if not all(same.values()):
        raise typer.Exit(connect.FINDINGS)


@app.command()
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


@app.command()
@toolbox.placed
def compact(
    *,
    at: Places,
) -> None:
    """Put the small files of each hour together. Changes no row; runs do it by themselves when there are many.

    Example: holdfast pipeline compact --data ./data
    """
    with toolbox.explained():
        shop = toolbox.workshop().open_shop(at)
        gone = shop.compact()
    screen.table(
        ("TABLE", ">FILES FEWER"), [(name, count) for name, count in gone.items() if count], empty="Nothing to do."
    )


@app.command()
@toolbox.placed
def vacuum(
    *,
    at: Places,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
) -> None:
    """Remove files that no version of the last week knows: replaced hours, and what runs left that died.

    Example: holdfast pipeline vacuum --dry-run
    """
    with toolbox.explained():
        shop = toolbox.workshop().open_shop(at)
        gone = shop.vacuum(dry_run=dry_run)
    rows = [(name, len(files)) for name, files in gone.items() if files]
    screen.table(("TABLE", ">FILES"), rows, empty="Nothing to remove.")


@app.command()
@toolbox.placed
def prune(
    *,
    at: Places,
    keep_days: Annotated[int, typer.Option("--keep-days", min=1, help="How old they have to be.")] = 30,
) -> None:
    """Remove usage files that are in the ledger. Those that are not, and each node's newest, stay.

    What is removed cannot be replayed into another ledger. Example: holdfast pipeline prune --keep-days 90
    """
    before = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=keep_days)
    with toolbox.explained():
        shop = toolbox.workshop().open_shop(at)
        gone = shop.prune(before_us=int(before.timestamp() * 1e6))
    print(f"{len(gone)} usage files removed")


@app.command()
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
