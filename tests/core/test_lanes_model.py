"""A FIFO queue whose lanes are split, merged and moved while it is used, against a model that is one list per group.

Whoever reshapes it may stop after any step and another begins anew; shards restart from a snapshot and their log; the
store does not always tell what became of a write. Messages come in order without gaps, an id is accepted once, numbers
rise within a group.
"""

from contextlib import ExitStack
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast.core.cluster import reshape
from holdfast.core.cluster.table import LaneRow, Layout, Phase, layout_key, layout_of, put_layout
from holdfast.core.coordination.asking import Outcome
from holdfast.core.coordination.store import State, Transaction
from holdfast.core.errors import HoldfastError, ServiceUnavailable
from holdfast.core.limits import DEDUP_WINDOW, REQUEST_WINDOW, SECOND
from holdfast.core.queue import command as c
from holdfast.core.queue.dedup import group_of
from holdfast.core.types import Address, Epoch, Kind, LaneConfig, LaneId, Lsn, QueueName, ShardId
from tests.core.one_shard import SETTINGS, OneShard, receipt_of
from tests.scenarios.world import changed_limits

QUEUE = QueueName("000000000000", "orders.fifo")
CONFIG = LaneConfig(kind=Kind.FIFO, deduplication_per_group=True)
SHARDS = [ShardId(n) for n in (1, 2, 3)]
GROUPS = [f"g{n}" for n in range(4)]
CHOICE = st.integers(0, 1 << 16)
SELDOM = st.sampled_from([True] + 4 * [False])
LANES_MAX = 9
MessageId = tuple[ShardId, Epoch, Lsn]


class Lanes(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.shards = {shard: OneShard(shard) for shard in SHARDS}
        self.store = State()
        self.lane = 1
        self.swap(Transaction((), (put_layout(QUEUE, Layout((LaneRow(LaneId(1), ShardId(1)),))),)))
        self.shards[ShardId(1)].configure(CONFIG, LaneId(1))
        self.waiting: dict[str, list[str]] = {group: [] for group in GROUPS}  # bodies, in order
        self.numbers = dict.fromkeys(GROUPS, 0)  # the last sequence number of each
        self.ids: dict[tuple[str, str], tuple[int, MessageId]] = {}
        self.sent = 0
        self.work: reshape.Pass | None = None
        self.step: Any = None  # that the work waits for
        self.limits = ExitStack()

    @initialize(parts=st.sampled_from([1, 2, 4096]))
    def choose(self, parts: int) -> None:
        self.limits.enter_context(changed_limits({"BEQUEST_ENTRIES": parts}))

    # the store

    @property
    def layout(self) -> Layout:
        record = self.store.get(layout_key(QUEUE))
        assert record is not None
        return layout_of(record)

    @property
    def revision(self) -> int:
        record = self.store.get(layout_key(QUEUE))
        assert record is not None
        return record.revision

    def swap(self, transaction: Transaction) -> Outcome:
        return Outcome.DONE if self.store.transact(transaction) else Outcome.REFUSED

    def want(self, layout: Layout) -> None:
        self.swap(Transaction((), (put_layout(QUEUE, layout),)))

    def new_lane(self, chosen: int) -> Address:
        self.lane += 1
        return Address(SHARDS[chosen % len(SHARDS)], LaneId(self.lane))

    # what clients do

    @rule(group=st.sampled_from(GROUPS), name=st.integers(1, 5).map(str))
    def send(self, group: str, name: str) -> None:
        row = self.layout.lane_of(group_of(group))
        if row is None:
            return
        body = f"m{self.sent}"
        try:
            accepted = self.shards[row.shard].send(body, lane=row.lane, group=group, deduplication_id=name)
        except ServiceUnavailable:
            return  # its lane drains; the client asks again
        message_id = (accepted.shard or row.shard, accepted.epoch, accepted.lsn)
        when, original = self.ids.get((group, name), (-DEDUP_WINDOW, message_id))
        if message_id != original or when == -DEDUP_WINDOW:
            assert self.now >= when + DEDUP_WINDOW, "an id is accepted once in five minutes"
            assert accepted.seq > self.numbers[group], "numbers rise within a group"
            self.sent += 1
            self.ids.pop((group, name), None)
            self.ids[group, name] = (self.now, message_id)
            self.waiting[group].append(body)
            self.numbers[group] = accepted.seq

    @precondition(lambda self: self.ids)
    @rule()
    def send_again(self) -> None:
        """As clients do that were not answered."""
        self.send(*next(reversed(self.ids)))

    @rule(chosen=CHOICE, count_max=st.integers(1, 10), deletes=st.integers(0, 10))
    def receive(self, chosen: int, count_max: int, deletes: int) -> None:
        """Deletes some of what it gets, in order, and gives back the rest."""
        rows = self.layout.served_lanes()
        row = rows[chosen % len(rows)]
        shard = self.shards[row.shard]
        try:
            delivered = shard.receive(count_max, 30, lane=row.lane)
        except HoldfastError:
            return  # a lane that is retired
        seen: dict[str, int] = {}
        by_digest = {group_of(group): group for group in GROUPS}
        for each in delivered:
            group = by_digest[each.header.group]
            at = seen[group] = seen.get(group, -1) + 1
            assert [shard.body(each)] == self.waiting[group][at : at + 1], "in order, without gaps"
        for number, each in enumerate(delivered):
            receipt = receipt_of(each, row.lane)
            if number < deletes:
                shard.do(c.Delete(row.lane, receipt))
                self.waiting[by_digest[each.header.group]].pop(0)
            else:
                shard.do(c.ChangeVisibility(row.lane, receipt, 0))

    # what managers do

    @precondition(lambda self: len(self.layout.lanes) < LANES_MAX)
    @rule(chosen=CHOICE, count=st.integers(1, 3), place=CHOICE)
    def split(self, chosen: int, count: int, place: int) -> None:
        rows = self.layout.open_lanes()
        if rows:
            heirs = [self.new_lane(place + number) for number in range(count)]
            self.try_to(lambda: reshape.split(self.layout, rows[chosen % len(rows)].lane, heirs))

    @precondition(lambda self: len(self.layout.open_lanes()) > 1)
    @rule(chosen=CHOICE, place=CHOICE)
    def merge(self, chosen: int, place: int) -> None:
        rows = sorted(self.layout.open_lanes(), key=lambda row: row.first)
        at = chosen % (len(rows) - 1)
        heir = self.new_lane(place)
        self.try_to(lambda: reshape.merge(self.layout, [row.lane for row in rows[at : at + 2]], heir))

    def try_to(self, change: Any) -> None:
        try:
            self.want(change())
        except ValueError:
            return  # it has heirs already, or its neighbour is missing

    @rule(steps=st.sampled_from([1, 2, 3, 5, 8, 30]), is_known=st.booleans())
    def go_on(self, steps: int, is_known: bool) -> None:
        for _ in range(steps):
            if self.work is None:
                self.work = reshape.reshape(QUEUE, self.layout, self.revision, config=CONFIG)
                self.advance(None)
            else:
                self.advance(self.outcome(is_known))

    @precondition(lambda self: self.work is not None)
    @rule(is_meant=SELDOM)
    def stop_working(self, is_meant: bool) -> None:
        """Another one begins anew."""
        self.work = None if is_meant else self.work

    def advance(self, outcome: Any) -> None:
        assert self.work is not None
        try:
            self.step = self.work.send(outcome)
        except StopIteration:
            self.work = None

    def outcome(self, is_known: bool) -> Any:
        if isinstance(self.step, reshape.Swap):
            done = self.swap(self.step.transaction)
            return done if is_known else Outcome.UNKNOWN
        try:
            return self.shards[self.step.address.shard].do(self.step.command)
        except HoldfastError as refusal:
            return refusal

    # what time and power do

    @property
    def now(self) -> int:
        return self.shards[ShardId(1)].time

    @rule(seconds=st.sampled_from([1, 1, 1, 10, 60, 299]))
    def time_passes(self, seconds: int) -> None:
        for shard in self.shards.values():
            shard.advance(seconds)

    @rule(chosen=CHOICE, is_snapshot=st.booleans())
    def restart(self, chosen: int, is_snapshot: bool) -> None:
        shard = self.shards[SHARDS[chosen % len(SHARDS)]]
        if is_snapshot:
            shard.log.keep_snapshot()
        else:
            shard.restart(lambda count: chosen % count)

    # what holds

    @invariant()
    def every_key_has_one_lane_at_most(self) -> None:
        layout = self.layout
        for group in GROUPS:
            key = group_of(group)
            assert sum(row.first <= key <= row.last for row in layout.open_lanes()) <= 1

    def teardown(self) -> None:
        """In the end everything is received in its order, and only open lanes are left."""
        for _ in range(200):
            if all(row.phase is Phase.OPEN for row in self.layout.lanes) and not any(self.waiting.values()):
                break
            self.work = None
            self.go_on(100, True)
            for number in range(len(self.layout.served_lanes())):
                self.receive(number, 10, 10)
            for shard in self.shards.values():
                shard.advance(REQUEST_WINDOW / SECOND)
        assert not any(self.waiting.values())
        assert all(row.phase is Phase.OPEN for row in self.layout.lanes)
        for shard in self.shards.values():
            shard.check()
        self.limits.close()


TestLanes = Lanes.TestCase
TestLanes.settings = settings(SETTINGS, max_examples=max(200, SETTINGS.max_examples), stateful_step_count=70)
