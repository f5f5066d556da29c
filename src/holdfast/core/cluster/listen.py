"""Receiving from a queue with several lanes, and waiting for something to receive.

    ask each lane once ──something──▶ reply
          │ all empty
          ▼
    listen at each ("is there something?", without a lease) ──reported──▶ ask that lane ──empty──▶ listen again
          │ its time is over
          ▼
    reply: nothing

Laws
- A receive is handed messages of one lane, of the first that has any. Which lane is asked first is left to chance; with
  an attempt id every lane is first asked whether it knows that attempt.
- One question "is there something?" is open per lane, however many wait; as many of them as there are messages go
  and ask, oldest first, and the question is put again when the first of these is back.
- A wait ends with messages or empty, never with an error that only says that a host failed.
- Who is gone is handed nothing: if messages come for it, they are given back.
- An ask that was lost is repeated at that lane under its id: it gets the messages that the first one took.
- A queue with one lane waits there, in the host's own table.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from holdfast.core.cluster.calls import Asked, Calls, Placed, ReceiveAny, Reply
from holdfast.core.cluster.table import LaneRow, Layout, Seat
from holdfast.core.errors import HoldfastError, NotPrimary, QueueDoesNotExist, ServiceUnavailable
from holdfast.core.limits import DETOURS_MAX, ROUTE_PATIENCE, SECOND, WAIT_MAX_S
from holdfast.core.queue.command import EMPTY_DELIVERY, Delivered, Delivery, Outcome, Receive, Request, Watch, Watched
from holdfast.core.types import Address, Instant, LaneId, QueueName

GiveBack = Callable[[QueueName, Address, Sequence[Delivered], Instant], None]


class _Poll:
    """A client's receive. It is asking a lane (`call`), or pausing, or listening."""

    __slots__ = (
        "action",
        "asking",
        "call",
        "detours",
        "is_answered",
        "is_gone",
        "is_known",
        "is_over",
        "layout",
        "patience",
        "posts",
        "queue",
        "refusal",
        "requests",
        "seat",
        "to_ask",
        "token",
        "tries",
        "until",
    )

    def __init__(self, asked: Asked, action: ReceiveAny, now: Instant) -> None:
        self.token = asked.token
        self.queue = asked.queue
        self.action = action
        self.until = Instant(now + action.wait_s * SECOND)
        self.patience = Instant(now + ROUTE_PATIENCE)
        self.layout: Layout | None = None  # that this round goes by
        self.to_ask: list[tuple[LaneRow, bool]] = []  # True: only whether it knows the attempt
        self.asking: tuple[LaneRow, bool] | None = None
        self.call: int | None = None
        self.seat: Seat | None = None  # that is being asked
        self.requests: dict[LaneId, tuple[bytes, Instant]] = {}  # asks that may have taken something
        self.posts: dict[_Post, None] = {}  # where it listens
        self.refusal: HoldfastError | None = None
        self.is_answered = False  # by some lane, in this round
        self.is_known = False  # every lane was asked for the attempt
        self.is_gone = False
        self.is_over = False
        self.detours = 0
        self.tries = 0


class _Post:
    """Where polls listen: one lane, and the question that is open there."""

    __slots__ = ("call", "is_pausing", "polls", "row", "seat", "tries", "woken")

    def __init__(self, row: LaneRow) -> None:
        self.row = row
        self.polls: dict[_Poll, None] = {}  # oldest first
        self.call: int | None = None
        self.seat: Seat | None = None
        self.woken = False  # polls went to ask, and none is back
        self.is_pausing = False
        self.tries = 0


class Listeners:
    def __init__(self, calls: Calls, *, give_back: GiveBack) -> None:
        self._calls = calls
        self._give_back = give_back
        self._polls: dict[Any, _Poll] = {}
        self._posts: dict[LaneId, _Post] = {}
        self._pausing: dict[_Poll, None] = {}

    # Clients

    def ask(self, asked: Asked, action: ReceiveAny, now: Instant) -> None:
        poll = _Poll(asked, action, now)
        self._polls[poll.token] = poll
        self._begin(poll, now)

    def leave(self, token: Any, now: Instant) -> None:
        poll = self._polls.pop(token, None)
        if poll is None:
            return
        poll.is_gone = True
        if poll.call is not None:
            self._calls.cancel(poll.call)  # its answer may be on its way all the same
        self._part(poll, now)

    def _finish(self, poll: _Poll, placed: Placed, now: Instant) -> None:
        self._polls.pop(poll.token, None)
        self._part(poll, now)
        if not poll.is_gone:
            self._calls.output.replies.append(Reply(poll.token, (placed,)))
        elif isinstance(placed.outcome, Delivery) and placed.outcome.messages and placed.address is not None:
            self._give_back(poll.queue, placed.address, placed.outcome.messages, now)

    def _part(self, poll: _Poll, now: Instant) -> None:
        """It waits no more."""
        poll.is_over = True
        self._pausing.pop(poll, None)
        self._unlisten(poll, now)

    # Asking lane after lane

    def _begin(self, poll: _Poll, now: Instant) -> None:
        poll.layout = layout = self._calls.table.layout(poll.queue)
        if layout is None:
            self._finish(poll, Placed(QueueDoesNotExist()), now)
            return
        rows = layout.served_lanes()
        start = self._calls.choose(len(rows)) if len(rows) > 1 else 0
        rows = rows[start:] + rows[:start]
        has_attempt = bool(poll.action.receive.attempt_id) and len(rows) > 1 and not poll.is_known
        poll.to_ask = [*((row, True) for row in rows if has_attempt), *((row, False) for row in rows)]
        poll.is_answered, poll.refusal = False, None
        self._next(poll, now)

    def _next(self, poll: _Poll, now: Instant) -> None:
        """The next lane that somebody leads; who did not answer lately is left out where there are others."""
        assert poll.layout is not None, "a round has begun"
        is_only = len(poll.layout.lanes) == 1
        while poll.to_ask:
            row, is_repeat = poll.to_ask.pop(0)
            seat = self._calls.seat(row)
            if seat is None or (not is_only and self._calls.is_resting(seat.host, now)):
                continue
            wait_s = max(0, -((now - poll.until) // SECOND)) if is_only else 0
            poll.asking, poll.seat = (row, is_repeat), seat
            command = self._receive(poll, row, now, is_repeat=is_repeat)
            poll.call = self._calls.start(poll, seat, row.shard, [command], now, token=poll.token, wait_s=wait_s)
            return
        poll.is_known = True
        self._rest(poll, now)

    def _receive(self, poll: _Poll, row: LaneRow, now: Instant, *, is_repeat: bool) -> Receive:
        name, first = poll.requests.setdefault(row.lane, (self._calls.request_id(), now))
        request = Request(name, now - first)
        return msgspec.structs.replace(poll.action.receive, lane=row.lane, request=request, is_repeat_only=is_repeat)

    def _rest(self, poll: _Poll, now: Instant) -> None:
        """Every lane was asked: reply, listen, or try again in a while."""
        refusal, is_over = poll.refusal, now >= poll.until
        if refusal is not None and not isinstance(refusal, ServiceUnavailable):
            self._finish(poll, Placed(refusal), now)
        elif poll.is_gone or (is_over and (poll.is_answered or poll.action.wait_s)):
            self._finish(poll, Placed(EMPTY_DELIVERY), now)
        elif is_over and now >= poll.patience:
            self._finish(poll, Placed(refusal or NotPrimary("Nobody leads this queue at the moment.")), now)
        elif not is_over and not poll.requests and poll.layout is not None and len(poll.layout.lanes) > 1:
            self._listen(poll, now)
        else:
            poll.tries += 1
            poll.detours = 0
            self._unlisten(poll, now)  # or a report would send it to ask while it waits to ask
            self._pausing[poll] = None
            end = poll.patience if is_over else poll.until
            self._calls.alarm(min(Instant(now + self._calls.backoff(poll.tries)), end), poll)

    # Listening

    def _listen(self, poll: _Poll, now: Instant) -> None:
        assert poll.layout is not None, "a round has begun"
        if not poll.posts:
            self._calls.alarm(poll.until, poll)
        for row in poll.layout.served_lanes():
            post = self._posts.setdefault(row.lane, _Post(row))
            post.polls[poll] = poll.posts[post] = None
            self._question(post, now)

    def _unlisten(self, poll: _Poll, now: Instant) -> None:
        posts, poll.posts = poll.posts, {}
        for post in posts:
            del post.polls[poll]
            self._question(post, now)

    def _question(self, post: _Post, now: Instant) -> None:
        """Puts the question if somebody wants to know and it is not open already."""
        if not post.polls and post.call is None and self._posts.get(post.row.lane) is post:
            del self._posts[post.row.lane]
        if post.call is not None or post.woken or post.is_pausing or all(poll.call is not None for poll in post.polls):
            return
        seat = self._calls.seat(post.row)
        if seat is None:
            self._later(post, now)
            return
        post.seat = seat
        watch = [Watch(post.row.lane)]
        post.call = self._calls.start(post, seat, post.row.shard, watch, now, wait_s=WAIT_MAX_S)

    def _later(self, post: _Post, now: Instant) -> None:
        post.tries += 1
        post.is_pausing = True
        self._calls.alarm(Instant(now + self._calls.backoff(post.tries)), post)

    def _reported(self, post: _Post, visible: int, now: Instant) -> None:
        post.tries = 0
        for poll in [poll for poll in post.polls if poll.call is None][:visible]:
            poll.to_ask.append((post.row, False))
            self._next(poll, now)
            post.woken = post.woken or poll.call is not None
        self._question(post, now)

    # Back from hosts

    def answered(self, owner: Any, outcome: Outcome, letters: Any, now: Instant) -> None:
        if isinstance(owner, _Post):
            owner.call = None
            self._watched(owner, outcome, now)
        else:
            assert isinstance(owner, _Poll), "who else asks"
            self._received(owner, outcome, letters, now)

    def _watched(self, post: _Post, outcome: Outcome, now: Instant) -> None:
        if isinstance(outcome, Watched):
            self._reported(post, outcome.visible, now)
            return
        if isinstance(outcome, NotPrimary):
            self._calls.hint(post.row.shard, outcome)
        self._later(post, now)

    def _received(self, poll: _Poll, outcome: Outcome, letters: Any, now: Instant) -> None:
        row, is_repeat = self._back(poll, now)
        poll.requests.pop(row.lane, None)
        if isinstance(outcome, Delivery) and outcome.messages:
            self._finish(poll, Placed(outcome, row.address, letters), now)
            return
        if isinstance(outcome, NotPrimary):
            self._calls.hint(row.shard, outcome)
            if self._calls.table.seat(row.shard) != poll.seat and poll.detours < DETOURS_MAX:
                poll.detours += 1
                poll.to_ask.insert(0, (row, is_repeat))
        elif isinstance(outcome, QueueDoesNotExist) and self._has_moved(poll):
            pass  # a lane that is gone; the next round knows
        elif isinstance(outcome, HoldfastError):
            poll.refusal = outcome
        else:
            poll.is_answered = True
        self._go_on(poll, now)

    def lost(self, owner: Any, now: Instant, *, is_sent: bool) -> None:
        if isinstance(owner, _Post):
            owner.call = None
            self._later(owner, now)
            return
        row, _ = self._back(owner, now)
        if not is_sent:
            owner.requests.pop(row.lane, None)
        self._go_on(owner, now)

    def _back(self, poll: _Poll, now: Instant) -> tuple[LaneRow, bool]:
        """Its ask is over. Whoever waits for the lane may ask again."""
        assert poll.asking is not None, "it was asking"
        (row, is_repeat), poll.asking, poll.call = poll.asking, None, None
        post = self._posts.get(row.lane)
        if post is not None and post.woken:
            post.woken = False
            self._question(post, now)
        return row, is_repeat

    def _go_on(self, poll: _Poll, now: Instant) -> None:
        if poll.is_gone:
            self._finish(poll, Placed(EMPTY_DELIVERY), now)
        else:
            self._next(poll, now)

    def _has_moved(self, poll: _Poll) -> bool:
        return poll.layout is not None and len(poll.layout.lanes) > 1

    # Time and change

    def due(self, what: Any, now: Instant) -> None:
        if isinstance(what, _Post):
            what.is_pausing = False
            self._question(what, now)
        elif what in self._pausing:
            del self._pausing[what]
            self._begin(what, now)
        elif not what.is_over and what.call is None and now >= what.until:
            self._finish(what, Placed(EMPTY_DELIVERY), now)

    def table_changed(self, now: Instant) -> None:
        """Who waits where nobody answers any more asks the new leader; who listens hears of new lanes."""
        for post in list(self._posts.values()):
            if post.call is not None and self._calls.seat(post.row) != post.seat:
                self._abandon(post.call)
                post.call = None
            post.is_pausing = False
            self._question(post, now)
        for poll in list(self._polls.values()):
            if poll.call is not None and poll.action.wait_s and self._has_changed(poll):
                self._abandon(poll.call)
                self.lost(poll, now, is_sent=True)
            elif poll in self._pausing or (poll.call is None and self._calls.table.layout(poll.queue) != poll.layout):
                self._pausing.pop(poll, None)
                self._unlisten(poll, now)
                self._begin(poll, now)

    def _has_changed(self, poll: _Poll) -> bool:
        """Somebody else leads the lane that it asks."""
        return poll.asking is not None and self._calls.seat(poll.asking[0]) not in (None, poll.seat)

    def _abandon(self, call: int) -> None:
        self._calls.cancel(call)
        self._calls.close(call)
