"""A file is filled with zeros in pieces, with rests, and never much of it is under way to the disk."""

import errno
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from holdfast.runtime import zeros
from holdfast.runtime.zeros import AHEAD_BYTES, AT_ONCE, WRITE_BYTES_MAX, Pace, fill
from tests.process.built_c import built

PIECE = 2 * WRITE_BYTES_MAX


@pytest.fixture(scope="module")
def in_c(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    if sys.platform != "linux":
        pytest.skip("NOT TESTED: zeros in C are for Linux")
    return built("holdfast/runtime/_zeros.c", tmp_path_factory.mktemp("zeros"))


@pytest.fixture(params=["Python", "C"])
def direct(request: pytest.FixtureRequest) -> ModuleType | None:
    found: ModuleType | None = request.getfixturevalue("in_c") if request.param == "C" else None
    return found


@pytest.fixture
def descriptor(tmp_path: Path) -> Iterator[int]:
    opened = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    yield opened
    os.close(opened)


@pytest.mark.parametrize("pace", [AT_ONCE, Pace(0.0, 0.00001, PIECE, PIECE), Pace(10.0, 0.00001, 1, 1)])
@pytest.mark.parametrize("length", [1, WRITE_BYTES_MAX, 3 * AHEAD_BYTES + 7])
def test_what_was_there_becomes_zeros_and_what_follows_stays(
    descriptor: int, direct: ModuleType | None, length: int, pace: Pace
) -> None:
    os.pwrite(descriptor, b"x" * (length + 100), 0)
    fill(descriptor, 10, length, pace, direct=direct)
    assert os.pread(descriptor, length + 200, 0) == b"x" * 10 + bytes(length) + b"x" * 90


def test_it_rests_when_it_has_worked_for_long_and_at_the_end(descriptor: int, direct: ModuleType | None) -> None:
    for pace, rests in ((Pace(0.0, 0.02, PIECE, PIECE), 5), (Pace(60.0, 0.02, PIECE, PIECE), 1)):
        began = time.monotonic()
        fill(descriptor, 0, 4 * WRITE_BYTES_MAX + 1, pace, direct=direct)
        assert time.monotonic() - began >= rests * 0.02


def test_what_the_disk_says_is_raised(direct: ModuleType | None) -> None:
    reading, writing = os.pipe()
    with pytest.raises(OSError, match="Illegal seek"):
        fill(writing, 0, 1, AT_ONCE, direct=direct)
    os.close(reading)
    os.close(writing)
    with pytest.raises(OSError, match="Bad file descriptor"):
        fill(writing, 0, 1, AT_ONCE, direct=direct)


def test_what_is_no_number_is_refused(in_c: ModuleType) -> None:
    for arguments in ((), (1, 2, 3, 4, 5), (1, 2, 3, 4, 5, "6"), (1 << 40, 2, 3, 4, 5, 6)):
        with pytest.raises((TypeError, OverflowError)):
            in_c.fill(*arguments)


@pytest.mark.parametrize("piece", [PIECE, AHEAD_BYTES, 3 * WRITE_BYTES_MAX])
def test_no_more_than_so_much_is_under_way(descriptor: int, monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    asked: list[tuple[str, int, int]] = []

    def begin(_: int, offset: int, length: int) -> bool:
        asked.append(("begin", offset, length))
        return True

    def wait(_: int, offset: int, length: int) -> None:
        asked.append(("wait", offset, length))

    monkeypatch.setattr("holdfast.runtime.writeback.begin", begin)
    monkeypatch.setattr("holdfast.runtime.writeback.wait", wait)
    step, size = 2 * piece, 4 * AHEAD_BYTES + 512
    for at in range(0, size, step):
        fill(descriptor, at, min(step, size - at), Pace(0.0, 0.0, piece, step), direct=None)
    begun = waited = 0
    for what, offset, length in asked:
        if what == "begin":
            assert offset == begun
            begun += length
        else:
            assert offset <= waited, "nothing is left out"
            waited = max(waited, offset + length)
        assert begun - waited <= AHEAD_BYTES + piece
    assert begun == size


def test_it_is_synced_now_and_then_where_it_cannot_be_handed_over(
    descriptor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    monkeypatch.setattr("holdfast.runtime.writeback.begin", lambda *_: False)
    monkeypatch.setattr(zeros, "_fdatasync", lambda number: sizes.append(os.fstat(number).st_size))
    fill(descriptor, 0, 3 * AHEAD_BYTES + 512, Pace(0.0, 0.0, PIECE, PIECE), direct=None)
    assert sizes == [AHEAD_BYTES, 2 * AHEAD_BYTES, 3 * AHEAD_BYTES]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="NOT TESTED: a device that is full")
def test_a_full_disk_is_told(direct: ModuleType | None) -> None:
    descriptor = os.open("/dev/full", os.O_RDWR)
    with pytest.raises(OSError, match="No space left") as problem:
        fill(descriptor, 0, WRITE_BYTES_MAX, AT_ONCE, direct=direct)
    assert problem.value.errno == errno.ENOSPC
    os.close(descriptor)
