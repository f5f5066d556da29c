"""Messages whose delay does not fit the order of their lane, packed by the time they become visible.

A lane's stream is read in order, so it can only carry delays that do not fall. A message that asks for a delay of its
own waits here: 64 bytes each in arrays, one array per grid point, no Python object per message.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Final

from holdfast.core.limits import TIMER_STEP
from holdfast.core.queue.wheel import NEVER, on_grid
from holdfast.core.types import Header, Instant, Lsn, Seq

_STRIDE: Final = 8  # seq, lsn, epoch, at, group, size, time, deadline
_MASK: Final = (1 << 64) - 1


class Maturing:
    """How many messages of a stream are delayed, by instant, on the grid. Instants do not fall."""

    __slots__ = ("marks",)

    def __init__(self) -> None:
        self.marks: dict[Instant, int] = {}

    def add(self, instant: Instant) -> None:
        due = on_grid(instant)
        self.marks[due] = self.marks.get(due, 0) + 1

    def remove(self, instant: Instant) -> None:
        due = on_grid(instant)
        left = self.marks.get(due, 0) - 1
        if left > 0:
            self.marks[due] = left
        else:
            self.marks.pop(due, None)

    def drop(self, upto: int) -> bool:
        """Forgets those that are due. False: none is left."""
        while self.marks and (due := next(iter(self.marks))) <= upto:
            del self.marks[due]
        return bool(self.marks)

    def last(self) -> Instant:
        return next(reversed(self.marks), Instant(0))

    def after(self, instant: int) -> tuple[Instant, int]:
        """The first mark after `instant`, and how many messages have it or a later one. O(marks after it)."""
        first, count = NEVER, 0
        for due in reversed(self.marks):
            if due <= instant:
                break
            first, count = due, count + self.marks[due]
        return first, count


def due_of(header: Header) -> Instant:
    """The grid point at which it becomes visible: never before its time, but at once when it has no delay."""
    if header.visible_at <= header.time:
        return Instant(header.visible_at // TIMER_STEP * TIMER_STEP)
    return on_grid(header.visible_at)


class Aside:
    __slots__ = ("_buckets", "_dues", "count", "ripe")

    def __init__(self) -> None:
        self._buckets: dict[Instant, array[int]] = {}
        self._dues: list[Instant] = []  # heap of buckets that are not due yet
        self.ripe: dict[Instant, None] = {}  # buckets that are due, oldest first
        self.count = 0  # messages still delayed

    def __bool__(self) -> bool:
        return bool(self._buckets)

    def add(self, header: Header) -> None:
        due = due_of(header)
        bucket = self._buckets.get(due)
        if bucket is None:
            bucket = self._buckets[due] = array("Q")
            heappush(self._dues, due)
        bucket.extend(
            (
                header.seq,
                header.lsn,
                header.epoch,
                header.at,
                header.group,
                header.size,
                header.time & _MASK,
                header.deadline,
            )
        )
        if due not in self.ripe:
            self.count += 1

    def first(self) -> Instant:
        return self._dues[0] if self._dues else NEVER

    def ripen(self, now: Instant) -> None:
        while self._dues and self._dues[0] <= now:
            due = heappop(self._dues)
            if due in self._buckets:
                self.ripe[due] = None
                self.count -= len(self._buckets[due]) // _STRIDE

    def ready(self) -> Iterator[Header]:
        for due in self.ripe:
            yield from self._headers(due)

    def first_ripe(self) -> Instant:
        return next(iter(self.ripe), NEVER)

    def stale(self, upto: int) -> Iterator[Header]:
        """Those that have been visible since `upto` or longer."""
        for due in self.ripe:
            if due > upto:
                return
            yield from self._headers(due)

    def all(self) -> Iterator[Header]:
        """In order of sequence within a bucket. O(messages)."""
        for due in sorted(self._buckets):
            yield from self._headers(due)

    def find(self, header: Header) -> Header | None:
        due, at = self._find(header)
        return None if at < 0 else self._header(self._buckets[due], at, due)

    def search(self, seq: Seq) -> Header | None:
        """Without knowing when it is due. O(buckets)."""
        for due in self._buckets:
            if (at := self._place(due, seq)) >= 0:
                return self._header(self._buckets[due], at, due)
        return None

    def remove(self, header: Header) -> None:
        """O(messages that become visible at the same grid point), by a memory move."""
        due, at = self._find(header)
        bucket = self._buckets[due]
        del bucket[at : at + _STRIDE]
        if due not in self.ripe:
            self.count -= 1
        if not bucket:
            del self._buckets[due]
            self.ripe.pop(due, None)

    def relocate(self, header: Header, at: Lsn) -> None:
        due, place = self._find(header)
        self._buckets[due][place + 3] = at

    def _find(self, header: Header) -> tuple[Instant, int]:
        """Where it is; -1: nowhere. Logs and snapshots from before the law of `due_of` round a delay of zero up."""
        for due in (due_of(header), on_grid(header.visible_at), Instant(header.time // TIMER_STEP * TIMER_STEP)):
            if (at := self._place(due, header.seq)) >= 0:
                return due, at
        return Instant(0), -1

    def _place(self, due: Instant, seq: Seq) -> int:
        bucket = self._buckets.get(due)
        if bucket is None:
            return -1
        rows = range(len(bucket) // _STRIDE)
        index = bisect_left(rows, int(seq), key=lambda row: bucket[row * _STRIDE])
        at = index * _STRIDE
        return at if at < len(bucket) and bucket[at] == seq else -1

    def _headers(self, due: Instant) -> Iterator[Header]:
        bucket = self._buckets[due]
        for at in range(0, len(bucket), _STRIDE):
            yield self._header(bucket, at, due)

    def _header(self, bucket: "array[int]", at: int, due: Instant) -> Header:
        seq, lsn, epoch, place, group, size, time, deadline = bucket[at : at + _STRIDE]
        signed = time - (1 << 64) if time >> 63 else time
        return Header(seq, lsn, epoch, place, group, size, signed, due, deadline, 0, 0, True)  # type: ignore[arg-type]
