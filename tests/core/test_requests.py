"""Asking again does not do it again: a run in which every request is repeated at random ends in the same state, byte by
byte, as one in which nothing was, and every retry gets the first answer."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import HoldfastError, OutcomeUnknown
from holdfast.core.limits import REQUEST_WINDOW, SECOND
from holdfast.core.queue import command as c
from holdfast.core.queue import state
from holdfast.core.queue.requests import Requests
from holdfast.core.queue.shard import Shard
from holdfast.core.types import Epoch, Instant, Kind, LaneConfig, Lsn, Seq
from tests.core.one_shard import LANE, SETTINGS, OneShard, receipt_of

Step = tuple[str, int, int]  # what, on which of the receipts or for how long, how often it is asked again
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["send", "send", "receive", "receive", "change", "delete", "wait"]),
        st.integers(0, 7),
        st.integers(0, 2),
    ),
    max_size=40,
)
CONFIGS = st.builds(LaneConfig, kind=st.sampled_from(Kind), is_strict=st.just(False))


class Client:
    """Takes the same steps whether its requests are repeated or not."""

    def __init__(self, config: LaneConfig, *, is_repeating: bool) -> None:
        self.one = OneShard()
        self.one.configure(config)
        self.group = "g" if config.kind is Kind.FIFO else ""
        self.is_repeating = is_repeating
        self.handles: list[c.Delivered] = []
        self.asked = 0

    def step(self, what: str, chosen: int, times: int) -> Any:
        self.asked += 1
        request = c.Request(self.asked.to_bytes(16))
        if what == "wait":
            self.one.advance(chosen)
            return None
        if what in ("change", "delete") and not self.handles:
            return None
        command: c.Command
        if what == "send":
            body = b"m%d" % self.asked
            command = c.Send(LANE, body, body, len(body), self.group, str(self.asked) if self.group else "")
        elif what == "receive":
            command = c.Receive(LANE, 1 + chosen % 3, 5)
        elif what == "change":
            command = c.ChangeVisibility(LANE, receipt_of(self.handles[chosen % len(self.handles)]), chosen % 4)
        else:
            return self.ask(c.Delete(LANE, receipt_of(self.handles[chosen % len(self.handles)])), times)
        answer = self.ask(msgspec.structs.replace(command, request=request), times)
        self.handles += answer.messages if isinstance(answer, c.Delivery) else ()
        return answer

    def ask(self, command: c.Command, times: int) -> Any:
        first = self.answer(command)
        for _ in range(times * self.is_repeating):
            self.one.restart(lambda count: self.asked % count)
            again = self.answer(command)
            if isinstance(first, HoldfastError):
                assert type(again) is type(first)
            else:
                assert (again, self.one.written) == (first, [])
        return first

    def answer(self, command: c.Command) -> Any:
        try:
            return self.one.do(command)
        except HoldfastError as refusal:
            return refusal


@SETTINGS
@given(CONFIGS, STEPS)
def test_a_run_with_repeated_requests_ends_as_one_without(config: LaneConfig, steps: list[Step]) -> None:
    once, again = Client(config, is_repeating=False), Client(config, is_repeating=True)
    for step in steps:
        answers = once.step(*step), again.step(*step)
        if not isinstance(answers[0], HoldfastError):
            assert answers[0] == answers[1]
    once.one.restart()
    again.one.restart()
    assert once.one.shard.dump() == again.one.shard.dump()


def test_without_a_request_a_record_has_the_bytes_it_always_had() -> None:
    one, named = OneShard(), OneShard()
    for each, request in ((one, None), (named, c.Request(bytes(range(16))))):
        each.configure(LaneConfig())
        each.send("a", request=request)
        each.do(c.Receive(LANE, request=request))
    plain = [data for frame in one.log.frames for data in frame.records][1:]
    marked = [data for frame in named.log.frames for data in frame.records][1:]
    assert [(data[0], len(data)) for data in plain] == [(24, 29 + 17), (4, 50 + 77)]
    assert [(data[0], len(data)) for data in marked] == [(0x81, 16 + 62 + 17), (0x84, 16 + 50 + 77)]
    assert all(data[1:17] == bytes(range(16)) for data in marked)
    assert marked[1][17:78] == plain[1][1:62]


def test_a_state_of_version_1_has_no_requests() -> None:
    one = OneShard()
    one.configure(LaneConfig())
    one.send("a")
    fields = msgspec.msgpack.decode(one.shard.dump())
    old = msgspec.msgpack.encode([1, *fields[1:9]])
    restored = Shard.restore(old)
    assert len(restored.requests) == 0
    assert restored.dump() == one.shard.dump()
    assert state.VERSION == 2


def test_the_oldest_go_first_also_when_one_was_asked_again() -> None:
    requests = Requests()
    requests.note_done(b"a" * 16, Instant(0))
    requests.note_done(b"b" * 16, Instant(1))
    requests.note_accepted(b"a" * 16, Instant(2), epoch=Epoch(1), lsn=Lsn(2), seq=Seq(3))
    requests.prune(Instant(REQUEST_WINDOW + 1))
    assert requests.find(c.Request(b"a" * 16), Instant(SECOND)) == c.Accepted(Epoch(1), Lsn(2), Seq(3))
    assert requests.find(c.Request(b"b" * 16), Instant(SECOND)) is None
    assert len(requests) == 1


def test_a_retry_of_unknown_age_is_refused_where_the_table_does_not_reach() -> None:
    requests = Requests.restore(5 * SECOND, [])
    assert requests.find(c.Request(b"a" * 16), Instant(6 * SECOND)) is None
    assert requests.find(c.Request(b"a" * 16, age=SECOND // 2), Instant(6 * SECOND)) is None
    for age in (SECOND, REQUEST_WINDOW):
        try:
            requests.find(c.Request(b"a" * 16, age=age), Instant(6 * SECOND))
        except OutcomeUnknown:
            continue
        raise AssertionError(f"a retry of age {age} would be carried out")


def test_a_repeated_receive_of_a_group_keeps_its_order_also_with_messages_that_came_back() -> None:
    one = OneShard()
    one.configure(LaneConfig(kind=Kind.FIFO, is_strict=False))
    for body in ("a", "b", "c"):
        one.do(c.Send(LANE, body.encode(), body.encode(), 1, "g", body))
    assert [each.header.seq for each in one.do(c.Receive(LANE, 1, 5)).messages] == [1]
    one.advance(6)
    receive = c.Receive(LANE, 3, 5, request=c.Request(bytes(16)))
    first, again = one.do(receive), one.do(receive)
    assert [each.header.seq for each in first.messages] == [1, 2, 3]
    assert again == first
