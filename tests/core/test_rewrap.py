"""Data keys under another master key, with a power cut after each operation."""

import itertools

import pytest

from holdfast.core.log.files import Read, Size, replace
from holdfast.core.log.rewrap import rewrap_keys
from tests.core.memory_disk import MemoryDisk, PowerCut

NAMES = ("00000001-0000000000000001", "00000002-0000000000000009")


def disk_with_keys() -> MemoryDisk:
    disk = MemoryDisk()
    for stem in (*NAMES, "spare-3"):
        disk.run(replace(f"keys/{stem}.key", b"old " + stem.encode()))
    return disk


def rewrap(_path: str, wrapped: bytes) -> bytes:
    return wrapped.replace(b"old ", b"new ")


def content(disk: MemoryDisk, stem: str) -> bytes:
    path = f"keys/{stem}.key"
    held: bytes = disk.do(Read(path, 0, disk.do(Size(path))))
    return held


def test_all_keys_but_those_of_spares_are_wrapped_anew() -> None:
    disk = disk_with_keys()
    assert disk.run(rewrap_keys(rewrap)) == 2
    assert [content(disk, stem)[:4] for stem in (*NAMES, "spare-3")] == [b"new ", b"new ", b"old "]


def test_a_power_cut_anywhere_leaves_whole_keys_and_the_rest_can_be_done() -> None:
    for cut_after in itertools.count(1):
        disk = disk_with_keys()
        try:
            disk.run(rewrap_keys(rewrap), cut_after=cut_after)
        except PowerCut:
            disk.cut_power()
        else:
            break
        assert all(content(disk, stem)[4:] == stem.encode() for stem in NAMES)
        assert disk.run(rewrap_keys(rewrap)) == 2
        assert [content(disk, stem)[:4] for stem in NAMES] == [b"new ", b"new "]
    assert cut_after > 8


def test_a_key_that_does_not_open_is_not_touched() -> None:
    disk = disk_with_keys()

    def refuse(path: str, _wrapped: bytes) -> bytes:
        raise ValueError(path)

    with pytest.raises(ValueError, match=f"keys/{NAMES[0]}.key"):
        disk.run(rewrap_keys(refuse))
    assert content(disk, NAMES[0]).startswith(b"old ")
