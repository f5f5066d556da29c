"""Rows for the page from the tables, through Arrow. No JVM is started; a day takes a fraction of a second."""

import datetime
from typing import Any

from holdfast.ledger import tables
from holdfast.ledger.closing import HOUR_US
from holdfast.ledger.store import TableStore
from holdfast.ledger.tables import Table
from holdfast.pipeline import rollup
from holdfast.pipeline.close import moment
from holdfast.pipeline.page.parts import Tables
from holdfast.pipeline.publish import tables as reports

DAY_US = 24 * HOUR_US
SHOWN = (*reports.REPORTS.values(), tables.BILLING_USAGE, tables.QUALITY_CHECKS, tables.PIPELINE_RUNS)


def load(store: TableStore, *, since: datetime.datetime, until: datetime.datetime) -> Tables:
    rows = {table.name.partition(".")[2]: _rows(store, table, since, until) for table in SHOWN}
    return Tables(since, until, rows)


def newest_day(store: TableStore) -> datetime.datetime | None:
    """The last one that has a report."""
    days = store.snapshot(reports.SERVICE_LEVELS).rows_by()
    return moment(max(days)) if days else None


def known_days(store: TableStore) -> list[datetime.datetime]:
    """Those of which anything was handed over. Between them a day may be idle; before and after, nothing is known."""
    days = {
        hour - hour % DAY_US
        for table in tables.LEDGERS.values()
        for hour in rollup.ledger_numbers(store.snapshot(table))
    }
    return [moment(day) for day in sorted(days)]


def open_hours(store: TableStore, *, since: datetime.datetime, until: datetime.datetime) -> list[datetime.datetime]:
    """Hours whose usage is not billed yet: what a node still has of them is missing."""
    closed = rollup.numbers(store.snapshot(tables.BILLING_USAGE))
    used = (hour for hour in rollup.numbers(store.snapshot(tables.USAGE_HOURLY)) if hour not in closed)
    return [hour for hour in map(moment, sorted(used)) if since <= hour < until]


def _rows(store: TableStore, table: Table, since: datetime.datetime, until: datetime.datetime) -> list[dict[str, Any]]:
    seen = store.snapshot(table)
    if table is tables.QUALITY_CHECKS:
        return _last_checks(store.read(seen).to_pylist())
    if table is reports.FOCUS_COST:
        rows = [_plain(row) for row in store.read(seen).to_pylist()]
        return [row for row in rows if since <= row["ChargePeriodStart"] < until]
    if table is tables.BILLING_USAGE or table.by == "day":
        low, high = _us(since), _us(until)
        wanted = [by for by in seen.rows_by() if low <= by < high]
        return [_plain(row) for row in store.read(seen, by_us=wanted).to_pylist()]
    return [_plain(row) for row in store.read(seen).to_pylist()]


def _last_checks(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each check as it last came out."""
    last: dict[tuple[str, str], dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: row["time"]):
        last[row["check"], row["subject"]] = row
    return list(last.values())


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Maps come out of Arrow as lists of pairs."""
    return {name: dict(value) if name in MAPS and value is not None else value for name, value in row.items()}


MAPS = frozenset("breakdown tags Tags SkuPriceDetails".split())


def _us(at: datetime.datetime) -> int:
    return int(at.timestamp()) * 1_000_000
