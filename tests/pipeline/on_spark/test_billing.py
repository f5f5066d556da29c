"""Records of closed hours, their corrections, and what they cost: to the last digit, and in the form of FOCUS.

One story is computed once, in three steps that each see what the one before recorded, and looked at from many sides:

    A   two queues, recorded at 11:00; its hour 9 changes twice, the second time after the invoice
    B   passes the end of the free allowance
    C   eight hours, one of which turns out to be much smaller
"""

import datetime
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.ledger import tables
from holdfast.pipeline import rates
from holdfast.pipeline.publish import billing, focus, money
from holdfast.pipeline.rates import FIFO, STANDARD
from holdfast.usage import schema
from tests.pipeline.on_spark import frames
from tests.pipeline.on_spark.frames import RUN, UTC, at, collected, hourly

CLOSED_AT, LATER = at(11), at(30)
INVOICED = datetime.datetime(2026, 12, 5, tzinfo=UTC)
Rows = list[dict[str, Any]]

USED = [
    {"action": "SendMessage", "billed_units": 5},
    {"action": "SendMessage", "outcome": "failed", "billed_units": 2},
    {"action": "ReceiveMessage", "billed_units": 3},
    {"queue": "orders.fifo", "queue_type": "fifo", "billed_units": 1},
    {"account": "B", "billed_units": 600_000},
    {"account": "B", "hour": at(10), "billed_units": 600_001},
    *({"account": "C", "hour": at(hour), "billed_units": 300_000 + hour} for hour in range(8)),
]
STATES: Rows = [
    {"time": at(9, 1), "queue": "orders.fifo", "tags": '{"team":"old"}'},
    {"time": at(9, 59), "queue": "orders.fifo", "tags": '{"team":"checkout","env":"live"}'},
    {"time": at(10, 1), "queue": "orders.fifo", "tags": '{"team":"later"}'},
    {"time": at(9, 30)},
]


class Story(NamedTuple):
    first: Rows
    second: Rows
    third: Rows
    costs_before: Rows  # of the first
    costs: Rows

    @property
    def records(self) -> Rows:
        return [*self.first, *self.second, *self.third]


def recorded(spark: SparkSession, *steps: Rows) -> DataFrame:
    rows = [
        {**row, **{name: list(row[name].items()) for name in ("breakdown", "tags")}} for step in steps for row in step
    ]
    return frames.frame(spark, tables.BILLING_USAGE, rows)


def step(spark: SparkSession, used: Rows, *before: Rows, when: datetime.datetime) -> DataFrame:
    states = frames.ledger(spark, schema.QUEUE_STATE, *STATES)
    now, stands = hourly(spark, *used), recorded(spark, *before)
    return billing.records(now, stands, states=states, run_id=RUN, recorded_at=when)


def changed(*, a: int, c: int) -> Rows:
    rows = [row for row in USED if not (row.get("account") == "C" and row["hour"] == at(3))]
    return [*rows, {"account": "C", "hour": at(3), "billed_units": c}, {"billed_units": a}]


@pytest.fixture(scope="module")
def story(spark: SparkSession) -> Story:
    def costs(*steps: Rows) -> Rows:
        made = focus.costs(recorded(spark, *steps), rates=rates.load(), region="eu-1", run_id=RUN)
        assert frames.types(made.schema) == frames.types(focus.SCHEMA)
        return collected(made)

    made = step(spark, USED, when=CLOSED_AT)
    assert frames.types(made.schema) == frames.types(billing.SCHEMA)
    first = collected(made)
    second = collected(step(spark, changed(a=4, c=100), first, when=LATER))
    third = collected(step(spark, changed(a=5, c=100), first, second, when=INVOICED))
    return Story(first, second, third, costs(first), costs(first, second, third))


def of(rows: Rows, account: str, queue: str = "jobs") -> Rows:
    return [row for row in rows if (row["account"], row["queue"]) == (account, queue)]


def test_money_is_exact_where_a_plain_product_or_sum_would_not_be(spark: SparkSession) -> None:
    rate, least = F.lit(Decimal("0.0000004")), F.lit(Decimal("0.000000000001")).cast(money.MONEY)
    made = spark.range(1).select(
        money.cost(F.lit(1), rate).alias("right"),
        (rate.cast(money.MONEY) * F.lit(1).cast("bigint")).alias("wrong"),
        money.plus([least, least]).alias("sum"),
    )
    row = made.collect()[0]
    assert made.schema["right"].dataType == money.MONEY
    assert row["right"] == Decimal("0.0000004")
    assert row["wrong"] == 0  # which is why nobody multiplies money
    assert row["sum"] == Decimal("0.000000000002")


def test_a_record_has_the_tags_that_its_queue_had_at_the_end_of_the_hour(story: Story) -> None:
    (tagged,) = of(story.first, "A", "orders.fifo")
    assert tagged["tags"] == {"team": "checkout", "env": "live"}
    assert all(row["tags"] == {} for row in story.first if row["queue"] != "orders.fifo")
    assert [row["Tags"] for row in story.costs if row["ResourceName"] == "orders.fifo"] == [tagged["tags"]]


def test_a_bill_names_the_accounts_that_the_rates_file_names(spark: SparkSession, story: Story) -> None:
    named = msgspec.structs.replace(rates.load(), accounts={"B": "the shop"})
    rows = collected(focus.costs(recorded(spark, story.first), rates=named, region="eu-1", run_id=RUN))
    assert {(row["BillingAccountId"], row["BillingAccountName"]) for row in rows} == {
        ("A", "A"),
        ("B", "the shop"),
        ("C", "C"),
    }


def test_an_hour_is_recorded_once_with_its_actions(story: Story) -> None:
    (row,) = of(story.first, "A")
    assert (row["record_type"], row["quantity"], row["sku"]) == ("ORIGINAL", 10, STANDARD)
    assert row["breakdown"] == {"ReceiveMessage": 3, "SendMessage": 7}
    assert (row["start"], row["end"], row["recorded_at"]) == (at(9), at(10), CLOSED_AT)
    assert [each["sku"] for each in of(story.first, "A", "orders.fifo")] == [FIFO]


def test_an_hour_that_changes_is_taken_back_and_said_anew_and_again(story: Story) -> None:
    said = [(row["record_type"], int(row["quantity"]), row["revision"]) for row in of(story.records, "A")]
    assert said == [
        ("ORIGINAL", 10, 0),
        ("RETRACTION", -10, 1),
        ("RESTATEMENT", 14, 1),
        ("RETRACTION", -14, 2),
        ("RESTATEMENT", 15, 2),
    ]
    ids = [row["record_id"] for row in of(story.records, "A")]
    assert [row["correction_of"] for row in of(story.records, "A")] == [None, ids[0], ids[0], ids[2], ids[2]]


def test_what_did_not_change_is_not_recorded_again(story: Story) -> None:
    later = [*story.second, *story.third]
    assert {(row["account"], row["queue"]) for row in later} == {("A", "jobs"), ("C", "jobs")}
    assert {row["hour"] for row in of(story.third, "C")} == set()


def test_record_ids_are_unique(story: Story) -> None:
    ids = [row["record_id"] for row in story.records]
    assert len(ids) == len(set(ids))


def test_a_row_never_spans_two_tiers_and_its_cost_is_quantity_times_price(story: Story) -> None:
    rows = [row for row in story.costs if row["BillingAccountId"] == "B"]
    assert sorted((row["PricingQuantity"], row["ListUnitPrice"]) for row in rows) == [
        (200_001, Decimal("0.0000001")),
        (400_000, 0),
        (600_000, 0),
    ]
    assert all(row["BilledCost"] == row["PricingQuantity"] * row["ListUnitPrice"] for row in story.costs)
    assert sum(row["x_SqsEquivalentCost"] for row in rows) == 200_001 * Decimal("0.0000004")


def test_the_rows_of_a_month_add_up_to_the_tariff_of_its_total_also_after_corrections(story: Story) -> None:
    card, rows = rates.load(), [row for row in story.costs if row["BillingAccountId"] == "C"]
    total = sum(300_000 + hour for hour in range(8)) - 300_003 + 100
    assert sum(row["PricingQuantity"] for row in rows) == total
    assert sum(row["BilledCost"] for row in rows) == rates.cost(card.own, STANDARD, at=at(9), low=0, high=total)
    assert sum(row["x_SqsEquivalentCost"] for row in rows) == rates.cost(
        card.sqs, STANDARD, at=at(9), low=0, high=total
    )


def test_a_cost_that_was_published_does_not_change_when_corrections_follow(story: Story) -> None:
    def by_id(rows: Rows) -> dict[tuple[str, str], Decimal]:
        return {(row["x_RecordId"], row["SkuPriceId"]): row["BilledCost"] for row in rows}

    before = by_id(story.costs_before)
    assert {key: cost for key, cost in by_id(story.costs).items() if key in before} == before


def test_only_a_correction_of_an_invoiced_month_is_called_one(story: Story) -> None:
    rows = [row for row in story.costs if (row["BillingAccountId"], row["ResourceName"]) == ("A", "jobs")]
    assert {(row["x_RecordType"], row["ChargeClass"], row["BillingPeriodStart"].month) for row in rows} == {
        ("ORIGINAL", None, 11),
        ("RETRACTION", None, 11),
        ("RESTATEMENT", None, 11),
        ("RETRACTION", "Correction", 12),
        ("RESTATEMENT", "Correction", 12),
    }


def test_every_column_that_focus_wants_is_filled(story: Story) -> None:
    assert len(focus.MANDATORY) == 21
    for row in story.costs:
        assert {name for name in focus.MANDATORY if row[name] is None} <= {"ChargeClass"}
        assert {name for name in focus.CONDITIONAL if row[name] is None} == set()
        assert (row["ServiceCategory"], row["ChargeCategory"], row["RegionId"]) == ("Integration", "Usage", "eu-1")
        assert row["BillingPeriodEnd"] > row["ChargePeriodEnd"] or row["BillingPeriodStart"].month == 12


def test_a_record_without_a_rate_is_an_error_and_not_free(spark: SparkSession, story: Story) -> None:
    early = datetime.datetime(2015, 3, 1, tzinfo=UTC)
    old = recorded(spark, [{**story.first[0], "hour": early, "start": early}])
    with pytest.raises(PySparkException, match=r"no rate for requests-.* at 2015-03-01"):
        focus.costs(old, rates=rates.load(), region="r", run_id=RUN).collect()
