"""Virtual time and chance of one simulated run: one seed, one order of events, one trace.

Nothing in the simulator asks a real clock, starts a thread, or iterates over something whose order is not its own.
So the same seed and the same code give the same events, and the trace hash proves it.
"""

from collections import deque
from collections.abc import Callable
from hashlib import blake2b
from heapq import heappop, heappush
from random import Random
from typing import Any, Final

MS: Final = 1_000
SECOND: Final = 1_000_000
KEPT: Final = 60  # events shown when a run fails
HASHED_AT_ONCE: Final = 256  # lines of the trace
LAZY_MAX: Final = 30 * SECOND  # between two looks of anything that looks again and again, however slow the pace

Action = Callable[..., None]


class Violation(Exception):
    """An invariant does not hold."""

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant
        self.text = text


class World:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now = 0  # microseconds since the run began
        self.rng = Random(seed)
        self.random = self.rng.random  # for those who draw for every event
        self.pace = 1  # so many times slower is what machines do at intervals (cluster/doze.py)
        self.faults: dict[str, int] = {}  # injected so far, by kind
        self.events: dict[str, int] = {}  # other things worth counting
        self._last: deque[str] = deque(maxlen=KEPT)
        self._digest = blake2b(digest_size=16)
        self._unhashed: list[str] = []
        self._events: list[tuple[int, int, Action, tuple[Any, ...]]] = []
        self._count = 0

    # Events

    def after(self, delay: int, action: Action, *args: Any) -> None:
        self._count += 1
        heappush(self._events, (self.now + delay, self._count, action, args))

    def at(self, instant: int, action: Action, *args: Any) -> None:
        """The same, for those who have reckoned when."""
        self._count += 1
        heappush(self._events, (instant, self._count, action, args))

    def is_alone(self) -> bool:
        """Nothing else happens at this instant: who would be called after 0 µs may be called now."""
        return not self._events or self._events[0][0] > self.now

    def run(self, until: int) -> None:
        """Everything that happens up to and including `until`; then it is that late."""
        events, pop = self._events, heappop
        while events and events[0][0] <= until:
            self.now, _, action, args = pop(events)
            action(*args)
        self.now = max(self.now, until)

    def run_while(self, is_wanted: Callable[[], bool], until: int) -> bool:
        """Until the condition ends. False: it did not by that time."""
        events = self._events
        while is_wanted():
            if not events or events[0][0] > until:
                return False
            self.now, _, action, args = heappop(events)
            action(*args)
        return True

    def lazily(self, interval: int) -> int:
        """How long until whoever looks every `interval` looks again, at this pace."""
        return min(interval * self.pace, LAZY_MAX)

    # Chance

    def chance(self, probability: float) -> bool:
        return probability > 0 and self.random() < probability

    def between(self, low: int, high: int) -> int:
        """Uniform; cheaper than randint."""
        return low + int(self.random() * (high - low + 1))

    def gap(self, mean: int) -> int:
        """To the next event of a kind that happens every `mean` microseconds."""
        return 1 + int(self.rng.expovariate(1 / mean))

    # What happened

    def note(self, text: str) -> None:
        unhashed = self._unhashed
        unhashed.append(f"{self.now} {text}")
        if len(unhashed) >= HASHED_AT_ONCE:
            self._hash()

    def _hash(self) -> None:
        self._digest.update("".join(self._unhashed).encode())
        self._last.extend(self._unhashed[-KEPT:])
        self._unhashed.clear()

    @property
    def last(self) -> list[str]:
        """What happened just now."""
        return [*self._last, *self._unhashed][-KEPT:]

    def fault(self, kind: str, text: str = "") -> None:
        self.faults[kind] = self.faults.get(kind, 0) + 1
        self.note(f"FAULT {kind} {text}")

    def count(self, kind: str, number: int = 1) -> None:
        self.events[kind] = self.events.get(kind, 0) + number

    def hash(self) -> str:
        self._hash()
        return self._digest.hexdigest()
