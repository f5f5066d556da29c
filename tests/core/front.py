"""A front-end's router whose hosts are played by the test: it sees every call and decides how each one ends."""

from collections.abc import Sequence
from typing import Any

from holdfast.core.cluster import calls
from holdfast.core.cluster.calls import Answered, Asked, ByReceipt, Call, Everywhere, Lost, ReceiveAny, SendAll
from holdfast.core.cluster.route import Router
from holdfast.core.cluster.table import LaneRow, Layout, Model, put_layout
from holdfast.core.coordination.cluster import HostId, ShardState
from holdfast.core.coordination.store import Write
from holdfast.core.limits import SECOND
from holdfast.core.queue import command as c
from holdfast.core.types import Epoch, Header, Instant, LaneId, Lsn, Receipt, Seq, ShardId
from tests.core.test_table import QUEUE, Fed, put_queue, put_shard

HOSTS = [HostId(name) for name in "abcdef"]


class Front(Fed):
    """Lane n lives on shard n, which host n leads, from 1 on."""

    def __init__(self, lanes: int = 1, model: Model = Model.INDEPENDENT) -> None:
        super().__init__()
        rows = tuple(LaneRow(LaneId(n), ShardId(n)) for n in range(1, lanes + 1))
        self.write(put_queue(1, 1), *(put_shard(n, HOSTS[n - 1], 1) for n in range(1, lanes + 1)))
        if lanes > 1:
            self.write(put_layout(QUEUE, Layout(rows, model)))
        self.chosen: list[int] = []  # what chance says next; then always 0
        self.router = Router(self.table, name=b"frontend", choose=self._choose)
        self.now = Instant(0)
        self.open: dict[int, Call] = {}
        self.cancelled: list[int] = []
        self.replies: dict[Any, Sequence[calls.Placed]] = {}
        self.tokens = 0

    def _choose(self, count: int) -> int:
        return self.chosen.pop(0) % count if self.chosen else 0

    def step(self, event: calls.Event) -> list[Call]:
        """The calls it makes."""
        output = self.router.step(event, self.now)
        self.open.update({call.id: call for call in output.calls})
        self.cancelled += output.cancels
        for reply in output.replies:
            assert reply.token not in self.replies, "a client is answered once"
            self.replies[reply.token] = reply.outcomes
        return output.calls

    def change(self, *writes: Write) -> list[Call]:
        self.write(*writes)
        return self.step(calls.TableChanged())

    def ask(self, action: calls.Action) -> list[Call]:
        """For client 1, 2, …"""
        self.tokens += 1
        return self.step(Asked(self.tokens, QUEUE, action))

    def send(self, *bodies: str, group: str = "", **options: Any) -> list[Call]:
        sends = tuple(c.Send(LaneId(0), body.encode(), body.encode(), 1, group) for body in bodies)
        return self.ask(SendAll(sends, **options))

    def receive(self, wait_s: int = 0, **options: Any) -> list[Call]:
        return self.ask(ReceiveAny(c.Receive(LaneId(0), **options), wait_s))

    def by_receipt(self, *commands: c.Delete | c.ChangeVisibility) -> list[Call]:
        return self.ask(ByReceipt(commands))

    def everywhere(self, command: c.Purge | c.Count) -> list[Call]:
        return self.ask(Everywhere(command))

    # how a call ends

    def answer(self, call: Call, *outcomes: c.Outcome) -> list[Call]:
        del self.open[call.id]
        return self.step(Answered(call.id, outcomes))

    def lose(self, call: Call, *, is_sent: bool = True) -> list[Call]:
        del self.open[call.id]
        return self.step(Lost(call.id, is_sent))

    def wait(self, seconds: float) -> list[Call]:
        """Time passes; the router is woken whenever it asked to be."""
        end, made = self.now + round(seconds * SECOND), []
        while (deadline := self.router.deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            made += self.step(calls.Woken())
        self.now = Instant(end)
        return made

    def outcome(self, token: int = 1) -> Any:
        (placed,) = self.replies[token]
        return placed.outcome


def accepted(lsn: int = 1) -> c.Accepted:
    return c.Accepted(Epoch(1), Lsn(lsn), Seq(lsn))


def delivery(*seqs: int) -> c.Delivery:
    nothing = Instant(0)
    headers = [
        Header(Seq(n), Lsn(n), Epoch(1), Lsn(n), 0, 1, nothing, nothing, nothing, 0, 0, False)  # type: ignore[arg-type]
        for n in seqs
    ]
    return c.Delivery(tuple(c.Delivered(header, 1, 1, 0) for header in headers))  # type: ignore[arg-type]


def receipt(lane: int, seq: int = 1) -> Receipt:
    return Receipt(LaneId(lane), Seq(seq), Epoch(1), Lsn(seq), 1, f"handle-{lane}-{seq}")


def moves_to(shard: int, host: HostId, epoch: int, state: ShardState = ShardState.ACTIVE) -> Write:
    return put_shard(shard, host, epoch, state)
