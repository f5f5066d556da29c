"""A queue over several clusters: which have a part of it, and where its next message goes.

    clusters/{cluster}       where a cluster is reached, and whether it should get anything new
    reports/{cluster}        how it is, in its own words; leased, so it goes when nobody there can speak
    standings/{cluster}      how much new it gets, as the external manager decided
    spreads/ACCOUNT/NAME     the clusters of a queue

Laws
- A message stays in the cluster that took it. Only where new ones go is ever changed; consumers ask every cluster of
  the spread, also those that get nothing new.
- New messages are split in proportion to weight × standing, so evenly among equals.
- If no cluster of a queue stands well, all count as they are meant to: refusing is not this table's business.
- A pinned queue (FIFO: its order is made in one place) has one cluster, and nothing of it goes elsewhere.
"""

from collections.abc import Mapping, Sequence
from typing import NewType

import msgspec

from holdfast.core.types import QueueName

ClusterId = NewType("ClusterId", str)

STANDING_FULL = 100  # gets its whole share
CLUSTERS = "clusters/"
REPORTS = "reports/"
STANDINGS = "standings/"
SPREADS = "spreads/"


class ClusterRecord(msgspec.Struct, frozen=True):
    address: str
    capacity: int = 100  # relative to the others
    is_draining: bool = False  # an operator wants it to get nothing new


class ClusterReport(msgspec.Struct, frozen=True):
    """Written by the cluster's own manager, every few seconds."""

    number: int  # rises, so that a report that stands still is seen
    shards: int
    shards_active: int
    busy_permille: int = 0
    disk_permille: int = 0
    emptied: tuple[QueueName, ...] = ()  # some queues that it takes nothing more of (its lanes are sealed)


class Standing(msgspec.Struct, frozen=True):
    part: int  # of its share of new messages, up to STANDING_FULL
    reason: str = ""


class Share(msgspec.Struct, frozen=True):
    cluster: ClusterId
    weight: int = 100  # 0: nothing new, what is there is still received


class Spread(msgspec.Struct, frozen=True):
    shares: tuple[Share, ...]
    is_pinned: bool = False


def spread_key(queue: QueueName) -> str:
    return f"{SPREADS}{queue.account}/{queue.name}"


def weights(spread: Spread, standings: Mapping[ClusterId, Standing]) -> list[tuple[ClusterId, int]]:
    """Of new messages. Clusters without a standing have just been made and count as well."""
    full = Standing(STANDING_FULL)
    now = [(each.cluster, each.weight * standings.get(each.cluster, full).part) for each in spread.shares]
    if any(weight for _, weight in now):
        return now
    return [(each.cluster, each.weight or 1) for each in spread.shares]


def pick(spread: Spread, standings: Mapping[ClusterId, Standing], number: int) -> ClusterId:
    """Where a new message goes. Of consecutive numbers each cluster gets exactly its share, mixed with the others."""
    now = weights(spread, standings)
    total = sum(weight for _, weight in now)
    # A stride near the golden section, with no divisor in common with the total, mixes the clusters.
    at = number * _stride(total) % total
    for cluster, weight in now:
        if at < weight:
            return cluster
        at -= weight
    raise AssertionError("weights add up to their total")


def _stride(total: int) -> int:
    stride = max(1, total * 618 // 1000)
    while _divisor(stride, total) != 1:
        stride += 1
    return stride


def _divisor(one: int, other: int) -> int:
    while other:
        one, other = other, one % other
    return one


def clusters_for(
    count: int,
    clusters: Mapping[ClusterId, ClusterRecord],
    reports: Mapping[ClusterId, ClusterReport],
    *,
    standings: Mapping[ClusterId, Standing],
    taken: Sequence[ClusterId] = (),
) -> list[ClusterId]:
    """Clusters that should get a part of a queue: those that stand well, the idlest first."""
    full = Standing(STANDING_FULL)
    fit = [
        each
        for each, record in clusters.items()
        if each not in taken
        and each in reports
        and not record.is_draining
        and standings.get(each, full).part == STANDING_FULL
    ]
    return sorted(fit, key=lambda each: (utilisation(reports[each]), each))[:count]


def utilisation(report: ClusterReport) -> int:
    return max(report.busy_permille, report.disk_permille)


def new_spread(clusters: Sequence[ClusterId], records: Mapping[ClusterId, ClusterRecord], *, is_pinned: bool) -> Spread:
    shares = tuple(Share(each, records[each].capacity) for each in clusters)
    return Spread(shares[:1] if is_pinned else shares, is_pinned)
