"""Costs in the form of FOCUS 1.2, the FinOps Foundation's open cost and usage specification.

Laws:
- Records are priced in the order in which they were recorded, each from where the one before left off in its account,
  sku and month. A row already published keeps its price when a late hour or a correction is appended.
- A row lies within one price tier, so quantity × unit price is its cost, exactly.
- The rows of a month add up to the tariff of its total (rates.cost); a retraction walks the ladder back down.
- ChargeClass is "Correction" only where the month has been invoiced; such a row is in the invoice of the month in which
  it was recorded.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, MapType, StringType, StructField, StructType, TimestampType

from holdfast.pipeline.publish import money
from holdfast.pipeline.rates import Card, Rates, Step, steps

INVOICED_AFTER_DAYS = 3  # after its end a month can still get late hours before its invoice goes out
VERSION = 1
KEY_VALUES = MapType(StringType(), StringType())

MANDATORY = (
    "BilledCost BillingAccountId BillingAccountName BillingCurrency BillingPeriodEnd BillingPeriodStart ChargeCategory "
    "ChargeClass ChargeDescription ChargePeriodEnd ChargePeriodStart ContractedCost EffectiveCost InvoiceIssuerName "
    "ListCost PricingQuantity PricingUnit ProviderName PublisherName ServiceCategory ServiceName"
).split()
CONDITIONAL = (
    "ConsumedQuantity ConsumedUnit ListUnitPrice PricingCategory RegionId RegionName ResourceId ResourceName "
    "ResourceType SkuId SkuMeter SkuPriceDetails SkuPriceId Tags"
).split()
OWN = "x_RecordId x_RecordType x_RecordedAt x_SqsEquivalentCost x_UsageMonth run_id schema_version".split()

_TYPES = {
    **dict.fromkeys("BilledCost ContractedCost EffectiveCost ListCost x_SqsEquivalentCost".split(), money.MONEY),
    **dict.fromkeys("PricingQuantity ConsumedQuantity".split(), money.QUANTITY),
    "ListUnitPrice": money.RATE,
    **dict.fromkeys("SkuPriceDetails Tags".split(), KEY_VALUES),
    **dict.fromkeys(
        "BillingPeriodEnd BillingPeriodStart ChargePeriodEnd ChargePeriodStart x_RecordedAt x_UsageMonth".split(),
        TimestampType(),
    ),
    "schema_version": IntegerType(),
}
COLUMNS = [*sorted([*MANDATORY, *CONDITIONAL]), *OWN]
SCHEMA = StructType([StructField(name, _TYPES.get(name, StringType())) for name in COLUMNS])


def costs(billing: DataFrame, *, rates: Rates, region: str, run_id: str) -> DataFrame:
    """A row per record and price tier."""
    priced = _cut(_placed(billing), steps(rates.own))
    own, month = rates.own, F.date_trunc("month", F.col("start"))
    is_invoiced = F.col("recorded_at") >= F.add_months(month, 1) + F.expr(f"INTERVAL {INVOICED_AFTER_DAYS} DAYS")
    period = F.date_trunc("month", F.when(is_invoiced, F.col("recorded_at")).otherwise(F.col("start")))
    amount = money.cost(F.col("units"), F.col("step.price"))
    values = {
        **dict.fromkeys("BilledCost ContractedCost EffectiveCost ListCost".split(), amount),
        "BillingAccountId": F.col("account"),
        "BillingAccountName": _account_name(rates),
        "BillingCurrency": F.lit(own.currency),
        "BillingPeriodStart": period,
        "BillingPeriodEnd": F.add_months(period, 1).cast(TimestampType()),
        "ChargeCategory": F.lit("Usage"),
        "ChargeClass": F.when(is_invoiced & (F.col("record_type") != "ORIGINAL"), F.lit("Correction")),
        "ChargeDescription": _description(),
        "ChargePeriodStart": F.col("start"),
        "ChargePeriodEnd": F.col("end"),
        **dict.fromkeys(("ConsumedQuantity", "PricingQuantity"), money.quantity(F.col("units"))),
        **dict.fromkeys(("ConsumedUnit", "PricingUnit"), F.col("unit")),
        **dict.fromkeys(("InvoiceIssuerName", "ProviderName", "PublisherName"), F.lit(own.issuer)),
        "ListUnitPrice": F.col("step.price"),
        "PricingCategory": F.lit("Standard"),
        **dict.fromkeys(("RegionId", "RegionName"), F.lit(region)),
        "ResourceId": F.concat_ws(":", F.lit("arn:aws:sqs"), F.lit(region), "account", "queue"),
        "ResourceName": F.col("queue"),
        "ResourceType": F.lit("Queue"),
        "ServiceCategory": F.lit("Integration"),
        "ServiceName": F.lit("Holdfast message queue"),
        "SkuId": F.col("sku"),
        "SkuMeter": F.lit("API requests"),
        "SkuPriceDetails": F.create_map(F.lit("PricingTier"), F.col("step.number").cast(StringType())),
        "SkuPriceId": F.col("step.price_id"),
        "Tags": F.col("tags"),
        "x_RecordId": F.col("record_id"),
        "x_RecordType": F.col("record_type"),
        "x_RecordedAt": F.col("recorded_at"),
        "x_SqsEquivalentCost": tariff(rates.sqs, low=F.col("from"), high=F.col("from") + F.col("units")),
        "x_UsageMonth": month,
        "run_id": F.lit(run_id),
        "schema_version": F.lit(VERSION),
    }
    return priced.select(*[values[field.name].cast(field.dataType).alias(field.name) for field in SCHEMA])


def _account_name(rates: Rates) -> Column:
    account = F.col("account")
    names = [F.lit(each) for pair in sorted(rates.accounts.items()) for each in pair]
    return F.coalesce(F.try_element_at(F.create_map(*names), account), account) if names else account


def _placed(billing: DataFrame) -> DataFrame:
    """Every record with the units it goes `from` and `upto` in its account's month."""
    order = Window.partitionBy("account", "sku", F.date_trunc("month", F.col("start"))).orderBy(
        "recorded_at", "start", "queue", "revision", "record_type", "record_id"
    )
    upto = money.quantity(F.sum("quantity").over(order.rowsBetween(Window.unboundedPreceding, Window.currentRow)))
    return billing.withColumn("upto", upto).withColumn("from", money.quantity(F.col("upto") - F.col("quantity")))


def _cut(placed: DataFrame, ladder: list[Step]) -> DataFrame:
    """At the borders of tiers. `units` is negative in a row that gives back, and `from` is where the row begins."""
    low, high = F.least("from", "upto"), F.greatest("from", "upto")
    sign = F.signum(F.col("quantity")).cast("int")

    def part(step: Column) -> Column:
        begin, end = F.greatest(low, step["low"]), F.least(high, step["high"])
        start = F.when(sign > 0, begin).otherwise(end)
        units = money.quantity(F.greatest(end - begin, F.lit(0)) * sign)
        return F.struct(step.alias("step"), money.quantity(start).alias("from"), units.alias("units"))

    valid = F.filter(_literal(ladder), _is_valid)
    parts = F.filter(F.transform(valid, part), lambda each: each["units"] != 0)
    no_rate = F.raise_error(F.concat(F.lit("no rate for "), F.col("sku"), F.lit(" at "), F.col("start").cast("string")))
    checked = F.when(F.size(valid) == 0, no_rate.cast("void")).otherwise(parts)
    return placed.withColumn("part", F.explode(checked)).drop("from").select("*", "part.*").drop("part")


def _literal(ladder: list[Step]) -> Column:
    return F.array(
        *[
            F.struct(
                F.lit(step.sku).alias("sku"),
                F.lit(step.price_id).alias("price_id"),
                F.lit(step.valid_from).alias("valid_from"),
                F.lit(step.valid_to).alias("valid_to"),
                F.lit(step.number).alias("number"),
                money.quantity(F.lit(step.low)).alias("low"),
                money.quantity(F.lit(step.high)).alias("high"),
                F.lit(step.price).cast(money.RATE).alias("price"),
            )
            for step in ladder
        ]
    )


def _is_valid(step: Column) -> Column:
    return (step["sku"] == F.col("sku")) & (step["valid_from"] <= F.col("start")) & (F.col("start") < step["valid_to"])


def tariff(card: Card, *, low: Column, high: Column) -> Column:
    """What going from unit `low` to unit `high` costs on a card, over all its tiers."""
    first, last = F.least(low, high), F.greatest(low, high)
    sign = F.when(high < low, F.lit(-1)).otherwise(F.lit(1))

    def amount(step: Column) -> Column:
        units = F.greatest(F.least(last, step["high"]) - F.greatest(first, step["low"]), F.lit(0)) * sign
        return money.cost(units, step["price"])

    valid = F.filter(_literal(steps(card)), _is_valid)
    # Decimals are added at a fixed width: a plain sum of money columns would cut a digit off (money.py).
    return F.aggregate(F.transform(valid, amount), money.zero(), lambda total, part: money.plus([total, part]))


def _description() -> Column:
    kind = F.when(F.col("sku").endswith("fifo"), F.lit("FIFO")).otherwise(F.lit("standard"))
    what = (
        F.when(F.col("record_type") == "RETRACTION", F.lit("Taken back: requests"))
        .when(F.col("record_type") == "RESTATEMENT", F.lit("Restated: requests"))
        .otherwise(F.lit("Requests"))
    )
    return F.concat(
        what,
        F.lit(" to "),
        kind,
        F.lit(" queue "),
        F.col("queue"),
        F.lit(", tier "),
        F.col("step.number").cast("string"),
    )
