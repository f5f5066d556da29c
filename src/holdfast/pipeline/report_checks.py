"""Checks of what was published, beside those of the ledger. Plain Arrow, no Spark.

priced        units that have a cost = units that were recorded, month by month
focus         every row: cost = quantity × unit price, mandatory columns filled, currency and periods as FOCUS says
audit_chain   every sealed file is what its digest says
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from holdfast.ledger import tables
from holdfast.ledger.store import TableStore
from holdfast.pipeline import reports
from holdfast.pipeline.checks import Check
from holdfast.pipeline.publish.focus import MANDATORY
from holdfast.pipeline.publish.tables import FOCUS_COST

MAY_BE_NULL = frozenset({"ChargeClass"})  # null says: no correction of an invoiced month
COSTS = ("BilledCost", "EffectiveCost", "ContractedCost", "ListCost")


def all_checks(store: TableStore) -> list[Check]:
    return [priced(store), focus(store), audit_chain(store)]


def priced(store: TableStore) -> Check:
    """Of months that are priced as they are now; the others are about to be."""
    seen = store.snapshot(FOCUS_COST)
    known = {reports.day_of(name): rows for name, rows in seen.numbers(reports.MONTH).items()}
    billing = store.snapshot(tables.BILLING_USAGE)
    fresh = {month for month, rows in reports.by_month(billing.rows_by()).items() if known.get(month) == rows}
    hours = [hour for hour in billing.rows_by() if reports.month_of(hour) in fresh]
    expected = _sum(store.read(billing, columns=["quantity"], by_us=hours), "quantity")
    found = _sum(store.read(seen, columns=["PricingQuantity"], by_us=fresh), "PricingQuantity")
    return Check("priced", FOCUS_COST.name, is_good=expected == found, expected=str(expected), found=str(found))


def focus(store: TableStore) -> Check:
    seen = store.snapshot(FOCUS_COST)
    wrong = 0
    first = ""
    for file in seen.files:
        for row in store.read_file(seen, file, columns=[*MANDATORY, "ListUnitPrice"]).to_pylist():
            if broken := next(_broken(row), ""):
                wrong, first = wrong + 1, first or broken
    return Check("focus", FOCUS_COST.name, is_good=not wrong, expected="0", found=str(wrong), detail=first)


def _broken(row: Mapping[str, Any]) -> Iterator[str]:
    """Which rules of FOCUS a row breaks."""
    for name in MANDATORY:
        if row[name] is None and name not in MAY_BE_NULL:
            yield f"{name} is null"
    for name in COSTS:
        if row[name] != row["PricingQuantity"] * row["ListUnitPrice"]:
            yield f"{name} is not quantity times unit price"
    if len(row["BillingCurrency"] or "") != 3:
        yield "BillingCurrency is no code of ISO 4217"
    if not row["ChargePeriodStart"] < row["ChargePeriodEnd"] or not row["BillingPeriodStart"] < row["BillingPeriodEnd"]:
        yield "a period ends before it begins"
    if row["ChargeClass"] not in (None, "Correction"):
        yield "ChargeClass is neither null nor Correction"


def audit_chain(store: TableStore) -> Check:
    entries, findings = reports.verify(store)
    detail = f"{findings[0].path}: {findings[0].problem}" if findings else f"{len(entries)} files"
    return Check("audit_chain", "audit", is_good=not findings, expected="0", found=str(len(findings)), detail=detail)


def _sum(rows: Any, column: str) -> int:
    return int(sum(rows.column(column).to_pylist(), Decimal(0)))
