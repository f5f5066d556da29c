"""Latencies as 32 counts: bucket 0 holds calls under a microsecond, bucket n those from 2^(n-1) up to 2^n, the last one
also longer ones (usage/schema.py).

Histograms of the same shape add up, so a quantile of an hour, a day or an account is as good as that of a minute. A
quantile is interpolated inside its bucket on the scale of the buckets, a power of two: it is wrong by less than a
factor of two, whatever was measured.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from holdfast.pipeline import usage

BUCKETS = 32


def merged(keys: Sequence[str], histogram: str, *, shares: Mapping[str, float]) -> Callable[[Any], Any]:
    """For `applyInArrow`, on rows of `keys` and a histogram: rows with equal keys become one, with its quantiles in ms
    as last columns. By numpy: for Spark a histogram is 32 sums, and its quantiles are long expressions."""

    def merge(rows: Any) -> Any:
        order, starts = usage.stretches(rows, keys)
        own = rows.select(keys).take(pa.array(order[starts])).combine_chunks()
        added = usage.histograms(rows.column(histogram), order, starts)
        counts = added.flatten().to_numpy().reshape(-1, BUCKETS)
        made = [pa.array(each, from_pandas=True) for each in quantiles_ms(counts, list(shares.values()))]
        return pa.table([*own.columns, added, *made], names=[*keys, histogram, *shares])

    return merge


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
