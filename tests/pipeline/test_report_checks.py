"""Checks of costs: a row that breaks a rule of FOCUS is counted and named, and units without a cost are missed."""

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from holdfast.ledger import tables
from holdfast.ledger.store import TableStore
from holdfast.pipeline import report_checks, reports
from holdfast.pipeline.publish.focus import MANDATORY
from holdfast.pipeline.publish.tables import FOCUS_COST

HOUR = datetime.datetime(2026, 11, 15, 9, tzinfo=datetime.UTC)
MONTH, NEXT = datetime.datetime(2026, 11, 1, tzinfo=datetime.UTC), datetime.datetime(2026, 12, 1, tzinfo=datetime.UTC)
ROW: dict[str, Any] = {
    **dict.fromkeys(FOCUS_COST.schema.names, None),
    **dict.fromkeys(MANDATORY, "x"),
    **dict.fromkeys(report_checks.COSTS, Decimal("0.0000002")),
    "BillingCurrency": "USD",
    "PricingQuantity": Decimal(2),
    "ListUnitPrice": Decimal("0.0000001"),
    "ChargeClass": None,
    "ChargePeriodStart": HOUR,
    "ChargePeriodEnd": HOUR + datetime.timedelta(hours=1),
    "BillingPeriodStart": MONTH,
    "BillingPeriodEnd": NEXT,
    "x_UsageMonth": MONTH,
}
RECORD: dict[str, Any] = {
    **dict.fromkeys(tables.BILLING_USAGE.schema.names, None),
    "hour": HOUR,
    "quantity": Decimal(2),
}


def store_with(folder: Path, **changes: Any) -> TableStore:
    store = TableStore(folder)
    store.insert(FOCUS_COST, [ROW, {**ROW, **changes}], run_id="r")
    return store


def test_rows_that_keep_the_rules_pass(tmp_path: Path) -> None:
    assert report_checks.focus(store_with(tmp_path)).is_good


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"BilledCost": Decimal("0.0000003")}, "BilledCost is not quantity times unit price"),
        ({"ServiceName": None}, "ServiceName is null"),
        ({"BillingCurrency": "dollars"}, "BillingCurrency is no code"),
        ({"ChargePeriodEnd": HOUR}, "a period ends before it begins"),
        ({"ChargeClass": "Refund"}, "ChargeClass is neither null nor Correction"),
    ],
)
def test_a_row_that_breaks_a_rule_is_named(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    check = report_checks.focus(store_with(tmp_path, **changes))
    assert (check.is_good, check.found) == (False, "1")
    assert said in check.detail


def test_units_without_a_cost_are_missed(tmp_path: Path) -> None:
    store = store_with(tmp_path)
    store.insert(tables.BILLING_USAGE, [RECORD, {**RECORD, "quantity": Decimal(3)}], run_id="r")
    seen = store.snapshot(FOCUS_COST)
    assert report_checks.priced(store).is_good  # nothing says that the month is priced as it is now
    store.append(seen, [], transactions={f"{reports.MONTH}2026-11-01": 2}, run_id="r")
    check = report_checks.priced(store)
    assert (check.is_good, check.expected, check.found) == (False, "5", "4")
