"""A look at a lane for those who watch. O(1), and not bound to the log as replies are: what it tells is approximate."""

import msgspec

from holdfast.core.limits import SECOND
from holdfast.core.queue.shard import Shard
from holdfast.core.types import LaneId


class Depth(msgspec.Struct, frozen=True, gc=False):
    """CloudWatch's words for the same."""

    visible: int
    not_visible: int
    delayed: int
    bytes: int
    oldest_s: int  # age of the oldest message; 0: there is none
    expired: int = 0  # messages removed because their time was over; grows while the lane is here


def look(shard: Shard, lane_id: LaneId) -> Depth | None:
    lane = shard.lanes.get(lane_id)
    if lane is None:
        return None
    counts = lane.counts(shard.now)
    times = [lane.backlog.oldest()] if lane.backlog.count else []
    if (lease := next(iter(lane.leases.values()), None)) is not None:
        times.append(lease.time)  # the one that was handed out first
    oldest_s = max(0, shard.now - min(times)) // SECOND if times else 0
    return Depth(counts.visible, counts.in_flight, counts.delayed, counts.bytes, oldest_s, lane.expired)
