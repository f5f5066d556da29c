"""Several processes of one host: each leads some of its shards and serves requests for all of them.

    request ─▶ Switch ─┬─ own shard ───────▶ Host
                       └─ another's ─▶ Link ═══ unix socket ═══▶ Desk ─▶ the other process's Host

Laws
- Who has been told that something was done was told so by the shard itself: a Link only carries answers.
- When the other process is gone, everything it was asked and has not answered is refused as Unreachable: it may have
  been done or not, as when a connection breaks. A receive ends with nothing; if it was served, its messages come back.
- Nothing is asked twice by itself.
- What workers tell each other beside commands (`Aside`) may be lost with the process that it was told to.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, cast

from holdfast.core.admission.bucket import Poured
from holdfast.core.errors import HoldfastError, Overloaded, ServiceUnavailable
from holdfast.core.queue.columns import Columns
from holdfast.core.queue.command import EMPTY_DELIVERY, Command, Outcome, Peek, Receive
from holdfast.core.types import ShardId
from holdfast.core.values import Fact
from holdfast.runtime import frames
from holdfast.runtime.letter import Letter
from holdfast.runtime.rpc import Backend, Call, Receiver

PENDING_MAX: Final = 100_000  # questions to one other process that wait for their answers, most of them long polls
RECONNECT_S: Final = 0.05
BATCH: Final = -1  # in place of a time to wait


class Unreachable(ServiceUnavailable):
    text = (
        "The process that holds this queue is being restarted. What it was asked may or may not have been done. Retry."
    )


class _Pending(Fact, frozen=True):
    call: Call
    batch: int  # how many commands; 0: no batch
    is_receive: bool

    def refuse(self, problem: ServiceUnavailable) -> None:
        if self.is_receive:
            self.call.answered(EMPTY_DELIVERY, ())
        else:
            self.call.answered([problem] * self.batch if self.batch else problem, ())


class Link(asyncio.Protocol):
    """The way to one other process. Connects again by itself."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._frames = frames.Frames()
        self._number = 0
        self._pending: dict[int, _Pending] = {}
        self._numbers: dict[Call, int] = {}  # of receives, which may be cancelled
        self._inquiries: dict[int, asyncio.Future[bytes]] = {}
        self._task = self._loop.create_task(self._connect())
        self._is_closed = False
        self.is_connected = asyncio.Event()

    async def _connect(self) -> None:
        while True:
            with contextlib.suppress(OSError):
                await self._loop.create_unix_connection(lambda: self, self._path)
                return
            await asyncio.sleep(RECONNECT_S)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._frames = frames.Frames()
        self.is_connected.set()

    def connection_lost(self, _: Exception | None) -> None:
        self._transport = None
        self.is_connected.clear()
        pending, self._pending = self._pending, {}
        self._numbers.clear()
        for each in pending.values():
            each.refuse(Unreachable())
        for inquiry in self._inquiries.values():
            inquiry.cancel()
        self._inquiries.clear()
        if not self._is_closed:
            self._task = self._loop.create_task(self._connect())

    def data_received(self, data: bytes) -> None:
        for frame in self._frames.feed(data):
            if isinstance(frame, frames.Reported):
                self._reported(frame)
                continue
            assert isinstance(frame, frames.Answered)
            pending = self._pending.pop(frame.number)
            if pending.is_receive:
                self._numbers.pop(pending.call, None)
            outcomes = frames.outcomes_of(frame)
            pending.call.answered(outcomes if pending.batch else outcomes[0], frame.letters)

    def _reported(self, frame: frames.Reported) -> None:
        inquiry = self._inquiries.pop(frame.number)
        if not inquiry.done():  # nobody waits so long
            inquiry.set_result(frame.report)

    def inquire(self) -> asyncio.Future[bytes]:
        """The other's report. Cancelled when it is gone."""
        inquiry: asyncio.Future[bytes] = self._loop.create_future()
        if self._transport is None:
            inquiry.cancel()
            return inquiry
        self._number += 1
        self._inquiries[self._number] = inquiry
        self._transport.write(frames.frame(frames.Inquired(self._number)))
        return inquiry

    def tell_poured(self, poured: Poured) -> None:
        if self._transport is not None:
            self._transport.write(frames.frame(frames.Poured(poured)))

    def ask(self, shard: ShardId, commands: Sequence[Command], call: Call, *, wait_s: int) -> None:
        is_receive = type(commands[0]) is Receive
        pending = _Pending(call, len(commands) if wait_s == BATCH else 0, is_receive)
        transport = self._transport
        if transport is None or len(self._pending) >= PENDING_MAX:
            self._loop.call_soon(pending.refuse, Unreachable() if transport is None else Overloaded())
            return
        self._number += 1
        self._pending[self._number] = pending
        if is_receive:
            self._numbers[call] = self._number
        transport.write(frames.asked(self._number, shard, commands, wait_s))

    def cancel(self, call: Call) -> None:
        """It is answered all the same: with nothing, or with what was on its way."""
        number = self._numbers.get(call)
        if number is not None and self._transport is not None:
            self._transport.write(frames.frame(frames.Cancelled(number)))

    def close(self) -> None:
        self._is_closed = True
        self._task.cancel()
        if self._transport is not None:
            self._transport.close()


class Aside:
    """What this process does when another one tells or asks something that is no command; nothing before it is set."""

    def __init__(self) -> None:
        self.on_poured: Callable[[Poured], None] | None = None
        self.report: Callable[[], Awaitable[bytes]] | None = None


class Desk(asyncio.Protocol):
    """Where another process asks for this one's shards: one per connection."""

    def __init__(self, backend: Backend, aside: Aside | None = None) -> None:
        self._backend = backend
        self._aside = aside or Aside()
        self._reports: set[asyncio.Task[None]] = set()
        self._frames = frames.Frames()
        self._transport: asyncio.Transport
        self._receives: dict[int, tuple[ShardId, Call]] = {}  # that may be cancelled

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, _: Exception | None) -> None:
        for shard, call in self._receives.values():
            self._backend.cancel(shard, call)
        self._receives.clear()

    def data_received(self, data: bytes) -> None:
        for frame in self._frames.feed(data):
            if isinstance(frame, frames.Asked):
                self._ask(frame)
            elif isinstance(frame, frames.Cancelled):
                self._cancel(frame.number)
            elif isinstance(frame, frames.Poured):
                if self._aside.on_poured is not None:
                    self._aside.on_poured(frame.poured)
            elif isinstance(frame, frames.Inquired) and self._aside.report is not None:
                task = asyncio.get_running_loop().create_task(self._report(frame.number, self._aside.report))
                self._reports.add(task)
                task.add_done_callback(self._reports.discard)

    async def _report(self, number: int, report: Callable[[], Awaitable[bytes]]) -> None:
        told = await report()
        if not self._transport.is_closing():
            self._transport.write(frames.frame(frames.Reported(number, told)))

    def _ask(self, question: frames.Asked) -> None:
        commands = frames.commands_of(question)
        number, shard = question.number, question.shard
        try:
            if question.wait_s == BATCH:
                self._backend.submit_all(shard, commands, _Errand(self, number, is_batch=True))
                return
            command = commands[0]
            if isinstance(command, Receive | Peek):
                errand: Call = _Errands(self, number, command)
                if isinstance(command, Receive):
                    self._receives[number] = (shard, errand)
            else:
                errand = _Errand(self, number)
            self._backend.submit(shard, command, errand, question.wait_s)
        except HoldfastError as problem:  # of a shard that is led elsewhere
            self.tell(number, [problem] * len(commands), ())

    def _cancel(self, number: int) -> None:
        shard, call = self._receives.get(number, (ShardId(0), None))
        if call is not None and self._backend.cancel(shard, call):
            self.tell(number, [EMPTY_DELIVERY], ())

    def close(self) -> None:
        self._transport.close()

    def tell(self, number: int, outcomes: Sequence[Outcome], letters: Sequence[Letter]) -> None:
        self._receives.pop(number, None)
        if not self._transport.is_closing():
            self._transport.write(frames.answered(number, outcomes, letters))


class _Errand(Call):
    __slots__ = ("_desk", "_is_batch", "_number")

    def __init__(self, desk: Desk, number: int, *, is_batch: bool = False) -> None:
        self._desk = desk
        self._number = number
        self._is_batch = is_batch

    def answered(self, answer: Any, letters: Sequence[Letter], /) -> None:
        self._desk.tell(self._number, answer if self._is_batch else [answer], letters)


class _Errands(Receiver):
    """For a receive or a peek."""

    __slots__ = ("_desk", "_number")

    def __init__(self, desk: Desk, number: int, command: Receive | Peek) -> None:
        super().__init__(command.lane)
        self._desk = desk
        self._number = number

    def answered(self, answer: Any, letters: Sequence[Letter], /) -> None:
        self._desk.tell(self._number, [answer], letters)


class Switch:
    """A Backend for all shards of the host: `own` has those that this process leads, `links` the others. `listener` is
    where those ask; it is open for as long as somebody holds it."""

    def __init__(self, own: Backend, links: Mapping[ShardId, Link], listener: asyncio.Server | None = None) -> None:
        self._own = own
        self._links = links
        self._listener = listener

    def submit(self, shard: ShardId, command: Command, call: Call, wait_s: int = 0) -> None:
        link = self._links.get(shard)
        if link is None:
            self._own.submit(shard, command, call, wait_s)
        else:
            link.ask(shard, [command], call, wait_s=wait_s)

    def submit_all(self, shard: ShardId, commands: Sequence[Command], call: Call) -> None:
        link = self._links.get(shard)
        if link is None:
            self._own.submit_all(shard, commands, call)
        else:
            link.ask(shard, commands, call, wait_s=BATCH)

    def submit_plain(self, shard: ShardId, batch: Columns, call: Call) -> None:
        link = self._links.get(shard)
        if link is None:
            self._own.submit_plain(shard, batch, call)
        else:
            link.ask(shard, batch.apart(), call, wait_s=BATCH)

    def cancel(self, shard: ShardId, call: Call) -> bool:
        link = self._links.get(shard)
        if link is None:
            return self._own.cancel(shard, call)
        link.cancel(call)
        return False
