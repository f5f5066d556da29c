"""A FIFO queue against a model that is a list, read from its beginning for every question. Answers must be equal.

Time moves in whole seconds, so that the grid of timers plays no part, and after every move the shard looks after
itself, so that what is over is gone.
"""

from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast.core.errors import InvalidParameterValue
from holdfast.core.limits import ATTEMPT_WINDOW, DEDUP_WINDOW, SECOND, VISIBILITY_MAX_S
from holdfast.core.queue import command as c
from holdfast.core.queue import receive
from holdfast.core.types import Kind, LaneConfig, Lsn, Receipt
from tests.core.one_shard import LANE, SETTINGS, SMALL, OneShard, receipt_of
from tests.scenarios.world import changed_limits

CHOICE = st.integers(0, 5) | st.integers(0, 1 << 16)  # mostly the last ones given
SELDOM = st.sampled_from([True] + 4 * [False])
GROUPS = st.sampled_from(["a", "b", "c", "d", "e"])
SECONDS = st.sampled_from([0, 1, 2, 5, 30])
NAMES = st.integers(1, 30).map(str) | st.just("")
SENDS = st.tuples(GROUPS, NAMES, st.sampled_from([0, 0, 3, 20]))


@dataclass
class Message:
    body: str
    group: str
    sent: int
    deadline: int
    accepted: c.Accepted
    hidden_until: int = 0
    received: int = 0
    receives: int = 0
    receipt: Receipt | None = None  # of the last receive
    attempt: str = ""  # that may ask for it again


@dataclass
class Attempt:
    time: int
    messages: list[Message]


class FifoQueue(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.real = OneShard()
        self.config = LaneConfig(kind=Kind.FIFO, is_strict=False, retention_s=600)
        self.real.configure(self.config)
        self.queue: list[Message] = []  # everything that is there, oldest first
        self.ids: dict[tuple[str, str], tuple[int, c.Accepted]] = {}  # (scope, id) -> when and what
        self.attempts: dict[str, Attempt] = {}
        self.handles: list[tuple[Message, Receipt]] = []
        self.sent = 0
        self.has_ttl = self.is_checked = self.is_small = False
        self.limits = ExitStack()

    @property
    def now(self) -> int:
        return self.real.time

    def is_hidden(self, message: Message) -> bool:
        return message.hidden_until > self.now

    def is_delayed(self, message: Message) -> bool:
        return not message.receives and message.sent + self.config.delay_s * SECOND > self.now

    def forget_what_is_over(self) -> None:
        retention = self.config.retention_s * SECOND
        self.queue = [
            each for each in self.queue if each.sent + retention > self.now and not 0 < each.deadline <= self.now
        ]

    # what clients do

    @initialize(is_checked=st.booleans(), has_ttl=st.booleans(), is_small=st.booleans())
    def choose(self, is_checked: bool, has_ttl: bool, is_small: bool) -> None:
        """Small windows and stretches make a few messages behave like thousands, of which not all are loaded. Then a
        time to live is not always noticed at once, so these runs have none."""
        self.is_checked, self.has_ttl, self.is_small = is_checked, has_ttl, is_small and not has_ttl
        self.limits.enter_context(changed_limits(SMALL if self.is_small else {}))

    @rule(several=st.lists(SENDS, min_size=1, max_size=5))
    def send(self, several: list[tuple[str, str, int]]) -> None:
        for group, name, ttl in several:
            self.send_one(group, name, ttl)

    def send_one(self, group: str, name: str, ttl: int) -> None:
        body = f"m{self.sent}"
        self.sent += 1
        ttl_s = ttl if self.has_ttl else 0
        if not name and not self.config.content_deduplication:
            command = c.Send(LANE, body.encode(), body.encode(), len(body), group)
            assert isinstance(self.real.refusal(command), InvalidParameterValue)
            return
        accepted = self.real.send(body, group=group, deduplication_id=name, time_to_live_s=ttl_s)
        for scope in ("", group):
            when, original = self.ids.get((scope, name or body), (-DEDUP_WINDOW, accepted))
            if self.now < when + DEDUP_WINDOW:
                assert accepted == original
                return
        assert all(each.accepted.seq < accepted.seq for each in self.queue), "sequence numbers rise"
        scope = group if self.config.deduplication_per_group else ""
        self.ids[scope, name or body] = (self.now, accepted)
        self.queue.append(Message(body, group, self.now, self.now + ttl_s * SECOND if ttl_s else 0, accepted))

    def expected(self, count_max: int) -> list[Message]:
        """Group by group, the one with the oldest message first; in a group up to the first that is invisible."""
        found: list[Message] = []
        for group in dict.fromkeys(each.group for each in self.queue):
            for message in self.queue:
                if message.group == group and (self.is_hidden(message) or self.is_delayed(message)):
                    break
                found += [message] if message.group == group else []
        return found[:count_max]

    @precondition(lambda self: self.queue)
    @rule(count_max=st.integers(1, 10), timeout=st.none() | SECONDS, attempt=st.sampled_from(["", "", "x", "y"]))
    def receive(self, count_max: int, timeout: int | None, attempt: str) -> None:
        timeout_s = self.config.visibility_timeout_s if timeout is None else timeout
        earlier = self.attempts.get(attempt)
        is_repeat = earlier is not None and self.is_repeatable(attempt, earlier)
        expected = earlier.messages if earlier is not None and is_repeat else self.expected(count_max)
        delivered = self.real.receive(count_max, timeout, attempt=attempt)
        if self.is_small and not is_repeat:
            expected = self.legal(delivered, count_max)
        assert [self.real.body(each) for each in delivered] == [each.body for each in expected]
        for message, each in zip(expected, delivered, strict=True):
            message.receives += not is_repeat
            message.received = self.now
            message.hidden_until = self.now + timeout_s * SECOND
            assert each.count == message.receives
            if is_repeat:
                assert receipt_of(each) == message.receipt
            else:
                message.receipt, message.attempt = receipt_of(each), attempt
                self.handles.append((message, receipt_of(each)))
        if attempt and expected and not is_repeat:
            self.attempts[attempt] = Attempt(self.now, sorted(expected, key=lambda each: each.accepted.seq))

    @precondition(lambda self: self.queue)
    @rule(count_max=st.integers(1, 10), uncommitted=st.integers(0, 6))
    def ask_both_ways(self, count_max: int, uncommitted: int) -> None:
        """The quick way of receive.py says what fifo.py says, also while the last messages are not committed."""
        shard, command = self.real.shard, c.Receive(LANE, count_max, 30)
        committed = Lsn(max(0, shard.lsn - uncommitted))
        quick = shard.decide(command, committed)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(receive, "_group_heads", lambda *_: None)
            general = shard.decide(command, committed)
        assert quick == general

    @precondition(lambda self: self.queue)
    @rule(count_max=st.integers(1, 10))
    def consume(self, count_max: int) -> None:
        """What most clients do."""
        before = len(self.handles)
        self.receive(count_max, 30, "")
        for _ in range(len(self.handles) - before):
            self.delete_one(*self.handles.pop())

    def legal(self, delivered: list[c.Delivered], count_max: int) -> list[Message]:
        """Where not everything is loaded: something, if there is something, and each group from its beginning on."""
        everything = self.expected(len(self.queue))
        by_body = {each.body: each for each in everything}
        got = [by_body[self.real.body(each)] for each in delivered]
        for group in {each.group for each in got}:
            mine = [each for each in got if each.group == group]
            assert mine == [each for each in everything if each.group == group][: len(mine)]
        assert min(1, len(everything)) <= len(got) <= count_max
        return got

    def is_repeatable(self, attempt: str, earlier: Attempt) -> bool:
        are_held = all(
            each in self.queue and self.is_hidden(each) and each.attempt == attempt for each in earlier.messages
        )
        return are_held and self.now < earlier.time + ATTEMPT_WINDOW

    def is_current(self, message: Message, receipt: Receipt) -> bool:
        return message.receipt == receipt and self.is_hidden(message)

    @precondition(lambda self: self.handles)
    @rule(chosen=CHOICE)
    def delete(self, chosen: int) -> None:
        self.delete_one(*self.handles[-1 - chosen % len(self.handles)])

    def delete_one(self, message: Message, receipt: Receipt) -> None:
        refusal = self.real.refusal(c.Delete(LANE, receipt))
        if message in self.queue and not self.is_current(message, receipt):
            assert isinstance(refusal, InvalidParameterValue)
            assert "expired" in refusal.message
            return
        assert refusal is None
        self.queue = [each for each in self.queue if each is not message]

    @precondition(lambda self: self.handles)
    @rule(chosen=CHOICE, timeout=SECONDS | st.just(VISIBILITY_MAX_S))
    def change_visibility(self, chosen: int, timeout: int) -> None:
        message, receipt = self.handles[-1 - chosen % len(self.handles)]
        is_too_long = self.now + timeout * SECOND > message.received + VISIBILITY_MAX_S * SECOND
        refusal = self.real.refusal(c.ChangeVisibility(LANE, receipt, timeout))
        if message not in self.queue or not self.is_current(message, receipt) or is_too_long:
            assert isinstance(refusal, InvalidParameterValue)
            return
        assert refusal is None
        message.hidden_until = self.now + timeout * SECOND
        message.attempt = ""

    # what owners and time do

    @precondition(lambda self: self.queue)
    @rule(seconds=st.sampled_from([1, 2, 5, 30, 60, 299, 300]))
    def time_passes(self, seconds: int) -> None:
        self.real.advance(seconds)
        self.forget_what_is_over()

    @precondition(lambda self: self.queue)
    @rule(
        visibility=st.sampled_from([0, 5, 30]),
        delay=st.sampled_from([0, 0, 10]),
        retention=st.sampled_from([60, 600, 6000]),
        flags=st.tuples(st.booleans(), st.booleans()),
        is_meant=SELDOM,
    )
    def reconfigure(
        self, visibility: int, delay: int, retention: int, flags: tuple[bool, bool], is_meant: bool
    ) -> None:
        if not is_meant:
            return
        self.config = LaneConfig(
            version=self.config.version + 1,
            kind=Kind.FIFO,
            is_strict=False,
            visibility_timeout_s=visibility,
            delay_s=delay,
            retention_s=retention,
            deduplication_per_group=flags[0],
            content_deduplication=flags[1],
        )
        self.real.configure(self.config)
        self.real.tick()
        self.forget_what_is_over()

    @precondition(lambda self: len(self.queue) > 4)
    @rule(is_meant=SELDOM)
    def purge(self, is_meant: bool) -> None:
        if not is_meant:
            return
        self.real.do(c.Purge(LANE, "q"))
        self.queue, self.ids, self.attempts = [], {}, {}

    @precondition(lambda self: self.queue)
    @rule(chosen=st.integers(0, 1000))
    def restart(self, chosen: int) -> None:
        self.real.restart(lambda count: chosen % count)

    @precondition(lambda self: self.queue)
    @rule(what=st.sampled_from(["drop", "compact", "snapshot"]))
    def housekeeping(self, what: str) -> None:
        chores = {"drop": self.real.drop_windows, "compact": self.real.compact}
        chores.get(what, self.real.log.keep_snapshot)()

    # what holds after every step

    @invariant()
    def counts_agree(self) -> None:
        counts = self.real.do(c.Count(LANE))
        assert counts.in_flight == sum(map(self.is_hidden, self.queue))
        assert counts.delayed == sum(map(self.is_delayed, self.queue))
        assert counts.visible == len(self.queue) - counts.in_flight - counts.delayed
        assert counts.bytes == sum(len(each.body) for each in self.queue)

    @invariant()
    def state_follows_from_the_log(self) -> None:
        if self.is_checked:
            self.real.check()

    def teardown(self) -> None:
        """In the end each group can be received in its order."""
        self.real.advance(59)
        self.forget_what_is_over()
        while self.expected(1):
            self.receive(10, 3600, "")
        assert self.real.bodies(10, 3600) == []
        self.real.check()
        self.limits.close()


TestFifoQueue = FifoQueue.TestCase
TestFifoQueue.settings = SETTINGS
