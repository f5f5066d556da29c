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

from holdfast.core.store import Event, Record, Transaction


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
