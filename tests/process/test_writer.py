"""The writer of logs: by the kernel or by its thread, what it says is durable was written and synced in order."""

import asyncio
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

import pytest

from holdfast.backend.disk import Disk, make_folders
from holdfast.backend.writer import KEEP_S_MAX, LOOP_BYTES_MAX, Writer
from holdfast.core.log.files import Create, FileOp, Rename, Sync, SyncDir, Write
from holdfast.runtime.metrics import Histogram
from holdfast.runtime.syncs import KernelSyncs

FILE = "segments/one"
FLUSHES: dict[str, tuple[FileOp, ...]] = {
    "one write": (Write(FILE, 0, b"a" * 512), Sync(FILE)),
    "two writes": (Write(FILE, 0, b"a" * 512), Write(FILE, 512, b"b" * 512), Sync(FILE)),
    "more than the loop writes": (Write(FILE, 0, b"c" * (LOOP_BYTES_MAX + 1)), Sync(FILE)),
    "a file and its name": (
        Create("segments/spare", 4096),
        Sync("segments/spare"),
        Rename("segments/spare", "segments/two"),
        SyncDir("segments"),
        Write("segments/two", 0, b"d" * 512),
        Sync("segments/two"),
    ),
}


def fail(problem: BaseException) -> NoReturn:
    raise AssertionError from problem


def no_such_thing() -> str:
    return "abacus"


@pytest.fixture(params=["by the kernel", "by the thread"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "by the thread":
        monkeypatch.setattr("platform.machine", no_such_thing)
    return str(request.param)


def served(root: Path, flush: tuple[FileOp, ...], *, fail: Callable[[BaseException], None] = fail) -> Histogram:
    async def serve() -> Histogram:
        syncs, done = Histogram(), asyncio.Event()
        writer = Writer(asyncio.get_running_loop(), fail=fail, syncs=syncs)
        disk = Disk(root)
        writer.hand_over(disk, flush, done.set)
        await asyncio.wait_for(done.wait(), 10)
        writer.close()
        disk.close()
        return syncs

    make_folders(root)
    (root / FILE).write_bytes(bytes(4096))
    return asyncio.run(serve())


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("flush", FLUSHES.values(), ids=FLUSHES)
def test_a_flush_is_on_the_disk_when_it_is_said_to_be(tmp_path: Path, flush: tuple[FileOp, ...]) -> None:
    syncs = served(tmp_path / "d" / "s", flush)
    assert sum(syncs.counts) == 1
    for write in (each for each in flush if isinstance(each, Write)):
        assert (tmp_path / "d" / "s" / write.path).read_bytes()[write.offset :].startswith(write.data)


def test_a_write_that_fails_is_told_and_nothing_is_said_to_be_durable(tmp_path: Path) -> None:
    """By the loop; what the thread does then is tested with whole servers (test_faults.py)."""
    told: list[BaseException] = []

    def stop(problem: BaseException) -> None:
        told.append(problem)
        raise SystemExit

    with pytest.raises(SystemExit):
        served(tmp_path / "d" / "s", (Write("segments/absent", 0, b"x"), Sync("segments/absent")), fail=stop)
    assert isinstance(told[0], FileNotFoundError)


def yields_of(
    root: Path, act: Callable[[Writer, list[float]], None], monkeypatch: pytest.MonkeyPatch, *, taken_s: float = 0.0
) -> list[float]:
    """When the processor was given away, by a clock that only this moves on. `act` runs while a sync is under way."""
    given: list[float] = []
    clock = [100.0]

    def give() -> None:
        given.append(clock[0])
        clock[0] += taken_s

    async def serve() -> None:
        done = asyncio.Event()
        writer = Writer(asyncio.get_running_loop(), fail=fail, syncs=Histogram())
        disk = Disk(root)
        writer.give_way()
        writer.hand_over(disk, FLUSHES["one write"], done.set)
        act(writer, clock)
        await asyncio.wait_for(done.wait(), 10)
        writer.give_way()
        writer.close()
        disk.close()

    make_folders(root)
    (root / FILE).write_bytes(bytes(4096))
    monkeypatch.setattr("os.sched_yield", give)
    monkeypatch.setattr("holdfast.runtime.metrics.now", lambda: clock[0])
    asyncio.run(serve())
    return given


@pytest.fixture
def needs_kernel() -> None:
    try:
        KernelSyncs().close()
    except OSError as problem:
        pytest.skip(f"NOT TESTED: giving way to syncs, since the system cannot sync aside: {problem}")


@pytest.mark.usefixtures("needs_kernel")
def test_the_processor_is_given_away_only_while_a_sync_is_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def act(writer: Writer, _: list[float]) -> None:
        writer.give_way()
        writer.give_way()

    assert len(yields_of(tmp_path / "d" / "s", act, monkeypatch)) == 2  # not before, not afterwards


@pytest.mark.usefixtures("needs_kernel")
def test_a_neighbour_that_takes_the_processor_is_offered_it_ever_more_rarely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def act(writer: Writer, clock: list[float]) -> None:
        for _ in range(10_000):
            writer.give_way()
            clock[0] += 0.001

    given = yields_of(tmp_path / "d" / "s", act, monkeypatch, taken_s=0.003)
    waits = [after - before for before, after in pairwise(given)]
    assert waits[0] < 0.02
    assert waits == sorted(waits)
    assert waits[-1] > KEEP_S_MAX
    assert len(given) < 20


def test_without_a_way_to_sync_aside_nothing_is_given_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", no_such_thing)
    assert not yields_of(tmp_path / "d" / "s", lambda writer, _: writer.give_way(), monkeypatch)


@pytest.mark.usefixtures("needs_kernel")
def test_who_is_in_a_hurry_is_told_before_the_loop_comes_round(tmp_path: Path) -> None:
    async def serve() -> None:
        told: list[float] = []
        writer = Writer(asyncio.get_running_loop(), fail=fail, syncs=Histogram())
        disk = Disk(tmp_path / "d" / "s")
        writer.hear()
        writer.hand_over(disk, FLUSHES["one write"], lambda: told.append(time.monotonic()))
        deadline = time.monotonic() + 10
        while not told and time.monotonic() < deadline:  # nothing is awaited
            writer.hear()
        assert len(told) == 1
        writer.hear()
        await asyncio.sleep(0.01)
        assert len(told) == 1, "the loop has nothing more to tell"
        writer.close()
        disk.close()

    make_folders(tmp_path / "d" / "s")
    (tmp_path / "d" / "s" / FILE).write_bytes(bytes(4096))
    asyncio.run(serve())
