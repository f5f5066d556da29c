"""The clocks of a host.

`elapsed` is its CLOCK_BOOTTIME: it never jumps and does not stop while a process is paused. Wall time jumps as it
likes; it may be stored and shown and must decide nothing.
"""

from typing import Final

from holdfast.core.types import Instant, WallMs
from tests.sim.world import SECOND, World

_WALL_START: Final = 1_700_000_000_000


class Clock:
    def __init__(self, world: World) -> None:
        self._world = world
        self._wall_ms = _WALL_START

    def elapsed(self) -> int:
        return self._world.now

    def wall(self) -> WallMs:
        return self._wall_ms + self._world.now // 1000  # type: ignore[return-value]

    def jump(self, milliseconds: int) -> None:
        self._wall_ms += milliseconds


class BootClock(Clock):
    """Counts from the boot of its own machine, as no other does: instants mean nothing elsewhere."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.booted = 0
        self.boot()

    def boot(self) -> None:
        self.booted = self._world.now - self._world.between(0, 3600 * SECOND)

    def elapsed(self) -> int:
        return self._world.now - self.booted


class OwnTime:
    """A shard's cluster time as its process counts it: the last stamp it knew, plus what has elapsed since."""

    def __init__(self, clock: Clock, last: Instant) -> None:
        self._clock = clock
        self._offset = last - clock.elapsed()

    def now(self) -> Instant:
        return Instant(self._clock.elapsed() + self._offset)

    def until(self, instant: Instant) -> int:
        """Microseconds from now; 0 when it has passed."""
        return max(0, instant - self.now())
