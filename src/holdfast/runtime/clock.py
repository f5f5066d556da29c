"""Clocks. Only the shell reads them; the core is told the time.

Cluster time must not stand still while a machine sleeps and must not jump when somebody sets the
date, so it follows CLOCK_BOOTTIME (on systems without it, the monotonic clock). Wall time is for display.
"""

import time
from typing import Final

from holdfast.core.types import Instant, WallMs

_ELAPSING: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def elapsed_us() -> int:
    """Microseconds since some fixed moment; only differences mean anything."""
    return time.clock_gettime_ns(_ELAPSING) // 1000


def wall_us() -> int:
    return time.time_ns() // 1000


def wall_ms() -> WallMs:
    return WallMs(time.time_ns() // 1_000_000)


class OwnTime:
    """A shard's cluster time as this process counts it: the last stamp it knew, plus what has elapsed since."""

    __slots__ = ("_offset",)

    def __init__(self, last: Instant) -> None:
        self._offset = last - elapsed_us()

    def now(self) -> Instant:
        return Instant(elapsed_us() + self._offset)

    def seconds_until(self, instant: Instant) -> float:
        return max(0, instant - self.now()) / 1e6
