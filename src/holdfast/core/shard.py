"""The state machine of one shard: many lanes, one log.

    decide(command) ─▶ records, answer     reads state, changes nothing that is replicated
    apply(record)                          changes state, chooses nothing, cannot fail

The live path, recovery and secondaries run the same `begin` and `apply`; so the state is a function of the log.
"""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any

from holdfast.core import command as c
from holdfast.core import record as r
from holdfast.core import state
from holdfast.core.dedup import Dedup
from holdfast.core.errors import QueueDoesNotExist
from holdfast.core.handle import decide_change, decide_delete
from holdfast.core.lane import Lane
from holdfast.core.lease import Attempt
from holdfast.core.limits import MOVE_TASKS_KEPT, STRETCH_BITS, TICK_WORK, WINDOW_TOTAL
from holdfast.core.moment import Moment
from holdfast.core.outbox import Departures, Inbox, Outbox, entry_of
from holdfast.core.receive import decide_receive
from holdfast.core.redrive import (
    decide_arrive,
    decide_cancel,
    decide_compact,
    decide_settle,
    decide_start,
    status_of,
)
from holdfast.core.send import decide_send
from holdfast.core.task import Task
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
from holdfast.core.upkeep import decide_peek, decide_purge, decide_upkeep, has_chores
from holdfast.core.wheel import NEVER

Decision = tuple[tuple[r.Record, ...], c.Answer]


class Shard:
    def __init__(self, shard: ShardId) -> None:
        self.shard = shard
        # replicated
        self.lsn = Lsn(0)  # last applied
        self.epoch = Epoch(0)
        self.now = Instant(0)
        self.wall = WallMs(0)
        self.lanes: dict[LaneId, Lane] = {}
        self.outboxes: dict[ShardId, Outbox] = {}
        self.inboxes: dict[ShardId, Inbox] = {}
        # derived or cached
        self.stirred: dict[LaneId, None] = {}  # watched lanes where something may have become visible
        self.chores: dict[LaneId, None] = {}  # lanes that Tick has to look at
        self._config = LaneConfig()
        self._departures = Departures(self.outboxes)
        self._alarms: list[tuple[Instant, LaneId]] = []
        self._windows: dict[LaneId, None] = {}  # lanes that loaded a window, oldest use first
        self._found: dict[LaneId, dict[Seq, Header | None]] = {}  # single headers looked up for `handle`
        self._rules: dict[type, Callable[[Any, Moment], Decision | c.Need]] = {
            c.Send: self._send,
            c.Receive: self._receive,
            c.Delete: lambda x, _: decide_delete(self._lane(x.lane), x, self._found.pop(x.lane, {})),
            c.ChangeVisibility: lambda x, m: decide_change(self._lane(x.lane), x, m),
            c.Purge: lambda x, m: decide_purge(self._lane(x.lane), x, m),
            c.Configure: self._configure,
            c.Drop: lambda x, _: ((r.Dropped(self._lane(x.lane).lane),), c.DONE),
            c.Tick: self._tick,
            c.Peek: lambda x, m: decide_peek(self._lane(x.lane), x, m),
            c.Count: lambda x, _: ((), self._lane(x.lane).counts()),
            c.StartMove: lambda x, m: decide_start(self._lane(x.lane), x, m),
            c.CancelMove: lambda x, _: decide_cancel(self._lane(x.lane), x),
            c.ListMoves: lambda x, _: (
                (),
                c.MovesReply(tuple(map(status_of, self._lane(x.lane).tasks[::-1]))),
            ),
            c.Arrive: lambda x, m: decide_arrive(self.shard, self.lanes, self.inboxes, x, m),
            c.Settle: lambda x, _: decide_settle(self.lanes, self.outboxes, x, self._departures.begin()),
            c.Compact: lambda x, _: decide_compact(x, self.is_alive),
        }
        self._effects: dict[type, Callable[[Any], None]] = {
            r.Sent: self._apply_sent,
            r.Arrived: self._apply_arrived,
            r.Moved: self._apply_moved,
            r.Received: self._apply_received,
            r.Deleted: self._apply_deleted,
            r.Changed: self._apply_changed,
            r.Expired: self._apply_expired,
            r.Trimmed: self._apply_trimmed,
            r.Purged: lambda x: self.lanes[x.lane].purge(self.now),
            r.Configured: self._apply_configured,
            r.Dropped: self._apply_dropped,
            r.Departed: self._apply_departed,
            r.Settled: self._apply_settled,
            r.Returned: self._apply_returned,
            r.Refused: lambda x: self.inboxes.setdefault(x.source, Inbox()).note(x.number, is_refused=True),
            r.TaskStarted: self._apply_started,
            r.TaskEnded: self._apply_ended,
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
            self._set_alarm(lane)

    def deadline(self) -> Instant | None:
        """When time alone changes something that somebody may wait for."""
        return self._alarms[0][0] if self._alarms else None

    def _set_alarm(self, lane: Lane) -> None:
        due = lane.next_due()
        if due <= self.now:  # overdue work is Tick's; look again with the next frame after it
            self.chores[lane.lane] = None
            due = NEVER
        if lane.is_watched:
            due = min(due, max(lane.next_visible(), Instant(self.now + 1)))
        if due < lane.alarm:
            lane.alarm = due
            heappush(self._alarms, (due, lane.lane))

    def _stir(self, lane: Lane) -> None:
        if lane.is_watched:
            self.stirred[lane.lane] = None

    def watch(self, lane_id: LaneId, *, is_watched: bool) -> None:
        """Somebody waits for a message of this lane, or nobody does any more."""
        lane = self.lanes.get(lane_id)
        if lane is not None:
            lane.is_watched = is_watched
            self._set_alarm(lane)

    # Deciding

    def decide(self, command: c.Command, committed: Lsn) -> Decision | c.Need:
        moment = Moment(self.epoch, Lsn(self.lsn + 1), self.now, self.wall, committed)
        return self._rules[type(command)](command, moment)

    def _lane(self, lane_id: LaneId) -> Lane:
        lane = self.lanes.get(lane_id)
        if lane is None:
            raise QueueDoesNotExist
        return lane

    def _send(self, command: c.Send, moment: Moment) -> Decision:
        lane = self.lanes.get(command.lane)
        if lane is None:
            raise QueueDoesNotExist
        return decide_send(lane, command, moment, self._departures.begin())

    def _receive(self, command: c.Receive, moment: Moment) -> Decision | c.Need:
        lane = self.lanes.get(command.lane)
        if lane is None:
            raise QueueDoesNotExist
        return decide_receive(lane, command, moment, self._departures.begin())

    def _configure(self, command: c.Configure, _: Moment) -> Decision:
        lane = self.lanes.get(command.lane)
        if lane is not None and lane.config == command.config:
            return (), c.DONE
        return (r.Configured(command.lane, command.config),), c.DONE

    def _tick(self, _: c.Tick, moment: Moment) -> Decision | c.Need:
        records: list[r.Record] = []
        departures = self._departures.begin()
        for lane_id in list(self.chores):
            lane = self.lanes.get(lane_id)
            work = decide_upkeep(lane, moment, departures) if lane is not None else []
            if isinstance(work, c.Need):
                if not records:
                    return work
                break
            records += work
            if len(records) >= TICK_WORK:
                break
            if lane is None or not (work or has_chores(lane, moment.now)):
                del self.chores[lane_id]
        return tuple(records), c.DONE

    # Applying

    def apply(self, record: r.Record) -> None:
        self.lsn = Lsn(self.lsn + 1)
        self._effects[type(record)](record)

    def _apply_sent(self, record: r.Sent) -> None:
        lane = self.lanes[record.lane]
        header = r.header_of(record, self.epoch, self.lsn, self.now)
        lane.add(header, self.now)
        if record.digest != r.NO_DIGEST:
            if lane.dedup is None:
                lane.dedup = Dedup()
            lane.dedup.add(record.digest, self.now, epoch=self.epoch, lsn=self.lsn, seq=record.seq)
        self._added(lane, header)

    def _apply_arrived(self, record: r.Arrived) -> None:
        self.inboxes.setdefault(record.source, Inbox()).note(record.number, is_refused=False)
        lane = self.lanes[record.lane]
        header = r.header_of(record, self.epoch, self.lsn, self.now)
        lane.add(header, self.now)
        self._added(lane, header)

    def _added(self, lane: Lane, header: Header) -> None:
        if lane.is_watched:
            self.stirred[lane.lane] = None
        expiry = lane.expiry(header.time, header.deadline)
        due = min(expiry, header.visible_at) if header.is_aside else expiry
        if due < lane.alarm or (lane.is_watched and header.visible_at > self.now):
            self._set_alarm(lane)

    def _apply_moved(self, record: r.Moved) -> None:
        old = record.header
        new = r.header_of(record, self.epoch, self.lsn, self.now)
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
        attempt = record.attempt if record.attempt != r.NO_DIGEST else None
        until, now = record.until, self.now
        if record.is_repeat:
            for seq in record.again:
                lane.hold_on(seq, until=until, now=now)
            self._set_alarm(lane)
            return
        if record.parked:
            lane.backlog.park(record.parked)
        for header in record.fresh:
            lane.hold(header, until=until, now=now, wall=record.wall, attempt=attempt)
        for seq in record.again:
            lane.hold_again(seq, until=until, now=now, wall=record.wall, attempt=attempt)
        if attempt is not None:
            seqs = (*(header.seq for header in record.fresh), *record.again)
            lane.attempts = own(lane.attempts)
            lane.attempts.pop(attempt, None)
            lane.attempts[attempt] = Attempt(now, seqs)
        if record.is_final:
            for seq in (*(header.seq for header in record.fresh), *record.again):
                lane.remove_leased(seq, now)
        if until < lane.alarm:
            self._set_alarm(lane)

    def _apply_deleted(self, record: r.Deleted) -> None:
        lane = self.lanes[record.lane]
        lane.remove_leased(record.seq, self.now)
        if lane.is_watched:
            self.stirred[lane.lane] = None

    def _apply_changed(self, record: r.Changed) -> None:
        lane = self.lanes[record.lane]
        lane.change(record.seq, until=record.until, now=self.now)
        self._stir(lane)
        self._set_alarm(lane)

    def _apply_expired(self, record: r.Expired) -> None:
        self._remove(record.lane, record.header, is_fresh=record.is_fresh)

    def _apply_trimmed(self, record: r.Trimmed) -> None:
        lane = self.lanes[record.lane]
        lane.backlog.trim(record.last, record.stretch, count=record.count, size=record.size)
        lane.count -= record.count
        lane.bytes -= record.size
        self._set_alarm(lane)

    def _apply_configured(self, record: r.Configured) -> None:
        lane = self.lanes.get(record.lane)
        if record.config == self._config:  # most lanes are configured alike: they share one object
            config = self._config
        else:
            config = self._config = record.config
        if lane is None:
            lane = self.lanes[record.lane] = Lane(record.lane, config)
        else:
            lane.configure(config)
        self._stir(lane)
        self._set_alarm(lane)

    def _apply_dropped(self, record: r.Dropped) -> None:
        del self.lanes[record.lane]
        self._windows.pop(record.lane, None)

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
        if entry.cause is Cause.REDRIVE and lane is not None and lane.tasks:
            lane.tasks[-1].moved += 1

    def _apply_returned(self, record: r.Returned) -> None:
        entry = self.outboxes[record.target].entries.pop(record.number)
        lane = self.lanes.get(entry.lane)
        if lane is None:
            return
        if entry.cause is Cause.REDRIVE and lane.tasks:
            lane.tasks[-1].departed -= 1
        else:
            lane.gone_target = pack_address(entry.target)
        lane.restore_leased(entry.header, entry.count, Cause.TARGET_GONE)
        self._stir(lane)
        self._set_alarm(lane)

    def _apply_started(self, record: r.TaskStarted) -> None:
        lane = self.lanes[record.lane]
        task = Task(record.task, record.target, record.rate, record.last, record.to_move, self.now, record.wall)
        lane.tasks = [*lane.tasks[1 - MOVE_TASKS_KEPT :], task]
        self.chores[record.lane] = None

    def _apply_ended(self, record: r.TaskEnded) -> None:
        task = self.lanes[record.lane].tasks[-1]
        task.state, task.failure = record.state, record.failure

    def _remove(self, lane_id: LaneId, header: Header, *, is_fresh: bool) -> None:
        lane = self.lanes[lane_id]
        if is_fresh:
            lane.remove_fresh(header)
        else:
            lane.remove_leased(header.seq, self.now)
        self._stir(lane)
        self._set_alarm(lane)

    # Headers that are not in memory

    def load(self, need: c.Need, headers: Sequence[Header], upto: Seq) -> None:
        """Answers a Need: every message of the lane with seq in [need.first, upto] is among `headers`, in order."""
        lane = self.lanes.get(need.lane)
        if lane is None:
            return
        if need.count_max == 1:
            self._found[need.lane] = {need.first: headers[0] if headers else None}
            return
        self._windows.pop(need.lane, None)
        self._windows[need.lane] = None
        while self._loaded() > WINDOW_TOTAL and len(self._windows) > 1:
            other = next(iter(self._windows))
            del self._windows[other]
            self.lanes[other].backlog.window = None
        lane.backlog.load(need, headers, upto)
        self._set_alarm(lane)

    def _loaded(self) -> int:
        total = 0
        for lane_id in self._windows:
            window = self.lanes[lane_id].backlog.window
            total += window.size() if window is not None else 0
        return total

    # For compaction and snapshots

    @property
    def live(self) -> dict[int, int]:
        """Stretch of the log → bytes of living messages there. O(leases + stretches)."""
        live: dict[int, int] = {}
        for lane in self.lanes.values():
            for stretch, size in lane.backlog.bytes_at.items():
                live[stretch] = live.get(stretch, 0) + size
            for at, size in lane.bytes_by_stretch():
                live[at >> STRETCH_BITS] = live.get(at >> STRETCH_BITS, 0) + size
        for outbox in self.outboxes.values():
            for entry in outbox.entries.values():
                stretch = entry.header.at >> STRETCH_BITS
                live[stretch] = live.get(stretch, 0) + entry.header.size
        return live

    def is_alive(self, lane_id: LaneId, header: Header) -> bool:
        """Is this message, found in a segment's index, still alive and are these its current bytes?"""
        lane = self.lanes.get(lane_id)
        if lane is None:
            return False
        lease = lane.leases.get(header.seq)
        if lease is not None:
            return lease.at == header.at and lease.lsn == header.lsn
        if header.is_aside:
            waiting = lane.aside.find(header.seq, header.visible_at) if lane.aside is not None else None
            return waiting is not None and waiting.at == header.at
        return lane.backlog.has(header.seq) and header.at >= lane.backlog.hint_of(header.seq)

    def dump(self) -> bytes:
        lanes = [state.dump_lane(self.lanes[lane], self.now) for lane in sorted(self.lanes)]
        outboxes = state.dump_boxes(self.outboxes)
        inboxes = state.dump_inboxes(self.inboxes)
        numbers = (state.VERSION, self.shard, self.lsn, self.epoch, self.now, self.wall)
        return state.encode(state.ShardState(*numbers, lanes, outboxes, inboxes))

    @classmethod
    def restore(cls, data: bytes) -> "Shard":
        stored = state.decode(data)
        shard = cls(ShardId(stored.shard))
        shard.lsn, shard.epoch = Lsn(stored.lsn), Epoch(stored.epoch)
        shard.now, shard.wall = Instant(stored.now), WallMs(stored.wall)
        shard.outboxes.update(state.restore_boxes(stored.outboxes))
        shard.inboxes = state.restore_inboxes(stored.inboxes)
        for lane_state in stored.lanes:
            lane = state.restore_lane(lane_state, shard.now)
            shard.lanes[lane.lane] = lane
            shard._set_alarm(lane)
            if lane.tasks and lane.tasks[-1].is_active:
                shard.chores[lane.lane] = None
        return shard
