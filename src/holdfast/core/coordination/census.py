"""What a primary says of its shard in a heartbeat: how much it writes, and which of its lanes are worth looking at.

    every look ──▶ the next lanes of the round are met ── a look later ──▶ nearly empty and quiet: forgotten
                                                                     └──▶ noted: measured at every look, and reported

Laws
- A look meets a bounded number of lanes and a report names a bounded number of them, the fullest, however many there
  are: a hundred thousand idle queues make no heartbeat longer.
- A lane that is not named is nearly empty: the manager takes it for idle. Of one that is, all numbers are given.
- Rates are differences between two looks, smoothed. Nothing is counted on the path of a send.
"""

from collections.abc import Mapping

import msgspec

from holdfast.core.coordination.sizing import LaneLimits, QueueUse, fullness
from holdfast.core.limits import CENSUS_LANES, CENSUS_SMOOTHING, NOTED_LANES_MAX, NOTED_PERMILLE, SECOND
from holdfast.core.queue.lane import Lane
from holdfast.core.types import Instant, LaneId, Seq


class LaneUse(msgspec.Struct, frozen=True, gc=False):
    lane: LaneId
    use: QueueUse


class _Met(msgspec.Struct):
    """A lane that was met at the last look."""

    last: Seq
    rate: int | None = None  # sends per second, smoothed; None: not known yet
    full: int = 0  # permille of what a lane can take


class Census:
    def __init__(self, now: Instant, limits: LaneLimits | None = None) -> None:
        self._limits = limits or LaneLimits()
        self._at = now
        self._written = 0
        self._met: dict[LaneId, _Met] = {}
        self._round: list[LaneId] = []  # still to be met, backwards
        self.load = 0  # bytes per second that were written, smoothed

    def look(self, lanes: Mapping[LaneId, Lane], written: int, now: Instant) -> tuple[LaneUse, ...]:
        """`written`: all bytes of frames so far. O(CENSUS_LANES), and O(lanes) when a round begins."""
        passed = now - self._at
        if passed <= 0:
            return ()
        self.load = _smoothed(self.load, (written - self._written) * SECOND // passed)
        self._written, self._at = written, now
        uses = {}
        for lane_id, met in self._met.items():
            lane = lanes.get(lane_id)
            if lane is not None:
                rate = (lane.last_seq - met.last) * SECOND // passed
                met.rate, met.last = rate if met.rate is None else _smoothed(met.rate, rate), lane.last_seq
                use = uses[lane_id] = QueueUse(lane.count, lane.bytes, lane.in_flight, met.rate)
                met.full = fullness(use, 1, self._limits)
        noted = [each for each in uses if self._met[each].full >= NOTED_PERMILLE]
        noted = sorted(noted, key=lambda each: (-self._met[each].full, each))[:NOTED_LANES_MAX]
        self._met = {lane_id: self._met[lane_id] for lane_id in noted}
        self._meet_more(lanes)
        return tuple(LaneUse(lane_id, uses[lane_id]) for lane_id in noted)

    def _meet_more(self, lanes: Mapping[LaneId, Lane]) -> None:
        self._round = self._round or list(lanes)[::-1]
        for _ in range(min(CENSUS_LANES, len(self._round))):
            lane = lanes.get(self._round.pop())
            if lane is not None:
                self._met.setdefault(lane.lane, _Met(lane.last_seq))


def _smoothed(held: int, seen: int) -> int:
    return held + (seen - held) // CENSUS_SMOOTHING
