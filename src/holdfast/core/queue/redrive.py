"""Move tasks, arrivals from other lanes, the answers to departures, and compaction's second copies."""

from collections.abc import Callable
from typing import Final

from holdfast.core.errors import InvalidParameterValue, ResourceNotFoundException, ServiceUnavailable
from holdfast.core.limits import TICK_WORK
from holdfast.core.queue.command import (
    DONE,
    Arrive,
    ArriveReply,
    CancelMove,
    Compact,
    Done,
    MoveStatus,
    Need,
    Settle,
    StartMove,
)
from holdfast.core.queue.departures import Departures
from holdfast.core.queue.headers import copy_of
from holdfast.core.queue.lane import Lane
from holdfast.core.queue.moment import Moment
from holdfast.core.queue.outbox import Entry, Inbox, Outbox, dead_letter_target
from holdfast.core.queue.receive import candidates, put_away_if_due, put_back
from holdfast.core.queue.record import NO_DIGEST, Arrived, Record, Refused, Returned, Settled, TaskEnded, TaskStarted
from holdfast.core.queue.standard import Candidate
from holdfast.core.queue.task import CANCELLED, CANCELLING, COMPLETED, FAILED, RUNNING, Task, owner_of
from holdfast.core.types import Address, Cause, Group, Header, LaneId, Seq, ShardId, unpack_address

NO_TASK: Final = "Task does not exist."
GONE: Final = "AWS.SimpleQueueService.NonExistentQueue"
NO_ORIGIN: Final = "CouldNotDetermineMessageSource"


def decide_start(lane: Lane, command: StartMove, moment: Moment) -> tuple[tuple[Record, ...], MoveStatus]:
    if any(task.is_active for task in lane.tasks):
        raise InvalidParameterValue(
            "There is already a task running. Only one active task is allowed for a source queue arn at a given time."
        )
    to_move = lane.counts(moment.now).visible
    started = TaskStarted(lane.lane, command.task, command.target, command.rate, lane.last_seq, to_move, moment.wall)
    status = MoveStatus(command.task, RUNNING, command.target, command.rate, 0, to_move, "", moment.wall)
    return (started,), status


def decide_cancel(lane: Lane, command: CancelMove) -> tuple[tuple[Record, ...], MoveStatus]:
    for task in lane.tasks:
        if task.task == command.task and task.state == RUNNING:
            return (TaskEnded(lane.lane, CANCELLING, ""),), status_of(task)
    raise ResourceNotFoundException(NO_TASK)


def status_of(task: Task) -> MoveStatus:
    return MoveStatus(task.task, task.state, task.target, task.rate, task.moved, task.to_move, task.failure, task.wall)


def decide_task(lane: Lane, moment: Moment, departures: Departures) -> list[Record] | Need:
    """What the lane's running task does now."""
    task = lane.tasks[-1]
    if task.state == CANCELLING:
        return [TaskEnded(lane.lane, CANCELLED, "")] if task.moved == task.departed else []
    allowance = min(task.allowance(moment.now), TICK_WORK)
    if not allowance:
        return []
    records: list[Record] = []
    found = candidates(lane, moment)
    for candidate in found:
        if isinstance(candidate, Need):
            if candidate.first <= task.last:
                return records or candidate
        elif candidate.header.seq <= task.last:  # later ones are passed over
            record = _move(lane, candidate, moment, departures)
            records += [record] if record is not None else []
            if record is None or len(records) == allowance or isinstance(record, TaskEnded):
                break
    else:
        is_over = not records and task.moved == task.departed
        if is_over and not (lane.is_fifo and _has_waiting(lane, task.last)):
            return [TaskEnded(lane.lane, COMPLETED, "")]
    put_back(found)
    return records


def _has_waiting(lane: Lane, last: Seq) -> bool:
    """FIFO: messages that are not in flight themselves, behind one of their group that is. O(leases) if there are."""
    if lane.backlog.count and lane.backlog.floor() <= last:
        return True
    return len(lane.leases) > lane.in_flight and any(
        seq <= last and not lease.until for seq, lease in lane.leases.items()
    )


def _move(lane: Lane, candidate: Candidate, moment: Moment, departures: Departures) -> Record | None:
    """None: too many are on their way already."""
    header = candidate.header
    if lane.expiry(header.time, header.deadline) <= moment.now:
        return put_away_if_due(lane, candidate, moment, departures) or None
    target = lane.tasks[-1].target or (unpack_address(header.origin) if header.origin else None)
    if target is None:
        return TaskEnded(lane.lane, FAILED, NO_ORIGIN)
    lease = candidate.lease
    count = header.count + (lease.number if lease is not None else 0)  # should it come back
    return departures.depart(lane.lane, header, count=count, is_fresh=lease is None, target=target, cause=Cause.REDRIVE)


def decide_arrive(
    shard: ShardId, lanes: dict[LaneId, Lane], inboxes: dict[ShardId, Inbox], command: Arrive, moment: Moment
) -> tuple[tuple[Record, ...], ArriveReply]:
    handover = command.handover
    inbox = inboxes.get(handover.source) or Inbox()
    number = handover.number
    if number <= inbox.last:
        return (), ArriveReply(shard, number, number in inbox.refused)
    if number != inbox.last + 1:
        raise ServiceUnavailable(f"hand-over {number} came before {inbox.last + 1}")
    lane = lanes.get(handover.lane)
    if lane is not None and lane.descent is not None and not lane.descent.is_sealed and not lane.descent.is_ready:
        raise ServiceUnavailable(f"lane {handover.lane} is not ready yet")
    if lane is None or (lane.descent is not None and lane.descent.is_sealed):
        return (Refused(handover.source, number),), ArriveReply(shard, number, True)
    arrived = Arrived(
        lane=handover.lane,
        seq=Seq(lane.last_seq + 1),
        group=Group(handover.group),
        size=handover.size,
        age=handover.age,
        time_left=handover.time_left,
        count=handover.count,
        origin=handover.origin,
        cause=handover.cause,
        source=handover.source,
        number=number,
        wall=handover.wall or moment.wall,
        message_id=handover.message_id or NO_DIGEST,
        content=handover.content,
    )
    return (arrived,), ArriveReply(shard, number, False)


def decide_settle(
    lanes: dict[LaneId, Lane], outboxes: dict[ShardId, Outbox], command: Settle, departures: Departures
) -> tuple[tuple[Record, ...], Done]:
    outbox = outboxes.get(command.target)
    entry = outbox.entries.get(command.number) if outbox is not None else None
    if entry is None:
        return (), DONE
    if not command.is_refused:
        return (Settled(command.target, command.number),), DONE
    lane = lanes.get(entry.lane)
    is_first = outbox is not None and command.number == next(iter(outbox.entries))
    if lane is not None and lane.is_fifo and command.instead is not None and not is_first:
        return (), DONE  # its turn comes: what goes elsewhere goes in order
    records: list[Record] = [Returned(command.target, command.number)]
    if lane is not None:
        records += _redirect(lane, entry, departures, command.instead) or _after_return(lane, entry, departures)
    return tuple(records), DONE


def _redirect(lane: Lane, entry: Entry, departures: Departures, instead: Address | None) -> list[Record]:
    """The target has heirs: the message leaves once more, for one of them."""
    if instead is None or instead == entry.target:
        return []
    departed = departures.depart(
        lane.lane, entry.header, count=entry.count, is_fresh=False, target=instead, cause=entry.cause
    )
    return [departed] if departed is not None else []


def _after_return(lane: Lane, entry: Entry, departures: Departures) -> list[Record]:
    """The target is gone: the task fails; the message goes to another dead-letter queue if it has one."""
    records: list[Record] = []
    owner = owner_of(lane.tasks, entry.lsn) if entry.cause is Cause.REDRIVE else None
    if owner is not None and owner.is_active:
        records.append(TaskEnded(lane.lane, FAILED, GONE))
    other = dead_letter_target(lane.config, lane.gone_target)
    if other is not None and other != entry.target:
        departed = departures.depart(
            lane.lane, entry.header, count=entry.count, is_fresh=False, target=other, cause=Cause.TARGET_GONE
        )
        records += [departed] if departed is not None else []
    return records


def decide_compact(command: Compact, is_alive: Callable[[LaneId, Header], bool]) -> tuple[tuple[Record, ...], Done]:
    """Second copies of the messages that are still alive where they were."""
    moved: list[Record] = []
    for header, message in command.messages:
        if is_alive(message.lane, header):
            moved.append(copy_of(header, message))
    return tuple(moved), DONE
