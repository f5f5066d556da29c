"""Memory that is filled before a measurement."""

from pathlib import Path

import pytest

from bench import memory


def test_free_memory_is_filled_but_for_what_stays_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = iter([3 * memory.STEP_BYTES + memory.LEFT_BYTES, *[memory.LEFT_BYTES + 1] * 10])
    monkeypatch.setattr(memory, "free_bytes", lambda: next(left))
    with memory.filled(tmp_path) as filled:
        assert filled == 3 * memory.STEP_BYTES == (tmp_path / "memory").stat().st_size
        assert (tmp_path / "memory").stat().st_blocks == 0
    assert not list(tmp_path.iterdir())


def test_it_ends_when_enough_is_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = iter([5 * memory.STEP_BYTES + memory.LEFT_BYTES, memory.LEFT_BYTES + 1, memory.LEFT_BYTES])
    monkeypatch.setattr(memory, "free_bytes", lambda: next(left))
    with memory.filled(tmp_path) as filled:
        assert filled == memory.STEP_BYTES


def test_what_is_free_is_read_as_the_system_says_it(tmp_path: Path) -> None:
    told = tmp_path / "meminfo"
    told.write_text("MemTotal:       24682260 kB\nMemFree:        21563624 kB\nMemAvailable:   23979012 kB\n")
    assert memory.free_bytes(told) == 21_563_624 * 1024
