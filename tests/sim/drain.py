"""The end of a run: faults are over, leases and delays have passed, and everything that is still there is taken out."""

from typing import Protocol

from holdfast.core.errors import QueueDoesNotExist
from holdfast.core.queue.command import Count, Delete, Delivery, Receive
from holdfast.core.types import Counts, LaneId, Receipt
from tests.sim.account import Account
from tests.sim.deliveries import Meddling
from tests.sim.queues import Queue, Queues
from tests.sim.request import Request
from tests.sim.world import MS, SECOND, World

NOTHING = Counts(0, 0, 0, 0)
PAUSE = 3 * SECOND  # longer than a hand-over takes that has to be sent again
LEASE_S = 3600  # longer than the drain: nothing comes back


class Desk(Protocol):
    """Where requests are brought: a host, or a front-end."""

    world: World

    def request(self, request: Request) -> None: ...


class Drain:
    """Asks one thing at a time, queue after queue, until all of them say that they are empty."""

    def __init__(self, host: Desk, account: Account, queues: Queues) -> None:
        self.host = host
        self.world = host.world
        self.account = account
        self.is_over = False
        self.drained = 0
        self._queues = queues
        self._todo: list[Queue] = []
        self._deleting = 0
        self._rounds = 0  # in a row that found nothing
        self._seen = 0  # messages drained before this round
        self.left: dict[str, Counts] = {}  # what queues said they have, in this round

    def start(self) -> None:
        self._todo = list(self._queues.all)
        self.left = {}
        self._seen = self.drained
        self._next()

    def _next(self) -> None:
        if self._todo:
            self._ask(self._todo[0], Receive(self._todo[0].lane, count_max=10, visibility_timeout_s=LEASE_S))
        else:
            self._end_round()

    def _end_round(self) -> None:
        """A receive may have sent messages on their way to a queue that was looked at before: so two empty rounds."""
        is_empty = not self.left and self.drained == self._seen
        self._rounds = self._rounds + 1 if is_empty else 0
        self.is_over = self._rounds == 2
        if not self.is_over:
            self.world.after(PAUSE, self.start)

    def _ask(self, queue: Queue, command: Receive | Count | Delete, about: Meddling | None = None) -> None:
        self.host.request(Request(self, queue.shard, command, about=about))

    def told(self, request: Request, _: str) -> None:
        command, answer = request.command, request.answer
        if isinstance(answer, QueueDoesNotExist):
            self._todo.pop(0)  # it was deleted, or never made
            self._next()
        elif not request.is_done:
            again = Request(self, request.shard, command, about=request.about)
            self.world.after(100 * MS, self.host.request, again)
        elif isinstance(answer, Delivery) and isinstance(command, Receive):
            self._received(answer, command.lane)
        elif isinstance(command, Delete):
            self._deleting -= 1
            if not self._deleting:
                self._next()
        elif isinstance(answer, Counts):
            if answer != NOTHING:
                self.left[self._todo[0].name] = answer
            self._todo.pop(0)
            self._next()

    def _received(self, delivery: Delivery, lane_id: LaneId) -> None:
        queue = self._todo[0]
        if not delivery.messages:
            self._ask(queue, Count(queue.lane))
            return
        self.drained += len(delivery.messages)
        lane = self.account.lanes[lane_id]
        if lane.is_once:
            self._next()
            return
        self._deleting = len(delivery.messages)
        for each in delivery.messages:
            header = each.header
            receipt = Receipt(lane_id, header.seq, header.epoch, header.lsn, each.number)
            self._ask(queue, Delete(lane_id, receipt), Meddling(lane.holdings[header.seq]))
