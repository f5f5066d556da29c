"""How a step machine talks to the coordination store: what it asks for, and how that can end.

    Transact(token, …) ──▶ store ──▶ Settled(token, DONE | REFUSED | UNKNOWN)
    Fetch(token, key)  ──▶ store ──▶ Fetched(token, record, revision)
    watch              ──▶ Watched(event) for each change, in the order of revisions

Laws
- A transaction ends in one of three ways. UNKNOWN: it may have happened, may still happen, or never will; only a Fetch
  that began after it was given up may tell, and the machine does nothing that depends on it before.
- Tokens are the machine's own and never used twice by it. An answer to an unknown token is ignored.
- A Fetch is linearizable: it sees everything that was settled before it began.
"""

from enum import StrEnum

import msgspec

from holdfast.core.coordination.store import Event, Record, Snapshot, Transaction
from holdfast.core.limits import ASK_PATIENCE, ASKS_MAX


class Outcome(StrEnum):
    DONE = "done"
    REFUSED = "refused"  # a check did not hold; nothing was written
    UNKNOWN = "unknown"


class Transact(msgspec.Struct, frozen=True):
    token: int
    transaction: Transaction


class Fetch(msgspec.Struct, frozen=True):
    token: int
    key: str


class Settled(msgspec.Struct, frozen=True):
    token: int
    outcome: Outcome


class Fetched(msgspec.Struct, frozen=True):
    token: int
    record: Record | None
    revision: int  # of the store when it was read


class Watched(msgspec.Struct, frozen=True):
    event: Event


class Loaded(msgspec.Struct, frozen=True):
    """Everything there is, at the start or when events were missed; what was known before is forgotten. All events
    after its revision follow."""

    snapshot: Snapshot


class Desk:
    """Writes of one machine, one at a time for each key.

        write ──▶ Transact ──▶ Settled, or no answer in time ──▶ Fetch ──▶ Fetched: the key is free again

    However a write ended, its key is read back before the next one. A write that was given up may still happen later:
    it and its successor compare the same revision, so one of them is refused.
    """

    def __init__(self) -> None:
        self._writes: dict[int, tuple[str, int]] = {}  # token: key, since
        self._reads: dict[int, tuple[str, int]] = {}
        self._busy: set[str] = set()
        self._last_token = 0
        self.transacts: list[Transact] = []  # to be taken and sent, like the fetches
        self.fetches: list[Fetch] = []

    def is_free(self, key: str) -> bool:
        return key not in self._busy and len(self._busy) < ASKS_MAX

    def write(self, key: str, transaction: Transaction, now: int) -> None:
        assert self.is_free(key), f"{key} is being written"
        self._busy.add(key)
        self._last_token += 1
        self._writes[self._last_token] = (key, now)
        self.transacts.append(Transact(self._last_token, transaction))

    def settle(self, event: Settled, now: int) -> None:
        if event.token in self._writes:
            self._fetch(self._writes.pop(event.token)[0], now)

    def _fetch(self, key: str, now: int) -> None:
        self._last_token += 1
        self._reads[self._last_token] = (key, now)
        self.fetches.append(Fetch(self._last_token, key))

    def receive(self, event: Fetched) -> str | None:
        """The key that was read; None: nobody waits for this answer."""
        if event.token not in self._reads:
            return None
        key, _ = self._reads.pop(event.token)
        self._busy.remove(key)
        return key

    def look_for_answers(self, now: int) -> None:
        """What is overdue is given up, and its key read. O(asks)."""
        for waiting in (self._writes, self._reads):
            for token, (key, since) in tuple(waiting.items()):
                if now - since >= ASK_PATIENCE:
                    del waiting[token]
                    self._fetch(key, now)
