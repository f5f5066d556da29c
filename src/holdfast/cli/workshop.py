"""What pipeline commands do. Imports the pipeline, and is therefore loaded by `toolbox.workshop` only when one runs."""

import datetime
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

import holdfast
from holdfast.cli import connect, folder, toolbox
from holdfast.cli.connect import Mistake
from holdfast.cli.toolbox import Places
from holdfast.ledger import lock, tables, views
from holdfast.ledger.store import TableStore
from holdfast.ledger.tables import Table
from holdfast.pipeline import ingest, report_checks, reports, upkeep
from holdfast.pipeline import rates as rate_files
from holdfast.pipeline import watch as watching
from holdfast.pipeline.checks import Check
from holdfast.pipeline.close import Terms
from holdfast.pipeline.demo import scenario, spool
from holdfast.pipeline.page import render
from holdfast.pipeline.page import tables as page_tables
from holdfast.pipeline.publish import billing
from holdfast.pipeline.publish.tables import FOCUS_COST, REPORTS
from holdfast.pipeline.reports import Published
from holdfast.pipeline.run import Ledger, Outcome
from holdfast.spark.session import SMALL, session

TABLES: Mapping[str, Table] = {**tables.TABLES, **REPORTS}
SMALL_ROWS = 1_000_000  # a ledger with fewer needs nothing compiled


class Shop(NamedTuple):
    """A ledger, and what commands do to it."""

    ledger: Ledger
    terms: reports.Terms
    progress: Callable[[str], None]

    def publish(self) -> Published:
        with lock.only_run(self.ledger.store.root):
            return self.publish_locked()

    def publish_locked(self) -> Published:
        """For whoever holds the lock already."""
        if not reports.is_due(self.ledger.store, self.terms):
            return Published()
        return reports.publish(self.ledger.job(), self.terms, progress=self.progress)

    def watch(self, **more: Any) -> None:
        watching.watch(self.ledger, **more)

    def check(self) -> list[Check]:
        """Of the ledger and of what was published. Noted, for the page to show."""
        return self.ledger.check(more=report_checks.all_checks(self.ledger.store))

    def compact(self) -> dict[str, int]:
        gone = upkeep.compact(self.ledger)
        with lock.only_run(self.ledger.store.root):
            store, run_id = self.ledger.store, self.ledger.job().run_id
            more = {name: store.compact(table, run_id=run_id, files_max=1) for name, table in REPORTS.items()}
        return {**gone, **more}

    def vacuum(self, *, dry_run: bool) -> dict[str, list[str]]:
        gone = upkeep.vacuum(self.ledger, dry_run=dry_run)
        with lock.only_run(self.ledger.store.root):
            more = {name: self.ledger.store.vacuum(table, dry_run=dry_run) for name, table in REPORTS.items()}
        return {**gone, **more}

    def prune(self, *, before_us: int) -> list[Path]:
        return upkeep.prune(self.ledger, before_us=before_us)

    def backfill(self, *, begin_us: int, end_us: int) -> int:
        return upkeep.backfill(self.ledger, begin_us=begin_us, end_us=end_us)

    def replay(self, into: "Shop") -> tuple[Outcome, dict[str, bool]]:
        return upkeep.replay(self.ledger, into.ledger)


def open_shop(
    at: Places,
    *,
    rates: Path | None = None,
    master: str = toolbox.LOCAL,
    abandon: list[str] | None = None,
    is_brief: bool = True,
    names: Mapping[str, str] | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Shop:
    """Starts no JVM: the first step that needs one does. `is_brief` says that the session serves this run alone;
    `names` are those of accounts, instead of the rates file's."""

    def start() -> Any:
        is_small = is_brief and master == toolbox.LOCAL and _is_small(opened)
        return start_session(master, progress, SMALL if is_small else None)

    opened = Ledger(
        at.ledger,
        at.usage,
        session=start,
        records=billing.records,
        terms=Terms(abandoned=frozenset(abandon or ())),
        progress=progress,
    )
    prices = rate_files.load(rates)
    if names is not None:
        prices = msgspec.structs.replace(prices, accounts=dict(names))
    return Shop(opened, reports.Terms(prices, at.region, holdfast.__version__), progress)


def _is_small(opened: Ledger) -> bool:
    """What still waits when a session is needed was too much to be taken over without one."""
    return ledger_rows(opened.store.root) < SMALL_ROWS and not ingest.has_new(opened.store, opened.spool)


def start_session(
    master: str,
    progress: Callable[[str], None],
    settings: Mapping[str, str] | None = None,
) -> Any:
    progress("starting Spark")
    if master.startswith("sc://"):
        return session(remote=master)
    if toolbox.java() is None:
        raise Mistake(toolbox.JAVA)
    return session(master=master, settings=settings)


def ledger_rows(root: Path) -> int:
    return sum(TableStore(root).snapshot(table).rows for table in tables.LEDGERS.values())


def costs(at: Places, *, month: datetime.datetime | None, account: str) -> list[dict[str, Any]]:
    """Rows of a month of usage, or of the newest."""
    store = TableStore(at.ledger)
    months = sorted(store.snapshot(FOCUS_COST).rows_by())
    if not months and store.snapshot(tables.USAGE_HOURLY).rows:
        raise Mistake(
            f"{at.ledger} has no costs yet: no hour has closed. One does when all nodes have passed its end by five"
            " minutes; then run: holdfast pipeline once"
        )
    if not months:
        raise Mistake(f"{at.ledger} has no costs yet. Make them: holdfast pipeline once")
    begin = month or datetime.datetime.fromtimestamp(months[-1] // 1_000_000, datetime.UTC)
    end = (begin + datetime.timedelta(days=31)).replace(day=1)
    rows = page_tables.load(store, since=begin, until=end).of("focus_cost")
    return [dict(row) for row in rows if not account or row["BillingAccountId"] == account]


def write_focus(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text(render.table_csv(rows), encoding="utf-8")


def write_report(
    at: Places, *, day: datetime.datetime | None = None, days: int = 1, account: str = "", out: Path | None = None
) -> Path:
    """The page's path. Without a day: the newest one that has a report. With an account: what that one may see."""
    store = TableStore(at.ledger)
    newest = page_tables.newest_day(store)
    if newest is None:
        raise Mistake(f"{at.ledger} has no reports yet. Make them: holdfast pipeline once")
    since = day or newest
    until = since + datetime.timedelta(days=days)
    _require_known(store, since, until)
    found = page_tables.load(store, since=since, until=until)
    runs = sorted(found.of("pipeline_runs"), key=lambda row: row["ended"])
    if account and account not in found.accounts():
        known = ", ".join(found.accounts()) or "no account"
        raise Mistake(f"the ledger has nothing of account {account} on these days: it has {known}")
    found = found.only(account) if account else found
    page = render.page(
        found,
        made_at=datetime.datetime.now(datetime.UTC),
        run_id=runs[-1]["run_id"] if runs else "none",
        version=holdfast.__version__,
        still_open=page_tables.open_hours(store, since=since, until=until),
        notes=render.price_notes(found),
        account=account,
    )
    target = out or at.ledger / "reports" / (f"{since:%Y-%m-%d}" + (f"-{account}" if account else ""))
    target.mkdir(parents=True, exist_ok=True)
    for name, text in ((render.PAGE, page), *render.files(found)):
        folder.write_whole(target / name, text.rstrip("\n"))
    return (target / render.PAGE).absolute()


def _require_known(store: TableStore, since: datetime.datetime, until: datetime.datetime) -> None:
    """A page on time that the ledger has nothing of would say that all was well."""
    known = page_tables.known_days(store)
    if not (since <= known[-1] and known[0] < until):
        span = f"{known[0]:%Y-%m-%d} to {known[-1]:%Y-%m-%d}"
        raise Mistake(f"the ledger has nothing of {since:%Y-%m-%d}: it knows {span}. Name one of these days with --day")


def listed(at: Places) -> list[tuple[str, int, str]]:
    store = TableStore(at.ledger)
    found = [(name, store.snapshot(table).rows, table.by or "–") for name, table in TABLES.items()]
    return sorted([*found, (views.QUARANTINE, views.quarantined(store), "–")])


def rows(at: Places, name: str, *, limit: int) -> list[dict[str, Any]]:
    store = TableStore(at.ledger)
    if name == views.QUARANTINE:
        return [render.plain(row) for row in views.quarantine(store, limit=limit)]
    if name not in TABLES:
        near = connect.near_names(name, [*TABLES, views.QUARANTINE])
        hint = f"Did you mean {' or '.join(near)}?" if near else "See: holdfast pipeline show"
        raise Mistake(f"there is no table {name}. {hint}")
    return [render.plain(row) for row in views.first_rows(store, TABLES[name], limit=limit)]


def verify(at: Places) -> tuple[list[Any], list[Any]]:
    """Entries of the audit chain, and what is wrong with them."""
    return reports.verify(TableStore(at.ledger))


def demo(at: Places, day: datetime.date, *, progress: Callable[[str], None]) -> Path:
    progress("making up a day")
    spool.write(at.usage, day)
    shop = open_shop(at, names=scenario.NAMES, progress=progress)
    shop.ledger.once()
    shop.publish()
    progress("checking")
    shop.check()
    progress("writing the page")
    return write_report(at)
