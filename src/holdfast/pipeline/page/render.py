"""The report's files: report.html, which needs nothing but itself, and per table a CSV and a JSON file.

Nothing here reads a clock or a table: the same rows give the same bytes.
"""

import csv
import datetime
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import jinja2

from holdfast.pipeline.page import bill, health, queues, record
from holdfast.pipeline.page.parts import Row, Tables

FOLDER = Path(__file__).parent
PAGE = "report.html"


def page(
    exact: Tables,
    *,
    made_at: datetime.datetime,
    run_id: str,
    version: str,
    still_open: Sequence[datetime.datetime] = (),
    notes: Sequence[str] = (),
    account: str = "",
) -> str:
    """`still_open`: hours that a node may still add to. `account`: the page is for it; `exact` has only its rows."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    tables = exact.with_names()
    tiles = [*health.tiles(tables), bill.tile(tables), queues.tile(tables)]
    sections = [
        health.section(tables),
        bill.section(tables),
        queues.flow(tables),
        queues.causes(tables),
        queues.capacity(tables, is_compared=not account),
        record.audit(tables),
    ]
    if not account:
        tiles.append(record.tile(tables))
        sections.append(record.checks(tables))
    written: str = environment.get_template("report.html.j2").render(
        style=(FOLDER / "report.css").read_text(encoding="utf-8"),
        since=tables.since,
        until=tables.until,
        account=account,
        made_at=made_at,
        still_open=still_open,
        run_id=run_id,
        version=version,
        tiles=tiles,
        points=record.points(tables),
        sections=sections,
        notes=notes,
        files=[name for name in sorted(tables.rows) if tables.rows[name]],
    )
    return written


def price_notes(tables: Tables) -> list[str]:
    """Whose prices these are."""
    issuers = sorted({str(row["InvoiceIssuerName"]) for row in tables.of("focus_cost")})
    if not issuers:
        return []
    return [
        f"Prices of {', '.join(issuers)}, from its rates file. SQS's are its public list prices for requests "
        "(US East, N. Virginia), without data transfer."
    ]


def files(tables: Tables) -> Iterator[tuple[str, str]]:
    """Names and contents, beside the page."""
    for name, rows in sorted(tables.rows.items()):
        if rows:
            yield f"{name}.csv", table_csv(rows)
            yield f"{name}.json", json.dumps([plain(row) for row in rows], indent=1, ensure_ascii=False) + "\n"


def table_csv(rows: Sequence[Row]) -> str:
    written = io.StringIO()
    writer = csv.DictWriter(written, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _text(value) for name, value in row.items()})
    return written.getvalue()


def _text(value: Any) -> Any:
    said = plain(value)
    return json.dumps(said, ensure_ascii=False) if isinstance(said, list | dict) else said


def plain(value: Any) -> Any:
    """Exact: decimals as text with all their digits, instants in UTC."""
    match value:
        case Mapping():
            return {str(name): plain(each) for name, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
        case Decimal():
            return f"{value:f}"
        case datetime.datetime():
            return f"{value:%Y-%m-%dT%H:%M:%SZ}" if not value.microsecond else f"{value:%Y-%m-%dT%H:%M:%S.%fZ}"
    return value
