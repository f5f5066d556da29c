"""Latencies as 32 counts: bucket 0 holds calls under a microsecond, bucket n those from 2^(n-1) up to 2^n, the last one
also longer ones (usage/schema.py).

Histograms of the same shape add up, so a quantile of an hour, a day or an account is as good as that of a minute. A
quantile is interpolated inside its bucket on the scale of the buckets, a power of two: it is wrong by less than a
factor of two, whatever was measured.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F

BUCKETS = 32


def merged(histogram: str) -> Column:
    """An aggregate: bucket by bucket."""
    return F.array(*[F.sum(F.col(histogram)[number]) for number in range(BUCKETS)])


def running(histogram: Column) -> Column:
    """Calls in a bucket and all below it. Make it a column of its own: quantiles look at it many times."""
    return F.transform(F.sequence(F.lit(1), F.lit(BUCKETS)), lambda upto: _total(F.slice(histogram, F.lit(1), upto)))


def quantile_ms(counts: Column, upto: Column, share: float) -> Column:
    """Of a histogram and its `running` sums. Null where nothing was measured."""
    total = F.get(upto, F.lit(BUCKETS - 1))
    rank = F.greatest(F.lit(1.0), F.lit(share) * total)
    place = F.array_position(F.transform(upto, lambda count: count >= rank), F.lit(True)).cast("int") - 1
    above = F.get(upto, place) - rank
    return F.when(total > 0, F.pow(F.lit(2.0), place - above / F.get(counts, place)) / F.lit(1000.0))


def _total(counts: Column) -> Column:
    return F.aggregate(counts, F.lit(0).cast("bigint"), lambda so_far, count: so_far + count)
