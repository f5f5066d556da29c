"""Counts of durations in buckets that grow with them, so that a million entries cost a few kilobytes.

A duration keeps its seven leading bits, so a percentile is at most 1/128 too high:

    below 128    each value has its own bucket
    above        value = (128 + low seven bits of index) << shift,  shift = index >> 7, less one
"""

from collections.abc import Iterable

_BITS = 7
_FIRST = 1 << _BITS


class Histogram:
    """Of integers from 0 upward, nanoseconds as a rule."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self.count = 0
        self.highest = 0

    @classmethod
    def of(cls, parts: Iterable["Histogram"]) -> "Histogram":
        """All their entries."""
        whole = cls()
        for part in parts:
            for index, count in part._counts.items():
                whole._counts[index] = whole._counts.get(index, 0) + count
            whole.count += part.count
            whole.highest = max(whole.highest, part.highest)
        return whole

    def add(self, value: int) -> None:
        shift = max(0, value.bit_length() - _BITS - 1)
        index = (shift << _BITS) + (value >> shift)
        self._counts[index] = self._counts.get(index, 0) + 1
        self.count += 1
        self.highest = max(self.highest, value)

    def percentile(self, percent: float) -> int:
        """No fewer than `percent` of the entries are at most so high. Of an empty histogram: 0."""
        wanted = self.count * percent / 100
        seen = 0
        for index in sorted(self._counts):
            seen += self._counts[index]
            if seen >= wanted:
                return min(_highest_of(index), self.highest)
        return self.highest

    def steps(self) -> list[tuple[int, float]]:
        """The whole distribution: values in order, and the part of the entries that are at most so high."""
        seen, found = 0, []
        for index in sorted(self._counts):
            seen += self._counts[index]
            found.append((min(_highest_of(index), self.highest), seen / self.count))
        return found


def _highest_of(index: int) -> int:
    if index < _FIRST:
        return index
    shift = (index >> _BITS) - 1
    return ((index - (shift << _BITS) + 1) << shift) - 1
