"""One client that does one thing after the other: for directed simulations.

Every call runs virtual time until its answer is there. What it does is in the same account as in random runs, so all
checkers watch, and `finish` drains and settles.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from holdfast.core.errors import HoldfastError
from holdfast.core.log.files import FileOp
from holdfast.core.queue.command import (
    Accepted,
    ChangeVisibility,
    Command,
    Delete,
    Delivered,
    Delivery,
    Purge,
    Receive,
    Send,
)
from holdfast.core.types import Receipt
from tests.sim.account import Account, Letter
from tests.sim.deliveries import Meddling
from tests.sim.drain import Desk
from tests.sim.host import Host
from tests.sim.plan import Plan, shrunk
from tests.sim.queues import Queue, Queues
from tests.sim.request import ANSWERED, OPEN, REFUSED, Request
from tests.sim.run import Simulation
from tests.sim.world import MS, SECOND, World

PATIENCE = 300 * SECOND
Failpoint = Callable[[int, FileOp], str]


class Crashed(Exception):
    """The process died with the request: what became of it is unknown."""


class Play(Protocol):
    """What a directed test plays in: one host, or a cluster."""

    world: World
    account: Account
    queues: Queues

    def finish(self) -> None: ...


class Client:
    """Requests, one after the other."""

    def __init__(self, simulation: Play, desk: Desk) -> None:
        self.simulation = simulation
        self.world = simulation.world
        self.queues = simulation.queues
        self._desk = desk
        self._fate = OPEN

    def told(self, _: Request, fate: str) -> None:
        self._fate = fate

    # Requests

    def ask(self, queue: Queue, command: Command, *, about: Any = None, wait_s: int = 0) -> Any:
        """Its answer. A refusal of the queue is raised, as is Crashed; a host that is down is waited for."""
        while True:
            request = Request(self, queue.shard, command, about=about, wait_s=wait_s)
            self._fate = OPEN
            self._desk.request(request)
            is_answered = self.world.run_while(lambda: self._fate == OPEN, self.world.now + PATIENCE)
            assert is_answered, f"no answer to {command}"
            if self._fate == ANSWERED:
                break
            if self._fate != REFUSED:
                raise Crashed
            self.wait(20 * MS)
        if isinstance(request.answer, HoldfastError):
            raise request.answer
        return request.answer

    def send(
        self, queue: Queue, *, key: str = "", group: str = "", size: int = 20, delay_s: int | None = None
    ) -> Letter:
        """The letter, acknowledged."""
        account = self.simulation.account
        number = len(account.letters)
        content = b"%d:" % number + bytes([number % 251]) * size
        asked_delay = -1 if delay_s is None else delay_s
        letter = Letter(number, queue.lane, content, group=group, key=key, delay_s=asked_delay, ttl_s=0)
        account.add_letter(letter)
        name = key or (f"own {number}" if queue.is_fifo else "")
        command = Send(queue.lane, content, content, len(content), group=group, deduplication_id=name, delay_s=delay_s)
        answer: Accepted = self.ask(queue, command, about=letter)
        assert answer.seq == letter.seq
        return letter

    def receive(
        self, queue: Queue, count_max: int = 10, *, timeout_s: int | None = None, wait_s: int = 0
    ) -> list[Delivered]:
        command = Receive(queue.lane, count_max=count_max, visibility_timeout_s=timeout_s)
        answer: Delivery = self.ask(queue, command, wait_s=wait_s)
        return list(answer.messages)

    def delete(self, queue: Queue, delivered: Delivered) -> None:
        self.ask(queue, Delete(queue.lane, _receipt(queue, delivered)), about=self._meddling(queue, delivered))

    def change(self, queue: Queue, delivered: Delivered, timeout_s: int) -> None:
        command = ChangeVisibility(queue.lane, _receipt(queue, delivered), timeout_s)
        self.ask(queue, command, about=self._meddling(queue, delivered))

    def purge(self, queue: Queue) -> None:
        self.ask(queue, Purge(queue.lane, queue.name))

    def _meddling(self, queue: Queue, delivered: Delivered) -> Meddling:
        return Meddling(self.simulation.account.lanes[queue.lane].holdings[delivered.header.seq])

    # Time

    def wait(self, microseconds: int) -> None:
        self.world.run(self.world.now + microseconds)

    def fill(self, queue: Queue, count: int) -> None:
        """Enough traffic that segments roll and snapshots are made."""
        for _ in range(count):
            self.send(queue, size=900)
        self.wait(2 * SECOND)

    def finish(self) -> None:
        self.simulation.finish()


class Hand(Client):
    """On one host."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation, simulation.host)
        self.host: Host = simulation.host

    def restart(self, kind: str) -> None:
        self.host.crash(kind, "directed", restart=MS)


@contextmanager
def at_work(plan: Plan, seed: int = 1, *, failpoint: Failpoint | None = None) -> Iterator[Hand]:
    """A host that runs and has its queues. The failpoint may fall on its first start, too."""
    with shrunk(plan.limits):
        simulation = Simulation(seed, plan)
        simulation.host.failpoint = failpoint
        simulation.set_up()
        yield Hand(simulation)


def seqs(deliveries: list[Delivered]) -> list[int]:
    return [each.header.seq for each in deliveries]


def _receipt(queue: Queue, delivered: Delivered) -> Receipt:
    header = delivered.header
    return Receipt(queue.lane, header.seq, header.epoch, header.lsn, delivered.number)
