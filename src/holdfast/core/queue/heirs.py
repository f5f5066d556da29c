"""The rules of lanes that follow each other. What they are for, and their laws: descent.py."""

from collections.abc import Iterable

import msgspec

from holdfast.core.errors import InvalidParameterValue, ServiceUnavailable
from holdfast.core.limits import BEQUEST_ENTRIES, REQUEST_WINDOW, SEQUENCE_GAP
from holdfast.core.queue.command import (
    DONE,
    Bequeath,
    Bequest,
    Done,
    Drain,
    Found,
    Inherit,
    Inheritance,
    Lineage,
    Open,
    Retire,
    Seal,
)
from holdfast.core.queue.descent import Parent
from holdfast.core.queue.lane import Lane
from holdfast.core.queue.moment import Moment
from holdfast.core.queue.outbox import Outbox
from holdfast.core.queue.record import Draining, Dropped, Founded, Inherited, Opened, Record, Sealed
from holdfast.core.types import Address, Counts, Seq, ShardId


def decide_found(lane: Lane, command: Found) -> tuple[tuple[Record, ...], Lineage]:
    known = lane.descent.parents if lane.descent is not None else []
    if known:
        if tuple(parent.address for parent in known) != command.parents:
            raise InvalidParameterValue("This lane has other parents.")
        return (), _lineage(known)
    if lane.last_seq:
        raise InvalidParameterValue("A lane that has had messages can have no parents any more.")
    return (Founded(lane.lane, command.parents),), Lineage(tuple(map(Inheritance, command.parents)))


def _lineage(parents: Iterable[Parent]) -> Lineage:
    rows = [Inheritance(parent.address, parent.cursor, parent.is_complete, parent.is_over) for parent in parents]
    return Lineage(tuple(rows))


def decide_drain(lane: Lane, _: Drain) -> tuple[tuple[Record, ...], Done]:
    if lane.descent is not None and lane.descent.draining is not None:
        return (), DONE
    if lane.descent is not None and not lane.descent.is_ready:
        raise ServiceUnavailable("This lane has not inherited everything: it could not hand it on.")
    return (Draining(lane.lane),), DONE


def decide_bequeath(
    lane: Lane, command: Bequeath, moment: Moment, shard: ShardId
) -> tuple[tuple[Record, ...], Bequest]:
    """A read. It is answered when everything before it is committed, the draining, too."""
    if lane.descent is None or lane.descent.draining is None:
        raise InvalidParameterValue("Only a lane that drains has heirs.")
    rows, following = b"", b""
    if lane.dedup is not None:
        rows, following = lane.dedup.bequeath(command.cursor, BEQUEST_ENTRIES, moment.now, shard=shard)
    last = Seq(lane.last_seq + SEQUENCE_GAP)
    return (), Bequest(Address(shard, lane.lane), command.cursor, following, last, rows)


def decide_inherit(lane: Lane, command: Inherit) -> tuple[tuple[Record, ...], Lineage]:
    """Answers from where to go on: what is not the next part is not taken."""
    bequest, parents = command.bequest, lane.descent.parents if lane.descent is not None else []
    parent = next((each for each in parents if each.address == bequest.parent), None)
    if parent is None:
        raise InvalidParameterValue("This lane does not inherit from that one.")
    if parent.is_complete or parent.cursor != bequest.cursor:
        return (), _lineage(parents)
    following = bequest.following
    after = msgspec.structs.replace(parent, cursor=following, is_complete=not following)
    record = Inherited(lane.lane, bequest.parent, bequest.last, following, bequest.rows)
    return (record,), _lineage([after if each is parent else each for each in parents])


def decide_seal(
    lane: Lane, _: Seal, moment: Moment, outboxes: Iterable[Outbox]
) -> tuple[tuple[Record, ...], Done | Counts]:
    """Done: it is empty for good. Counts: not yet. O(departures under way), for one of them may come back."""
    descent = lane.descent
    if descent is None or descent.draining is None:
        raise InvalidParameterValue("Only a lane that drains can be sealed.")
    if descent.is_sealed:
        return (), DONE
    is_left = any(entry.lane == lane.lane for outbox in outboxes for entry in outbox.entries.values())
    if lane.count or is_left or descent.is_waiting:
        return (), lane.counts(moment.now)
    return (Sealed(lane.lane),), DONE


def decide_open(lane: Lane, command: Open) -> tuple[tuple[Record, ...], Done]:
    parent = lane.descent.parent(command.parent) if lane.descent is not None else None
    if parent is None:
        raise InvalidParameterValue("This lane does not inherit from that one.")
    if not parent.is_complete:
        raise InvalidParameterValue("This lane has not inherited everything from that one.")
    return () if parent.is_over else (Opened(lane.lane, command.parent),), DONE


def decide_retire(lane: Lane, _: Retire, moment: Moment) -> tuple[tuple[Record, ...], Done]:
    descent = lane.descent
    if descent is None or descent.draining is None or not descent.is_sealed:
        raise InvalidParameterValue("Only a sealed lane can go.")
    if moment.now < descent.draining + REQUEST_WINDOW:
        raise ServiceUnavailable("Somebody may still ask what became of a request. Retry in a minute.")
    return (Dropped(lane.lane),), DONE


def apply_inherited(lane: Lane, record: Inherited) -> None:
    assert lane.descent is not None, "it was founded"
    parent = lane.descent.parent(record.parent)
    assert parent is not None, "it was founded with this parent"
    parent.cursor, parent.is_complete = record.following, not record.following
    if record.last > lane.last_seq:
        lane.last_seq = record.last
        lane.backlog.skip(record.last)
