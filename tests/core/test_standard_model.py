"""A standard queue against a model that is a list: what may be handed out, what must be, and how much is counted.

The model knows two things that it cannot decide: a message whose time is over may be removed at once or when somebody
meets it, and timers fire on a grid of 50 ms. Where that matters it says "may".
"""

from contextlib import ExitStack
from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast.core.errors import InvalidParameterValue
from holdfast.core.limits import SECOND, VISIBILITY_MAX_S
from holdfast.core.queue import command as c
from holdfast.core.queue.wheel import on_grid
from holdfast.core.types import LaneConfig, Receipt
from tests.core.one_shard import LANE, SETTINGS, SMALL, OneShard, receipt_of
from tests.scenarios.world import changed_limits

HANDLES = st.integers(0, 5) | st.integers(0, 1 << 16)  # mostly the last ones given
SECONDS = st.sampled_from([0, 1, 2, 5, 30])
SENDS = st.tuples(
    st.none() | st.none() | SECONDS,  # a delay of its own
    st.none() | st.sampled_from([0, 3, 20]),  # a time to live of its own
    st.sampled_from(["", "", "a", "b"]),  # a group
)
SELDOM = st.sampled_from([True] + 4 * [False])


@dataclass
class Message:
    body: str
    sent: int
    visible_at: int  # at the latest on the grid
    deadline: int  # 0: none
    is_deleted: bool = False
    hidden_until: int = 0
    received: int = 0  # when last
    receives: int = 0
    handles: list[Receipt] = field(default_factory=list)


class StandardQueue(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.real = OneShard()
        self.config = LaneConfig(is_strict=False, retention_s=600)
        self.real.configure(self.config)
        self.messages: list[Message] = []
        self.handles: list[tuple[Message, Receipt]] = []
        self.is_checked = self.has_groups = False
        self.limits = ExitStack()

    @property
    def now(self) -> int:
        return self.real.time

    def is_over(self, message: Message) -> bool:
        expiry = message.sent + self.config.retention_s * SECOND
        return expiry <= self.now or 0 < message.deadline <= self.now

    def alive(self) -> list[Message]:
        return [each for each in self.messages if not each.is_deleted and not self.is_over(each)]

    def may_be_there(self) -> list[Message]:
        return [each for each in self.messages if not each.is_deleted]

    def may_be_visible(self, message: Message) -> bool:
        return message.visible_at <= self.now and message.hidden_until <= self.now

    def must_be_visible(self, message: Message) -> bool:
        return on_grid(message.visible_at) <= self.now and message.hidden_until <= self.now

    # what clients do

    @initialize(is_checked=st.booleans(), is_small=st.booleans(), has_groups=st.booleans())
    def choose(self, is_checked: bool, is_small: bool, has_groups: bool) -> None:
        """A dump moves time on in every lane; so half of the runs go without, lest it hide a timer that is missing.
        Small windows and stretches of the log make a few messages behave like thousands."""
        self.is_checked, self.has_groups = is_checked, has_groups
        self.limits.enter_context(changed_limits(SMALL if is_small else {}))

    @rule(several=st.lists(SENDS, min_size=1, max_size=5))
    def send(self, several: list[tuple[int | None, int | None, str]]) -> None:
        for delay, ttl, group in several:
            self.send_one(delay, ttl, group)

    def send_one(self, delay: int | None, ttl: int | None, group: str) -> None:
        body = f"m{len(self.messages)}"
        self.real.send(body, delay_s=delay, time_to_live_s=ttl, group=group if self.has_groups else "")
        delay_s = self.config.delay_s if delay is None else delay
        ttl_s = self.config.time_to_live_s if ttl is None else ttl
        deadline = self.now + ttl_s * SECOND if ttl_s else 0
        self.messages.append(Message(body, self.now, self.now + delay_s * SECOND, deadline))

    @precondition(lambda self: self.alive())
    @rule(count_max=st.integers(1, 10), timeout=st.none() | SECONDS)
    def receive(self, count_max: int, timeout: int | None) -> None:
        timeout_s = self.config.visibility_timeout_s if timeout is None else timeout
        must = sum(map(self.must_be_visible, self.alive()))
        may = [each.body for each in self.alive() if self.may_be_visible(each)]
        delivered = self.real.receive(count_max, timeout)
        bodies = [self.real.body(each) for each in delivered]
        assert len(set(bodies)) == len(bodies), "nothing is handed out twice in one receive"
        assert set(bodies) <= set(may), "only what is visible is handed out"
        fewest = min(1, must) if self.has_groups else min(count_max, must)  # with groups it may answer what is loaded
        assert fewest <= len(bodies) <= min(count_max, len(may))
        for body, each in zip(bodies, delivered, strict=True):
            message = next(message for message in self.messages if message.body == body)
            message.receives += 1
            message.received = self.now
            message.hidden_until = on_grid(self.now + timeout_s * SECOND) if timeout_s else self.now
            assert each.count == message.receives
            self.handles.append((message, receipt_of(each)))

    @precondition(lambda self: self.alive())
    @rule(count_max=st.integers(1, 10))
    def consume(self, count_max: int) -> None:
        """What most clients do."""
        before = len(self.handles)
        self.receive(count_max, 30)
        for _ in range(len(self.handles) - before):
            self.delete(0)
            self.handles.pop()

    @precondition(lambda self: self.handles)
    @rule(chosen=HANDLES)
    def delete(self, chosen: int) -> None:
        message, receipt = self.handles[-1 - chosen % len(self.handles)]
        self.real.do(c.Delete(LANE, receipt))
        message.is_deleted = True

    @precondition(lambda self: self.handles)
    @rule(chosen=HANDLES, timeout=SECONDS | st.just(VISIBILITY_MAX_S))
    def change_visibility(self, chosen: int, timeout: int) -> None:
        message, receipt = self.handles[-1 - chosen % len(self.handles)]
        is_too_long = self.now + timeout * SECOND > message.received + VISIBILITY_MAX_S * SECOND
        refusal = self.real.refusal(c.ChangeVisibility(LANE, receipt, timeout))
        assert refusal is None or isinstance(refusal, InvalidParameterValue)
        if message.is_deleted or is_too_long:
            assert refusal is not None
        elif not self.is_over(message):
            assert refusal is None
        if refusal is None:
            message.hidden_until = on_grid(self.now + timeout * SECOND) if timeout else self.now

    # what owners and time do

    @precondition(lambda self: self.alive())
    @rule(seconds=st.sampled_from([0.01, 0.05, 1.0, 3.0, 29.97, 60.0]))
    def time_passes(self, seconds: float) -> None:
        self.real.advance(seconds)

    @precondition(lambda self: self.alive())
    @rule(
        visibility=st.sampled_from([0, 5, 30]),
        delay=st.sampled_from([0, 0, 4]),
        retention=st.sampled_from([60, 600, 6000]),
        ttl=st.sampled_from([0, 0, 40]),
        is_meant=SELDOM,
    )
    def reconfigure(self, visibility: int, delay: int, retention: int, ttl: int, is_meant: bool) -> None:
        """Shortening the retention ends messages for good: lengthening it again must not matter to the model."""
        if not is_meant:
            return
        self.forget_what_is_over()
        self.config = LaneConfig(
            version=self.config.version + 1,
            is_strict=False,
            visibility_timeout_s=visibility,
            delay_s=delay,
            retention_s=retention,
            time_to_live_s=ttl,
        )
        self.real.configure(self.config)
        self.real.tick()
        self.forget_what_is_over()

    def forget_what_is_over(self) -> None:
        """Whatever is over and may still be there is received by nobody; here it is made sure that it is gone."""
        if any(self.is_over(each) for each in self.may_be_there()):
            self.purge()

    @precondition(lambda self: len(self.alive()) > 4)
    @rule(is_meant=SELDOM)
    def purge_seldom(self, is_meant: bool) -> None:
        if is_meant:
            self.purge()

    def purge(self) -> None:
        self.real.do(c.Purge(LANE, "q"))
        for message in self.messages:
            message.is_deleted = True

    @precondition(lambda self: self.alive())
    @rule(chosen=st.integers(0, 1000))
    def restart(self, chosen: int) -> None:
        self.real.restart(lambda count: chosen % count)

    @precondition(lambda self: self.alive())
    @rule(what=st.sampled_from(["drop", "compact", "snapshot"]))
    def housekeeping(self, what: str) -> None:
        chores = {"drop": self.real.drop_windows, "compact": self.real.compact}
        chores.get(what, self.real.log.keep_snapshot)()

    # what holds after every step

    @invariant()
    def counts_agree(self) -> None:
        counts = self.real.do(c.Count(LANE))
        alive, may = self.alive(), self.may_be_there()
        total = counts.visible + counts.in_flight + counts.delayed
        assert len(alive) <= total <= len(may)
        if len(alive) < len(may):
            return
        assert counts.in_flight == sum(each.hidden_until > self.now for each in alive)
        surely = sum(each.visible_at > self.now for each in alive)
        perhaps = sum(on_grid(each.visible_at) > self.now and not each.receives for each in alive)
        assert surely <= counts.delayed <= perhaps
        assert counts.bytes == sum(len(each.body) for each in alive)

    @invariant()
    def state_follows_from_the_log(self) -> None:
        if self.is_checked:
            self.real.check()

    def teardown(self) -> None:
        """In the end everything that is alive can be received."""
        self.real.advance(59.96)
        left = {each.body for each in self.alive() if on_grid(each.visible_at) <= self.now >= each.hidden_until}
        found: set[str] = set()
        while bodies := self.real.bodies(10, 3600):
            found |= set(bodies)
        self.real.check()
        self.limits.close()
        assert left == found


TestStandardQueue = StandardQueue.TestCase
TestStandardQueue.settings = SETTINGS
