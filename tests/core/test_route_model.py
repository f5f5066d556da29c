"""A front-end's router before real shards, over a network that loses, delays and repeats nothing but retries do.

A call may be carried out and its answer lost, carried out long after the router gave it up, refused, or never leave.
Leaders change, and the router hears of it late. Clients are answered once; what is acknowledged is there, once where
there is one lane; what is refused is not there; a wait never ends with the failure of a host; nothing is handed to two.
"""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from holdfast.core.cluster import calls
from holdfast.core.cluster.calls import Call, Left
from holdfast.core.cluster.table import Seat
from holdfast.core.coordination.cluster import HostId
from holdfast.core.errors import HoldfastError, NotPrimary, OutcomeUnknown, ServiceUnavailable
from holdfast.core.limits import SECOND
from holdfast.core.queue import command as c
from holdfast.core.types import Epoch, Instant, Kind, LaneConfig, LaneId, ShardId
from tests.core.front import HOSTS, Front, moves_to
from tests.core.one_shard import SETTINGS, OneShard

CHOICE = st.integers(0, 1 << 16)
VISIBILITY_S = 3600


class Asked:
    """What a client wants, and what it was told."""

    def __init__(self, bodies: tuple[str, ...] = (), wait_s: int = 0) -> None:
        self.bodies = bodies
        self.wait_s = wait_s
        self.is_gone = False


class Routed(RuleBasedStateMachine):
    @initialize(lanes=st.sampled_from([1, 1, 3]), is_fifo=st.booleans())
    def begin(self, lanes: int, is_fifo: bool) -> None:
        self.is_fifo = is_fifo and lanes == 1
        self.front = Front(lanes)
        self.front.chosen = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5] * 20
        self.leaders = {ShardId(n): (HOSTS[n - 1], Epoch(1)) for n in range(1, lanes + 1)}
        self.shards = {shard: OneShard(shard) for shard in self.leaders}
        kind = Kind.FIFO if self.is_fifo else Kind.STANDARD
        for shard, one in self.shards.items():
            one.configure(LaneConfig(kind=kind, visibility_timeout_s=VISIBILITY_S), LaneId(shard))
        self.asked: dict[int, Asked] = {}
        self.given_up: dict[int, Call] = {}  # by the network; hosts may still get them
        self.waiting: dict[int, tuple[Call, Instant]] = {}  # at a host, until when
        self.handed: dict[tuple[LaneId, int, int], int] = {}  # (lane, seq, number of the receive) -> client
        self.sent = 0

    # clients

    @rule(count=st.integers(1, 3))
    def send(self, count: int) -> None:
        bodies = tuple(f"m{self.sent + number}" for number in range(count))
        self.sent += count
        sends = tuple(
            c.Send(LaneId(0), body.encode(), body.encode(), 1, *(("g", body) if self.is_fifo else ()))
            for body in bodies
        )
        self.ask(calls.SendAll(sends, is_fifo=self.is_fifo), Asked(bodies))

    @rule(wait_s=st.sampled_from([0, 0, 5, 20]), count_max=st.integers(1, 4))
    def receive(self, wait_s: int, count_max: int) -> None:
        self.ask(calls.ReceiveAny(c.Receive(LaneId(0), count_max), wait_s), Asked(wait_s=wait_s))

    def ask(self, action: calls.Action, asked: Asked) -> None:
        self.asked[self.front.tokens + 1] = asked
        self.front.ask(action)

    @precondition(lambda self: len(self.asked) > len(self.front.replies))
    @rule(chosen=CHOICE)
    def leave(self, chosen: int) -> None:
        open_ones = [token for token in self.asked if token not in self.front.replies]
        token = open_ones[chosen % len(open_ones)]
        self.asked[token].is_gone = True
        self.front.step(Left(token))

    # hosts and network

    @precondition(lambda self: self.front.open)
    @rule(chosen=CHOICE, how=st.sampled_from(["answer"] * 4 + ["lost", "unsent", "late", "refuse"]))
    def carry(self, chosen: int, how: str) -> None:
        numbers = list(self.front.open)
        call = self.front.open[numbers[chosen % len(numbers)]]
        if how == "unsent":
            self.front.lose(call, is_sent=False)
        elif how == "late":
            self.given_up[call.id] = call
            self.front.lose(call)
        elif how == "lost":
            self.serve(call)
            self.front.lose(call)
        elif how == "refuse":
            self.front.answer(call, *[NotPrimary() for _ in call.commands])
        else:
            self.answer(call)

    def answer(self, call: Call) -> None:
        outcomes = self.serve(call)
        if call.wait_s and (outcomes[0] == c.EMPTY_DELIVERY or outcomes[0] == c.NOTHING_VISIBLE):
            self.waiting[call.id] = (call, Instant(self.front.now + call.wait_s * SECOND))
            return
        self.front.answer(call, *outcomes)

    def serve(self, call: Call) -> list[Any]:
        """What the host that the call reached answers."""
        host, epoch = self.leaders[call.shard]
        if (call.host, call.epoch) != (host, epoch):
            return [NotPrimary(host=host, epoch=epoch) for _ in call.commands]
        one = self.shards[call.shard]
        one.time = max(one.time, self.front.now)
        outcomes: list[Any] = []
        for command in call.commands:
            try:
                outcomes.append(one.do(command))
            except HoldfastError as refusal:
                outcomes.append(refusal)
        return outcomes

    @precondition(lambda self: self.given_up)
    @rule(chosen=CHOICE)
    def arrive_late(self, chosen: int) -> None:
        """A call that the router gave up reaches its host all the same."""
        numbers = list(self.given_up)
        self.serve(self.given_up.pop(numbers[chosen % len(numbers)]))

    @precondition(lambda self: self.waiting)
    @rule()
    def look_after_waiters(self) -> None:
        for call, until in list(self.waiting.values()):
            outcomes = self.serve(call) if call.id in self.front.open else []
            is_empty = bool(outcomes) and outcomes[0] in (c.EMPTY_DELIVERY, c.NOTHING_VISIBLE)
            if call.id in self.front.cancelled or not outcomes:
                del self.waiting[call.id]
            elif not is_empty or until <= self.front.now:
                del self.waiting[call.id]
                self.front.answer(call, *outcomes)
        self.check()

    @rule(chosen=CHOICE, is_heard=st.booleans())
    def change_leader(self, chosen: int, is_heard: bool) -> None:
        shard = list(self.leaders)[chosen % len(self.leaders)]
        host, epoch = self.leaders[shard]
        others = [each for each in HOSTS if each != host]
        self.leaders[shard] = (others[chosen % len(others)], Epoch(epoch + 1))
        self.shards[shard].restart()
        if is_heard:
            self.tell()

    @rule()
    def tell(self) -> None:
        for shard, (host, epoch) in self.leaders.items():
            if self.front.table.seat(shard) != Seat(host, epoch):
                self.front.change(moves_to(shard, HostId(host), epoch))

    @rule(tenths=st.sampled_from([1, 2, 5, 30, 60]))
    def time_passes(self, tenths: int) -> None:
        self.front.wait(tenths / 10)
        self.check()

    # what holds

    def check(self) -> None:
        for token, outcomes in self.front.replies.items():
            asked = self.asked[token]
            assert not asked.is_gone, "who left is handed nothing"
            for placed in outcomes:
                if asked.wait_s:
                    assert not isinstance(placed.outcome, ServiceUnavailable | OutcomeUnknown)
                if isinstance(placed.outcome, c.Delivery) and placed.address is not None:
                    for each in placed.outcome.messages:
                        key = (placed.address.lane, each.header.seq, each.number)
                        assert self.handed.setdefault(key, token) == token, "handed to two"

    def bodies(self) -> list[str]:
        """Everything that was ever stored, in the order of the lanes."""
        found = []
        for one in self.shards.values():
            headers = one.log.headers_of(LaneId(one.shard.shard))
            found += [one.log.message(at).content.decode() for at in headers]
        return found

    def teardown(self) -> None:
        if not hasattr(self, "front"):
            return
        self.heal()
        self.check()
        stored = self.bodies()
        for token, asked in self.asked.items():
            assert asked.is_gone or token in self.front.replies, "everybody is answered"
            for body, placed in zip(asked.bodies, self.front.replies.get(token, ()), strict=False):
                count = stored.count(body)
                if isinstance(placed.outcome, c.Accepted):
                    assert count >= 1, "what is acknowledged is there"
                elif isinstance(placed.outcome, ServiceUnavailable):
                    assert count == 0, "what is refused is not"
                assert count < 2 or len(self.shards) > 1, "once where there is one lane"
            if self.is_fifo:
                assert [body for body in stored if body in asked.bodies] == [
                    body for body in asked.bodies if body in stored
                ], "a batch keeps its order"
        assert set(stored) <= {body for asked in self.asked.values() for body in asked.bodies}

    def heal(self) -> None:
        """Everything works again: calls are answered, old ones arrive, time passes."""
        for call in list(self.given_up.values()):
            self.serve(call)
        self.given_up.clear()
        self.tell()
        for _ in range(60):
            for call in list(self.front.open.values()):
                if call.id in self.front.open and call.id not in self.waiting:
                    self.answer(call)
            self.look_after_waiters()
            self.front.wait(1)


TestRouted = Routed.TestCase
TestRouted.settings = settings(SETTINGS, max_examples=max(150, SETTINGS.max_examples))
