"""What directed tests do to a cluster: hosts go and come back, a send is tried once, requests to the store are held."""

from collections.abc import Callable
from typing import Any, Final

from holdfast.core.cluster.lane_keeper import Wish, write_down
from holdfast.core.cluster.table import layout_key
from holdfast.core.coordination.catalogue import LAST_LANE, queue_key, row_of
from holdfast.core.coordination.cluster import HostId, ShardRecord, decode_shard, shard_key
from holdfast.core.coordination.store import Put, Transaction
from holdfast.core.queue.command import Send
from tests.sim.account import Letter
from tests.sim.cluster.frontend import name_of
from tests.sim.cluster.hand import ClusterHand
from tests.sim.cluster.node import Node
from tests.sim.cluster.store import UNKNOWN, Store
from tests.sim.queues import Queue
from tests.sim.request import OPEN, Request
from tests.sim.world import MS, SECOND

LONG: Final = 600 * SECOND


class Try:
    """One send that is not insisted on."""

    def __init__(self, hand: ClusterHand, queue: Queue) -> None:
        self.fate = OPEN
        self._hand = hand
        number = len(hand.simulation.account.letters)
        content = b"%d:try" % number
        letter = Letter(number, queue.lane, content, group="", key="", delay_s=-1, ttl_s=0)
        hand.simulation.account.add_letter(letter)
        command = Send(queue.lane, content, content, len(content), group="", deduplication_id="", delay_s=None)
        hand.cluster.frontends[0].request(Request(self, queue.shard, command, about=letter))

    def told(self, _: Request, fate: str) -> None:
        self.fate = fate

    def end(self) -> str:
        self._hand.until(lambda: self.fate != OPEN)
        return self.fate


def down(*nodes: Node, length: int = LONG) -> None:
    for node in nodes:
        node.lose_power(length, "directed")


def back(hand: ClusterHand, *nodes: Node) -> None:
    for node in nodes:
        node.back_at = 0
        node.start()
    hand.wait(50 * MS)


class Courier:
    """Stands before the store: keeps a copy of every transaction, and holds back those that it is told to."""

    def __init__(self, store: Store) -> None:
        self._apply = store.apply
        self.seen: list[Transaction] = []
        self.held: list[Transaction] = []
        self.holds: Callable[[Transaction], bool] = lambda _: False
        store.apply = self.apply  # type: ignore[method-assign]

    def apply(self, name: str, args: tuple[Any, ...]) -> Any:
        if name == "transact":
            self.seen.append(args[0])
            if self.holds(args[0]):
                self.held.append(args[0])
                return UNKNOWN
        return self._apply(name, args)

    def bring(self, transaction: Transaction) -> bool:
        return bool(self._apply("transact", (transaction,)))


def record_in(transaction: Transaction, queue: Queue) -> ShardRecord | None:
    key = shard_key(queue.shard)
    written = [each for each in transaction.writes if isinstance(each, Put) and each.key == key]
    return decode_shard(written[0].value) if written else None


def names_of(record: ShardRecord) -> set[HostId]:
    return {member.host for member in record.members}


def want(hand: ClusterHand, queue: Queue, wish: Wish) -> None:
    """Somebody wants other lanes for this queue. The manager sees to it."""
    state, name = hand.cluster.store.state, name_of(queue.lane)
    row = state.get(queue_key(name))
    assert row is not None
    transaction = write_down(wish, row_of(row), layout=state.get(layout_key(name)), last=state.get(LAST_LANE))
    assert hand.cluster.store.apply("transact", (transaction,))
