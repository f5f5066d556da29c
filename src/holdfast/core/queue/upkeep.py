"""What a shard does when time has passed: expiry by retention and time to live, move tasks. Also purge."""

from itertools import chain, islice

from holdfast.core.errors import PurgeQueueInProgress
from holdfast.core.limits import PURGE_INTERVAL, STRETCH_BITS, TICK_WORK
from holdfast.core.queue.command import DONE, Done, Need, Purge
from holdfast.core.queue.departures import Departures
from holdfast.core.queue.lane import Lane
from holdfast.core.queue.moment import Moment
from holdfast.core.queue.receive import put_away_if_due
from holdfast.core.queue.record import Purged, Record, Trimmed
from holdfast.core.queue.redrive import decide_task
from holdfast.core.queue.standard import Candidate
from holdfast.core.types import Header, Instant


def decide_upkeep(lane: Lane, moment: Moment, departures: Departures) -> list[Record] | Need:
    """At most TICK_WORK records; what is left waits for the next tick."""
    backlog, window = lane.backlog, lane.backlog.window
    is_stream_old = backlog.oldest() + lane.retention <= moment.now
    is_over = is_stream_old or backlog.deadline <= moment.now
    is_blind = is_over if window is None else is_stream_old and not window.size()
    if is_blind and (need := backlog.need()) is not None:
        return need
    records = _expire_leases(lane, moment, departures)
    records += _expire_aside(lane, moment, departures)
    if is_stream_old:
        records += _expire_stream(lane, moment, departures)
    records += _expire_by_deadline(lane, moment, departures)
    is_waiting = lane.descent is not None and lane.descent.is_waiting
    if not records and lane.tasks and lane.tasks[-1].is_active and not is_waiting:
        return decide_task(lane, moment, departures)
    return records


def has_chores(lane: Lane, now: Instant) -> bool:
    return bool(lane.overdue) or lane.next_expiry() <= now or (bool(lane.tasks) and lane.tasks[-1].is_active)


def _expire_leases(lane: Lane, moment: Moment, departures: Departures) -> list[Record]:
    records: list[Record] = []
    for seq in lane.overdue:
        lease = lane.leases[seq]
        record = put_away_if_due(lane, Candidate(lease.header(seq), lease), moment, departures)
        if record:
            records.append(record)
        if len(records) == TICK_WORK:
            break
    return records


def _expire_aside(lane: Lane, moment: Moment, departures: Departures) -> list[Record]:
    if lane.aside is None:
        return []
    found = islice(lane.aside.stale(moment.now - lane.retention), TICK_WORK)
    away = [put_away_if_due(lane, Candidate(header, None), moment, departures) for header in found]
    return [record for record in away if record]


def _expire_stream(lane: Lane, moment: Moment, departures: Departures) -> list[Record]:
    """The oldest messages in order, by whole ranges: one record for each stretch of the log."""
    window = lane.backlog.window
    assert window is not None, "the caller has looked"
    records: list[Record] = []
    run: list[Header] = []
    for header in chain(window.parked.values(), window.queue):
        is_over = header.time + lane.retention <= moment.now
        is_letter = 0 < header.deadline <= moment.now  # its own time ended first: it may be a dead letter
        if run and (is_letter or not is_over or header.at >> STRETCH_BITS != run[0].at >> STRETCH_BITS):
            records.append(_trimmed(lane, run))
            run = []
        away = put_away_if_due(lane, Candidate(header, None), moment, departures) if is_over and is_letter else None
        if not is_over or away is False:
            break
        if away is None:
            run.append(header)
        else:
            records.append(away)
    if run:
        records.append(_trimmed(lane, run))
    return records[:TICK_WORK]


def _trimmed(lane: Lane, run: list[Header]) -> Trimmed:
    size = sum(header.size for header in run)
    return Trimmed(lane.lane, run[-1].seq, run[0].at >> STRETCH_BITS, len(run), size)


def _expire_by_deadline(lane: Lane, moment: Moment, departures: Departures) -> list[Record]:
    """Loaded messages whose own time is over, also in the middle; the others when the cursor meets them."""
    records: list[Record] = []
    for header in lane.backlog.overdue(moment.now):
        if header.time + lane.retention > moment.now:  # else the whole range goes
            record = put_away_if_due(lane, Candidate(header, None), moment, departures)
            records += [record] if record else []
    return records


def decide_purge(lane: Lane, command: Purge, moment: Moment) -> tuple[tuple[Record, ...], Done]:
    if lane.config.is_strict and moment.now - lane.purged < PURGE_INTERVAL:
        raise PurgeQueueInProgress(f"Only one PurgeQueue operation on {command.name} is allowed every 60 seconds.")
    return (Purged(lane.lane, command.request.id if command.request is not None else b""),), DONE
