"""A front-end that does as the core's router says, told by a late watch who leads which shard, before simulated hosts.

Every attempt is a request of its own in the account, about the same letter; whatever hosts still do with those that
were given up is in the account, too. Refused means never decided; what the router does not know its client is told so.
"""

from typing import TYPE_CHECKING, Any, Final

from holdfast.core import calls
from holdfast.core.calls import Answered, Asked, Call, Left, Lost, TableChanged, Woken
from holdfast.core.catalogue import QueueRow, put_row
from holdfast.core.command import DONE, ChangeVisibility, Command, Delete, Receive, Send
from holdfast.core.errors import NotPrimary, OutcomeUnknown, ServiceUnavailable
from holdfast.core.route import Router
from holdfast.core.store import Event, Record
from holdfast.core.table import LaneRow, Layout, Model, Table, put_layout
from holdfast.core.types import Instant, LaneId, QueueName, ShardId, WallMs
from tests.sim.cluster.store import StoreClient, Watch
from tests.sim.request import ANSWERED, OPEN, REFUSED, UNKNOWN, Request

if TYPE_CHECKING:
    from tests.sim.cluster.cluster import Cluster

ACCOUNT: Final = "000000000000"


class RoutedFrontend:
    """Clients ask it as they ask a host. Takes the place of Frontend."""

    def __init__(self, name: str, cluster: "Cluster") -> None:
        self.name = name
        self.cluster = cluster
        self.world = cluster.world
        self.table = Table()
        rng = self.world.rng
        self.router = Router(self.table, name=rng.randbytes(8), choose=rng.randrange)
        self._cases: dict[Request, None] = {}
        self._attempts: dict[int, tuple[Call, Request]] = {}  # by their calls
        self._calls: dict[Request, int] = {}
        self._alarm: int | None = None
        self._spread: dict[LaneId, QueueName] = {}
        client = StoreClient(name, cluster.store, self.world.after)
        Watch(client, "shards/", on_event=self._changed, on_revision=lambda _: None)

    @property
    def is_healed(self) -> bool:
        return self.cluster.is_healed

    def _changed(self, event: Event) -> None:
        self.table.feed(event)
        self._step(TableChanged())

    # Clients

    def request(self, request: Request) -> None:
        self._cases[request] = None
        self.world.after(self.world.between(50, 300), self._ask, request)

    def _ask(self, request: Request) -> None:
        if request in self._cases:
            self._step(Asked(request, self._queue(request), _action(request)))

    def _queue(self, request: Request) -> QueueName:
        """Each lane is a queue here. The table hears of it when it is first used."""
        lane: LaneId = request.command.lane  # type: ignore[union-attr]
        if lane in self._spread:
            return self._spread[lane]
        queue = QueueName(ACCOUNT, str(lane))
        if self.table.layout(queue) is None:
            put = put_row(QueueRow(queue, lane, ShardId(request.shard), {}, {}, WallMs(0), WallMs(0)))
            self.table.feed(Event(0, put.key, Record(put.key, put.value, 0, 0)))
        return queue

    def spread(self, lanes: dict[LaneId, ShardId]) -> None:
        """From now on these lanes are one queue of independent hosts, and any of them may get a message."""
        first = min(lanes)
        queue = QueueName(ACCOUNT, f"spread {first}")
        rows = tuple(LaneRow(lane, shard) for lane, shard in lanes.items())
        row = QueueRow(queue, first, lanes[first], {}, {}, WallMs(0), WallMs(0))
        for put in (put_row(row), put_layout(queue, Layout(rows, Model.INDEPENDENT))):
            self.table.feed(Event(0, put.key, Record(put.key, put.value, 0, 0)))
        self._spread |= dict.fromkeys(lanes, queue)

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
        asked = call.token
        if not isinstance(asked, Request):  # messages of a client that is gone: in the account they stay in its hands
            self.world.after(0, self._step, Answered(call.id, [DONE for _ in call.commands]))
            return
        (command,) = call.commands
        if isinstance(command, Send):
            asked.about.lane = command.lane  # the letter is the account's where it was brought last
        attempt = Request(asked.asker, call.shard, command, about=asked.about, wait_s=call.wait_s)
        self._attempts[call.id], self._calls[attempt] = (call, attempt), call.id
        self.cluster.asked_by[attempt] = self  # type: ignore[assignment]
        self.cluster.wire.stream(self.name, call.host, self.cluster.node(call.host).arrive, attempt)

    def _cancel(self, number: int) -> None:
        call, attempt = self._attempts[number]
        if attempt.fate == OPEN:
            self.cluster.wire.stream(self.name, call.host, self.cluster.node(call.host).cancel, attempt)

    def replied(self, attempt: Request, fate: str) -> None:
        number = self._calls.pop(attempt, None)
        if number is None:
            return
        del self._attempts[number]
        if fate == ANSWERED:
            assert attempt.answer is not None
            self._step(Answered(number, [attempt.answer], attempt.contents))
        elif fate == REFUSED:
            self._step(Answered(number, [NotPrimary()]))
        else:
            self._step(Lost(number, is_sent=True))

    def _reply(self, reply: calls.Reply) -> None:
        request: Request = reply.token
        ((placed),) = reply.outcomes
        request.answer, request.contents = placed.outcome, list(placed.letters)
        request.fate = ANSWERED
        if isinstance(placed.outcome, OutcomeUnknown):
            request.fate = UNKNOWN
        elif isinstance(placed.outcome, ServiceUnavailable):
            request.fate = REFUSED
        self._cases.pop(request, None)
        request.asker.told(request, request.fate)


def _action(request: Request) -> calls.Action:
    command: Any = request.command
    if isinstance(command, Send):
        return calls.SendAll((command,), is_fifo=bool(command.deduplication_id))
    if isinstance(command, Receive):
        return calls.ReceiveAny(command, request.wait_s)
    if isinstance(command, Delete | ChangeVisibility):
        return calls.ByReceipt((command,))
    assert isinstance(command, Command), command
    return calls.Everywhere(command)  # type: ignore[arg-type]
