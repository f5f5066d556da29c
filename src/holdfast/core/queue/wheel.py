"""Timers of one lane, on a grid of TIMER_STEP: added, cancelled and fired in constant time, never scanned."""

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Any, Final

from holdfast.core.limits import TIMER_STEP
from holdfast.core.types import Instant, Seq

NEVER: Final = Instant(1 << 62)


def on_grid(instant: int) -> Instant:
    """The first grid point that is not earlier: a lease is never shorter than asked."""
    return Instant(-(-instant // TIMER_STEP) * TIMER_STEP)


class Wheel:
    __slots__ = ("_buckets", "_dues")

    def __init__(self) -> None:
        self._buckets: dict[Instant, dict[Seq, None]] = {}
        self._dues: list[Instant] = []

    def add(self, due: Instant, seq: Seq) -> None:
        """`due` lies on the grid."""
        bucket = self._buckets.get(due)
        if bucket is None:
            self._buckets[due] = {seq: None}
            heappush(self._dues, due)
        else:
            bucket[seq] = None

    def add_all(self, due: Instant, seqs: Iterable[Any]) -> None:
        bucket: dict[Any, None] | None = self._buckets.get(due)
        if bucket is None:
            self._buckets[due] = dict.fromkeys(seqs)
            heappush(self._dues, due)
        else:
            for seq in seqs:
                bucket[seq] = None

    def cancel(self, due: Instant, seq: Seq) -> None:
        bucket = self._buckets.get(due)
        if bucket is not None:
            bucket.pop(seq, None)
            if not bucket:
                del self._buckets[due]  # its place in the heap is skipped when it comes up

    def cancel_all(self, due: Instant, seqs: list[Any]) -> None:
        bucket: dict[Any, None] | None = self._buckets.get(due)
        if bucket is not None:
            for seq in seqs:
                bucket.pop(seq, None)
            if not bucket:
                del self._buckets[due]

    def first(self) -> Instant:
        dues, buckets = self._dues, self._buckets
        while dues and dues[0] not in buckets:
            heappop(dues)
        return dues[0] if dues else NEVER

    def pop(self, now: Instant) -> list[Seq]:
        """Everything that is due, in order of time."""
        fired: list[Seq] = []
        while self.first() <= now:
            fired.extend(self._buckets.pop(heappop(self._dues)))
        return fired
