"""Pages are handed to the disk before they are synced, where the system can do that."""

import ctypes
import errno
import os
from pathlib import Path

import pytest

from holdfast.runtime import writeback

is_linux = pytest.mark.skipif(
    writeback._sync_file_range is None, reason="NOT TESTED: no sync_file_range on this system"
)


@pytest.fixture
def descriptor(tmp_path: Path) -> int:
    return os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)


@is_linux
def test_what_was_handed_over_is_what_was_written(descriptor: int, tmp_path: Path) -> None:
    content = os.urandom(300_000)
    os.pwrite(descriptor, content, 0)
    assert writeback.begin(descriptor, 0, 200_000)
    writeback.wait(descriptor, 0, 200_000)
    assert writeback.begin(descriptor, 200_000, 100_000)
    os.fdatasync(descriptor)
    assert (tmp_path / "file").read_bytes() == content
    os.close(descriptor)


@is_linux
def test_a_failure_is_told(descriptor: int) -> None:
    os.close(descriptor)
    with pytest.raises(OSError, match="Bad file descriptor"):
        writeback.begin(descriptor, 0, 100)
    with pytest.raises(OSError, match="Bad file descriptor"):
        writeback.wait(descriptor, 0, 100)


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.EOPNOTSUPP])
def test_a_system_that_forbids_it_is_not_asked_for_more(
    descriptor: int, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: int) -> int:
        ctypes.set_errno(number)
        return -1

    monkeypatch.setattr(writeback, "_sync_file_range", refused)
    assert not writeback.begin(descriptor, 0, 100)
    os.close(descriptor)


def test_a_system_that_has_no_such_call(descriptor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writeback, "_sync_file_range", None)
    assert not writeback.begin(descriptor, 0, 100)
    writeback.wait(descriptor, 0, 100)
    os.close(descriptor)
