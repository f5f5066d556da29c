"""How many lanes a queue should have, on which shards, and whether the cluster has the right number of hosts.

    use ── 80 % of what its lanes can take, for a while ──▶ more lanes: as many as bring it to half
        ── one lane less would still be below 40 %, for long ──▶ one lane less

    hosts the same: advice, which somebody else carries out

Laws
- The limit that is nearest counts: messages, bytes, in flight, rate.
- What was expanded is not shrunk, and what was shrunk not expanded, by the same use: the two thresholds are apart even
  after the change. And a change waits until its reason has held for a while.
- New lanes go to different hosts first, then to the least loaded shards.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence

import msgspec

from holdfast.core.coordination.cluster import HostId
from holdfast.core.limits import (
    FULL_PERMILLE,
    IN_FLIGHT_MAX,
    LANE_BYTES_MAX,
    LANE_MESSAGES_MAX,
    LANE_RATE_MAX,
    LANES_MAX,
    LED_MAX,
    ROOMY_PERMILLE,
    TARGET_PERMILLE,
)
from holdfast.core.types import ShardId


class QueueUse(msgspec.Struct, frozen=True):
    """Of all lanes together."""

    messages: int = 0
    bytes: int = 0
    in_flight: int = 0
    sends_per_s: int = 0


class LaneLimits(msgspec.Struct, frozen=True):
    """What one lane can take."""

    messages: int = LANE_MESSAGES_MAX
    bytes: int = LANE_BYTES_MAX
    in_flight: int = IN_FLIGHT_MAX
    sends_per_s: int = LANE_RATE_MAX


class HostUse(msgspec.Struct, frozen=True):
    host: HostId
    zone: str = ""
    busy_permille: int = 0
    disk_permille: int = 0
    led: int = 0  # shards


class Grow(msgspec.Struct, frozen=True):
    hosts: int  # that many more


class Shrink(msgspec.Struct, frozen=True):
    host: HostId  # this one can be done without


class Steady:
    """Whether something has been so for long enough."""

    def __init__(self) -> None:
        self._since: dict[Hashable, int] = {}

    def holds(self, what: Hashable, is_so: bool, *, now: int, for_us: int) -> bool:
        if not is_so:
            self._since.pop(what, None)
            return False
        return now - self._since.setdefault(what, now) >= for_us

    def keep_only(self, these: Collection[Hashable]) -> None:
        self._since = {what: since for what, since in self._since.items() if what in these}


# lanes


def fullness(use: QueueUse, lanes: int, limits: LaneLimits) -> int:
    """Permille of what so many lanes can take, of the limit that is nearest."""
    parts = [
        (use.messages, limits.messages),
        (use.bytes, limits.bytes),
        (use.in_flight, limits.in_flight),
        (use.sends_per_s, limits.sends_per_s),
    ]
    return max(used * 1000 // (limit * lanes) for used, limit in parts)


def lanes_wanted(use: QueueUse, lanes: int, *, limits: LaneLimits, lanes_max: int = LANES_MAX) -> int:
    """At most twice as many as now, at least one."""
    if fullness(use, lanes, limits) >= FULL_PERMILLE:
        enough = -(-fullness(use, 1, limits) // TARGET_PERMILLE)
        return max(lanes, min(enough, 2 * lanes, lanes_max))
    if lanes > 1 and fullness(use, lanes - 1, limits) < ROOMY_PERMILLE:
        return lanes - 1
    return lanes


def shards_for(
    count: int,
    leaders: Mapping[ShardId, HostId],
    *,
    loads: Mapping[ShardId, int],
    taken: Collection[ShardId] = (),
) -> list[ShardId]:
    """Where `count` new lanes should live; fewer if there are not so many shards. `taken`: lanes of the queue are there
    already. O(count · shards)."""
    lanes_on = Counter(leaders[shard] for shard in taken if shard in leaders)
    free = sorted(shard for shard in leaders if shard not in taken)
    chosen: list[ShardId] = []
    while free and len(chosen) < count:
        best = min(free, key=lambda shard: (lanes_on[leaders[shard]], loads.get(shard, 0), shard))
        free.remove(best)
        chosen.append(best)
        lanes_on[leaders[best]] += 1
    return chosen


# hosts


def pressure(hosts: Sequence[HostUse]) -> int:
    """Permille, of what is scarcer on average: the loop's time or the disk."""
    busy = sum(each.busy_permille for each in hosts)
    disk = sum(each.disk_permille for each in hosts)
    return max(busy, disk) // len(hosts)


def _crowding(hosts: Sequence[HostUse], count: int) -> int:
    """Permille of the shards that so many hosts would lead well."""
    return sum(each.led for each in hosts) * 1000 // (count * LED_MAX)


def advice(hosts: Sequence[HostUse], *, hosts_min: int, hosts_max: int) -> Grow | Shrink | None:
    """At most twice as many as now, or one less. `hosts`: those that can be given something."""
    count = len(hosts)
    if count < hosts_min:
        return Grow(hosts_min - count)
    now = max(pressure(hosts), _crowding(hosts, count))
    if now >= FULL_PERMILLE:
        wanted = min(-(-count * now // TARGET_PERMILLE), 2 * count, hosts_max)
        return Grow(wanted - count) if wanted > count else None
    if count == hosts_min or _crowding(hosts, count - 1) >= FULL_PERMILLE:
        return None
    return Shrink(_dispensable(hosts)) if pressure(hosts) * count // (count - 1) < ROOMY_PERMILLE else None


def _dispensable(hosts: Sequence[HostUse]) -> HostId:
    """Of the zone with most hosts, the one with the least to do."""
    zones = Counter(each.zone for each in hosts)
    return min(hosts, key=lambda each: (-zones[each.zone], each.led, each.busy_permille, each.host)).host
