"""`holdfast pipeline once | watch`: the ledger's runs. What they print goes to standard output, progress to the other.

Commands are declared here without the pipeline, which is an extra; what they do is in workshop.py.
"""

import signal
import threading
import time
from typing import Annotated, Any

import typer

from holdfast.cli import connect, pipeline_reports, pipeline_upkeep, screen, toolbox
from holdfast.cli import usage as kept_usage
from holdfast.cli.connect import Mistake
from holdfast.cli.toolbox import Master, Places, RatesFile
from holdfast.ledger.errors import LedgerError

REPORT_EVERY_S = 600  # `watch` publishes when an hour closes, and at least this often when something is new
CONVERT_EVERY_S = 60.0

app = typer.Typer(help="The ledger: usage, bills, service levels and audit, on Spark.", no_args_is_help=True)
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

        shop.watch(stop=stop, on_run=_tell, follow=_Publisher(shop))


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


def _tell(run: Any) -> None:
    if isinstance(run, Exception):
        screen.note(f"holdfast: {run}")
    else:
        screen.show_line(_outcome(run))


class _Publisher:
    """Publishes when that is worth its seconds."""

    def __init__(self, shop: Any) -> None:
        self._shop = shop
        self._last_s = 0.0

    def __call__(self, ledger: Any, run: Any) -> None:
        now_s = time.time()
        if not run.hours_closed and now_s - self._last_s < REPORT_EVERY_S:
            return
        self._last_s = now_s
        try:
            self._shop._replace(ledger=ledger).publish_locked()
        except LedgerError as problem:  # the ledger goes on; reports are tried again with the next hour, or later
            screen.note(f"holdfast: {problem}")


for _command in (
    pipeline_reports.bill,
    pipeline_reports.report,
    pipeline_reports.show,
    pipeline_reports.demo,
    pipeline_upkeep.backfill,
    pipeline_upkeep.replay,
    pipeline_upkeep.check,
    pipeline_upkeep.compact,
    pipeline_upkeep.vacuum,
    pipeline_upkeep.prune,
    pipeline_upkeep.doctor,
):
    app.command()(_command)
app.add_typer(pipeline_reports.audit, name="audit")
