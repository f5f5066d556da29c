"""Producers, consumers and an administrator: what users do to a host, and what they do wrong.

Each is a small machine driven by events. They repeat deduplication ids on purpose, delete late, twice, or with receipts
of other messages, let leases run out, vanish in the middle of a long poll, purge, reconfigure and move.
"""

from typing import Any

from holdfast.core.queue import receipt as receipts
from holdfast.core.queue.command import (
    CancelMove,
    ChangeVisibility,
    Command,
    Configure,
    Count,
    Delete,
    Delivered,
    Delivery,
    Drop,
    ListMoves,
    Peek,
    Purge,
    Receive,
    Send,
    StartMove,
)
from holdfast.core.types import LaneId, Receipt, Redrive
from holdfast.core.values import Fact
from holdfast.runtime.crypto import ReceiptKey
from tests.sim.account import Account, Holding, Letter
from tests.sim.deliveries import Meddling
from tests.sim.host import Host
from tests.sim.queues import Queue, Queues
from tests.sim.request import ANSWERED, REFUSED, Request
from tests.sim.world import MS, SECOND, World

RECEIPT_KEY = ReceiptKey(b"receipts of the simulator")
GROUPS = ("a", "b", "c", "d")
HANDLED = 8  # one receipt of so many goes through its handle; tests of the core and of the server do it with all


class Client:
    """Asks one thing after the other, with a pause between."""

    def __init__(
        self, name: str, host: Host, account: Account, queues: Queues, *, pause: int, only: Queue | None = None
    ) -> None:
        """`only`: the queue that it uses. What others do is nothing to it; any other client waits for each in turn."""
        self.name = name
        self.world: World = host.world
        self.host = host
        self.account = account
        self.queues = queues
        self.pause = pause
        self.only = only
        self.is_at_rest = False
        self.is_asleep = False

    def start(self) -> None:
        self.world.after(self.world.gap(self.pause), self.wake)

    def wake(self) -> None:
        if self.is_at_rest:
            self.is_asleep = True
        else:
            self.act()

    def rest(self, is_at_rest: bool) -> None:
        self.is_at_rest = is_at_rest
        if not is_at_rest and self.is_asleep:
            self.is_asleep = False
            self.start()

    def act(self) -> None:
        raise NotImplementedError

    def told(self, request: Request, fate: str) -> None:
        raise NotImplementedError

    def ask(self, queue: Queue, command: Command, *, about: Any = None, wait_s: int = 0) -> Request:
        request = Request(self, queue.shard, command, about=about, wait_s=wait_s)
        self.host.request(request)
        return request


class Producer(Client):
    delays: tuple[int, ...] = (0, 1, 3)
    lives: tuple[int, ...] = (1, 2, 60)

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._keys: list[str] = []  # deduplication ids used lately
        self._waiting = 0

    def act(self) -> None:
        world = self.world
        count = world.between(2, 10) if world.chance(0.1) else 1
        queue = world.rng.choice([each for each in self.queues.all if not each.is_gone])
        if queue.name in ("dead", "letters", "grave") and world.chance(0.8):
            queue = world.rng.choice((self.queues.plain, self.queues.simple, self.queues.fifo))
        queue = self.only or queue
        for _ in range(count):
            key = self._key(queue)
            group = self._group(queue)
            for _ in range(2 if key and world.chance(0.1) else 1):  # in a hurry: the same twice at once
                self._waiting += 1
                self._send(queue, key, group)

    def told(self, request: Request, fate: str) -> None:
        letter: Letter = request.about
        if fate not in (ANSWERED, REFUSED) and letter.key and self.world.chance(0.7):
            queue = self.queues.all[letter.queue - 1]
            name = letter.key.rpartition("/")[2]
            self.world.after(self.world.between(0, 200 * MS), self._send, queue, name, letter.group)
            return
        self._waiting -= 1
        if not self._waiting:
            delay = self.world.gap(self.pause * (5 if fate == REFUSED else 1))
            self.world.after(delay, self.wake)

    def _key(self, queue: Queue) -> str:
        if not (queue.is_fifo or queue.config.request_deduplication):
            return ""
        world = self.world
        if self._keys and world.chance(0.15):
            return world.rng.choice(self._keys)
        key = f"k{len(self.account.letters)}"
        self._keys = [*self._keys[-30:], key]
        return key

    def _group(self, queue: Queue) -> str:
        is_grouped = queue.is_fifo or (queue.name == "fair" and self.world.chance(0.8))
        return self.world.rng.choice(GROUPS) if is_grouped else ""

    def _send(self, queue: Queue, name: str, group: str) -> None:
        world, config = self.world, queue.config
        number = len(self.account.letters)
        size = world.between(200, 1400) if world.chance(0.1) else world.between(0, 120)
        content = b"%d:" % number + bytes([number % 251]) * size
        delay_s = world.rng.choice(self.delays) if world.chance(0.1) and not queue.is_fifo else None
        ttl_s = world.rng.choice(self.lives) if queue.name == "mortal" and world.chance(0.3) else None
        scope = f"{group}/" if config.deduplication_per_group else ""
        letter = Letter(
            number,
            queue.lane,
            content,
            group=group,
            key=f"{scope}{name}" if name else "",
            delay_s=-1 if delay_s is None else delay_s,
            ttl_s=ttl_s or 0,
        )
        self.account.add_letter(letter)
        is_by_content = config.content_deduplication or (config.request_deduplication and name.endswith("1"))
        send = Send(
            queue.lane,
            name.encode() if is_by_content else content,
            content,
            len(content),
            group=group,
            deduplication_id="" if is_by_content else name,
            delay_s=delay_s,
            time_to_live_s=ttl_s,
        )
        self.ask(queue, send, about=letter)


class Taken(Fact, frozen=True):
    """A message in the hands of a consumer."""

    queue: Queue
    lane: LaneId
    delivered: Delivered
    holding: Holding

    def receipt(self) -> Receipt:
        header = self.delivered.header
        plain = Receipt(self.lane, header.seq, header.epoch, header.lsn, self.delivered.number)
        if header.seq % HANDLED:
            return plain
        return receipts.decode(receipts.encode(plain, RECEIPT_KEY), RECEIPT_KEY, lane=self.lane)


class Consumer(Client):
    def __init__(self, *args: Any, vanish: int, **more: Any) -> None:
        super().__init__(*args, **more)
        self._vanish = vanish  # mean time between disappearances; 0: never
        self._attempts = 0
        self._asked: Request | None = None
        self._last: Taken | None = None
        self._is_gone = False

    def start(self) -> None:
        super().start()
        if self._vanish:
            self.world.after(self.world.gap(self._vanish), self._disappear)

    def act(self) -> None:
        world = self.world
        queue = self.only or world.rng.choice([each for each in self.queues.all if not each.is_gone])
        self._receive(queue, f"{self.name}.{self._attempts}" if queue.is_fifo and world.chance(0.2) else "")

    def _receive(self, queue: Queue, attempt: str) -> None:
        world = self.world
        self._attempts += 1
        command = Receive(
            queue.lane,
            count_max=world.rng.choice((1, 1, 3, 10)),
            visibility_timeout_s=self._timeout(),
            attempt_id=attempt,
        )
        wait_s = world.rng.choice((0, 0, 1, 3))
        self._asked = self.ask(queue, command, about=queue, wait_s=wait_s)

    def _timeout(self) -> int | None:
        return self.world.rng.choice((None, None, 1, 2, 6, 20, 0))

    def _disappear(self) -> None:
        """The connection breaks; the host may notice. A new consumer takes its place."""
        if self.host.is_healed:
            return
        if self._asked is not None and not self.is_at_rest:
            request, self._asked = self._asked, None
            self.world.fault("client vanished")
            if self.world.chance(0.7):
                self.host.cancel(request)
            self.world.after(self.world.gap(self.pause), self.wake)
        self.world.after(self.world.gap(self._vanish), self._disappear)

    def told(self, request: Request, fate: str) -> None:
        if not isinstance(request.command, Receive) or request is not self._asked:
            return
        self._asked = None
        world, queue, answer = self.world, request.about, request.answer
        if fate == ANSWERED and isinstance(answer, Delivery):
            for delivered in answer.messages:
                self._handle(queue, delivered, request.command.lane)
        elif fate not in (ANSWERED, REFUSED) and request.command.attempt_id and world.chance(0.7):
            self._receive(queue, request.command.attempt_id)
            return
        self.world.after(world.gap(self.pause * (5 if fate == REFUSED else 1)), self.wake)

    # What becomes of a message

    def _handle(self, queue: Queue, delivered: Delivered, lane: LaneId) -> None:
        holding = self.account.lanes[lane].holdings.get(delivered.header.seq)
        if holding is None:
            return
        message = Taken(queue, lane, delivered, holding)
        world = self.world
        draw = world.rng.random()
        if draw < 0.45:
            self._later(40 * MS, self._delete, message)
        elif draw < 0.52:
            self._later(6 * SECOND, self._delete, message)
        elif draw < 0.56:
            delay = world.gap(40 * MS)
            for gap in (0, world.rng.choice((300, 2 * SECOND))):  # twice, at once or later
                world.after(delay + gap, self._delete, message)
        elif draw < 0.68:
            self._later(SECOND, self._change, message)
        elif draw < 0.72 and self._last is not None and self._last.lane == lane:
            self._later(40 * MS, self._forge, message, self._last)
        self._last = message

    def _later(self, mean: int, action: Any, *args: Any) -> None:
        self.world.after(self.world.gap(mean), action, *args)

    def _delete(self, message: Taken) -> None:
        self.ask(message.queue, Delete(message.lane, message.receipt()), about=Meddling(message.holding))

    def _change(self, message: Taken) -> None:
        timeout_s = self.world.rng.choice((0, 1, 4, 10))
        command = ChangeVisibility(message.lane, message.receipt(), timeout_s)
        self.ask(message.queue, command, about=Meddling(message.holding))

    def _forge(self, message: Taken, last: Taken) -> None:
        """The place of one message with the name of another: as if from a log that lost. It must delete nothing."""
        header, other = message.delivered.header, last.delivered
        if other.header.seq != header.seq:
            receipt = Receipt(message.lane, other.header.seq, header.epoch, header.lsn, other.number)
            self.ask(message.queue, Delete(message.lane, receipt), about=Meddling(last.holding, is_forged=True))


class Admin(Client):
    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._tasks = 0
        self._waiting = 0

    def act(self) -> None:
        world = self.world
        queue = world.rng.choice([each for each in self.queues.all if not each.is_gone])
        draw = world.rng.random()
        if draw < 0.3:
            self.ask(queue, Peek(queue.lane, count_max=world.rng.choice((3, 50))))
        elif draw < 0.5:
            self.ask(queue, Count(queue.lane))
        elif draw < 0.65:
            self._reconfigure(queue)
        elif draw < 0.72:
            self._purge()
        elif draw < 0.78:
            self._replace_grave()
        else:
            self._move()

    def told(self, request: Request, fate: str) -> None:
        if fate != ANSWERED and isinstance(request.command, Configure | Drop):
            again = Request(self, request.shard, request.command)
            self.world.after(100 * MS, self.host.request, again)
            return
        self._waiting -= 1
        if not self._waiting:
            self.world.after(self.world.gap(self.pause), self.wake)

    def ask(self, queue: Queue, command: Command, *, about: Any = None, wait_s: int = 0) -> Request:
        self._waiting += 1
        return super().ask(queue, command, about=about, wait_s=wait_s)

    def _reconfigure(self, queue: Queue) -> None:
        world = self.world
        changes: dict[str, object] = {"visibility_timeout_s": world.rng.choice((1, 3, 5))}
        if queue.name in ("delayed", "fifo", "content"):
            changes["delay_s"] = world.rng.choice((0, 1))
        queue.config = queue.with_changes(**changes)
        self.ask(queue, Configure(queue.lane, queue.config, is_known=True))

    def _purge(self) -> None:
        names = [
            each for each in self.queues.all if each.name in ("simple", "fifo", "fair", "content", "wide", "keyed")
        ]
        queue = self.world.rng.choice(names)
        self.ask(queue, Purge(queue.lane, queue.name))

    def _move(self) -> None:
        world, queues = self.world, self.queues
        source = queues.letters if queues.letters is not None and world.chance(0.4) else queues.dead
        draw = world.rng.random()
        if draw < 0.6:
            self._tasks += 1
            target = queues.simple.address if source is queues.dead and world.chance(0.3) else None
            if queues.grave is not None and source is queues.dead and world.chance(0.2):
                target = queues.grave.address  # which may not exist any more
            rate = world.rng.choice((0, 5, 50))
            self.ask(source, StartMove(source.lane, f"task {self._tasks}", target, rate))
        elif draw < 0.8:
            self.ask(source, CancelMove(source.lane, f"task {self._tasks}"))
        else:
            self.ask(source, ListMoves(source.lane))

    def _replace_grave(self) -> None:
        """A dead-letter queue is deleted. Its source learns of another one later, if at all."""
        grave = self.queues.grave
        if grave is None:
            self._move()
            return
        if not grave.is_gone:
            grave.is_gone = True
            self.ask(grave, Drop(grave.lane))
            return
        new = self.queues.new_grave()
        self.account.add_queue(new)
        source = self.queues.named("doomed")
        receives_max = self.world.rng.choice((1, 2))
        source.config = source.with_changes(redrive=Redrive(new.address, receives_max))
        self.ask(new, new.configure())
        self.ask(source, source.configure())
