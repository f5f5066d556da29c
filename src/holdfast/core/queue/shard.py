"""A shard: many lanes, one log. `decide` says what a command does; `apply` (replicated.py) does it.

decide(command) ─▶ records, answer     reads state, changes nothing that is replicated; a refusal is raised
                ─▶ Need                headers are not in memory: `load` them and ask again
"""

from collections.abc import Callable, Sequence
from typing import Any

from holdfast.core.errors import InvalidAttributeValue, QueueDoesNotExist
from holdfast.core.limits import LANE_WEIGHT, STRETCH_BITS, TICK_WORK, WINDOW_TOTAL
from holdfast.core.queue import command as c
from holdfast.core.queue import heirs, state
from holdfast.core.queue import record as r
from holdfast.core.queue.columns import AcceptedAll, DeleteAll, SendAll
from holdfast.core.queue.departures import Departures
from holdfast.core.queue.handle import decide_change, decide_delete, decide_delete_all, decide_deletes
from holdfast.core.queue.lane import Lane
from holdfast.core.queue.moment import Moment
from holdfast.core.queue.peek import Looks
from holdfast.core.queue.plain import SentAll
from holdfast.core.queue.receive import decide_receive, delivery_again
from holdfast.core.queue.redrive import (
    decide_arrive,
    decide_cancel,
    decide_compact,
    decide_settle,
    decide_start,
    status_of,
)
from holdfast.core.queue.replicated import Replicated
from holdfast.core.queue.requests import Requests
from holdfast.core.queue.send import decide_send, decide_sends
from holdfast.core.queue.upkeep import decide_purge, decide_upkeep, has_chores
from holdfast.core.types import Epoch, Header, Instant, LaneId, Lsn, Seq, ShardId, WallMs

Decision = tuple[tuple[r.Record, ...], c.Answer]


class Shard(Replicated):
    def __init__(self, shard: ShardId) -> None:
        super().__init__(shard)
        self._departures = Departures(self.outboxes)
        self._found: dict[LaneId, dict[Seq, Header | None]] = {}  # single headers looked up for `handle`
        self._looks = Looks()
        self._moment = Moment()
        self._rules: dict[type, Callable[[Any, Moment], Decision | c.Need]] = {
            c.Send: self._send,
            c.Receive: self._receive,
            c.Watch: self._watch,
            c.Delete: lambda x, _: decide_delete(self._lane(x.lane), x, self._found.pop(x.lane, {})),
            c.ChangeVisibility: lambda x, m: self._done_before(x, m) or decide_change(self._lane(x.lane), x, m),
            c.Purge: lambda x, m: self._done_before(x, m) or decide_purge(self._lane(x.lane), x, m),
            c.Configure: self._configure,
            c.Drop: lambda x, _: ((r.Dropped(self._lane(x.lane).lane),), c.DONE),
            c.Tick: self._tick,
            c.Peek: lambda x, m: self._looks.decide(self._lane(x.lane), x, m),
            c.Count: lambda x, m: ((), self._lane(x.lane).counts(m.now)),
            c.StartMove: lambda x, m: decide_start(self._lane(x.lane), x, m),
            c.CancelMove: lambda x, _: decide_cancel(self._lane(x.lane), x),
            c.ListMoves: lambda x, _: (
                (),
                c.MovesReply(tuple(map(status_of, self._lane(x.lane).tasks[::-1]))),
            ),
            c.Arrive: lambda x, m: decide_arrive(self.shard, self.lanes, self.inboxes, x, m),
            c.Settle: lambda x, _: decide_settle(self.lanes, self.outboxes, x, self._departures.begin()),
            c.Compact: lambda x, _: decide_compact(x, self.is_alive),
            c.Found: lambda x, _: heirs.decide_found(self._lane(x.lane), x),
            c.Drain: lambda x, _: heirs.decide_drain(self._lane(x.lane), x),
            c.Bequeath: lambda x, m: heirs.decide_bequeath(self._lane(x.lane), x, m, self.shard),
            c.Inherit: lambda x, _: heirs.decide_inherit(self._lane(x.lane), x),
            c.Seal: lambda x, m: heirs.decide_seal(self._lane(x.lane), x, m, self.outboxes.values()),
            c.Open: lambda x, _: heirs.decide_open(self._lane(x.lane), x),
            c.Retire: lambda x, m: heirs.decide_retire(self._lane(x.lane), x, m),
        }

    # Deciding

    def decide(self, command: c.Command, committed: Lsn) -> Decision | c.Need:
        return self._rules[type(command)](command, self._now(committed))

    def _now(self, committed: Lsn) -> Moment:
        moment = self._moment
        moment.epoch, moment.lsn, moment.now, moment.wall = self.epoch, Lsn(self.lsn + 1), self.now, self.wall
        moment.committed = committed
        return moment

    def _lane(self, lane_id: LaneId) -> Lane:
        lane = self.lanes.get(lane_id)
        if lane is None:
            raise QueueDoesNotExist
        return lane

    def _done_before(self, command: c.Send | c.ChangeVisibility | c.Purge, moment: Moment) -> Decision | None:
        """The first answer, if this request was carried out already."""
        known = self.requests.find(command.request, moment.now) if command.request is not None else None
        return None if known is None or isinstance(known, list) else ((), known)

    def _send(self, command: c.Send, moment: Moment) -> Decision:
        lane = self.lanes.get(command.lane)
        if lane is None:
            raise QueueDoesNotExist
        if command.request is not None and (before := self._done_before(command, moment)) is not None:
            return before
        return decide_send(lane, command, moment, self._departures.begin())

    def _receive(self, command: c.Receive, moment: Moment) -> Decision | c.Need:
        lane = self.lanes.get(command.lane)
        if lane is None:
            raise QueueDoesNotExist
        if command.request is not None and (handed := self.requests.find(command.request, moment.now)) is not None:
            again = delivery_again(lane, handed) if isinstance(handed, list) else None
            if again is not None:
                return (), again
        return decide_receive(lane, command, moment, self._departures.begin())

    def _watch(self, command: c.Watch, moment: Moment) -> Decision | c.Need:
        """A receive that is decided and not carried out."""
        lane = self._lane(command.lane)
        decided = decide_receive(lane, c.Receive(command.lane), moment, self._departures.begin())
        if isinstance(decided, c.Need):
            return decided
        found = len(decided[1].messages)
        return (), c.Watched(max(found, lane.counts(moment.now).visible)) if found else c.NOTHING_VISIBLE

    def decide_deletes(self, commands: Sequence[c.Command]) -> tuple[tuple[r.Record, ...], list[c.Outcome | None]]:
        """Those of a batch that can be decided together; None stands for the others."""
        lane = self.lanes.get(getattr(commands[0], "lane", LaneId(0)))
        return decide_deletes(lane, commands) if lane is not None else ((), [None for _ in commands])

    def decide_delete_all(self, deletes: DeleteAll) -> r.Deleted | None:
        """None: they have to be decided one by one."""
        lane = self.lanes.get(deletes.lane)
        return decide_delete_all(lane, deletes.receipts) if lane is not None else None

    def decide_sends(self, sends: SendAll, committed: Lsn) -> tuple[SentAll, AcceptedAll] | None:
        """All of them, to be applied by `apply_plain`; None: they have to be decided one by one."""
        lane = self.lanes.get(sends.lane)
        return decide_sends(lane, sends, self._now(committed)) if lane is not None else None

    def _configure(self, command: c.Configure, _: Moment) -> Decision:
        lane = self._lane(command.lane) if command.is_known else self.lanes.get(command.lane)
        if lane is not None and lane.config == command.config:
            return (), c.DONE
        if lane is not None and lane.config.kind is not command.config.kind:
            text = "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported."
            raise InvalidAttributeValue(text)
        return (r.Configured(command.lane, command.config),), c.DONE

    def _tick(self, _: c.Tick, moment: Moment) -> Decision | c.Need:
        records: list[r.Record] = []
        departures = self._departures.begin()
        self._shed()
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
                if lane is not None:
                    self.set_alarm(lane)  # what was due is gone; the next may be due later
        return tuple(records), c.DONE

    def has_expired(self) -> bool:
        """Does a tick that has just written leave messages whose time is over? O(lanes with chores)."""
        lanes = (self.lanes.get(lane_id) for lane_id in self.chores)
        return any(lane is not None and (lane.overdue or lane.next_expiry() <= self.now) for lane in lanes)

    # Headers that are not in memory

    def load(self, need: c.Need, headers: Sequence[Header], upto: Seq) -> None:
        """Answers a Need: every message of the lane with seq in [need.first, upto] is among `headers`, in order."""
        lane = self.lanes.get(need.lane)
        if lane is None:
            return
        if need.is_look:
            self._looks.load(need, headers, upto)
            return
        if need.count_max == 1 and need.lsn != lane.backlog.hint_of(need.first):
            return  # its bytes have moved since this was asked
        if need.count_max == 1:
            self._found[need.lane] = {need.first: headers[0] if headers else None}
            return
        self.windowed.pop(need.lane, None)
        lane.backlog.load(need, headers, upto)
        self._shed()
        self.windowed[need.lane] = None
        self.set_alarm(lane)

    def _shed(self) -> None:
        """Windows are a cache: those of empty lanes go, and the longest unused ones when all together are too large.

        An empty window of a lane with a backlog stays: it knows how far it has looked.
        """
        sizes: dict[LaneId, int] = {}
        for lane_id in list(self.windowed):
            backlog = self.lanes[lane_id].backlog
            sizes[lane_id] = backlog.window.size() if backlog.window is not None else 0
            if not sizes[lane_id] and not backlog.count:
                self._drop_window(lane_id)
        excess = sum(sizes.values()) - WINDOW_TOTAL
        for lane_id, size in sizes.items():
            if excess > 0 and size:
                self._drop_window(lane_id)
                excess -= size

    def _drop_window(self, lane_id: LaneId) -> None:
        self.lanes[lane_id].backlog.window = None
        del self.windowed[lane_id]

    # For compaction and snapshots

    @property
    def live(self) -> dict[int, int]:
        """Stretch of the log → bytes of living messages there. O(leases + stretches)."""
        live: dict[int, int] = {}
        for lane in self.lanes.values():
            for stretch, size in lane.backlog.bytes_at.items():
                live[stretch] = live.get(stretch, 0) + size
            apart = [*lane.leases.values(), *(lane.aside.all() if lane.aside is not None else ())]
            for message in apart:
                stretch = message.at >> STRETCH_BITS
                live[stretch] = live.get(stretch, 0) + message.size
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
            waiting = lane.aside.find(header) if lane.aside is not None else None
            return waiting is not None and waiting.at == header.at
        return lane.backlog.has(header.seq) and header.at >= lane.backlog.hint_of(header.seq)

    def weight(self, enough: int) -> int:
        """How long `dump` takes, in messages and ids that it writes. Counting ends beyond `enough`."""
        leaving = sum(len(box.entries) for box in self.outboxes.values())
        total = len(self.requests) + leaving + len(self.lanes) * LANE_WEIGHT
        lanes = iter(self.lanes.values())
        while total <= enough and (lane := next(lanes, None)) is not None:
            total += state.weigh_lane(lane)
        return total

    def dump(self) -> bytes:
        lanes = [state.dump_lane(self.lanes[lane], self.now) for lane in sorted(self.lanes)]
        outboxes = state.dump_boxes(self.outboxes)
        inboxes = state.dump_inboxes(self.inboxes)
        numbers = (state.VERSION, self.shard, self.lsn, self.epoch, self.now, self.wall)
        return state.encode(state.ShardState(*numbers, lanes, outboxes, inboxes, *self.requests.dump(self.now)))

    @classmethod
    def restore(cls, data: bytes) -> "Shard":
        stored = state.decode(data)
        shard = cls(ShardId(stored.shard))
        shard.lsn, shard.epoch = Lsn(stored.lsn), Epoch(stored.epoch)
        shard.now, shard.wall = Instant(stored.now), WallMs(stored.wall)
        shard.outboxes.update(state.restore_boxes(stored.outboxes))
        shard.inboxes = state.restore_inboxes(stored.inboxes)
        shard.requests = Requests.restore(stored.horizon, stored.requests)
        for lane_state in stored.lanes:
            lane = state.restore_lane(lane_state, shard.now, config=shard.shared(lane_state.config))
            shard.lanes[lane.lane] = lane
            shard.note_mode(lane)
            shard.set_alarm(lane)
            if lane.tasks and lane.tasks[-1].is_active:
                shard.chores[lane.lane] = None
        return shard
