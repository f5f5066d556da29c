"""A shard that this host leads: commands in, frames to the disk, replies when they are earned.

The reply rule: every reply, also an error and one that wrote nothing, is bound to the last lsn applied when it was
decided, and leaves only when that lsn is committed (a standard queue's receive: durable on this host). So nobody is
told of anything that a power cut could take back, and a retry that is answered from the deduplication table cannot
overtake the send it repeats.

    submit ─▶ decide ─▶ apply ─▶ journal.append      any number of times
    flush ─▶ operations for the disk                 one at a time
    synced ─▶ replies                                while the next frame is being collected

Receives that find nothing wait in a table (queue/poll.py) and are served first come, first served.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any

from holdfast.core.errors import HoldfastError, NotPrimary, OutcomeUnknown, Overloaded, Unsure
from holdfast.core.limits import REPLIES_MAX, SECOND, TICK_INTERVAL
from holdfast.core.log.files import FileOp
from holdfast.core.log.journal import Journal
from holdfast.core.log.room import Lobby, check_room
from holdfast.core.log.several import Place, Said, Several, split, unknown
from holdfast.core.queue.columns import AcceptedAll, Columns, DeleteAll, DeletedAll, SendAll
from holdfast.core.queue.command import (
    DONE,
    EMPTY_DELIVERY,
    NOTHING_VISIBLE,
    Command,
    Delete,
    Need,
    Outcome,
    Receive,
    Send,
    Tick,
    Watch,
)
from holdfast.core.queue.outbox import Courier, Outgoing
from holdfast.core.queue.poll import Polls, Waiter
from holdfast.core.queue.record import Record
from holdfast.core.queue.send import together
from holdfast.core.queue.shard import Shard
from holdfast.core.types import Header, Instant, LaneId, Lsn, Seq, WallMs

Reply = tuple[Any, Said]


def _is_empty(answer: Outcome) -> bool:
    """Worth waiting for something better."""
    return answer is EMPTY_DELIVERY or answer is NOTHING_VISIBLE


class Primary:
    def __init__(self, shard: Shard, journal: Journal) -> None:
        self.shard = shard
        self.journal = journal
        self.polls = Polls()
        self._ready: list[Reply] = []  # may leave now
        self._bound: deque[tuple[Lsn, Any, Said]] = deque()  # wait for commit
        self._bound_local: deque[tuple[Lsn, Any, Said]] = deque()  # wait for this disk only
        self._lobby = Lobby()
        self._needing: dict[Need, list[tuple[Command, Any, int]]] = {}
        self._asked: dict[Need, None] = {}
        self._courier = Courier(shard.shard)
        self._ticked = Instant(0)
        self._is_idle = False  # the log's end does not say yet that it is durable
        self.is_sure = True  # nobody else can be leading this shard: messages may be handed out

    @property
    def committed(self) -> Lsn:
        """On one host what is durable here is committed; with members it is what all of them have."""
        return self.journal.committed

    @property
    def waiting(self) -> int:
        """Replies that are not earned yet."""
        return len(self._bound) + len(self._bound_local)

    # Commands

    def submit(self, command: Command, token: Any, own: Instant, wall: WallMs, *, wait_s: int = 0) -> None:
        """Decides and applies now; the answer comes out of `replies` with its token. `wait_s`: a long poll."""
        if self.waiting >= REPLIES_MAX:
            self._ready.append((token, Overloaded()))
            return
        if not self.journal.is_open(own):
            self._open(own, wall)
        stirred = self.shard.stirred
        if stirred and self.is_sure and type(command) is Receive and command.lane in stirred:
            self._serve_lane(command.lane)  # who waits was here first
        self._decide(command, token, wait_s)

    def submit_all(self, commands: Sequence[Command], token: Any, own: Instant, wall: WallMs) -> list[Outcome]:
        """As `submit` of each in turn, none of them a receive; their outcomes leave together. Answers those that are
        known already, EMPTY_DELIVERY in the place of others."""
        if self.waiting >= REPLIES_MAX:
            self._ready.append((token, [Overloaded() for _ in commands]))
            return []
        self._open(own, wall)
        if self._lobby.admit(self.journal, commands, token, is_batch=True):
            return []
        outcomes, waiting = split(self._execute_all(commands))
        several = Several(token, outcomes, left=len(waiting))
        for index, need in waiting:
            self._needing.setdefault(need, []).append((commands[index], Place(several, index), 0))
        if not waiting:
            bound = self._bound_local if commands and self.is_async(commands[0]) else self._bound
            bound.append((self.shard.lsn, token, outcomes))
        return outcomes

    def submit_plain(self, batch: Columns, token: Any, own: Instant, wall: WallMs) -> AcceptedAll | DeletedAll | None:
        """As `submit_all` of its commands, with one value for their outcomes, which is known already. None: there is
        more to it; nothing was done, and they have to be submitted apart."""
        if self.waiting >= REPLIES_MAX:
            return None
        self._open(own, wall)
        done = self._send_all(batch) if isinstance(batch, SendAll) else self._delete_all(batch)
        if done is not None:
            bound = self._bound_local if self.shard.asynchronous and self.is_async(batch) else self._bound
            bound.append((self.shard.lsn, token, done))
        return done

    def _open(self, own: Instant, wall: WallMs) -> None:
        journal, shard = self.journal, self.shard
        now = journal.begin(own, wall)
        if now != shard.now or journal.epoch != shard.epoch:
            shard.begin(journal.epoch, now, wall)

    def _decide(self, command: Command, token: Any, wait_s: int) -> None:
        answer = self._execute(command)
        if type(answer) is Need:
            self._needing.setdefault(answer, []).append((command, token, wait_s))
        elif wait_s and isinstance(command, Receive | Watch) and _is_empty(answer):
            self._park(command, token, wait_s)
        elif type(answer) is not Overloaded or not self._lobby.admit(self.journal, (command,), token, is_batch=False):
            self._reply(token, answer, is_local=self._is_local(command))

    def _execute(self, command: Command) -> Outcome | Need:
        try:
            if not self.is_sure and type(command) is Receive:
                raise Unsure
            journal, shard = self.journal, self.shard
            check_room(journal, command)
            decided = shard.decide(command, self._handed_out(command) if shard.asynchronous else journal.committed)
        except HoldfastError as refusal:
            return refusal
        if type(decided) is Need:
            return decided
        records, answer = decided
        self._write(records)
        return answer

    def _execute_all(self, commands: Sequence[Command]) -> list[Outcome | Need]:
        """In their order, but for deletes: those of leased messages, which nothing else depends on, go first."""
        sends = together(commands) if commands and type(commands[0]) is Send else None
        accepted = self._send_all(sends) if sends is not None else None
        if accepted is not None:
            return [*accepted.apart()]
        decided: list[Outcome | None] = []
        if commands and type(commands[0]) is Delete and not self.journal.is_exhausted():
            records, decided = self.shard.decide_deletes(commands)
            self._write(records)
            if decided.count(DONE) == len(decided):  # as nearly always
                return [*decided]  # type: ignore[list-item]  # mypy does not see that none is None
        rest = zip(commands, decided or [None] * len(commands), strict=True)
        return [self._execute(each) if outcome is None else outcome for each, outcome in rest]

    def _send_all(self, sends: SendAll) -> AcceptedAll | None:
        """None: their lane asks for more, or they need another segment, and nothing was done."""
        decided = self.shard.decide_sends(sends, self.journal.committed)
        if decided is None or not self.journal.holds_all([len(content) for content in sends.contents]):
            return None
        sent, accepted = decided
        self.journal.append_plain(sent)
        self.shard.apply_plain(sent)
        return accepted

    def _delete_all(self, deletes: DeleteAll) -> DeletedAll | None:
        """None: there is more to decide, or no room for it, and nothing was done."""
        deleted = self.shard.decide_delete_all(deletes) if not self.journal.is_exhausted() else None
        if deleted is None:
            return None
        self.journal.append(deleted)
        self.shard.apply(deleted)
        return DeletedAll(len(deleted.seqs))

    def _write(self, records: tuple[Record, ...]) -> None:
        journal, shard = self.journal, self.shard
        for record in records:
            journal.append(record)
            shard.apply(record)

    def _is_local(self, command: Command) -> bool:
        """FIFO and at-most-once receives must survive a fail-over, so they wait for every member; others do not."""
        if type(command) is Receive or type(command) is Watch:
            lane = self.shard.lanes.get(command.lane)
            if lane is not None and not (lane.is_fifo or lane.config.at_most_once):
                return True
        return bool(self.shard.asynchronous) and self.is_async(command)

    def is_async(self, command: Command | Columns) -> bool:
        """Of a lane with members that its replies do not wait for. They know it: or a loss would go unnoticed."""
        since = self.shard.asynchronous.get(getattr(command, "lane", LaneId(0)))
        return since is not None and self.journal.is_replicated and since <= self.journal.committed

    def _handed_out(self, command: Command) -> Lsn:
        """Messages up to here may be."""
        return self.journal.durable if self.is_async(command) else self.journal.committed

    def _reply(self, token: Any, answer: Outcome, *, is_local: bool = False) -> None:
        if token is None:
            return
        if type(token) is Place:
            self._place(token, answer)
            return
        bound = self._bound_local if is_local else self._bound
        bound.append((self.shard.lsn, token, answer))

    def _place(self, place: Place, outcome: Outcome) -> None:
        several = place.several
        several.outcomes[place.index] = outcome
        several.left -= 1
        if not several.left:
            self._bound.append((self.shard.lsn, several.token, several.outcomes))

    # Long polls

    def _park(self, command: Receive | Watch, token: Any, wait_s: int) -> None:
        waiter = Waiter(token, command, Instant(self.shard.now + wait_s * SECOND))
        if not self.polls.add(waiter):
            self._reply(token, Overloaded())
            return
        self.shard.watch(command.lane, is_watched=True)
        self.shard.stirred[command.lane] = None  # something may wait for its commit only

    def cancel(self, token: Any) -> bool:
        """The client of a waiting receive is gone: it is not handed a message. False: it had been before."""
        is_found = False
        for waiting in self._needing.values():
            kept = [entry for entry in waiting if entry[1] is not token]
            is_found = is_found or len(kept) < len(waiting)
            waiting[:] = kept
        waiter = self.polls.remove(token)
        if waiter is not None:
            self._unwatch(waiter)
        return is_found or waiter is not None

    def _unwatch(self, waiter: Waiter) -> None:
        if not self.polls.has(waiter.command.lane):
            self.shard.watch(waiter.command.lane, is_watched=False)

    def _serve_waiters(self) -> None:
        """Lanes where something may have become visible: their waiters, oldest first, until one finds nothing."""
        if not self.is_sure:
            return
        for lane_id in list(self.shard.stirred):
            self._serve_lane(lane_id)

    def _serve_lane(self, lane_id: LaneId) -> None:
        del self.shard.stirred[lane_id]
        while (waiter := self.polls.first(lane_id)) is not None:
            if not self._serve(waiter):
                break

    def _serve(self, waiter: Waiter) -> bool:
        """False: there is nothing for this one, so neither for the next."""
        answer = self._execute(waiter.command)
        if isinstance(answer, Need):
            self._needing.setdefault(answer, [])
            return False
        if _is_empty(answer):
            lane = self.shard.lanes[waiter.command.lane]
            if lane.count and lane.newest > self._handed_out(waiter.command):
                self.shard.stirred[waiter.command.lane] = None  # look again when that is committed
            return False
        self._finish(waiter, answer)
        return True

    def _finish(self, waiter: Waiter, answer: Outcome) -> None:
        self.polls.remove(waiter.token)
        self._unwatch(waiter)
        self._reply(waiter.token, answer, is_local=self._is_local(waiter.command))

    # Time

    def tick(self, own: Instant, wall: WallMs) -> None:
        """To be called at `deadline`, and after every sync: time passes, waiters are served or sent away."""
        self._is_idle = self.journal.idle_frame_due(own)
        self._empty_lobby(own, wall)
        if own >= self.deadline():
            self._open(own, wall)
            if own - self._ticked >= TICK_INTERVAL:
                self._ticked = own
                self._look_after_lanes()
            for waiter in self.polls.expired(self.shard.now):
                self._finish(waiter, NOTHING_VISIBLE if type(waiter.command) is Watch else EMPTY_DELIVERY)
        if self.shard.stirred:
            self._open(own, wall)
            self._serve_waiters()

    def _empty_lobby(self, own: Instant, wall: WallMs) -> None:
        for commands, token, is_batch in self._lobby.leave(self.journal, own):
            if is_batch:
                self.submit_all(commands, token, own, wall)
            else:
                self.submit(commands[0], token, own, wall)

    def _look_after_lanes(self) -> None:
        """One step. While it removes what has expired and there is more, the next is due at once."""
        before = self.shard.lsn
        self._decide(Tick(), None, 0)
        if self.shard.lsn != before and self.shard.has_expired():
            self._ticked = Instant(self._ticked - TICK_INTERVAL)

    def deadline(self) -> Instant:
        """When `tick` is due, in own time."""
        first = Instant(self._ticked + TICK_INTERVAL)
        for due in (self.shard.deadline(), self.polls.deadline(), self.journal.idle_deadline(), self._lobby.deadline()):
            if due is not None and due < first:
                first = due
        return first

    # The disk

    def flush(self) -> tuple[FileOp, ...]:
        """What to write and sync now. One flush is under way at most; () when there is nothing to do."""
        if self.journal.is_flushing:
            return ()
        is_idle, self._is_idle = self._is_idle, False
        return self.journal.flush(is_idle=is_idle)

    def synced(self) -> None:
        self.journal.synced()

    def replies(self) -> list[Reply]:
        """Everything that may leave now."""
        committed, durable = self.committed, self.journal.durable
        ready, self._ready = self._ready, []
        for bound, mark in ((self._bound, committed), (self._bound_local, durable)):
            while bound and bound[0][0] <= mark:
                _, token, answer = bound.popleft()
                ready.append((token, answer))
        return ready

    def abandon(self) -> list[Reply]:
        """This host leads the shard no longer: what is said to all who wait. What was decided may or may not stay."""
        replies, self._ready = self._ready, []
        for _, token, answer in (*self._bound, *self._bound_local):
            replies.append((token, unknown(answer)))
        batches: list[Several] = []
        for _, token, _ in (entry for waiting in self._needing.values() for entry in waiting):
            if type(token) is not Place:
                replies.append((token, NotPrimary()))
            elif token.several not in batches:
                batches.append(token.several)
        replies += [(batch.token, [OutcomeUnknown() for _ in batch.outcomes]) for batch in batches]
        for commands, token, is_batch in self._lobby.clear():
            replies.append((token, [NotPrimary() for _ in commands] if is_batch else NotPrimary()))
        for waiter in self.polls.drain():
            replies.append((waiter.token, NOTHING_VISIBLE if type(waiter.command) is Watch else EMPTY_DELIVERY))
        return [reply for reply in replies if reply[0] is not None]

    # Headers that are not in memory

    def needs(self) -> list[Need]:
        """Headers to load, each told once."""
        if not self._needing:  # asked after every event
            return []
        fresh = [need for need in self._needing if need not in self._asked]
        self._asked.update(dict.fromkeys(fresh))
        return fresh

    def loaded(self, need: Need, headers: list[Header], upto: Seq, own: Instant, wall: WallMs) -> None:
        self._asked.pop(need, None)
        waiting = self._needing.pop(need, [])
        self.shard.load(need, headers, upto)
        self._open(own, wall)
        for command, token, wait_s in waiting:
            if type(command) is Tick:
                self._look_after_lanes()
            else:
                self._decide(command, token, wait_s)
        if self.polls.has(need.lane):
            self.shard.stirred[need.lane] = None
            self._serve_waiters()

    # Moves between shards

    def outgoing(self, own: Instant) -> list[Outgoing]:
        """Committed departures to hand over now; again when no answer came for a while."""
        return self._courier.due(self.shard.outboxes, own, committed=self.committed, now=self.shard.now)
