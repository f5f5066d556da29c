"""The page on money: what accounts pay, what the same calls cost at SQS, and what was corrected."""

from collections.abc import Sequence
from decimal import Decimal

from holdfast.pipeline.page import parts, words
from holdfast.pipeline.page.parts import Grid, Row, Section, Tables, Tile

COST, SQS = "BilledCost", "x_SqsEquivalentCost"


def total(rows: Sequence[Row], column: str) -> Decimal:
    return sum((row[column] for row in rows), Decimal(0))


def tile(tables: Tables) -> Tile:
    rows = tables.of("focus_cost")
    cost, sqs = total(rows, COST), total(rows, SQS)
    note = f"{words.money(sqs)} at SQS's list prices" if sqs else "nothing billed yet"
    return Tile("cost", words.money(cost), note, "good" if 0 < cost < sqs else "")


def section(tables: Tables) -> Section:
    rows = tables.of("focus_cost")
    cost, sqs = total(rows, COST), total(rows, SQS)
    lead = (
        f"{words.count(int(total(rows, 'PricingQuantity')))} units were billed: {words.money(cost)}. "
        f"SQS would have charged {words.money(sqs)} for the same calls."
        if rows
        else "No hour has closed yet, so nothing is billed."
    )
    figure = parts.by_account(
        "Cost by account",
        rows,
        tables,
        at="ChargePeriodStart",
        account="BillingAccountName",
        value=lambda row: float(row[COST]),
        say=lambda value: words.money(Decimal(value).quantize(Decimal("0.0001")).normalize()),
    )
    tagged = [_by_tag(rows)] if any(row["Tags"] for row in rows) else []
    grids = [_accounts(rows), *tagged, *([_corrections(tables)] if _has_corrections(tables) else [])]
    return Section("bill", "Bill", lead, [figure] if rows else [], grids)


def _accounts(rows: Sequence[Row]) -> Grid:
    groups = sorted(
        parts.grouped(rows, lambda row: (row["BillingAccountName"], row["BillingAccountId"], row["SkuId"])).items()
    )
    lines = [
        [parts.text(name), parts.text(account), parts.text(sku), *_amounts(own)] for (name, account, sku), own in groups
    ]
    if rows:
        lines.append([parts.text("all"), parts.text(""), parts.text(""), *_amounts(rows)])
    headings = ["account", "number", "sku", ">units", ">of these free", ">cost", ">at SQS"]
    return Grid("Units and cost by account", headings, lines, "No hour has closed yet.")


def _by_tag(rows: Sequence[Row]) -> Grid:
    """A queue with several tags is in several lines, so these do not add up to the whole."""
    tags = sorted({pair for row in rows for pair in (row["Tags"] or {}).items()})
    lines = [
        [
            parts.text(name),
            parts.text(value),
            *_amounts([row for row in rows if (row["Tags"] or {}).get(name) == value]),
        ]
        for name, value in tags
    ]
    lines.append([parts.text("without a tag"), parts.text(""), *_amounts([row for row in rows if not row["Tags"]])])
    return Grid("Units and cost by tag", ["tag", "value", ">units", ">of these free", ">cost", ">at SQS"], lines)


def _amounts(rows: Sequence[Row]) -> list[parts.Cell]:
    free = [row for row in rows if row["ListUnitPrice"] == 0]
    return [
        parts.count(int(total(rows, "PricingQuantity"))),
        parts.count(int(total(free, "PricingQuantity"))),
        parts.number(words.money(total(rows, COST)), f"{total(rows, COST):f}"),
        parts.number(words.money(total(rows, SQS)), f"{total(rows, SQS):f}"),
    ]


def _has_corrections(tables: Tables) -> bool:
    return any(row["record_type"] != "ORIGINAL" for row in tables.of("billing_usage"))


def _corrections(tables: Tables) -> Grid:
    rows = [row for row in tables.of("billing_usage") if row["record_type"] != "ORIGINAL"]
    lines = [
        [
            parts.when(row["start"]),
            parts.text(row["account"]),
            parts.text(row["queue"]),
            parts.text(row["record_type"].lower()),
            parts.count(int(row["quantity"])),
        ]
        for row in sorted(rows, key=lambda row: (row["start"], row["account"], row["queue"], row["record_type"]))
    ]
    return Grid("Corrections of closed hours", ["hour", "account", "queue", "record", ">units"], lines)
