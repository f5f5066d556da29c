"""A front-end that does as the core's router says, told by a late watch what lanes a queue has and who leads them.

Every command of a call is a request of its own in the account, about the same letter; whatever hosts still do with
those that were given up is in the account, too. Refused means never decided; what the router does not know its client
is told so.
"""

from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.cluster import calls
from holdfast.core.cluster.calls import Answered, Asked, Call, Left, Lost, TableChanged, Woken
from holdfast.core.cluster.parts import join
from holdfast.core.cluster.route import Router
from holdfast.core.cluster.table import Table
from holdfast.core.coordination.catalogue import QueueRow, put_row
from holdfast.core.coordination.store import Event, Record
from holdfast.core.errors import NotPrimary, OutcomeUnknown, ServiceUnavailable
from holdfast.core.queue.command import ChangeVisibility, Command, Delete, Receive, Send
from holdfast.core.types import Instant, LaneId, QueueName, ShardId, WallMs
from tests.sim.cluster.store import StoreClient, Watch
from tests.sim.deliveries import Meddling
from tests.sim.request import ANSWERED, OPEN, REFUSED, UNKNOWN, Request

if TYPE_CHECKING:
    from tests.sim.cluster.cluster import Cluster

ACCOUNT: Final = "000000000000"


def name_of(lane: LaneId) -> QueueName:
    """Queues are named after their first lane."""
    return QueueName(ACCOUNT, str(lane))


class Errand:
    """A call that is under way: one request for each of its commands."""

    __slots__ = ("call", "left", "requests")

    def __init__(self, call: Call, requests: list[Request]) -> None:
        self.call = call
        self.requests = requests
        self.left = len(requests)


class Frontend:
    """Clients ask it as they ask a host."""

    def __init__(self, name: str, cluster: "Cluster") -> None:
        self.name = name
        self.cluster = cluster
        self.world = cluster.world
        self.table = Table()
        rng = self.world.rng
        self.router = Router(self.table, name=rng.randbytes(8), choose=rng.randrange)
        self._cases: dict[Request, None] = {}
        self._errands: dict[int, Errand] = {}  # by their calls
        self._calls: dict[Request, int] = {}
        self._alarm: int | None = None
        self._names: dict[LaneId, QueueName] = {}  # of queues that were asked for, by lane
        client = StoreClient(name, cluster.store, self.world.after)
        Watch(client, "", on_event=self._changed, on_revision=lambda _: None)

    @property
    def is_healed(self) -> bool:
        return self.cluster.is_healed

    def _changed(self, event: Event) -> None:
        self.table.feed(event)
        if event.key.startswith(("queue/", "lanes/", "shards/")):
            self._step(TableChanged())

    # Clients

    def request(self, request: Request) -> None:
        self._cases[request] = None
        self.world.after(self.world.between(50, 300), self._ask, request)

    def _ask(self, request: Request) -> None:
        if request in self._cases:
            self._step(Asked(request, self._queue(request), self._action(request)))

    def _queue(self, request: Request) -> QueueName:
        """Of queues that keep their one lane, the table hears when they are first used."""
        lane: LaneId = request.command.lane  # type: ignore[union-attr]
        if (known := self._names.get(lane)) is not None:
            return known
        queue = self.cluster.account.lanes[lane].queue
        name = self._names[lane] = name_of(queue.lane)
        if not queue.is_spread and self.table.layout(name) is None:
            put = put_row(QueueRow(name, queue.lane, ShardId(request.shard), {}, {}, WallMs(0), WallMs(0)))
            self.table.feed(Event(0, put.key, Record(put.key, put.value, 0, 0)))
        return name

    def _action(self, request: Request) -> calls.Action:
        command: Any = request.command
        if isinstance(command, Send):
            return calls.SendAll((command,), is_fifo=self.cluster.account.lanes[command.lane].is_fifo)
        if isinstance(command, Receive):
            return calls.ReceiveAny(command, request.wait_s)
        if isinstance(command, Delete | ChangeVisibility):
            return calls.ByReceipt((command,))
        assert isinstance(command, Command), command
        return calls.Everywhere(command)  # type: ignore[arg-type]

    def cancel(self, request: Request) -> None:
        """The client's connection broke. Whoever works for it is told."""
        if request in self._cases:
            del self._cases[request]
            self._step(Left(request))

    def waiting(self) -> list[str]:
        return [f"{request.command}" for request in self._cases]

    # The router

    def _step(self, event: calls.Event) -> None:
        output = self.router.step(event, Instant(self.world.now))
        for call in output.calls:
            self._send(call)
        for number in output.cancels:
            self._cancel(number)
        for reply in output.replies:
            self._reply(reply)
        deadline = self.router.deadline()
        if deadline is not None and (self._alarm is None or deadline < self._alarm):
            self._alarm = deadline
            self.world.after(max(0, deadline - self.world.now), self._wake, deadline)

    def _wake(self, alarm: int) -> None:
        if self._alarm == alarm:
            self._alarm = None
        self._step(Woken())

    def _send(self, call: Call) -> None:
        requests = [self._request(call, command) for command in call.commands]
        self._errands[call.id] = Errand(call, requests)
        node = self.cluster.node(call.host)
        for request in requests:
            self._calls[request] = call.id
            self.cluster.asked_by[request] = self
            self.cluster.wire.stream(self.name, call.host, node.arrive, request)

    def _request(self, call: Call, command: Command) -> Request:
        asked = call.token
        if isinstance(asked, Request):
            return Request(asked.asker, call.shard, command, about=asked.about, wait_s=call.wait_s)
        about = None
        if isinstance(command, ChangeVisibility):  # messages of a client that is gone are given back
            about = Meddling(self.cluster.account.lanes[command.lane].holdings[command.receipt.seq])
        return Request(NOBODY, call.shard, command, about=about, wait_s=call.wait_s)

    def _cancel(self, number: int) -> None:
        errand = self._errands[number]
        for request in errand.requests:
            if request.fate == OPEN:
                host = errand.call.host
                self.cluster.wire.stream(self.name, host, self.cluster.node(host).cancel, request)

    def replied(self, request: Request, fate: str) -> None:
        number = self._calls.pop(request, None)
        errand = self._errands.get(number) if number is not None else None
        if number is None or errand is None:
            return
        if fate not in (ANSWERED, REFUSED):
            del self._errands[number]
            self._step(Lost(number, is_sent=True))
            return
        if fate == REFUSED:
            request.answer = NotPrimary()
        errand.left -= 1
        if not errand.left:
            del self._errands[number]
            outcomes = [each.answer for each in errand.requests if each.answer is not None]
            self._step(Answered(number, outcomes, request.contents))

    def _reply(self, reply: calls.Reply) -> None:
        request: Request = reply.token
        placed = reply.outcomes[0]
        outcome = placed.outcome if len(reply.outcomes) == 1 else join(reply.outcomes)
        request.answer, request.contents = outcome, list(placed.letters)
        if isinstance(request.command, Send | Receive) and placed.address is not None:
            request.command = msgspec.structs.replace(request.command, lane=placed.address.lane)
        request.fate = ANSWERED
        if isinstance(outcome, OutcomeUnknown):
            request.fate = UNKNOWN
        elif isinstance(outcome, ServiceUnavailable):
            request.fate = REFUSED
        self._cases.pop(request, None)
        request.asker.told(request, request.fate)


class _Nobody:
    def told(self, request: Request, fate: str) -> None:
        """The router asked for itself."""


NOBODY: Final = _Nobody()
