"""Counts of what a process did: plain integers, because a message passes by several of them. Whoever exports them reads
them (console/exposition.py).

Laws
- Usage is counted once per reply, in `Tally.note`, and nowhere else.
- Counters only grow. What was counted for a queue is forgotten with the queue; the totals keep it.
"""

from bisect import bisect_left
from time import perf_counter

BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0)

# What a request does with messages, as far as it is counted: places in a queue's counts.
SENT, RECEIVED, DELETED, EMPTY, SENT_BYTES = range(5)
_WIDTH = 5
_PARTS = {
    "SendMessage": SENT,
    "SendMessageBatch": SENT,
    "ReceiveMessage": RECEIVED,
    "DeleteMessage": DELETED,
    "DeleteMessageBatch": DELETED,
}
UNKNOWN = "unknown"  # requests that were refused before it was known what they ask for

now = perf_counter


class Histogram:
    """Durations. One more count than bounds: the last is for all that took longer."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.seconds = 0.0

    def note(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.seconds += seconds


class Tally:
    """Of one action. Kept short: `note` is on the way of every request (0.35 µs)."""

    __slots__ = ("_part", "_queues", "durations", "statuses")

    def __init__(self, part: int | None, queues: dict[int, list[int]]) -> None:
        self._part = part
        self._queues = queues
        self.durations = Histogram()
        self.statuses = {200: 0}

    def note(self, status: int, began: float, lane: int, messages: int, size: int, /) -> None:
        """One reply. `messages`: how many were sent, handed out or deleted; `size`: bytes of those that were sent."""
        durations = self.durations
        seconds = perf_counter() - began
        durations.counts[bisect_left(BOUNDS_S, seconds)] += 1
        durations.seconds += seconds
        if status != 200:
            self.statuses[status] = self.statuses.get(status, 0) + 1
            return
        self.statuses[200] += 1
        part = self._part
        if part is None:
            return
        counts = self._queues.get(lane)
        if counts is None:
            counts = self._queues[lane] = [0] * _WIDTH
        counts[part] += messages
        if size:
            counts[SENT_BYTES] += size
        elif not messages and part == RECEIVED:
            counts[EMPTY] += 1


class Meter:
    """All counts of a process."""

    def __init__(self) -> None:
        self.queues: dict[int, list[int]] = {}  # by lane; only of queues that were used
        self.actions: dict[str, Tally] = {}
        self.syncs = Histogram()
        self._gone = [0] * _WIDTH  # of queues that are no more

    def tally(self, action: str) -> Tally:
        found = self.actions.get(action)
        if found is None:
            found = self.actions[action] = Tally(_PARTS.get(action), self.queues)
        return found

    def forget(self, lane: int) -> None:
        """The queue is gone; what was counted for it stays in the totals."""
        for place, count in enumerate(self.queues.pop(lane, ())):
            self._gone[place] += count

    def totals(self) -> list[int]:
        """O(queues that were used): 0.2 µs each."""
        return [sum(each) for each in zip(self._gone, *self.queues.values(), strict=True)]
