"""Standard queues: which message is handed out next.

First what comes back (its lease is over), then what waited aside (its own delay is over), then the stream in order.
Best-effort order; on queues with message groups the quiet tenants go first (tenants.py).

A candidate is yielded in the order of service; the caller takes as many as it needs and stops. Nothing is changed.
`Need` instead of a candidate: the next headers are not in memory.
"""

from collections.abc import Iterator
from heapq import heappop, heappush

from holdfast.core.limits import FAIR_LOOK_MAX
from holdfast.core.queue.command import Need
from holdfast.core.queue.lane import Lane
from holdfast.core.queue.lease import Lease
from holdfast.core.types import Group, Header, Instant, Lsn, Seq
from holdfast.core.values import Value


class Candidate(Value, frozen=True):
    header: Header
    lease: Lease | None  # None: never handed out


def candidates(lane: Lane, now: Instant, committed: Lsn) -> Iterator[Candidate | Need]:
    if lane.tenants is not None:
        yield from _fair(lane, now, committed)
        return
    if lane.back:
        yield from _returned(lane)
    if lane.aside is not None and lane.aside.ripe:
        for header in lane.aside.ready():
            if header.lsn <= committed:
                yield Candidate(header, None)
    window = lane.backlog.window
    if window is not None:
        for header in window.parked.values():
            yield Candidate(header, None)
        for header in window.queue:
            if header.lsn > committed or header.visible_at > now:
                return
            yield Candidate(header, None)
    need = lane.backlog.need()
    if need is not None:
        yield need


def _returned(lane: Lane) -> Iterator[Candidate]:
    """Visible leases, oldest first. Works on a copy of the few that are looked at."""
    popped: list[tuple[Seq, Group]] = []
    try:
        while lane.back:
            entry = heappop(lane.back)
            lease = lane.leases.get(entry[0])
            if lease is None or lease.until or (popped and popped[-1] == entry):
                continue  # handed out or gone meanwhile: the heap is cleaned as it is read
            popped.append(entry)
            yield Candidate(lease.header(entry[0]), lease)
    finally:
        for entry in popped:
            heappush(lane.back, entry)


def _fair(lane: Lane, now: Instant, committed: Lsn) -> Iterator[Candidate | Need]:
    """Quiet tenants in order; then the noisy ones, those with the least in flight first."""
    tenants = lane.tenants
    assert tenants is not None, "only lanes with tenants are served fairly"
    later: list[Candidate] = []
    for candidate in _apart(lane, committed):
        if tenants.is_noisy(candidate.header.group, now) and len(later) < FAIR_LOOK_MAX:
            later.append(candidate)
        else:
            yield candidate
    noisy: list[Group] = []
    for header in _quiet(lane, now, noisy):
        if header.lsn <= committed and header.visible_at <= now:
            yield Candidate(header, None)
    later.sort(key=lambda candidate: (tenants.in_flight.get(candidate.header.group, 0), candidate.header.seq))
    yield from later
    window = lane.backlog.window
    for group in sorted(noisy, key=lambda group: (tenants.in_flight.get(group, 0), group)):
        assert window is not None, "noisy groups come from the window"
        for header in list(window.groups[group]):
            if header.lsn <= committed and header.visible_at <= now:
                yield Candidate(header, None)
    need = lane.backlog.need()
    if need is not None:  # only asked for when nothing at hand may go
        yield need


def _apart(lane: Lane, committed: Lsn) -> Iterator[Candidate]:
    """What does not wait in the stream."""
    yield from _returned(lane)
    if lane.aside is not None:
        for header in lane.aside.ready():
            if header.lsn <= committed:
                yield Candidate(header, None)


def _quiet(lane: Lane, now: Instant, noisy: list[Group]) -> Iterator[Header]:
    """The window in order, without the noisy tenants: those are left in `noisy`. O(log tenants) for each step."""
    window, tenants = lane.backlog.window, lane.tenants
    if window is None or tenants is None:
        return
    popped: list[tuple[Seq, Group]] = []
    following: list[tuple[Seq, Group, int]] = []  # heap: where to go on in groups that were begun
    try:
        while True:
            head = window.first_head(popped)
            if following and (head is None or following[0][0] < head[0]):
                _, group, index = heappop(following)
            elif head is not None:
                group, index = head[1], 0
                popped.append(heappop(window.heads))
            else:
                return
            if not index and tenants.is_noisy(group, now):
                noisy.append(group)
                continue
            members = window.groups[group]
            if index + 1 < len(members):
                heappush(following, (members[index + 1].seq, group, index + 1))
            yield members[index]
    finally:
        for entry in popped:
            heappush(window.heads, entry)
