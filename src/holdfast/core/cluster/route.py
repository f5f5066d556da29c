"""A front-end's choice of lane and host, and its retries. `step(event, now)` says whom to ask and whom to answer.

    Asked ──▶ parts, one per command ──▶ lane ──▶ who leads its shard ──▶ one call per shard
                 ▲                                                            │
                 └── nothing was done: another lane, a hint, a pause ◀────────┤ refused
                 └── nobody knows: the same lane, under the same id  ◀────────┤ lost
                                                              joined, Reply ◀─┘ answered

Laws
- A message with a key (FIFO: its group; request deduplication: its content) goes to the lane of its key and no other.
  A message without goes to any open lane, and from a host that fails to another lane at once. If that host was asked
  and did not answer, this may make it two messages, which a standard queue allows; with one lane it never does.
- Whatever else may have been done is asked again only at the lane that may have done it, under the id it had.
- Parts that go to one shard go in one call, in the order of the batch: order within a group is kept by retries, too.
- It ends: after ROUTE_PATIENCE the client is told that nothing was done (503), or that nobody knows (500).
- Receives are in listen.py: nothing is lost by asking elsewhere.
"""

from collections.abc import Callable, Sequence
from typing import Any, assert_never

import msgspec

from holdfast.core.cluster.calls import (
    Answered,
    Asked,
    Calls,
    Event,
    Left,
    Lost,
    Output,
    Placed,
    ReceiveAny,
    Reply,
    TableChanged,
    Undelivered,
    Woken,
)
from holdfast.core.cluster.listen import Listeners
from holdfast.core.cluster.parts import Job, Part, count_of, outcome_elsewhere, parts_of
from holdfast.core.cluster.table import LaneRow, Layout, Table
from holdfast.core.coordination.cluster import HostId
from holdfast.core.errors import LaneDraining, NotPrimary, OutcomeUnknown, QueueDoesNotExist, ServiceUnavailable
from holdfast.core.limits import DETOURS_MAX, ROUTE_PATIENCE
from holdfast.core.queue.command import ChangeVisibility, Command, Delete, Delivered, Outcome, Purge, Request, Send
from holdfast.core.types import Address, Instant, QueueName, Receipt, ShardId


class _Pause:
    """Parts that wait before they are tried again, together."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[Part]) -> None:
        self.parts = parts


_NOBODY = "Nobody leads this part of the queue at the moment. Retry later."


class Router:
    def __init__(self, table: Table, *, name: bytes, choose: Callable[[int], int]) -> None:
        """`name`: 8 bytes that no front-end had before, nor this one before it was started. `choose(n)`: a number below
        n, by chance."""
        self.calls = Calls(table, name=name, choose=choose)
        self.listeners = Listeners(self.calls, give_back=self._give_back)
        self._jobs: dict[Any, Job] = {}
        self._pauses: dict[_Pause, None] = {}

    @property
    def table(self) -> Table:
        return self.calls.table

    def step(self, event: Event, now: Instant) -> Output:
        output = self.calls.output = Output()
        match event:
            case Asked():
                self._ask(event, now)
            case Left(token):
                self._leave(token, now)
            case Undelivered(queue, address, messages):
                self._give_back(queue, address, messages, now)
            case Answered(call, outcomes, letters):
                self._answered(call, outcomes, letters, now)
            case Lost(call, is_sent):
                self._lost(call, now, is_sent=is_sent)
            case TableChanged():
                self._resume(list(self._pauses), now)
                self.listeners.table_changed(now)
            case Woken():
                pass
            case _:
                assert_never(event)
        for what in self.calls.due(now):
            self._due(what, now)
        return output

    def deadline(self) -> Instant | None:
        return self.calls.deadline()

    def _due(self, what: Any, now: Instant) -> None:
        if isinstance(what, int):
            self._lost(what, now, is_sent=True)
        elif isinstance(what, _Pause):
            self._resume([what], now)
        else:
            self.listeners.due(what, now)

    # Clients

    def _ask(self, asked: Asked, now: Instant) -> None:
        action, layout = asked.action, self.table.layout(asked.queue)
        if isinstance(action, ReceiveAny):
            self.listeners.ask(asked, action, now)
            return
        count = count_of(action, layout)
        if layout is None:
            self._reply(asked.token, [Placed(QueueDoesNotExist())] * count)
            return
        job = Job(asked.token, asked.queue, count, Instant(now + ROUTE_PATIENCE))
        if asked.token is not None:
            self._jobs[asked.token] = job
        self._launch(parts_of(job, action, layout), now)

    def _leave(self, token: Any, now: Instant) -> None:
        job = self._jobs.pop(token, None)
        if job is not None:
            job.token = None  # what it asked for is done all the same
        else:
            self.listeners.leave(token, now)

    def _give_back(self, queue: QueueName, address: Address, messages: Sequence[Delivered], now: Instant) -> None:
        """Nobody takes these messages: their leases end now."""
        job = Job(None, queue, len(messages), Instant(now + ROUTE_PATIENCE))
        parts = []
        for index, each in enumerate(messages):
            header = each.header
            receipt = Receipt(address.lane, header.seq, header.epoch, header.lsn, each.number)
            command = ChangeVisibility(address.lane, receipt, 0)
            parts.append(Part(job, index, command, lane=address.lane, key=None))
        self._launch(parts, now)

    def _reply(self, token: Any, outcomes: Sequence[Placed]) -> None:
        if token is not None:
            self.calls.output.replies.append(Reply(token, tuple(outcomes)))

    # On the way

    def _launch(self, parts: Sequence[Part], now: Instant) -> None:
        """Each to its lane, those for one shard together; those that have nowhere to go wait."""
        ready: dict[ShardId, list[Part]] = {}
        waiting: list[Part] = []
        for part in parts:
            layout = self.table.layout(part.job.queue)
            if layout is None:
                self._finish(part, QueueDoesNotExist())
            elif part.lane is not None and layout.row_of(part.lane) is None:
                self._finish(part, outcome_elsewhere(part.command, layout))
            elif (row := self._choose(part, layout, now)) is None:
                waiting.append(part)
            else:
                part.row = row
                ready.setdefault(row.shard, []).append(part)
        for shard, together in ready.items():
            seat = self.table.seat(shard)
            assert seat is not None, "only lanes that somebody leads are chosen"
            for part in together:
                part.asked = seat
            commands = [self._command(part, now) for part in together]
            self.calls.start(together, seat, shard, commands, now, token=together[0].job.token)
        if waiting:
            self._pause(waiting, now)

    def _choose(self, part: Part, layout: Layout, now: Instant) -> LaneRow | None:
        """Where to try next; None: nowhere just now."""
        rows: list[LaneRow | None] = []
        if part.lane is not None:
            rows = [layout.row_of(part.lane)]
        elif part.key is not None:
            suspects = [row for row in layout.lanes if row.lane in part.doubts]
            rows = [suspects[0] if suspects else layout.lane_of(part.key)]
        else:
            rows = list(layout.open_lanes())
        led: list[tuple[LaneRow, HostId]] = []
        for row in rows:
            seat = self.calls.seat(row) if row is not None and row.lane not in part.refused else None
            if row is not None and seat is not None:
                led.append((row, seat.host))
        good = [row for row, host in led if not self.calls.is_resting(host, now)] or [row for row, _ in led]
        if len(good) < 2:
            return next(iter(good), None)
        doubtful = [row for row in good if row.lane in part.doubts]
        return doubtful[0] if doubtful else good[self.calls.choose(len(good))]

    def _command(self, part: Part, now: Instant) -> Command:
        row = part.row
        assert row is not None, "it was just chosen"
        if isinstance(part.command, Delete):
            return part.command  # done twice it is done once
        if not isinstance(part.command, Send | ChangeVisibility | Purge):
            return msgspec.structs.replace(part.command, lane=row.lane)
        first = part.firsts.setdefault(row.lane, now)
        part.request = part.request or self.calls.request_id()
        return msgspec.structs.replace(part.command, lane=row.lane, request=Request(part.request, now - first))

    def _pause(self, parts: list[Part], now: Instant) -> None:
        """Tried again in a while, or given up."""
        kept = []
        for part in parts:
            if now >= part.job.deadline:
                self._finish(part, OutcomeUnknown() if part.doubts else part.refusal or NotPrimary(_NOBODY))
            else:
                kept.append(part)
                part.refused.clear()
                part.detours = 0
        if not kept:
            return
        job = kept[0].job
        job.tries += 1
        pause = _Pause(kept)
        self._pauses[pause] = None
        self.calls.alarm(min(Instant(now + self.calls.backoff(job.tries)), job.deadline), pause)

    def _resume(self, pauses: Sequence[_Pause], now: Instant) -> None:
        for pause in pauses:
            if pause in self._pauses:
                del self._pauses[pause]
                self._launch(pause.parts, now)

    # Back

    def _answered(self, call: int, outcomes: Sequence[Outcome], letters: Any, now: Instant) -> None:
        owner = self.calls.heard(call)
        if isinstance(owner, list):
            again = [part for part, outcome in zip(owner, outcomes, strict=True) if not self._settle(part, outcome)]
            self._retry(again, now)
        elif owner is not None:
            self.listeners.answered(owner, outcomes[0], letters, now)

    def _settle(self, part: Part, outcome: Outcome) -> bool:
        """False: nothing was done, and it may be tried again."""
        row = part.row
        assert row is not None, "it was sent"
        if isinstance(outcome, NotPrimary):
            self.calls.hint(row.shard, outcome)
        elif isinstance(outcome, LaneDraining):
            part.doubts.pop(row.lane, None)  # it was not done there, and will not be
            part.refused[row.lane] = None
        elif isinstance(outcome, QueueDoesNotExist):
            part.refused[row.lane] = None  # the lane is gone; the queue may have others
        elif isinstance(outcome, ServiceUnavailable) and (part.doubts or self._has_others(part)):
            part.refused[row.lane] = None
        else:
            self._finish(part, outcome)
            return True
        part.refusal = outcome
        return False

    def _has_others(self, part: Part) -> bool:
        """May it go to a lane that was not asked since the last pause?"""
        layout = self.table.layout(part.job.queue)
        if layout is None or part.lane is not None or part.key is not None:
            return False
        tried = {**part.refused, part.row.lane: None} if part.row is not None else part.refused
        return any(row.lane not in tried for row in layout.open_lanes())

    def _retry(self, parts: list[Part], now: Instant) -> None:
        """At once where there is another way to try; after a pause where there is none."""
        fresh: list[Part] = []
        tired: list[Part] = []
        for part in parts:
            part.detours += 1
            (fresh if part.detours <= DETOURS_MAX and self._has_detour(part) else tired).append(part)
        if fresh:
            self._launch(fresh, now)
        if tired:
            self._pause(tired, now)

    def _has_detour(self, part: Part) -> bool:
        """Is there somebody who did not refuse it since the last pause?"""
        if isinstance(part.refusal, NotPrimary) and part.row is not None:
            if self.table.seat(part.row.shard) != part.asked:
                return True  # somebody else leads
            part.refused[part.row.lane] = None
        return part.lane is None

    def _lost(self, call: int, now: Instant, *, is_sent: bool) -> None:
        owner = self.calls.silent(call, now)
        if owner is None:
            return
        if not isinstance(owner, list):
            self.listeners.lost(owner, now, is_sent=is_sent)
            return
        for part in owner:
            part.refused[part.row.lane] = None
            part.refusal = None
            if is_sent:
                part.doubts[part.row.lane] = None
        self._retry(owner, now)

    def _finish(self, part: Part, outcome: Outcome) -> None:
        job = part.job
        address = part.row.address if part.row is not None else None
        job.outcomes[part.index] = Placed(outcome, address)
        job.left -= 1
        if not job.left:
            self._jobs.pop(job.token, None)
            self._reply(job.token, [each for each in job.outcomes if each is not None])
