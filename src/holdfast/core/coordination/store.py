"""What a coordination store means: records with revisions, transactions that compare before they write, events, leases.

    transact ──▶ plan: do the checks hold? ──▶ events of the next revision ──▶ records, watchers
                                                     ▲
    a lease whose time is over ──────────────────────┘

Laws
- A transaction happens as a whole or not at all. If it changes anything it is one revision, the next one.
- A record knows the revision that made it and the one that wrote it last; a check compares the latter. 0: not there.
- Who saw all events up to a revision and asks for those after it misses none, or is told so (Compacted).
- When the time of a lease is over, its records go, and that is a revision like any other. A clock that starts again
  from zero, as after a boot, makes a lease end after its whole time at the latest.

State is all of it as one value, for memory and for simulation; the time is handed in. Stores that keep their records
elsewhere use `plan` and `remaining_end` and have nothing to decide themselves.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Sequence
from typing import NewType, TypeAlias, assert_never

import msgspec

from holdfast.core.limits import STORE_EVENTS_KEPT

LeaseId = NewType("LeaseId", int)  # from 1; 0: none


class Compacted(Exception):
    """Events that were asked for are no longer kept: read everything again."""


class LeaseGone(Exception):
    """The lease has ended, or there never was one."""


class Record(msgspec.Struct, frozen=True, gc=False):
    key: str
    value: bytes
    created: int  # revision
    revision: int  # of the last write
    lease: LeaseId = LeaseId(0)


class Check(msgspec.Struct, frozen=True, gc=False):
    """The record was last written by this revision; 0: there is none."""

    key: str
    revision: int


class Put(msgspec.Struct, frozen=True, gc=False):
    key: str
    value: bytes
    lease: LeaseId = LeaseId(0)


class Delete(msgspec.Struct, frozen=True, gc=False):
    """No error if there is nothing."""

    key: str


Write: TypeAlias = Put | Delete


class Transaction(msgspec.Struct, frozen=True):
    checks: tuple[Check, ...]
    writes: tuple[Write, ...]  # one per key


class Event(msgspec.Struct, frozen=True):
    revision: int
    key: str
    record: Record | None  # None: it went


class Snapshot(msgspec.Struct, frozen=True):
    records: tuple[Record, ...]  # by key
    revision: int  # as of which


class Changes(msgspec.Struct, frozen=True):
    events: tuple[Event, ...]
    revision: int  # up to which they are complete


class Lease(msgspec.Struct, frozen=True, gc=False):
    id: LeaseId
    life_us: int
    end: int  # on the clock of whoever hands in the time


def revision_of(record: Record | None) -> int:
    return record.revision if record else 0


def plan(
    transaction: Transaction,
    read: Callable[[str], Record | None],
    *,
    is_lease: Callable[[LeaseId], bool],
    revision: int,
) -> list[Event] | None:
    """What a transaction does as the revision after `revision`; None: a check does not hold."""
    writes, following = transaction.writes, revision + 1
    if len({each.key for each in writes}) < len(writes):
        raise ValueError("a transaction writes each key once")
    if any(revision_of(read(each.key)) != each.revision for each in transaction.checks):
        return None
    events: list[Event] = []
    for write in writes:
        held = read(write.key)
        match write:
            case Put(key, value, lease):
                if lease and not is_lease(lease):
                    raise LeaseGone
                record = Record(key, value, held.created if held else following, following, lease)
                events.append(Event(following, key, record))
            case Delete(key):
                if held:
                    events.append(Event(following, key, None))
            case _:
                assert_never(write)
    return events


def remaining_end(lease: Lease, now: int) -> int:
    """When it ends, seen from `now`: a clock that began anew does not make it longer."""
    return min(lease.end, now + lease.life_us)


def range_end(prefix: str) -> str | None:
    """The first key behind all that have the prefix; None: there is none."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1) if prefix else None


class State:
    def __init__(self, events_kept: int = STORE_EVENTS_KEPT) -> None:
        self.revision = 0
        self._records: dict[str, Record] = {}
        self._keys: list[str] = []  # sorted
        self._events: deque[Event] = deque()
        self._events_kept = events_kept  # revisions whose events can be asked for
        self._leases: dict[LeaseId, Lease] = {}
        self._last_lease = 0

    def get(self, key: str) -> Record | None:
        return self._records.get(key)

    def range(self, prefix: str) -> Snapshot:
        """O(answer + log keys)."""
        first, behind = bisect_left(self._keys, prefix), range_end(prefix)
        last = len(self._keys) if behind is None else bisect_left(self._keys, behind)
        return Snapshot(tuple(self._records[key] for key in self._keys[first:last]), self.revision)

    def transact(self, transaction: Transaction) -> bool:
        """Whether the checks held and the writes happened."""
        events = plan(transaction, self._records.get, is_lease=self._leases.__contains__, revision=self.revision)
        if events is None:
            return False
        self._apply(events)
        return True

    def _apply(self, events: Sequence[Event]) -> None:
        if not events:
            return
        self.revision += 1
        for event in events:
            if event.record is None:
                del self._records[event.key]
                self._keys.pop(bisect_left(self._keys, event.key))
            else:
                if event.key not in self._records:
                    insort(self._keys, event.key)
                self._records[event.key] = event.record
        self._events.extend(events)
        while self._events[0].revision <= self.revision - self._events_kept:
            self._events.popleft()

    def changes(self, prefix: str, after: int) -> Changes:
        if after < self.revision - self._events_kept:
            raise Compacted
        events = [each for each in self._events if each.revision > after and each.key.startswith(prefix)]
        return Changes(tuple(events), self.revision)

    # leases

    def grant(self, life_us: int, now: int) -> LeaseId:
        self._last_lease += 1
        lease = LeaseId(self._last_lease)
        self._leases[lease] = Lease(lease, life_us, now + life_us)
        return lease

    def renew(self, lease: LeaseId, now: int) -> bool:
        """False: it has ended."""
        held = self._leases.get(lease)
        if held is None:
            return False
        self._leases[lease] = Lease(lease, held.life_us, now + held.life_us)
        return True

    def revoke(self, lease: LeaseId) -> None:
        """Ends it now, with its records. O(records): leases are few."""
        if self._leases.pop(lease, None):
            writes = tuple(Delete(key) for key in self._keys if self._records[key].lease == lease)
            is_done = self.transact(Transaction((), writes))
            assert is_done, "nothing was checked"

    def expire(self, now: int) -> None:
        """Before anything else at `now`. O(leases)."""
        for lease in tuple(self._leases.values()):
            end = remaining_end(lease, now)
            if end <= now:
                self.revoke(lease.id)
            elif end != lease.end:
                self._leases[lease.id] = Lease(lease.id, lease.life_us, end)
