"""The next messages of a stream, handed out together: what nearly every receive of a standard queue does.

Law: the lane is afterwards as if `Lane.hold` had been called for each of them, in their order.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from holdfast.core.queue.lane import Lane
from holdfast.core.queue.lease import Lease
from holdfast.core.queue.wheel import Wheel
from holdfast.core.types import Header, Instant, WallMs

_fields: Final = msgspec.structs.astuple


def hold_next(lane: Lane, headers: Sequence[Header], *, until: Instant, now: Instant, wall: WallMs) -> bool:
    """False: something about one of them is unusual, or there is only one, which is cheaper to hold by itself; nothing
    was done."""
    if len(headers) < 2 or lane.is_fifo or lane.tenants is not None:
        return False
    oldest = until - lane.retention  # what was queued before it expires before its lease ends
    for header in headers:
        if header.deadline or header.origin or header.count or header.at != header.lsn or header.time < oldest:
            return False
    if not lane.backlog.take_next(headers):
        return False
    leases, seqs = lane.leases, list[Any]()
    end, begin, seen = _number(until), _number(now), _number(wall)
    for header in headers:
        seq, lsn, epoch, _, group, size, time, _, _, _, _, _ = _fields(header)
        leases[seq] = Lease(lsn, epoch, group, size, time, 1, end, begin, seen, end, None)
        seqs.append(seq)
    lane.in_flight += len(headers)
    if lane.wheel is None:
        lane.wheel = Wheel()
    lane.wheel.add_all(until, seqs)
    return True


def _number(value: Any) -> Any:
    """One object for all leases: where its type is known, compiled code makes a new one for each use."""
    return value
