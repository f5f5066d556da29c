"""Counts of what a process did: plain integers, because a message passes by several of them. Whoever exports them reads
them (console/exposition.py).

Laws
- Replies are counted once, by the tallies of core/usage.py. `turn` takes what they counted, adds it to the totals here
  and hands it on, so that metrics and usage cannot disagree.
- Counters only grow. What was counted for a queue is forgotten with the queue; the totals keep it.
"""

from bisect import bisect_left
from collections.abc import Callable
from operator import add
from time import perf_counter
from typing import Final

from holdfast.core import usage
from holdfast.core.limits import LATENCY_BUCKETS
from holdfast.core.types import QueueName
from holdfast.core.usage import Cell, Key, Refusal, Tally, Window

BOUNDS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0)

# What a request does with messages, as far as it is counted: places in a queue's counts.
SENT, RECEIVED, DELETED, EMPTY, SENT_BYTES = range(5)
_WIDTH: Final = 5
NOTHING: Final = (0,) * _WIDTH
_PARTS: Final = {
    "SendMessage": SENT,
    "SendMessageBatch": SENT,
    "ReceiveMessage": RECEIVED,
    "DeleteMessage": DELETED,
    "DeleteMessageBatch": DELETED,
}
WAITING_MAX: Final = 100_000  # counts that nobody has taken, since the disk hangs; then they are put together
UNKNOWN: Final = "unknown"  # requests that were refused before it was known what they ask for

now: Final = perf_counter


class Histogram:
    """Durations. One more count than bounds: the last is for all that took longer."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.seconds = 0.0

    def note(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.seconds += seconds


class Replies:
    """Of one action, since the process began."""

    __slots__ = ("latency", "micros", "statuses")

    def __init__(self) -> None:
        self.latency = [0] * LATENCY_BUCKETS
        self.micros = 0
        self.statuses: dict[int, int] = {}


class Meter:
    """All counts of a process."""

    def __init__(self) -> None:
        self.queues: dict[QueueName, list[int]] = {}  # only of queues that were used
        self.actions: dict[str, Replies] = {}
        self.syncs = Histogram()
        self._tallies: dict[str, Tally] = {}
        self._gone = [0] * _WIDTH  # of queues that are no more
        self._waiting: list[tuple[Key, Cell]] = []  # counted here, not yet taken by `turn`
        self._on_new: Callable[[], None] | None = None

    def watch(self, tally: Tally) -> Tally:
        """One that counts in a way of its own, from the start."""
        assert tally.action not in self._tallies
        self._tallies[tally.action] = tally
        tally.on_new = self._on_new
        return tally

    def tally(self, action: str) -> Tally:
        found = self._tallies.get(action)
        if found is None:
            found = self.watch(Tally(action, now))
        return found

    def tell(self, on_new: Callable[[], None]) -> None:
        """`on_new` is called when there is something for `turn`, perhaps more than once."""
        self._on_new = on_new
        for each in self._tallies.values():
            each.on_new = on_new

    def turn(self) -> list[tuple[Key, Cell]]:
        """What was counted since the last turn. O(callers, queues and actions since then): 2 µs each."""
        self.update()
        taken, self._waiting = self._waiting, []
        return taken

    def update(self) -> None:
        """Adds what was counted to the totals here. To be called before they are read."""
        for tally in self._tallies.values():
            counted = list(tally.turn())
            if counted:
                self._add(tally.action, counted)
                self._waiting += [(key, cell) for key, _, cell in counted]
        if len(self._waiting) > WAITING_MAX:
            held = Window()
            held.add(self._waiting)
            self._waiting = list(held)

    def _add(self, action: str, counted: list[tuple[Key, Refusal, Cell]]) -> None:
        replies = self.actions.get(action)
        if replies is None:
            replies = self.actions[action] = Replies()
        sums = list(map(sum, zip(*(cell for _, _, cell in counted), strict=True)))  # by column: three times as fast
        replies.micros += sums[usage.MICROS]
        replies.latency = list(map(add, replies.latency, sums[usage.LATENCY :]))
        part = _PARTS.get(action)
        for key, refusal, cell in counted:
            status = 200 if refusal is None else refusal.status
            replies.statuses[status] = replies.statuses.get(status, 0) + cell[usage.REQUESTS]
            if refusal is None and part is not None:
                counts = self.queues.setdefault(QueueName(key.account, key.queue), [0] * _WIDTH)
                counts[part] += cell[usage.MESSAGES]
                counts[EMPTY] += cell[usage.EMPTY]
                counts[SENT_BYTES] += cell[usage.BYTES_IN]

    def forget(self, name: QueueName) -> None:
        """The queue is gone; what was counted for it stays in the totals."""
        self.update()
        for place, count in enumerate(self.queues.pop(name, ())):
            self._gone[place] += count

    def totals(self) -> list[int]:
        """O(queues that were used): 0.2 µs each."""
        return [sum(each) for each in zip(self._gone, *self.queues.values(), strict=True)]
