"""FIFO queues: which messages are handed out next.

Laws:
  A group is handed out in order, and only up to its first invisible message: whoever extends the second of three
  received messages lets only the first come back. New messages never unlock a group.
  One receive packs one group first, as many as it may, then the next group; the group with the oldest message first.
  The cursor stands still while messages in flight and parked ones have reached their limit; parked ones still go out.
"""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from holdfast.core.limits import IN_FLIGHT_MAX
from holdfast.core.queue.command import Need
from holdfast.core.queue.lane import Lane
from holdfast.core.queue.standard import Candidate
from holdfast.core.types import Group, Header, Instant, Lsn, Seq


def candidates(lane: Lane, now: Instant, committed: Lsn) -> Iterator[Candidate | Need]:
    """In order of service. Nothing is changed; heaps are cleaned of what is out of date as they are read."""
    if lane.in_flight >= IN_FLIGHT_MAX:
        return
    is_full = lane.in_flight + len(lane.backlog.held) >= IN_FLIGHT_MAX
    cursor = lane.backlog.cursor

    def is_ready(header: Header) -> bool:
        may_go = header.seq < cursor or not is_full
        return may_go and header.lsn <= committed and lane.visible_at(header) <= now

    back: list[tuple[Seq, Group]] = []  # looked at, to be put back
    fresh: list[tuple[Seq, Group]] = []
    window = lane.backlog.window
    try:
        while True:
            first_back = _first_back(lane, back)
            first_fresh = _first_fresh(lane, is_ready, fresh)
            if first_back is not None and (first_fresh is None or first_back < first_fresh):
                back.append(heappop(lane.back))
                yield from _prefix(lane, first_back[1], is_ready)
            elif first_fresh is not None and window is not None:
                fresh.append(heappop(window.heads))
                yield from _prefix(lane, first_fresh[1], is_ready)
            else:
                break
    finally:
        for entry in back:
            heappush(lane.back, entry)
        for entry in fresh:
            heappush(window.heads, entry)  # type: ignore[union-attr]
    need = lane.backlog.need()
    if need is not None and (need.first < cursor or not is_full):
        yield need


def _first_back(lane: Lane, seen: list[tuple[Seq, Group]]) -> tuple[Seq, Group] | None:
    """The oldest group whose first message was handed out before and is visible again."""
    while lane.back:
        seq, group = entry = lane.back[0]
        taken = lane.taken.get(group)
        is_first = taken is not None and taken[0] == seq and not lane.leases[seq].until
        if is_first and not (seen and seen[-1] == entry):
            return entry
        heappop(lane.back)
    return None


def _first_fresh(
    lane: Lane, is_ready: Callable[[Header], bool], seen: list[tuple[Seq, Group]]
) -> tuple[Seq, Group] | None:
    """The oldest group of which nothing is handed out."""
    window = lane.backlog.window
    entry = window.first_head(seen, lane.taken) if window is not None else None
    if window is None or entry is None:
        return None
    return entry if is_ready(window.groups[entry[1]][0]) else None  # those behind it are younger still


def _prefix(lane: Lane, group: Group, is_ready: Callable[[Header], bool]) -> Iterator[Candidate]:
    """The group's messages up to the first invisible one."""
    for seq in lane.taken.get(group, ()):
        lease = lane.leases[seq]
        if lease.until:
            return
        yield Candidate(lease.header(seq), lease)
    window = lane.backlog.window
    waiting: list[Header] = window.groups.get(group, []) if window is not None else []
    for header in waiting:
        if not is_ready(header):
            return
        yield Candidate(header, None)
