"""Messages of a stream that come, are handed out, or are deleted together: what nearly every batch for a standard queue
does, and every receive of more than one.

Laws: the lane is afterwards as if `Lane.add`, `Lane.hold` or `Lane.remove_leased` had been called for each of them, in
their order. Where that would take more than is done here, the answer is False and nothing was done.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from holdfast.core.limits import STRETCH_BITS
from holdfast.core.queue.lane import Lane
from holdfast.core.queue.lease import Lease
from holdfast.core.queue.wheel import Wheel
from holdfast.core.types import Header, Instant, WallMs

_fields: Final = msgspec.structs.astuple
_lease: Final = Lease


def add_all(lane: Lane, headers: Sequence[Header], last: Header, *, count: int, size: int) -> None:
    """`count` messages with nothing but a body, which send.decide_sends has taken, of `size` bytes. `headers`: of the
    first of them, as many as Backlog.keeps."""
    lane.count += count
    lane.bytes += size
    lane.last_seq = last.seq
    lane.newest = last.lsn
    lane.backlog.append_run(headers, last, count=count, size=size)


def hold_next(lane: Lane, headers: Sequence[Header], *, until: Instant, now: Instant, wall: WallMs) -> bool:
    """False also if there is only one, which is cheaper to hold by itself."""
    backlog = lane.backlog
    if len(headers) < 2 or lane.is_fifo or lane.tenants is not None or not backlog.is_running():
        return False
    oldest = until - lane.retention  # what was queued before it expires before its lease ends
    end, begin, seen = _number(until), _number(now), _number(wall)
    held: dict[Any, Lease] = {}
    sizes: dict[int, int] = {}  # by stretch of the log
    stretch, total = -1, 0
    coming: int = backlog.cursor
    for header in headers:
        seq, lsn, epoch, at, group, size, time, _, deadline, count, origin, is_aside = _fields(header)
        number: int = seq
        queued: int = time
        if deadline or origin or count or is_aside or number != coming or queued < oldest:
            return False
        place: int = lsn
        if at is not lsn and at != lsn:
            return False
        coming += 1
        length: int = size
        if place >> STRETCH_BITS != stretch:
            if stretch >= 0:
                sizes[stretch] = total
            stretch, total = place >> STRETCH_BITS, 0
        total += length
        held[seq] = _lease(lsn, epoch, group, size, time, 1, end, begin, seen, end, None)
    sizes[stretch] = total
    backlog.take_run(len(held), sizes)
    lane.leases.update(held)
    lane.in_flight += len(held)
    if lane.wheel is None:
        lane.wheel = Wheel()
    lane.wheel.add_all(until, held)
    return True


def remove_all(lane: Lane, seqs: Sequence[Any]) -> bool:
    """Deletes what was handed out in the usual way and is still in flight."""
    if len(seqs) < 2 or lane.is_fifo or lane.tenants is not None or lane.overdue or lane.causes:
        return False
    leases: dict[Any, Any] = lane.leases  # numbers stay the objects that they are
    total = 0
    dues: dict[Any, list[Any]] = {}  # where their timers are
    here: Any = None
    timed: list[Any] = []
    for seq in seqs:
        lease = leases[seq]
        due, until = lease.due, lease.until
        if lease.rare is not None or not until or (due is not until and due != until):
            return False
        length: int = lease.size
        total += length
        if due is not here:
            here, timed = due, dues.setdefault(due, [])
        timed.append(seq)
    for seq in seqs:
        del leases[seq]
    lane.count -= len(seqs)
    lane.bytes -= total
    lane.in_flight -= len(seqs)
    if lane.wheel is not None:
        for due, timed in dues.items():
            lane.wheel.cancel_all(due, timed)
    return True


def _number(value: Any) -> Any:
    """One object for all leases: where its type is known, compiled code makes a new one for each use."""
    return value
