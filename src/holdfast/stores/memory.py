"""A store in memory: for tests, and for whoever wants nothing kept. All meaning is in core/coordination/store.py."""

import time
from collections.abc import Callable

from holdfast.core.coordination.store import Changes, LeaseId, Record, Snapshot, State, Transaction
from holdfast.runtime import clock

POLL_S = 0.01  # between two looks for something new


class MemoryStore:
    """Several of them share records by sharing a State."""

    def __init__(self, state: State | None = None, *, now_us: Callable[[], int] = clock.elapsed_us) -> None:
        self._state = state or State()
        self._now_us = now_us

    def _current(self) -> State:
        self._state.expire(self._now_us())
        return self._state

    def get(self, key: str) -> Record | None:
        return self._current().get(key)

    def range(self, prefix: str) -> Snapshot:
        return self._current().range(prefix)

    def transact(self, transaction: Transaction) -> bool:
        return self._current().transact(transaction)

    def watch(self, prefix: str, after: int, *, wait_s: float = 0.0) -> Changes:
        deadline = time.monotonic() + wait_s
        while True:
            found = self._current().changes(prefix, after)
            if found.events or time.monotonic() >= deadline:
                return found
            time.sleep(POLL_S)

    def grant(self, life_s: float) -> LeaseId:
        return self._current().grant(int(life_s * 1e6), self._now_us())

    def renew(self, lease: LeaseId) -> bool:
        return self._current().renew(lease, self._now_us())

    def revoke(self, lease: LeaseId) -> None:
        self._current().revoke(lease)
