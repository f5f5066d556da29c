"""Latencies as 32 counts: bucket 0 holds calls under a microsecond, bucket n those from 2^(n-1) up to 2^n, the last one
also longer ones (usage/schema.py).

Histograms of the same shape add up, so a quantile of an hour, a day or an account is as good as that of a minute. A
quantile is interpolated inside its bucket on the scale of the buckets, a power of two: it is wrong by less than a
factor of two, whatever was measured.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

BUCKETS = 32


def merged(histogram: str) -> Column:
    """An aggregate: bucket by bucket."""
    return F.array(*[F.sum(F.col(histogram)[number]) for number in range(BUCKETS)])


def with_quantiles(histogram: str, shares: Mapping[str, float]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """For `mapInArrow`: to each row its quantiles in ms, as last columns. By numpy, in a second for a million rows; as
    expressions of Spark over arrays they were minutes, or, written out, more code than it can compile."""

    def add(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            counts = batch.column(histogram).flatten().to_numpy().reshape(-1, BUCKETS)
            made = [pa.array(each, from_pandas=True) for each in quantiles_ms(counts, list(shares.values()))]
            yield pa.RecordBatch.from_arrays([*batch.columns, *made], names=[*batch.schema.names, *shares])

    return add


def quantiles_ms(counts: Any, shares: list[float]) -> list[Any]:
    """An array for each share, from a matrix with a row for each histogram. NaN where nothing was measured."""
    upto = np.cumsum(counts, axis=1)
    total = upto[:, -1]
    rows = np.arange(len(counts))
    found = []
    for share in shares:
        rank = np.maximum(1.0, share * total)
        place = np.minimum((upto < rank[:, None]).sum(axis=1), BUCKETS - 1)
        inside = np.maximum(counts[rows, place], 1)
        value = np.exp2(place - (upto[rows, place] - rank) / inside) / 1000
        found.append(np.where(total > 0, value, np.nan))
    return found
