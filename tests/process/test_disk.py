"""The shell's own parts on real files: file operations, keys, the table of recent letters."""

import errno
import itertools
import os
import tempfile
from pathlib import Path

import pytest

from holdfast.backend.disk import FOLDERS, Disk, make_folders
from holdfast.backend.letters import GAP_BYTES, LETTER_BYTES, SHELF_MASK, SPAN_BYTES, LetterCache, spanned
from holdfast.backend.upkeep import HURRIED, LATE, LEISURELY, URGENT, pace_of
from holdfast.core.log.archive import Location
from holdfast.core.log.files import Create, List, Read, Rename, Size, Sync, SyncDir, Unlink, Work, Write, replace
from holdfast.core.types import Cause, Epoch, Lsn, WallMs
from holdfast.runtime.crypto import KeyFileError, MasterKey, create_key, read_key
from holdfast.runtime.letter import Letter
from holdfast.runtime.zeros import Pace


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    make_folders(tmp_path / "shard")
    return Disk(tmp_path / "shard")


def test_operations_do_what_they_say(disk: Disk) -> None:
    assert disk.execute(List("")) == sorted(FOLDERS)
    disk.execute(Create("segments/a", 3_000_000))
    assert disk.execute(Size("segments/a")) == 3_000_000
    disk.execute(Write("segments/a", 2_999_998, b"xy"))
    disk.execute(Sync("segments/a"))
    disk.execute(Rename("segments/a", "segments/b"))
    disk.execute(SyncDir("segments"))
    assert disk.execute(List("segments")) == ["b"]
    assert disk.execute(Read("segments/b", 2_999_996, 100)) == b"\0\0xy"
    assert disk.read_now("segments/b", 2_999_998, 2) in (b"xy", None)  # None: this file system cannot tell
    disk.execute(Unlink("segments/b"))
    assert disk.execute(List("segments")) == []
    disk.close()


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="NOT TESTED: a file system in memory")
def test_a_file_system_that_cannot_tell_is_read_later() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        make_folders(Path(folder))
        disk = Disk(Path(folder))
        disk.execute(Create("segments/a", 4096))
        assert disk.read_now("segments/a", 0, 2) in (b"\0\0", None)
        disk.close()


def test_a_created_file_is_really_allocated(disk: Disk, tmp_path: Path) -> None:
    disk.execute(Create("segments/a", 1_048_576))
    disk.execute(Sync("segments/a"))
    assert (tmp_path / "shard/segments/a").stat().st_blocks * 512 >= 1_048_576
    disk.close()


def test_before_each_step_of_making_a_large_file_its_pace_is_asked_for(tmp_path: Path) -> None:
    make_folders(tmp_path / "shard")
    sizes: list[int] = []
    slow, quick = Pace(0.001, 0.0001, 8192, 65_536), Pace(0.001, 0.0001, 8192, 262_144)

    def pace(ready_bytes: int) -> Pace:
        sizes.append((tmp_path / "shard/segments/a").stat().st_size)
        assert ready_bytes == sizes[-1]
        return slow if len(sizes) < 4 else quick

    disk = Disk(tmp_path / "shard", pace=pace)
    disk.execute(Create("segments/a", 500_000))
    assert sizes == [0, 65_536, 131_072, 196_608, 458_752]
    made = tmp_path / "shard/segments/a"
    assert made.read_bytes() == bytes(500_000)
    assert made.stat().st_blocks * 512 >= 500_000
    disk.close()


def test_zeros_that_lag_take_more_of_the_processor_unless_a_client_is_in_a_hurry() -> None:
    paces = {
        (is_late, is_urgent, is_hurried): pace_of(is_late=is_late, is_urgent=is_urgent, is_hurried=is_hurried)
        for is_late, is_urgent, is_hurried in itertools.product((False, True), repeat=3)
    }
    assert {pace for (is_late, _, _), pace in paces.items() if not is_late} == {LEISURELY}
    assert paces[True, False, False] == LATE
    assert paces[True, True, False] == URGENT
    assert paces[True, False, True] == paces[True, True, True] == HURRIED
    assert HURRIED.work_s < LATE.work_s < URGENT.work_s
    assert LEISURELY.rest_s > LATE.rest_s
    for pace in paces.values():
        assert pace.rest_s > 0, "nobody gets the processor back before the scheduler's next tick"
        assert pace.work_s <= 0.001


def test_a_file_is_not_created_twice(disk: Disk) -> None:
    disk.execute(Create("keys/a"))
    with pytest.raises(FileExistsError):
        disk.execute(Create("keys/a"))
    disk.close()


def test_descriptors_are_bounded_and_files_stay_usable(disk: Disk) -> None:
    before = len(os.listdir("/dev/fd"))
    for number in range(50):
        disk.execute(Create(f"index/{number}"))
        disk.execute(Write(f"index/{number}", 0, b"%d" % number))
    assert len(os.listdir("/dev/fd")) < before + 12
    assert disk.execute(Read("index/0", 0, 10)) == b"0"
    disk.close()
    assert len(os.listdir("/dev/fd")) <= before


def test_a_machine_gets_results_and_failures(disk: Disk) -> None:
    def machine() -> Work[str]:
        yield from replace("keys/k", b"key")
        failure: int | None = None
        try:
            yield Read("keys/missing", 0, 1)
        except OSError as problem:
            failure = problem.errno
        data = yield Read("keys/k", 0, 10)
        return f"{data!r} {failure}"

    assert disk.run(machine()) == f"b'key' {errno.ENOENT}"
    disk.close()


def test_a_failure_that_the_machine_does_not_expect_ends_it(disk: Disk) -> None:
    def machine() -> Work[None]:
        yield Unlink("keys/missing")

    with pytest.raises(FileNotFoundError):
        disk.run(machine())


# keys


def test_a_key_file_is_private_and_can_be_read_again(tmp_path: Path) -> None:
    key = create_key(tmp_path / "master.key")
    assert read_key(tmp_path / "master.key") == key
    assert (tmp_path / "master.key").stat().st_mode & 0o777 == 0o600
    (tmp_path / "master.key").write_bytes(b"short")
    with pytest.raises(KeyFileError):
        read_key(tmp_path / "master.key")


def test_what_is_sealed_opens_with_the_same_key_place_and_clear_part_only() -> None:
    master = MasterKey(bytes(32))
    cipher, wrapped = master.new_cipher()
    record = cipher.seal_all(1, 2, [b"content"], b"clear")
    sealed = record[4 + len(b"clear") :]
    assert record[: -len(sealed)] == len(record[4:]).to_bytes(4, "little") + b"clear"
    assert master.cipher(wrapped).open(1, 2, sealed, b"clear") == b"content"
    for epoch, lsn, clear in ((2, 2, b"clear"), (1, 3, b"clear"), (1, 2, b"other")):
        with pytest.raises(ValueError, match="not what was sealed"):
            cipher.open(epoch, lsn, sealed, clear)


def test_another_master_key_does_not_open_a_segments_key() -> None:
    _, wrapped = MasterKey(bytes(32)).new_cipher()
    with pytest.raises(KeyFileError, match=r"Put the master\.key back"):
        MasterKey(b"x" * 32).cipher(wrapped)


# recent letters


def test_the_oldest_letters_leave_first() -> None:
    shelf = SHELF_MASK + 1
    cache = LetterCache(bytes_max=3 * shelf * (100 + LETTER_BYTES))
    for at in range(1, 5 * shelf):
        cache.put(Lsn(at), Letter(bytes(100), WallMs(at)))
    there = [at for at, letter in enumerate(cache.get_all(range(6 * shelf))) if letter is not None]
    assert there == list(range(2 * shelf, 5 * shelf))


def test_a_letter_that_is_larger_than_the_cache_is_there_until_the_next_ones_come() -> None:
    cache = LetterCache(bytes_max=100)
    cache.put(Lsn(7), Letter(bytes(1000), WallMs(1)))
    assert cache.get_all([7]) != [None]
    cache.put(Lsn(7 + 3 * SHELF_MASK), Letter(b"", WallMs(1)))
    assert [at for at, letter in enumerate(cache.get_all(range(100))) if letter] == [7 + 3 * SHELF_MASK]


def test_positions_without_a_letter_have_none() -> None:
    cache = LetterCache()
    for at in (3, 9, 100):
        cache.put(Lsn(at), Letter(bytes([at]), WallMs(at)))
    contents = [(at, letter.content) for at, letter in enumerate(cache.get_all(range(200))) if letter]
    assert contents == [(at, bytes([at])) for at in (3, 9, 100)]
    assert [letter and letter.wall for letter in cache.get_all([100, 4, 3, 100, 9])] == [100, None, 3, 100, 9]


def test_contents_that_came_together_are_letters_to_whoever_asks() -> None:
    cache = LetterCache()
    contents = [bytes([at]) for at in range(40)]  # over several shelves
    cache.put_all(Lsn(10), contents, WallMs(7))
    assert cache.get_all(range(10, 50)) == [Letter(content, WallMs(7)) for content in contents]
    plain = cache.get_plain([49, 10, 26])
    assert plain is not None
    assert plain.contents == [contents[39], contents[0], contents[16]]
    assert list(plain) == cache.get_all([49, 10, 26])
    assert plain[1:] == [plain[1], plain[2]]
    assert len(plain) == 3


def test_letters_with_more_than_a_content_are_not_taken_for_plain_ones() -> None:
    cache = LetterCache()
    cache.put_all(Lsn(1), [b"a", b"b"], WallMs(7))
    dead = Letter(b"c", WallMs(8), bytes(16), Cause.RECEIVES)
    cache.put(Lsn(3), dead)
    assert cache.get_plain([1, 2, 3]) is None  # its id and its cause would be lost
    assert cache.get_plain([1, 4]) is None  # nothing stands at 4
    assert cache.get_all([1, 3, 4]) == [Letter(b"a", WallMs(7)), dead, None]


def test_contents_leave_with_their_shelf_as_letters_do() -> None:
    shelf = SHELF_MASK + 1
    cache = LetterCache(bytes_max=2 * shelf * (100 + LETTER_BYTES))
    for turn in range(4):
        cache.put_all(Lsn(turn * shelf), [bytes(100)] * shelf, WallMs(turn))
    there = [at for at, letter in enumerate(cache.get_all(range(5 * shelf))) if letter is not None]
    assert there == list(range(2 * shelf, 4 * shelf))


def at(offset: int, length: int, path: str = "segments/a") -> Location:
    return Location(path, offset, length, Epoch(1), "a")


def test_neighbours_are_read_at_once_and_others_alone() -> None:
    located = [
        at(512, 100),
        at(612, 50),  # beside it
        at(662 + GAP_BYTES, 10),  # behind a frame's head
        at(662 + 2 * GAP_BYTES + 11, 10),  # too far
        at(0, 10),  # before it: an older message that came back
        at(10, 10, "segments/b"),  # beside it in another file
        at(20, SPAN_BYTES, "segments/b"),  # too long to be read along
        at(20, SPAN_BYTES, "segments/b"),  # the same once more
    ]
    spans = spanned(located)
    assert [(read.path, read.offset, read.length) for read, _ in spans] == [
        ("segments/a", 512, 150 + GAP_BYTES + 10),
        ("segments/a", 662 + 2 * GAP_BYTES + 11, 10),
        ("segments/a", 0, 10),
        ("segments/b", 10, 10),
        ("segments/b", 20, SPAN_BYTES),
        ("segments/b", 20, SPAN_BYTES),
    ]
    assert [place for _, within in spans for place in within] == located
