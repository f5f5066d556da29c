"""Processes of one host ask each other over sockets: as if it were a method call, and clearly when it is not."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.backend.host import Host
from holdfast.core import errors
from holdfast.core.errors import HoldfastError, OverLimit, QueueDoesNotExist
from holdfast.core.queue import command as c
from holdfast.core.queue.command import Accepted, Delivery
from holdfast.core.types import LaneConfig, LaneId, Receipt, ShardId
from holdfast.runtime import frames
from holdfast.runtime.crypto import MasterKey
from holdfast.runtime.letter import Letter
from holdfast.runtime.rpc import Receiver
from holdfast.runtime.workers import Aside, Desk, Link, Switch, Unreachable

SHARD, LANE = ShardId(2), LaneId(7)


class Waiting(Receiver):
    def __init__(self) -> None:
        super().__init__(LANE)
        self.future: asyncio.Future[tuple[Any, Sequence[Letter]]] = asyncio.get_running_loop().create_future()

    def answered(self, answer: Any, letters: Sequence[Letter], /) -> None:
        self.future.set_result((answer, letters))


def send(body: bytes) -> c.Send:
    return c.Send(LANE, body, body, len(body))


class Pair:
    """Two ends in one process: a host that leads the shard, and a switch that reaches it over a socket."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.host: Host
        self.switch: Switch
        self._listener: asyncio.Server

    async def start(self) -> None:
        self.aside = Aside()
        self.host = Host(self._folder / "shards", MasterKey(bytes(32)))
        self.host.open([SHARD])
        await self.listen()
        self.link = Link(self.path)
        self.switch = Switch(self.host, {SHARD: self.link})

    @property
    def path(self) -> str:
        return str(self._folder / "s")

    async def listen(self) -> None:
        loop = asyncio.get_running_loop()
        self.desks: list[Desk] = []

        def desk() -> Desk:
            self.desks.append(Desk(self.host, self.aside))
            return self.desks[-1]

        self._listener = await loop.create_unix_server(desk, self.path)

    async def hang_up(self) -> None:
        """The other process is gone."""
        self._listener.close()
        for desk in self.desks:
            desk.close()
        await asyncio.sleep(0.05)

    async def ask(self, command: c.Command, wait_s: int = 0) -> tuple[Any, Sequence[Letter]]:
        waiting = Waiting()
        self.switch.submit(SHARD, command, waiting, wait_s)
        return await asyncio.wait_for(waiting.future, 10)

    async def ask_patiently(self, command: c.Command) -> Any:
        """Until there is a connection."""
        for _ in range(100):
            answer, _ = await self.ask(command)
            if not isinstance(answer, Unreachable):
                return answer
            await asyncio.sleep(0.02)
        raise AssertionError("no connection")

    async def ask_all(self, *commands: c.Command) -> list[Any]:
        waiting = Waiting()
        self.switch.submit_all(SHARD, commands, waiting)
        answer, _ = await asyncio.wait_for(waiting.future, 10)
        return list(answer)

    async def stop(self) -> None:
        self.link.close()
        self._listener.close()
        await self.host.close()


@asynccontextmanager
async def pair(folder: Path, config: LaneConfig | None = None) -> AsyncIterator[Pair]:
    made = Pair(folder)
    await made.start()
    assert await made.ask_patiently(c.Configure(LANE, config or LaneConfig())) == c.DONE
    yield made
    await made.stop()


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(test())  # type: ignore[arg-type]


def test_a_message_goes_through_another_process(tmp_path: Path) -> None:
    async def scene() -> None:
        async with pair(tmp_path) as made:
            accepted, _ = await made.ask(send(b"hello"))
            assert isinstance(accepted, Accepted)
            delivery, letters = await made.ask(c.Receive(LANE))
            assert isinstance(delivery, Delivery)
            assert [letter.content for letter in letters] == [b"hello"]
            header = delivery.messages[0].header
            receipt = Receipt(LANE, header.seq, header.epoch, header.lsn, delivery.messages[0].number)
            assert (await made.ask(c.Delete(LANE, receipt)))[0] == c.DONE
            assert (await made.ask(c.Receive(LANE)))[0] is c.EMPTY_DELIVERY

    run(scene)


def test_a_batch_is_answered_in_its_order_with_the_errors_that_were_raised(tmp_path: Path) -> None:
    async def scene() -> None:
        async with pair(tmp_path, LaneConfig(messages_max=1)) as made:
            outcomes = await made.ask_all(send(b"a"), send(b"b"), c.Drop(LaneId(99)))
            assert [type(each) for each in outcomes] == [Accepted, OverLimit, QueueDoesNotExist]
            assert "limit is 1 messages" in outcomes[1].message

    run(scene)


def test_a_waiting_receive_that_is_cancelled_takes_nothing(tmp_path: Path) -> None:
    async def scene() -> None:
        async with pair(tmp_path) as made:
            waiting = Waiting()
            made.switch.submit(SHARD, c.Receive(LANE), waiting, 20)
            made.switch.cancel(SHARD, waiting)
            answer, _ = await asyncio.wait_for(waiting.future, 10)
            assert answer is c.EMPTY_DELIVERY
            await made.ask(send(b"a"))
            delivery, _ = await made.ask(c.Receive(LANE), 5)
            assert len(delivery.messages) == 1

    run(scene)


def test_what_a_lost_process_was_asked_is_refused_and_receives_end_empty(tmp_path: Path) -> None:
    async def scene() -> None:
        async with pair(tmp_path) as made:
            receive = Waiting()
            made.switch.submit(SHARD, c.Receive(LANE), receive, 20)
            await made.ask(c.Count(LANE))
            await made.hang_up()
            assert (await asyncio.wait_for(receive.future, 10))[0] is c.EMPTY_DELIVERY
            assert isinstance((await made.ask(send(b"a")))[0], Unreachable)
            assert [type(each) for each in await made.ask_all(send(b"a"), send(b"b"))] == [Unreachable] * 2
            await made.listen()
            assert isinstance(await made.ask_patiently(send(b"back")), Accepted)

    run(scene)


@pytest.mark.parametrize("kind", frames.COMMANDS, ids=lambda kind: kind.__name__)
def test_every_command_can_travel(kind: type) -> None:
    value: Any = msgspec.convert(_example(kind), kind)
    data = frames.asked(1, SHARD, [value], 3)
    (question,) = frames.Frames().feed(data)
    assert isinstance(question, frames.Asked)
    assert frames.commands_of(question) == [value]


def _example(kind: type) -> dict[str, Any]:
    """Something for every field that must be given."""
    samples: dict[str, Any] = {
        "receipt": {"lane": 7, "seq": 1, "epoch": 2, "lsn": 3, "number": 4},
        "config": {"redrive": {"target": {"shard": 1, "lane": 2}, "receives_max": 3}},
        "target": {"shard": 1, "lane": 2} if kind is c.StartMove else 2,
        "handover": {
            **dict.fromkeys(("source number lane group size age time_left count origin cause wall".split()), 1),
            "message_id": b"m" * 16,
            "content": b"c",
        },
        "messages": (),
        "parent": {"shard": 1, "lane": 2},
        "parents": [{"shard": 1, "lane": 2}],
        "bequest": {
            "parent": {"shard": 1, "lane": 2},
            "last": 9,
            **dict.fromkeys(("cursor", "following", "rows"), b"d" * 16),
        },
        "body": b"b",
        "content": b"c",
        "name": "q",
        "task": "t",
        "is_refused": True,
    }
    fields = msgspec.structs.fields(kind)
    return {each.name: samples.get(each.name, 5) for each in fields if each.required}


def test_every_error_arrives_as_itself() -> None:
    kinds = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, HoldfastError)]
    assert len(kinds) > 30
    data = frames.answered(9, [kind(f"because of {kind.__name__}") for kind in kinds], ())
    (answer,) = frames.Frames().feed(data)
    assert isinstance(answer, frames.Answered)
    outcomes = frames.outcomes_of(answer)
    assert [type(each) for each in outcomes] == kinds
    assert [str(each) for each in outcomes] == [f"because of {kind.__name__}" for kind in kinds]


def test_frames_are_cut_at_any_byte() -> None:
    stream = frames.asked(1, SHARD, [send(b"x" * 50)], 0) + frames.frame(frames.Cancelled(1))
    for cut in range(len(stream)):
        cutter = frames.Frames()
        found = [*cutter.feed(stream[:cut]), *cutter.feed(stream[cut:])]
        assert [type(each) for each in found] == [frames.Asked, frames.Cancelled]


def test_a_frame_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="bytes"):
        list(frames.Frames().feed(b"\xff\xff\xff\xff"))


# --- beside commands ----------------------------------------------------------------------------------------


def test_another_process_reports_and_is_told_what_was_admitted(tmp_path: Path) -> None:
    async def scene() -> None:
        async with pair(tmp_path) as made:
            told: list[object] = []

            async def report() -> bytes:
                return b"well"

            made.aside.on_poured, made.aside.report = told.append, report
            made.link.tell_poured([(("queue", "000000000000", "q"), 3)])
            assert await asyncio.wait_for(made.link.inquire(), 10) == b"well"
            assert told == [[(("queue", "000000000000", "q"), 3)]]

    run(scene)


def test_an_inquiry_ends_with_the_process_that_was_asked(tmp_path: Path) -> None:
    async def scene() -> None:
        async with pair(tmp_path) as made:
            inquiry = made.link.inquire()  # nobody answers: it has nothing to report yet
            await made.hang_up()
            assert inquiry.cancelled()
            assert made.link.inquire().cancelled()
            made.link.tell_poured([(("account", "000000000000"), 1)])

    run(scene)
