"""Memory that is filled before a measurement."""

from pathlib import Path

import pytest

from bench import memory


def test_free_memory_is_filled_but_for_what_stays_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = iter([3 * memory.STEP_BYTES + memory.LEFT_BYTES, *[memory.LEFT_BYTES + 1] * 10])
    monkeypatch.setattr(memory, "free_bytes", lambda: next(left))
    with memory.filled(tmp_path) as filler:
        assert filler.top_up() == 3 * memory.STEP_BYTES
        assert (tmp_path / "memory").stat().st_blocks == 0
    assert not list(tmp_path.iterdir())


def test_it_ends_when_enough_is_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = iter([5 * memory.STEP_BYTES + memory.LEFT_BYTES, memory.LEFT_BYTES + 1, memory.LEFT_BYTES])
    monkeypatch.setattr(memory, "free_bytes", lambda: next(left))
    with memory.filled(tmp_path) as filler:
        assert filler.top_up() == memory.STEP_BYTES


def test_what_has_become_free_is_filled_with_other_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = iter([2 * memory.STEP_BYTES + memory.LEFT_BYTES] * 6 + [memory.LEFT_BYTES])
    monkeypatch.setattr(memory, "free_bytes", lambda: next(left))
    monkeypatch.setattr(memory, "FILE_BYTES", 5 * memory.STEP_BYTES)
    with memory.filled(tmp_path) as filler:
        assert filler.top_up() == 2 * memory.STEP_BYTES
        assert filler.top_up() == 2 * memory.STEP_BYTES
        assert filler.top_up() == 0  # nothing is free


def test_a_machine_whose_memory_is_not_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda: 10 * memory.LEFT_BYTES)
    assert memory.Filler(None).top_up() == 0


def test_what_is_free_is_read_as_the_system_says_it(tmp_path: Path) -> None:
    told = tmp_path / "meminfo"
    told.write_text("MemTotal:       24682260 kB\nMemFree:        21563624 kB\nMemAvailable:   23979012 kB\n")
    assert memory.free_bytes(told) == 21_563_624 * 1024
