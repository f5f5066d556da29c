"""Dead letters and move tasks between two shards, over a network and a disk that misbehave, with restarts anywhere.

The model knows which messages must exist, which may, and which must not. In the end, when everything works again, each
message is found once, in one of the two queues.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from holdfast.core.errors import HoldfastError
from holdfast.core.limits import SECOND
from holdfast.core.queue import command as c
from holdfast.core.types import Address, Instant, Kind, LaneConfig, LaneId, Receipt, Redrive, ShardId
from tests.core.one_shard import SETTINGS
from tests.scenarios.world import Mode, Network, World

WORK = Address(ShardId(1), LaneId(1))
DEAD = Address(ShardId(2), LaneId(2))
PLACES = st.sampled_from([WORK, WORK, DEAD])


class Moves(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World(Mode.PLAIN)
        self.sent = 0
        self.must: set[str] = set()  # acknowledged
        self.may: set[str] = set()  # sent, and no answer yet
        self.gone: set[str] = set()  # their delete was acknowledged
        self.unsure: set[str] = set()  # their delete was not answered
        self.handles: list[tuple[Address, str, Receipt]] = []
        self.waiting: dict[int, Callable[[Any], None]] = {}
        self.asked = 0

    @initialize(is_fifo=st.booleans(), mode=st.sampled_from([Mode.PLAIN, Mode.CHECKED]))
    def choose(self, is_fifo: bool, mode: Mode) -> None:
        self.world = World(mode)
        kind = Kind.FIFO if is_fifo else Kind.STANDARD
        work = LaneConfig(kind=kind, redrive=Redrive(DEAD, 1), content_deduplication=is_fifo)
        self.ask(WORK, c.Configure(WORK.lane, work))
        self.ask(DEAD, c.Configure(DEAD.lane, LaneConfig(kind=kind)))

    def ask(self, where: Address, command: c.Command, on_answer: Callable[[Any], None] = lambda _: None) -> None:
        self.asked += 1
        self.waiting[self.asked] = on_answer
        self.world.submit(where.shard, command, self.asked)
        self.settle()

    def settle(self) -> None:
        self.world.settle()
        for token, answer in self.world.take_answers():
            on_answer = self.waiting.pop(token)
            if not isinstance(answer, HoldfastError):
                on_answer(answer)
        self.world.after_command()

    # clients

    @rule(group=st.sampled_from("ab"))
    def send(self, group: str) -> None:
        body = f"m{self.sent}"
        self.sent += 1
        self.may.add(body)
        data = body.encode()
        self.ask(WORK, c.Send(WORK.lane, data, data, len(data), group), lambda _: self.must.add(body))

    @precondition(lambda self: self.must)
    @rule(where=PLACES, count_max=st.integers(1, 10), timeout=st.sampled_from([0, 0, 1, 30]))
    def receive(self, where: Address, count_max: int, timeout: int) -> None:
        gone = set(self.gone)
        self.ask(where, c.Receive(where.lane, count_max, timeout), lambda answer: self.received(where, answer, gone))

    def received(self, where: Address, delivery: c.Delivery, gone: set[str]) -> None:
        """`gone`: whose delete was acknowledged before the receive was asked for; the two may overlap."""
        log = self.world.nodes[where.shard].log
        for each in delivery.messages:
            body = log.message(each.header.at).content.decode()
            assert body in self.may, "only what was sent is handed out"
            assert body not in gone, "nothing is handed out after its delete was acknowledged"
            header = each.header
            receipt = Receipt(where.lane, header.seq, header.epoch, header.lsn, each.number)
            self.handles.append((where, body, receipt))

    @precondition(lambda self: self.handles)
    @rule(chosen=st.integers(0, 3))
    def delete(self, chosen: int) -> None:
        """A handle is used once: its message may move on meanwhile, and then the handle deletes nothing."""
        where, body, receipt = self.handles.pop(-1 - chosen % len(self.handles))
        lane = self.world.nodes[where.shard].shard.lanes[where.lane]
        is_there = receipt.seq in lane.leases
        self.unsure.add(body)
        self.ask(where, c.Delete(where.lane, receipt), lambda _: self.deleted(body) if is_there else None)

    def deleted(self, body: str) -> None:
        self.gone.add(body)

    # owners

    @precondition(lambda self: self.must)
    @rule(rate=st.sampled_from([0, 1]), is_back=st.booleans())
    def start_move(self, rate: int, is_back: bool) -> None:
        self.ask(DEAD, c.StartMove(DEAD.lane, f"t{self.asked}", None if is_back else WORK, rate))

    # the world

    @precondition(lambda self: self.must)
    @rule(network=st.sampled_from(Network))
    def network_changes(self, network: Network) -> None:
        self.world.network = network

    @precondition(lambda self: self.must)
    @rule(stopped=st.sets(st.sampled_from([WORK.shard, DEAD.shard])))
    def disk_changes(self, stopped: set[ShardId]) -> None:
        self.world.stopped = stopped
        self.settle()

    @precondition(lambda self: self.must)
    @rule(seconds=st.sampled_from([1, 2, 31]))
    def time_passes(self, seconds: int) -> None:
        self.world.advance(Instant(self.world.time + seconds * SECOND))
        self.settle()

    @precondition(lambda self: self.must)
    @rule()
    def power_is_cut(self) -> None:
        self.waiting.clear()
        self.world.restart(after_s=5)
        self.settle()

    @precondition(lambda self: self.world.handed)
    @rule()
    def everything_comes_again(self) -> None:
        self.world.repeat_everything()
        self.settle()

    def teardown(self) -> None:
        self.world.network, self.world.stopped = Network.WORKS, set()
        for _ in range(20):
            self.world.advance(Instant(self.world.time + 31 * SECOND))
        self.settle()  # answers that were still to come
        found: Counter[str] = Counter()
        for _ in range(self.sent + 2):
            for place in (WORK, DEAD):
                self.handles.clear()
                self.receive(place, 10, 36_000)
                found.update(body for _, body, _ in self.handles)
                while self.handles:
                    where, _, receipt = self.handles.pop()
                    self.ask(where, c.Delete(where.lane, receipt))
            self.world.advance(Instant(self.world.time + 2 * SECOND))
        assert not any(box.entries for node in self.world.nodes.values() for box in node.shard.outboxes.values())
        assert not [body for body, times in found.items() if times > 1], "nothing is doubled"
        assert self.must - self.gone - self.unsure <= set(found), "nothing is lost"
        for node in self.world.nodes.values():
            node.log.assert_replayable(node.shard)


TestMoves = Moves.TestCase
TestMoves.settings = settings(SETTINGS, max_examples=SETTINGS.max_examples // 2)
