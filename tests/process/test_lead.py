"""How many commands share a sync: a frame waits for company, and never for long."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn

import pytest

from holdfast.backend import lead
from holdfast.backend.disk import Disk, make_folders
from holdfast.backend.lead import ANSWERS_AT_ONCE, LINGER_ROUNDS, Lead
from holdfast.backend.letters import Reader
from holdfast.backend.writer import Done, Writer
from holdfast.core.limits import SEGMENT_BYTES
from holdfast.core.log.files import FileOp
from holdfast.core.log.journal import Journal
from holdfast.core.log.primary import Primary
from holdfast.core.log.segment_files import prepare_segment
from holdfast.core.queue.command import Accepted, Configure, Send
from holdfast.core.queue.shard import Shard
from holdfast.core.types import Epoch, LaneConfig, LaneId, ShardId
from holdfast.runtime.crypto import MasterKey
from holdfast.runtime.metrics import Histogram
from holdfast.runtime.rpc import Call

LANE = LaneId(1)
ROUNDS_MAX = LINGER_ROUNDS + 3  # of the loop: so long a frame waits at most


def fail(problem: BaseException) -> NoReturn:
    raise AssertionError from problem


class SlowWriter(Writer):
    """Syncs when it is told to."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop, fail=fail, syncs=Histogram())
        self.held: list[tuple[Disk, tuple[FileOp, ...], Done]] = []  # the frame that is under way

    def hand_over(self, disk: Disk, operations: tuple[FileOp, ...], on_done: Done) -> None:
        self.held.append((disk, operations, on_done))

    async def sync(self) -> bool:
        """The frame that is under way. Answers whether the next one was written at once."""
        disk, operations, on_done = self.held.pop()
        is_next_written = asyncio.get_running_loop().create_future()

        def tell() -> None:
            on_done()
            is_next_written.set_result(bool(self.held))

        super().hand_over(disk, operations, tell)
        return await asyncio.wait_for(is_next_written, 10)


class Client(Call):
    """Sends one message after the other."""

    def __init__(self, lead: Lead, *, messages: int, pause: int = 1) -> None:
        """After so many rounds of the loop it asks again."""
        self._lead = lead
        self._left = messages
        self._pause = pause
        self.answers = 0

    def ask(self) -> None:
        self._left -= 1
        self._lead.submit(Send(LANE, b"body", b"body", 4), self)

    def answered(self, answer: object, _: object, /) -> None:
        assert isinstance(answer, Accepted)
        self.answers += 1
        if self._left:
            self._rest(self._pause)

    def _rest(self, rounds: int) -> None:
        if rounds:
            asyncio.get_running_loop().call_soon(self._rest, rounds - 1)
        else:
            self.ask()


class Noting(Call):
    """Notes who was answered."""

    def __init__(self, answered: list[int], number: int) -> None:
        self._answered = answered
        self._number = number

    def answered(self, answer: object, _: object, /) -> None:
        assert isinstance(answer, Accepted)
        self._answered.append(self._number)


class Scene:
    """A shard on a real disk, whose syncs take as long as the test says."""

    def __init__(self, root: Path, threads: ThreadPoolExecutor) -> None:
        loop = asyncio.get_running_loop()
        self.writer = SlowWriter(loop)
        make_folders(root)
        journal, master, disk = Journal(ShardId(1), Epoch(1)), MasterKey(bytes(32)), Disk(root)
        cipher, key = master.new_cipher()
        assert disk.run(prepare_segment(journal.start_spare(), key=key, size=SEGMENT_BYTES))
        journal.end_spare(cipher)
        disk.close()
        reader = Reader(root, journal, master, thread=threads, to_loop=loop.call_soon_threadsafe, fail=fail)
        self.lead = Lead(
            Primary(Shard(ShardId(1)), journal),
            root,
            reader,
            self.writer,
            hand_over=_not_expected,
            on_moved=_not_expected,
            expects_more=lambda: False,
            fail=fail,
        )

    def clients(self, count: int, *, messages: int, pause: int = 1) -> list[Client]:
        found = [Client(self.lead, messages=messages, pause=pause) for _ in range(count)]
        for client in found:
            client.ask()
        return found

    async def until_written(self) -> int:
        """The next frame is under way. Answers after how many rounds of the loop."""
        for rounds in range(ROUNDS_MAX):
            if self.writer.held:
                return rounds
            await asyncio.sleep(0)
        raise AssertionError("nothing is written")


def _not_expected(*_: object) -> NoReturn:
    raise AssertionError


def play(root: Path, scenario: Callable[[Scene], Awaitable[None]]) -> None:
    async def act() -> None:
        with ThreadPoolExecutor(1) as threads:
            scene = Scene(root, threads)
            made = scene.lead.ask(Configure(LANE, LaneConfig()))
            await scene.until_written()
            await scene.writer.sync()
            await asyncio.wait_for(made, 10)
            await scenario(scene)
            scene.writer.close()
            scene.lead.close()

    asyncio.run(act())


def test_those_who_are_answered_and_ask_again_share_a_sync_with_those_who_wait(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        many = scene.clients(3, messages=2)
        await scene.until_written()
        few = scene.clients(1, messages=1)
        await scene.writer.sync()
        assert [each.answers for each in many + few] == [1, 1, 1, 0]
        await scene.until_written()
        await scene.writer.sync()
        assert [each.answers for each in many + few] == [2, 2, 2, 1]

    play(tmp_path / "shard", scenario)


def test_a_frame_waits_for_as_many_as_are_answered_and_no_longer(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        quick, slow = scene.clients(2, messages=2, pause=3), scene.clients(1, messages=2, pause=50)
        await scene.until_written()
        few = scene.clients(1, messages=1)
        assert not await scene.writer.sync()
        assert await scene.until_written() < LINGER_ROUNDS, "three were answered, and three wait"
        await scene.writer.sync()
        assert [each.answers for each in quick + slow + few] == [2, 2, 1, 1]

    play(tmp_path / "shard", scenario)


def test_a_frame_that_waits_in_vain_is_written_all_the_same(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        scene.clients(3, messages=1)
        await scene.until_written()
        few = scene.clients(1, messages=1)
        assert not await scene.writer.sync()
        await scene.until_written()
        await scene.writer.sync()
        assert few[0].answers == 1

    play(tmp_path / "shard", scenario)


def test_a_frame_that_holds_as_much_as_the_last_is_written_at_once(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        scene.clients(2, messages=1)
        await scene.until_written()
        scene.clients(2, messages=1)
        assert await scene.writer.sync()

    play(tmp_path / "shard", scenario)


def test_a_frame_that_somebody_is_in_a_hurry_for_waits_for_nobody(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        scene.clients(3, messages=1)
        await scene.until_written()
        scene.clients(1, messages=1)
        scene.lead.end_turn(is_urgent=True)
        assert await scene.writer.sync()

    play(tmp_path / "shard", scenario)


def test_the_frame_after_a_hurried_one_waits_again(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        scene.clients(3, messages=1)
        scene.lead.end_turn(is_urgent=True)
        scene.clients(1, messages=1)
        assert not await scene.writer.sync()

    play(tmp_path / "shard", scenario)


def test_who_was_in_a_hurry_is_answered_before_those_who_share_the_frame(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        for is_urgent, order in ((True, [2, 1, 0]), (False, [0, 1, 2])):
            answered: list[int] = []
            for number in range(3):
                scene.lead.submit(Send(LANE, b"body", b"body", 4), Noting(answered, number))
            scene.lead.end_turn(is_urgent=is_urgent)
            await scene.until_written()
            await scene.writer.sync()
            assert answered == order

    play(tmp_path / "shard", scenario)


class Rounds:
    """Counts those of the loop."""

    def __init__(self) -> None:
        self.number = 0
        self._go_on()

    def _go_on(self) -> None:
        self.number += 1
        asyncio.get_running_loop().call_soon(self._go_on)


def test_while_somebody_is_in_a_hurry_the_others_are_answered_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lead, "HURRY_S", 60.0)  # however long the disk takes

    async def scenario(scene: Scene) -> None:
        count, rounds = 3 * ANSWERS_AT_ONCE + 1, Rounds()
        for is_urgent, sizes in ((False, [count]), (True, [ANSWERS_AT_ONCE] * 3 + [1])):
            answered: list[int] = []
            by_round: Counter[int] = Counter()

            class Counted(Noting):
                def answered(self, answer: object, _: object, /) -> None:
                    super().answered(answer, _)
                    by_round[rounds.number] += 1  # noqa: B023 - it is asked and answered in this pass

            for number in range(count):
                scene.lead.submit(Send(LANE, b"body", b"body", 4), Counted(answered, number))
            scene.lead.end_turn(is_urgent=is_urgent)
            await scene.until_written()
            await scene.writer.sync()
            for _ in range(10):
                await asyncio.sleep(0)
            assert list(by_round.values()) == sizes
            assert answered == list(range(count))[:: -1 if is_urgent else 1]

    play(tmp_path / "shard", scenario)
