"""The bare disk, which latencies are read beside."""

import os
from pathlib import Path

import pytest

from bench import bare_disk


def test_every_frame_is_synced_before_the_next_and_nothing_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    write, sync = os.pwrite, os.fdatasync

    def noted_write(descriptor: int, data: bytes, offset: int) -> int:
        done.append("write")
        return write(descriptor, data, offset)

    def noted_sync(descriptor: int) -> None:
        done.append("sync")
        sync(descriptor)

    monkeypatch.setattr("os.pwrite", noted_write)
    monkeypatch.setattr("os.fdatasync", noted_sync)
    found = bare_disk.syncs(tmp_path, 0.05)
    assert done[0] == "write"  # the zeros, which fsync makes durable
    assert done[1:] == ["write", "sync"] * found.count
    assert found.count > 0
    assert found.percentile(50) > 0
    assert list(tmp_path.iterdir()) == []
