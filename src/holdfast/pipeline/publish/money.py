"""Exact money in Spark: the only types and the only products that costs may be made of.

    quantity decimal(19,0) × rate decimal(18,12) = cost decimal(38,12), exactly

Spark gives a product as many digits as both factors have together and, when that is over 38, cuts them off behind the
point. A money × money or a money × bigint has six left, and one request at 0.0000004 costs nothing. Sums of two money
columns lose a digit in the same way, which is why `plus` adds narrower ones. ANSI mode stays on: what does not fit
raises.
"""

from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType

QUANTITY = DecimalType(19, 0)
RATE = DecimalType(18, 12)
MONEY = DecimalType(38, 12)
ADDEND = DecimalType(34, 12)  # up to four of them can be added before a digit would be lost: 35, 36, 37, 38

ADDENDS_MAX = 5


def quantity(column: Column) -> Column:
    return column.cast(QUANTITY)


def cost(units: Column, rate: Column) -> Column:
    """`units` and `rate` are cast first: a product of other types is never made."""
    return (units.cast(QUANTITY) * rate.cast(RATE)).cast(MONEY)


def plus(parts: list[Column]) -> Column:
    assert 0 < len(parts) <= ADDENDS_MAX, "a longer sum would lose digits"
    return reduce(lambda total, part: total + part, [part.cast(ADDEND) for part in parts]).cast(MONEY)


def zero() -> Column:
    return F.lit(0).cast(MONEY)
