"""Fair queues: who is noisy on a standard queue with message groups.

A tenant (message group) is noisy when it has more than a tenth of what is in flight and at least 30 of it, or used
more than a tenth of the consumers' recent time. Messages of quiet tenants go first; noisy ones are never throttled,
only passed over while somebody else waits. Messages without a group are each a tenant of their own: quiet.
"""

from holdfast.core.limits import NOISY_IN_FLIGHT, NOISY_MEMORY, NOISY_SHARE
from holdfast.core.types import Group, Instant

_ALL = Group(0)  # no tenant has this number


class Tenants:
    __slots__ = ("in_flight", "spent", "total")

    def __init__(self) -> None:
        self.in_flight: dict[Group, int] = {}
        self.total = 0
        self.spent: dict[int, dict[Group, int]] = {}  # period -> group -> microseconds with consumers

    def leave(self, group: Group) -> None:
        self.total += 1
        if group:
            self.in_flight[group] = self.in_flight.get(group, 0) + 1

    def land(self, group: Group, duration: int, at: Instant) -> None:
        self.total -= 1
        if not group:
            return
        left = self.in_flight[group] - 1
        if left:
            self.in_flight[group] = left
        else:
            del self.in_flight[group]
        number = at // NOISY_MEMORY
        if number not in self.spent:
            self.forget(at)
        period = self.spent.setdefault(number, {})
        period[group] = period.get(group, 0) + duration
        period[_ALL] = period.get(_ALL, 0) + duration

    def is_noisy(self, group: Group, now: Instant) -> bool:
        if not group:
            return False
        count = self.in_flight.get(group, 0)
        if count >= NOISY_IN_FLIGHT and count * NOISY_SHARE > self.total:
            return True
        mine = everybody = 0
        for period in self._recent(now):
            mine += period.get(group, 0)
            everybody += period[_ALL]
        return count > 0 and mine * NOISY_SHARE > everybody

    def forget(self, now: Instant) -> None:
        """Drops what is older than two periods."""
        oldest = now // NOISY_MEMORY - 1
        self.spent = {period: spent for period, spent in self.spent.items() if period >= oldest}

    def _recent(self, now: Instant) -> list[dict[Group, int]]:
        this = now // NOISY_MEMORY
        return [self.spent[period] for period in (this - 1, this) if period in self.spent]
