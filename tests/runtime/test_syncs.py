"""Syncs that the kernel does aside."""

import os
import select
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import ModuleType

import pytest

from holdfast.runtime.syncs import KernelSyncs
from tests.process.built_c import built

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="NOT TESTED: only Linux has them")


@pytest.fixture(scope="module")
def aio(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return built("holdfast/runtime/_aio.c", tmp_path_factory.mktemp("aio"))


@pytest.fixture(params=["ctypes", "C"])
def syncs(request: pytest.FixtureRequest) -> Iterator[KernelSyncs]:
    direct = request.getfixturevalue("aio") if request.param == "C" else None
    with closing(KernelSyncs(direct)) as made:
        yield made


def ended(syncs: KernelSyncs, count: int) -> dict[int, int]:
    found: dict[int, int] = {}
    while len(found) < count:
        readable, _, _ = select.select([syncs.descriptor], [], [], 10)
        assert readable, "nothing ended in ten seconds"
        found |= dict(syncs.ended())
    return found


def test_each_sync_is_told_once_with_its_own_token(tmp_path: Path, syncs: KernelSyncs) -> None:
    descriptors = [os.open(tmp_path / str(number), os.O_RDWR | os.O_CREAT) for number in range(8)]
    for number, descriptor in enumerate(descriptors):
        os.pwrite(descriptor, b"x" * 100_000, 0)
        syncs.begin(descriptor, 2**40 + number)
    assert ended(syncs, len(descriptors)) == {2**40 + number: 0 for number in range(8)}
    assert syncs.ended() == []
    for descriptor in descriptors:
        os.close(descriptor)


@pytest.mark.parametrize("can_look", [True, False])
def test_it_can_be_seen_that_one_has_ended(tmp_path: Path, syncs: KernelSyncs, can_look: bool) -> None:
    assert syncs._can_look, "the kernel shows its ring"
    assert not syncs.has_ended()
    syncs._can_look = can_look
    descriptor = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    syncs.begin(descriptor, 7)
    readable, _, _ = select.select([syncs.descriptor], [], [], 10)
    assert readable, "nothing ended in ten seconds"
    assert syncs.has_ended()
    assert syncs.ended() == [(7, 0)]
    assert syncs.has_ended() != can_look  # who cannot look has to ask
    os.close(descriptor)


def test_what_cannot_be_synced_is_refused_at_once(syncs: KernelSyncs) -> None:
    reading, writing = os.pipe()
    with pytest.raises(OSError, match="Invalid argument"):
        syncs.begin(writing, 1)
    os.close(reading)
    os.close(writing)
    with pytest.raises(OSError, match="Bad file descriptor"):
        syncs.begin(writing, 1)


def test_what_is_no_number_is_refused(aio: ModuleType) -> None:
    for arguments in ((), (1, 2, 3), (1, 2, 3, "4"), (-1, 2, 3, 4), (1 << 64, 2, 3, 4)):
        with pytest.raises((TypeError, OverflowError)):
            aio.begin(*arguments)
    with pytest.raises(TypeError):
        aio.ended(1)
    with pytest.raises(OSError, match="Bad file descriptor"):
        aio.ended(1, 1 << 20)


def test_an_unknown_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "abacus")
    with pytest.raises(OSError, match="x86_64 and aarch64"):
        KernelSyncs()
