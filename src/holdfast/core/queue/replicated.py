"""The state of a shard as a function of its log: what every replica computes, live or in replay.

    begin(frame's stamp)     time moves on: leases and delays end
    apply(record)            changes state, chooses nothing, cannot fail

The live path, recovery and secondaries run the same code, so equal logs give equal states.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any

from holdfast.core.limits import ALARMS_STALE, MOVE_TASKS_KEPT
from holdfast.core.queue import record as r
from holdfast.core.queue.dedup import Dedup
from holdfast.core.queue.descent import Descent, Parent
from holdfast.core.queue.handout import add_all, hold_next, remove_all
from holdfast.core.queue.headers import header_of, plain_header
from holdfast.core.queue.heirs import apply_inherited
from holdfast.core.queue.lane import Lane
from holdfast.core.queue.lease import Attempt
from holdfast.core.queue.outbox import Inbox, Outbox, entry_of
from holdfast.core.queue.plain import SentAll
from holdfast.core.queue.record import NO_DIGEST
from holdfast.core.queue.requests import Requests
from holdfast.core.queue.task import Task, owner_of
from holdfast.core.queue.upkeep import has_chores
from holdfast.core.queue.wheel import NEVER
from holdfast.core.types import (
    Cause,
    Epoch,
    Header,
    Instant,
    LaneConfig,
    LaneId,
    Lsn,
    Seq,
    ShardId,
    WallMs,
    pack_address,
)
from holdfast.core.untouched import own


class Replicated:
    def __init__(self, shard: ShardId) -> None:
        self.shard = shard
        self.lsn = Lsn(0)  # last applied
        self.epoch = Epoch(0)
        self.now = Instant(0)
        self.wall = WallMs(0)
        self.lanes: dict[LaneId, Lane] = {}
        self.outboxes: dict[ShardId, Outbox] = {}
        self.inboxes: dict[ShardId, Inbox] = {}
        self.requests = Requests()
        # follows from the above
        self.stirred: dict[LaneId, None] = {}  # watched lanes where something may have become visible
        self.chores: dict[LaneId, None] = {}  # lanes that Tick has to look at
        self.windowed: dict[LaneId, None] = {}  # lanes that hold headers in memory, oldest use first
        self.asynchronous: dict[LaneId, Lsn] = {}  # lanes whose replies do not wait for members; since when
        self._alarms: list[tuple[Instant, LaneId]] = []
        self._config = LaneConfig()
        self._effects: dict[type, Callable[[Any], None]] = {
            r.Sent: self._apply_sent,
            r.Arrived: self._apply_arrived,
            r.Moved: self._apply_moved,
            r.Received: self._apply_received,
            r.Deleted: self._apply_deleted,
            r.Changed: self._apply_changed,
            r.Expired: self._apply_expired,
            r.Trimmed: self._apply_trimmed,
            r.Purged: self._apply_purged,
            r.Configured: self._apply_configured,
            r.Dropped: self._apply_dropped,
            r.Departed: self._apply_departed,
            r.Settled: self._apply_settled,
            r.Returned: self._apply_returned,
            r.Refused: lambda x: self.inboxes.setdefault(x.source, Inbox()).note(x.number, is_refused=True),
            r.TaskStarted: self._apply_started,
            r.TaskEnded: self._apply_ended,
            r.Founded: self._apply_founded,
            r.Draining: self._apply_draining,
            r.Inherited: self._apply_inherited,
            r.Sealed: lambda x: self._descent(x.lane).seal(),
            r.Opened: self._apply_opened,
        }

    # Time

    def begin(self, epoch: Epoch, now: Instant, wall: WallMs) -> None:
        """A frame starts, live or in replay: time moves to its stamp; leases and delays end."""
        self.epoch = epoch
        self.now = now
        self.wall = wall
        alarms = self._alarms
        while alarms and alarms[0][0] <= now:
            due, lane_id = heappop(alarms)
            lane = self.lanes.get(lane_id)
            if lane is None or lane.alarm != due:
                continue
            lane.alarm = NEVER
            lane.elapse(now)
            if has_chores(lane, now):
                self.chores[lane_id] = None
            self._stir(lane)
            self.set_alarm(lane)

    def deadline(self) -> Instant | None:
        """When time alone changes something that somebody may wait for."""
        return self._alarms[0][0] if self._alarms else None

    def set_alarm(self, lane: Lane) -> None:
        due = lane.next_event()
        if due <= self.now:  # a shortened retention, a delay of zero: nothing waits for the next frame
            lane.elapse(self.now)
            self._stir(lane)
            due = lane.next_event()
        if lane.overdue:
            self.chores[lane.lane] = None
        expiry = lane.next_expiry()
        if expiry <= self.now:
            self.chores[lane.lane] = None
        else:
            due = min(due, expiry)
        if lane.is_watched:
            due = min(due, lane.next_visible(self.now))
        if due < lane.alarm:
            lane.alarm = due
            heappush(self._alarms, (due, lane.lane))
            if len(self._alarms) > 2 * len(self.lanes) + ALARMS_STALE:
                self._alarms = [(each.alarm, each.lane) for each in self.lanes.values() if each.alarm != NEVER]
                heapify(self._alarms)

    def _stir(self, lane: Lane) -> None:
        if lane.is_watched:
            self.stirred[lane.lane] = None

    def watch(self, lane_id: LaneId, *, is_watched: bool) -> None:
        """Somebody waits for a message of this lane, or nobody does any more."""
        lane = self.lanes.get(lane_id)
        if lane is not None:
            lane.is_watched = is_watched
            self.set_alarm(lane)

    # Applying

    def apply(self, record: r.Record) -> None:
        self.lsn = Lsn(self.lsn + 1)
        self._effects[type(record)](record)

    def _apply_sent(self, record: r.Sent) -> None:
        lane, now = self.lanes[record.lane], self.now
        header = header_of(record, self.epoch, self.lsn, now)
        lane.add(header, now)
        if record.digest != NO_DIGEST:
            if lane.dedup is None:
                lane.dedup = Dedup()
            lane.dedup.add(record.digest, now, epoch=self.epoch, lsn=self.lsn, seq=record.seq)
        if record.request:
            self.requests.note_accepted(record.request, now, epoch=self.epoch, lsn=self.lsn, seq=record.seq)
        self._added(lane, header)

    def apply_plain(self, sent: SentAll) -> None:
        """As `apply` of each."""
        lane, epoch, now, before, sizes = self.lanes[sent.lane], self.epoch, self.now, self.lsn, sent.sizes
        count = len(sizes)
        self.lsn = Lsn(before + count)
        kept = lane.backlog.keeps(sent.first, Lsn(before + 1), self.lsn)  # of a deep lane none
        headers = [
            plain_header(Seq(sent.first + at), Lsn(before + 1 + at), epoch, sizes[at], now)
            for at in range(min(kept, count))
        ]
        last_seq = Seq(sent.first + count - 1)
        last = headers[-1] if kept >= count else plain_header(last_seq, self.lsn, epoch, sizes[-1], now)
        add_all(lane, headers, last, count=count, size=sum(sizes))
        self._added(lane, last)

    def _apply_arrived(self, record: r.Arrived) -> None:
        self.inboxes.setdefault(record.source, Inbox()).note(record.number, is_refused=False)
        lane = self.lanes[record.lane]
        header = header_of(record, self.epoch, self.lsn, self.now)
        lane.add(header, self.now)
        self._added(lane, header)

    def _added(self, lane: Lane, header: Header) -> None:
        if lane.is_watched:
            self.stirred[lane.lane] = None
        if lane.lane not in self.windowed:
            self.windowed[lane.lane] = None
        is_special = header.deadline or header.is_aside or header.time != self.now or lane.is_watched
        if is_special or lane.alarm > self.now + lane.retention:  # otherwise an older message has set an earlier one
            self.set_alarm(lane)

    def _apply_moved(self, record: r.Moved) -> None:
        old = record.header
        new = header_of(record, self.epoch, self.lsn, self.now)
        lane = self.lanes[record.lane]
        lease = lane.leases.get(old.seq)
        if lease is not None:
            lease.uncommon().at = new.at
        elif old.is_aside and lane.aside is not None:
            lane.aside.relocate(old, new.at)
        else:
            lane.backlog.relocate(old, new)

    def _apply_received(self, record: r.Received) -> None:
        lane = self.lanes[record.lane]
        attempt = record.attempt if record.attempt != NO_DIGEST else None
        now = self.now
        until = record.until if record.until > now else Instant(now + 1)  # zero seconds: released below
        if record.is_repeat:
            for seq in record.again:
                lane.hold_on(seq, until=until, now=now)
                if record.until <= now:
                    lane.change(seq, until=now, now=now)
            if record.request:
                self._note_handed(lane, record)
            self._stir(lane)
            self.set_alarm(lane)
            return
        if record.parked:
            lane.backlog.park(record.parked)
        if attempt is not None or not hold_next(lane, record.fresh, until=until, now=now, wall=record.wall):
            for header in record.fresh:
                lane.hold(header, until=until, now=now, wall=record.wall, attempt=attempt)
        for seq in record.again:
            lane.hold_again(seq, until=until, now=now, wall=record.wall, attempt=attempt)
        if attempt is not None:
            seqs = tuple(sorted([*(header.seq for header in record.fresh), *record.again]))
            lane.attempts = own(lane.attempts)
            lane.attempts.pop(attempt, None)
            lane.attempts[attempt] = Attempt(now, seqs)
        if record.request:
            self._note_handed(lane, record)
        if record.is_final or record.until <= now:
            for seq in (*(header.seq for header in record.fresh), *record.again):
                if record.is_final:
                    lane.remove_leased(seq, now)
                else:  # received with a visibility timeout of zero
                    lane.change(seq, until=now, now=now)
            self._stir(lane)
        if until < lane.alarm:
            self.set_alarm(lane)

    def _note_handed(self, lane: Lane, record: r.Received) -> None:
        if not record.is_final:
            seqs = sorted([*(header.seq for header in record.fresh), *record.again])  # the order of each group
            self.requests.note_handed(record.request, self.now, [(seq, lane.leases[seq].number) for seq in seqs])

    def _apply_deleted(self, record: r.Deleted) -> None:
        lane = self.lanes[record.lane]
        if not remove_all(lane, record.seqs):
            for seq in record.seqs:
                lane.remove_leased(seq, self.now)
        if lane.is_watched:
            self.stirred[lane.lane] = None

    def _apply_changed(self, record: r.Changed) -> None:
        lane = self.lanes[record.lane]
        lane.change(record.seq, until=record.until, now=self.now)
        if record.request:
            self.requests.note_done(record.request, self.now)
        self._stir(lane)
        self.set_alarm(lane)

    def _apply_expired(self, record: r.Expired) -> None:
        self.lanes[record.lane].expired += 1
        self._remove(record.lane, record.header, is_fresh=record.is_fresh)

    def _apply_trimmed(self, record: r.Trimmed) -> None:
        lane = self.lanes[record.lane]
        lane.backlog.trim(record.last, record.stretch, count=record.count, size=record.size)
        lane.count -= record.count
        lane.expired += record.count
        lane.bytes -= record.size
        self.set_alarm(lane)

    def _apply_purged(self, record: r.Purged) -> None:
        self.lanes[record.lane].purge(self.now)
        if record.request:
            self.requests.note_done(record.request, self.now)

    def _apply_configured(self, record: r.Configured) -> None:
        lane, config = self.lanes.get(record.lane), self.shared(record.config)
        if lane is None:
            lane = self.lanes[record.lane] = Lane(record.lane, config)
        else:
            lane.configure(config)
        self.note_mode(lane)
        self._stir(lane)
        self.set_alarm(lane)

    def shared(self, config: LaneConfig) -> LaneConfig:
        """Most lanes are configured alike: they share one object."""
        if config != self._config:
            self._config = config
        return self._config

    def note_mode(self, lane: Lane) -> None:
        if lane.config.is_async:
            self.asynchronous.setdefault(lane.lane, self.lsn)
        else:
            self.asynchronous.pop(lane.lane, None)

    def _apply_dropped(self, record: r.Dropped) -> None:
        lane = self.lanes.pop(record.lane)
        self.asynchronous.pop(record.lane, None)
        self.windowed.pop(record.lane, None)
        self._stir(lane)

    def _apply_departed(self, record: r.Departed) -> None:
        lane = self.lanes[record.lane]
        outbox = self.outboxes.setdefault(record.target.shard, Outbox())
        outbox.last = record.number
        outbox.entries[record.number] = entry_of(record, self.lsn, lane.config.kind)
        self._remove(record.lane, record.header, is_fresh=record.is_fresh)
        if record.cause is Cause.REDRIVE:
            lane.tasks[-1].departed += 1

    def _apply_settled(self, record: r.Settled) -> None:
        entry = self.outboxes[record.target].entries.pop(record.number)
        lane = self.lanes.get(entry.lane)
        if entry.cause is Cause.REDRIVE and lane is not None and (task := owner_of(lane.tasks, entry.lsn)):
            task.moved += 1

    def _apply_returned(self, record: r.Returned) -> None:
        entry = self.outboxes[record.target].entries.pop(record.number)
        lane = self.lanes.get(entry.lane)
        if lane is None:
            return
        if entry.cause is Cause.REDRIVE:
            if task := owner_of(lane.tasks, entry.lsn):
                task.departed -= 1
        else:
            lane.gone_target = pack_address(entry.target)
        lane.restore_leased(entry.header, entry.count, Cause.TARGET_GONE)
        self._stir(lane)
        self.set_alarm(lane)

    def _apply_started(self, record: r.TaskStarted) -> None:
        lane = self.lanes[record.lane]
        numbers = (record.rate, record.last, record.to_move, self.now, record.wall, self.lsn)
        task = Task(record.task, record.target, *numbers)
        lane.tasks = [*lane.tasks[1 - MOVE_TASKS_KEPT :], task]
        self.chores[record.lane] = None

    def _apply_ended(self, record: r.TaskEnded) -> None:
        task = self.lanes[record.lane].tasks[-1]
        task.state, task.failure = record.state, record.failure

    # Lanes that follow each other

    def _descent(self, lane_id: LaneId) -> Descent:
        lane = self.lanes[lane_id]
        if lane.descent is None:
            lane.descent = Descent()
        return lane.descent

    def _apply_founded(self, record: r.Founded) -> None:
        self._descent(record.lane).parents = [Parent(address) for address in record.parents]

    def _apply_draining(self, record: r.Draining) -> None:
        self._descent(record.lane).draining = self.now

    def _apply_inherited(self, record: r.Inherited) -> None:
        lane = self.lanes[record.lane]
        apply_inherited(lane, record)
        if record.rows:
            lane.dedup = lane.dedup or Dedup()
            lane.dedup.inherit(record.rows, self.now)
            self.set_alarm(lane)

    def _apply_opened(self, record: r.Opened) -> None:
        self._descent(record.lane).open(record.parent)
        self._stir(self.lanes[record.lane])

    def _remove(self, lane_id: LaneId, header: Header, *, is_fresh: bool) -> None:
        lane = self.lanes[lane_id]
        if is_fresh:
            lane.remove_fresh(header, self.now)
        else:
            lane.remove_leased(header.seq, self.now)
        self._stir(lane)
        self.set_alarm(lane)
