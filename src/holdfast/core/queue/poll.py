"""Who waits in a long poll, and who is served next: first come, first served, per lane.

Waiters are entries in a table, not tasks. They are this host's own; a fail-over sends them away empty-handed.
"""

from heapq import heappop, heappush
from typing import Any

from holdfast.core.limits import WAITERS_MAX
from holdfast.core.queue.command import Receive, Watch
from holdfast.core.types import Instant, LaneId
from holdfast.core.values import Fact


class Waiter(Fact, frozen=True):
    token: Any
    command: Receive | Watch
    until: Instant


class Polls:
    def __init__(self) -> None:
        self._lanes: dict[LaneId, dict[Any, Waiter]] = {}
        self._waiters: dict[Any, Waiter] = {}
        self._ends: list[tuple[Instant, int, Waiter]] = []  # heap; the number keeps the order of arrival
        self._count = 0

    def __len__(self) -> int:
        return len(self._waiters)

    def add(self, waiter: Waiter) -> bool:
        """False: the table is full."""
        if len(self._waiters) >= WAITERS_MAX:
            return False
        self._waiters[waiter.token] = waiter
        self._lanes.setdefault(waiter.command.lane, {})[waiter.token] = waiter
        self._count += 1
        heappush(self._ends, (waiter.until, self._count, waiter))
        return True

    def remove(self, token: Any) -> Waiter | None:
        waiter = self._waiters.pop(token, None)
        if waiter is not None:
            waiting = self._lanes[waiter.command.lane]
            del waiting[token]
            if not waiting:
                del self._lanes[waiter.command.lane]
        return waiter

    def has(self, lane: LaneId) -> bool:
        return lane in self._lanes

    def first(self, lane: LaneId) -> Waiter | None:
        waiting = self._lanes.get(lane)
        return next(iter(waiting.values())) if waiting else None

    def expired(self, now: Instant) -> list[Waiter]:
        """Those whose time is over, in order. They stay in the table until removed."""
        over: list[Waiter] = []
        while (deadline := self.deadline()) is not None and deadline <= now:
            over.append(heappop(self._ends)[2])
        return over

    def deadline(self) -> Instant | None:
        ends = self._ends
        while ends and self._waiters.get(ends[0][2].token) is not ends[0][2]:
            heappop(ends)
        return ends[0][0] if ends else None

    def drain(self) -> list[Waiter]:
        """Everybody, to be sent away: the host is about to stop."""
        return list(self._waiters.values())
