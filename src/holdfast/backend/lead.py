"""One shard that this host leads: the loop around its Primary.

    submit… ─▶ turn ─▶ flush ─▶ (writer) ─▶ synced ─▶ next flush ─▶ replies ─▶ …

Every turn: all commands that have arrived are decided, then one flush; a turn takes several rounds of the event loop
while more have arrived than one round decides, but not for long. While a frame is being written, the next turns fill
the next one; if it holds less than the one before, whose clients are answered now and mostly ask again, it waits for as
many of them, but only a few rounds of the loop. A reply leaves when the core gives it out, not before.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.backend.disk import Disk
from holdfast.backend.letters import Reader
from holdfast.backend.reasons import Reasons
from holdfast.backend.writer import Writer
from holdfast.core.log.archive import Found
from holdfast.core.log.primary import Primary, Reply
from holdfast.core.queue.columns import AcceptedAll, Columns, DeletedAll, SendAll
from holdfast.core.queue.command import (
    Accepted,
    Arrive,
    ArriveReply,
    ChangeVisibility,
    Command,
    Delivery,
    Handover,
    Need,
    Outcome,
    PeekReply,
    Send,
    Settle,
)
from holdfast.core.queue.outbox import Outgoing
from holdfast.core.queue.record import Message
from holdfast.core.types import Address, Instant, LaneId, WallMs
from holdfast.runtime import clock, metrics
from holdfast.runtime.failpoint import failpoint
from holdfast.runtime.letter import Letter
from holdfast.runtime.rpc import Call, Receiver

FRAME_S: Final = 0.003  # so long a frame waits for commands that are on their way: syncs cost more than they gain
LINGER_ROUNDS: Final = 8  # of the loop, each of which reads what has come
HURRY_S: Final = 0.02  # so long after an urgent command others may be answered in pieces:
ANSWERS_AT_ONCE: Final = 6  # the loop comes round in between, and the kernel gets on with what is under way


class Lead:
    """`on_turn` is called every turn, told whether somebody is in a hurry, and must be cheap; `hand_over` brings a
    hand-over to the shard that it is for; `on_moved` is told when one has arrived, and which lane it was in."""

    def __init__(
        self,
        primary: Primary,
        root: Path,
        reader: Reader,
        writer: Writer,
        *,
        hand_over: Callable[[Arrive, Address, Call], None],
        on_moved: Callable[[Handover, LaneId], None],
        expects_more: Callable[[], bool],
        fail: Callable[[BaseException], None],
    ) -> None:
        self.primary = primary
        self.root = root
        self.reader = reader
        self._cache = reader.cache
        self._writer = writer
        self._disk = Disk(root, open_max=2)  # the segment that grows, and the next
        self._reasons = Reasons(primary, reader)
        self.on_turn: Callable[[bool], None] | None = None
        self._hand_over = hand_over
        self._on_moved = on_moved
        self._expects_more = expects_more
        self._fail = fail
        self._loop = asyncio.get_running_loop()
        self._time = clock.OwnTime(primary.journal.stamp)
        self._own = Instant(0)  # 0: no turn has begun
        self._wall = WallMs(0)
        self._began = 0.0
        self._lingers = 0  # for so many rounds of the loop the turn stays open,
        self._company = 0  # or until so many wait for its frame
        self._is_urgent = False  # somebody's command should not wait for company,
        self._was_urgent = False  # nor did the last one of the frame that is written
        self._hurry_until = 0.0
        self._unanswered: deque[Reply] = deque()  # those for whom there is time
        self._is_handing = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = Instant(0)
        self._idle = asyncio.Event()

    # commands

    def submit(self, command: Command, call: Call | None, wait_s: int = 0) -> None:
        if type(command) is ChangeVisibility and command.reason:
            self._reasons.attach([command], lambda ready: self.submit(ready[0], call, wait_s))
            return
        if not self._own:
            self._begin_turn()
        journal = self.primary.journal
        lsn = journal.next_lsn
        try:
            self.primary.submit(command, call, self._own, self._wall, wait_s=wait_s)
        except Exception as problem:  # noqa: BLE001 - the log and the state may disagree now: nothing may go on
            self._fail(problem)
        if type(command) is Send and journal.next_lsn != lsn:  # it was written, so this is its place
            self._cache.put(lsn, Letter(command.content, self.primary.shard.wall))

    def submit_all(self, commands: Sequence[Command], call: Call) -> None:
        if type(commands[0]) is ChangeVisibility and commands[0].reason:
            self._reasons.attach(commands, lambda ready: self.submit_all(ready, call))
            return
        if not self._own:
            self._begin_turn()
        first = self.primary.journal.next_lsn
        outcomes: list[Outcome] = []
        try:
            outcomes = self.primary.submit_all(commands, call, self._own, self._wall)
        except Exception as problem:  # noqa: BLE001 - as in `submit`
            self._fail(problem)
        if type(commands[0]) is not Send:
            return
        put, wall = self._cache.put, self.primary.shard.wall
        for command, outcome in zip(commands, outcomes, strict=False):
            if type(command) is Send and type(outcome) is Accepted and outcome.lsn >= first:  # not a repeated one
                put(outcome.lsn, Letter(command.content, wall))

    def submit_plain(self, batch: Columns, call: Call) -> None:
        if not self._own:
            self._begin_turn()
        done: AcceptedAll | DeletedAll | None = None
        try:
            done = self.primary.submit_plain(batch, call, self._own, self._wall)
        except Exception as problem:  # noqa: BLE001 - as in `submit`
            self._fail(problem)
        if done is None:
            self.submit_all(batch.apart(), call)
        elif type(batch) is SendAll and type(done) is AcceptedAll:
            self._cache.put_all(done.lsn, batch.contents, self.primary.shard.wall)

    def ask(self, command: Command) -> "asyncio.Future[object]":
        """For the host's own tasks."""
        future: asyncio.Future[object] = self._loop.create_future()
        self.submit(command, _Asking(future))
        return future

    def cancel(self, call: Call) -> bool:
        return self.primary.cancel(call)

    def _begin_turn(self) -> None:
        """The first command of a turn: its time is the turn's, and a flush follows when all have arrived."""
        self._own, self._wall = self._time.now(), clock.wall_ms()
        self._began = metrics.now()
        self._loop.call_soon(self._end_turn)

    def end_turn(self, *, is_urgent: bool) -> None:
        """The front-end has served what it could: no need to wait until the loop comes round. `is_urgent`: nor for
        company, once the disk is free."""
        if self._own:
            if is_urgent:
                self._is_urgent, self._hurry_until = True, metrics.now() + HURRY_S
            if not self._is_waiting():
                self._close_turn()

    def _end_turn(self) -> None:
        """The loop has come round: all that had arrived is decided, or the frame has waited long enough for more."""
        if self._is_waiting():
            self._lingers = max(0, self._lingers - 1)
            self._loop.call_soon(self._end_turn)
        elif self._own:
            self._close_turn()

    def _close_turn(self) -> None:
        self._own = Instant(0)
        self._lingers = 0
        self._flush()
        self._after()

    def _is_waiting(self) -> bool:
        """More is on its way for the frame of this turn, or probably so, and it has not waited long."""
        if not self._own or self._is_urgent:
            return False
        if self._lingers > 0 and self.primary.waiting < self._company:
            return True
        return self._expects_more() and metrics.now() < self._began + FRAME_S

    # the disk

    def _flush(self) -> None:
        """The loop never waits for the disk, not for a single command either: while it slept in fdatasync, busy
        neighbours would get its processor."""
        if self.primary.journal.is_flushing:
            return
        self._was_urgent, self._is_urgent = self._is_urgent, False
        operations = self.primary.flush()
        if operations:
            self._writer.hand_over(self._disk, operations, self._synced)

    def _synced(self) -> None:
        self.primary.synced()
        self._tick()
        replies = self.primary.replies()
        if self._was_urgent:
            replies.reverse()  # it was the last to be decided, and is the first to be answered
        if not self._is_urgent and 0 < self.primary.waiting < len(replies):
            self._lingers, self._company = LINGER_ROUNDS, len(replies)
            self._soon()
        if not self._is_waiting():
            self._flush()  # first: the disk works while the replies are made
        if self._unanswered or (len(replies) > ANSWERS_AT_ONCE and metrics.now() < self._hurry_until):
            self._answer_in_pieces(replies)
        else:
            self._answer(replies)
        self._after()

    def _answer_in_pieces(self, replies: list[Reply]) -> None:
        """The last come first: one of them may be urgent, and nobody waits for long."""
        if not self._unanswered:
            self._loop.call_soon(self._answer_some)
        self._unanswered.extendleft(reversed(replies[ANSWERS_AT_ONCE:]))
        self._answer(replies[:ANSWERS_AT_ONCE])

    def _answer_some(self) -> None:
        some = [self._unanswered.popleft() for _ in range(min(ANSWERS_AT_ONCE, len(self._unanswered)))]
        self._answer(some)
        if self._unanswered:
            self._writer.give_way()
            self._loop.call_soon(self._answer_some)

    def _tick(self) -> None:
        self.primary.tick(self._time.now(), clock.wall_ms())

    def _after(self) -> None:
        """What becomes possible after deciding or after a sync."""
        primary = self.primary
        self._answer(primary.replies())
        for need in primary.needs():
            self.reader.headers(need, partial(self._loaded, need))
        if primary.shard.outboxes:
            self._send_outgoing()
        if self.on_turn is not None:
            self.on_turn(metrics.now() < self._hurry_until)
        self._arm()
        if not primary.journal.is_flushing and primary.journal.durable == primary.journal.appended:
            self._idle.set()

    def _answer(self, replies: list[Reply]) -> None:
        for call, answer in replies:
            if (type(answer) is Delivery or type(answer) is PeekReply) and answer.messages:
                self._deliver(call, answer)
            else:
                call.answered(answer, ())

    def _deliver(self, call: Receiver, delivery: Delivery | PeekReply) -> None:
        messages: list[Any] = list(delivery.messages)
        ats = [each.header.at for each in messages]
        letters = self.reader.at_once(call.lane, ats)
        if letters is not None:
            call.answered(delivery, letters)
        else:
            self.reader.letters([(call.lane, at) for at in ats], partial(_answer_whole, call, delivery))

    def _loaded(self, need: Need, found: Found) -> None:
        self.primary.loaded(need, found.headers, found.upto, self._time.now(), clock.wall_ms())
        self._soon()

    def _soon(self) -> None:
        """Something was decided outside a turn."""
        if not self._own:
            self._begin_turn()

    # time

    def _arm(self) -> None:
        """One timer, moved only when it would fire too late."""
        deadline = self.primary.deadline()
        if self._timer is not None and self._timer_at <= deadline:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._loop.call_later(self._time.seconds_until(deadline), self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._tick()
        self._flush()
        self._after()

    # moves

    def _send_outgoing(self) -> None:
        """One batch at a time, so that hand-overs arrive in the order of their numbers."""
        if self._is_handing:
            return
        due = self.primary.outgoing(self._time.now())
        if not due:
            return
        self._is_handing = True
        wanted = [(each.entry.lane, each.entry.header.at) for each in due]
        self.reader.messages(wanted, lambda messages: self._depart(due, messages))

    def _depart(self, due: list[Outgoing], messages: list[Message | None]) -> None:
        """A damaged message stays in the outbox."""
        self._is_handing = False
        for outgoing, message in zip(due, messages, strict=True):
            if message is None:
                continue
            command = Arrive(outgoing.handover(message))
            self._hand_over(command, outgoing.entry.target, _Settling(self, command.handover))

    def settle(self, reply: ArriveReply, handover: Handover) -> None:
        failpoint("hand-over arrived")
        outbox = self.primary.shard.outboxes.get(reply.target)
        entry = outbox.entries.get(reply.number) if outbox is not None else None
        if entry is not None and not reply.is_refused:  # it may have been sent more than once
            self._on_moved(handover, entry.lane)
        self.submit(Settle(reply.target, reply.number, reply.is_refused), None)

    # the end

    def end_polls(self) -> list[Call]:
        """Takes all waiting receives out of the table; they are owed an empty answer once `drained`."""
        calls: list[Call] = [waiter.token for waiter in self.primary.polls.drain()]
        for call in calls:
            self.primary.cancel(call)
        return calls

    async def drained(self) -> None:
        """Everything decided so far is durable."""
        self._idle.clear()
        self._soon()
        await self._idle.wait()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._disk.close()
        self.reader.close()


def _answer_whole(call: Receiver, delivery: Delivery | PeekReply, found: list[Letter | None]) -> None:
    """Without what is damaged; a receive has taken its lease, so it does not come up again before that ends."""
    letters = [letter for letter in found if letter is not None]
    if len(letters) < len(found):
        whole = [each for each, letter in zip(delivery.messages, found, strict=True) if letter is not None]
        delivery = msgspec.structs.replace(delivery, messages=tuple(whole))
    call.answered(delivery, letters)


class _Settling(Call):
    """Waits for the answer of the target shard. An error is no answer: the hand-over is sent again later."""

    __slots__ = ("_handover", "_source")

    def __init__(self, source: Lead, handover: Handover) -> None:
        self._source = source
        self._handover = handover

    def answered(self, answer: object, _: object, /) -> None:
        if isinstance(answer, ArriveReply):
            self._source.settle(answer, self._handover)


class _Asking(Call):
    __slots__ = ("_future",)

    def __init__(self, future: "asyncio.Future[object]") -> None:
        self._future = future

    def answered(self, answer: object, _: object, /) -> None:
        if not self._future.cancelled():
            self._future.set_result(answer)
