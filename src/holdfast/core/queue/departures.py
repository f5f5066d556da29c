"""Departures that a decision makes: messages that leave their lane for another (outbox.py)."""

from holdfast.core.limits import OUTBOX_MAX
from holdfast.core.queue.outbox import Outbox
from holdfast.core.queue.record import Departed
from holdfast.core.types import Address, Cause, Header, LaneId, ShardId


class Departures:
    """Numbers departures that one decision makes, without touching the state. One per shard: `begin` starts anew."""

    __slots__ = ("_made", "_outboxes")

    def __init__(self, outboxes: dict[ShardId, Outbox]) -> None:
        self._outboxes = outboxes
        self._made: dict[ShardId, int] = {}

    def begin(self) -> "Departures":
        if self._made:
            self._made = {}
        return self

    def depart(
        self, lane: LaneId, header: Header, *, count: int, is_fresh: bool, target: Address, cause: Cause
    ) -> Departed | None:
        """None: too many wait already, the message stays where it is for now."""
        outbox = self._outboxes.get(target.shard)
        made = self._made.get(target.shard, 0)
        waiting = len(outbox.entries) if outbox is not None else 0
        if waiting + made >= OUTBOX_MAX:
            return None
        self._made[target.shard] = made + 1
        number = (outbox.last if outbox is not None else 0) + made + 1
        return Departed(lane, header, is_fresh, count, target, number, cause)
