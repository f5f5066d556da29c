"""The simulated disk forgets what it may forget, and nothing else."""

from random import Random

import pytest

from holdfast.core.log.files import Create, List, Read, Rename, Sync, SyncDir, Unlink, Write
from tests.sim.disk import SECTOR, Disk, Flip

ROOT = "1"
PATH = "segments/a"


def disk_with(data: bytes, seed: int = 1) -> Disk:
    """One file, durable with its name."""
    disk = Disk(Random(seed), [ROOT])
    for op in (Create(PATH), Write(PATH, 0, data), Sync(PATH), SyncDir("segments")):
        disk.execute(ROOT, op)
    return disk


def read(disk: Disk, path: str = PATH) -> bytes:
    data: bytes = disk.execute(ROOT, Read(path, 0, 1 << 20))
    return data


def names(disk: Disk) -> list[str]:
    found: list[str] = disk.execute(ROOT, List("segments"))
    return found


def test_what_was_synced_survives_a_power_cut_and_a_kill() -> None:
    disk = disk_with(b"x" * 2000)
    disk.cut_power()
    disk.kill()
    assert read(disk) == b"x" * 2000


def test_an_unsynced_write_is_torn_by_sector_also_in_its_middle() -> None:
    kept = set()
    for seed in range(60):
        disk = disk_with(bytes(4 * SECTOR), seed)
        disk.execute(ROOT, Write(PATH, 0, b"y" * 4 * SECTOR))
        assert read(disk) == b"y" * 4 * SECTOR
        disk.cut_power()
        after = read(disk)
        sectors = [after[at : at + SECTOR] for at in range(0, len(after), SECTOR)]
        assert all(sector in (bytes(SECTOR), b"y" * SECTOR) for sector in sectors)
        kept.add(tuple(sector[0] != 0 for sector in sectors))
    assert {(False,) * 4, (True,) * 4} < kept
    assert any(not first and last for first, *_, last in kept)


def test_a_kill_leaves_the_page_cache_and_a_later_power_cut_takes_it() -> None:
    disk = disk_with(bytes(SECTOR), seed=3)
    disk.execute(ROOT, Write(PATH, 0, b"z" * SECTOR))
    disk.kill()
    assert read(disk) == b"z" * SECTOR
    lost = 0
    for seed in range(30):
        again = disk_with(bytes(SECTOR), seed)
        again.execute(ROOT, Write(PATH, 0, b"z" * SECTOR))
        again.kill()
        again.cut_power()
        lost += read(again) == bytes(SECTOR)
    assert 0 < lost < 30


def test_a_failed_sync_leaves_pages_clean_that_never_reached_the_platter() -> None:
    lost = 0
    for seed in range(30):
        disk = disk_with(bytes(SECTOR), seed)
        disk.execute(ROOT, Write(PATH, 0, b"z" * SECTOR))
        with pytest.raises(OSError, match="sync"):
            disk.fail_sync(ROOT, Sync(PATH))
        assert read(disk) == b"z" * SECTOR
        disk.execute(ROOT, Sync(PATH))  # says that all is well
        disk.cut_power()
        lost += read(disk) == bytes(SECTOR)
    assert lost > 0


def test_names_that_were_not_synced_come_and_go_in_a_power_cut() -> None:
    found = set()
    for seed in range(40):
        disk = disk_with(b"x", seed)
        disk.execute(ROOT, Rename(PATH, "segments/b"))
        disk.execute(ROOT, Create("segments/c"))
        assert names(disk) == ["b", "c"]
        disk.cut_power()
        found.add(tuple(names(disk)))
    assert found == {("a",), ("b",), ("a", "c"), ("b", "c")}


def test_an_unlinked_file_may_come_back_until_the_folder_is_synced() -> None:
    came_back = 0
    for seed in range(30):
        disk = disk_with(b"x", seed)
        disk.execute(ROOT, Unlink(PATH))
        disk.cut_power()
        came_back += names(disk) == ["a"]
    assert 0 < came_back < 30
    disk = disk_with(b"x")
    for op in (Unlink(PATH), SyncDir("segments")):
        disk.execute(ROOT, op)
    disk.cut_power()
    assert names(disk) == []


def test_space_runs_out_where_files_grow_and_comes_back_when_they_go() -> None:
    disk = disk_with(b"x" * 100)
    disk.budget = 150
    disk.execute(ROOT, Write(PATH, 0, b"y" * 150))
    with pytest.raises(OSError, match="space"):
        disk.execute(ROOT, Write(PATH, 0, b"y" * 151))
    with pytest.raises(OSError, match="space"):
        disk.execute(ROOT, Create("segments/b", 1))
    disk.execute(ROOT, Unlink(PATH))
    disk.execute(ROOT, Create("segments/c", 140))
    assert disk.used == 140


def test_a_flip_is_undone_by_repair_and_forgotten_when_its_byte_is_written() -> None:
    disk = disk_with(b"abc")
    flip = Flip(disk.file(ROOT, PATH), 1, 1, "b")
    flip.turn()
    disk.flips.append(flip)
    assert read(disk) == b"acc"
    disk.cut_power()
    assert read(disk) == b"acc"
    assert disk.repair() == [flip]
    assert read(disk) == b"abc"
    flip.turn()
    disk.flips.append(flip)
    disk.execute(ROOT, Write(PATH, 1, b"x"))
    assert disk.flips == []
