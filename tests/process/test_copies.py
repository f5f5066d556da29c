"""Copies of a shard on real files, taken again and again while its log turns over: segments are sealed, compacted,
covered by snapshots and removed every few messages."""

import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from holdfast.backend import copies
from holdfast.backend.disk import Disk, make_folders
from holdfast.core.errors import CorruptLog
from holdfast.core.log.files import FileOp
from holdfast.core.log.scrub import scrub, whole_bytes
from holdfast.core.log.segment_files import list_segments, prepare_segment
from holdfast.core.queue.command import Command, Configure, Delete, Peek, PeekReply, Send
from holdfast.core.types import Instant, LaneConfig, Seq, WallMs
from tests.core.memory_disk import LANE, SEGMENT, SHARD, Plain
from tests.core.test_compaction import Life

NAME = f"{SHARD:04d}"
KEY_BYTES = 40
COPIES = 6


class RealDisk(Disk):
    """With what the tests of the core ask of their disk in memory."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.root = root

    def do_all(self, operations: Iterable[FileOp]) -> None:
        for operation in operations:
            self.execute(operation)

    def get(self, path: str) -> bytes:
        return (self.root / path).read_bytes()


class RealLife(Life):
    """A shard on real files, with keys of the real length."""

    def __init__(self, root: Path) -> None:
        make_folders(root)
        disk: Any = RealDisk(root)
        super().__init__(disk, 0)

    def submit(self, command: Command, token: object) -> None:
        if self.journal.wants_spare():
            number = self.journal.start_spare()
            key = f"{self.journal.epoch}.{number}".encode().ljust(KEY_BYTES)
            assert self.disk.run(prepare_segment(number, key=key, size=SEGMENT))
            self.journal.end_spare(Plain(key))
        self.own += 1000
        self.primary.submit(command, token, Instant(self.own), WallMs(self.own))

    def bodies(self) -> set[bytes]:
        """Of everything that is there."""
        found: set[bytes] = set()
        after = Seq(0)
        while True:
            self.submit(Peek(LANE, after, 100), "peek")
            ((_, reply),) = self.answers()
            assert isinstance(reply, PeekReply)
            if not reply.messages:
                return found
            found |= {self.content(each.header.at) for each in reply.messages}
            after = reply.messages[-1].header.seq


class Busy(threading.Thread):
    """Sends, deletes most of it, and lets the log turn over."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.life = RealLife(root)
        self.life.submit(Configure(LANE, LaneConfig()), "configure")
        self.life.answers()
        self.sent: list[bytes] = []  # acknowledged
        self.deleting: list[bytes] = []
        self.deleted: list[bytes] = []  # acknowledged
        self.snapshots = 0
        self.is_over = False
        self.problem: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.is_over:
                self.turn()
        except BaseException as problem:  # noqa: BLE001 - told by the test
            self.problem = problem

    def turn(self) -> None:
        life, bodies = self.life, [b"%d " % (len(self.sent) + n) + bytes(300) for n in range(8)]
        for body in bodies:
            life.submit(Send(LANE, body, body, len(body)), "send")
        assert len(life.answers()) == len(bodies)
        self.sent += bodies
        for receipt, body in life.receive(10_000):
            if not body.split()[0].endswith(b"7"):
                self.deleting.append(body)
                life.submit(Delete(LANE, receipt), "delete")
                life.answers()
                self.deleted.append(body)
        life.compact_all()
        life.snapshot()
        self.snapshots += 1


def copied(source: Path, target: Path) -> RealLife:
    copies.copy_data(source, target, version="test", made="now", meter=lambda _: None, segment_bytes=SEGMENT)
    return RealLife(target / "shards" / NAME)


def test_copies_of_a_log_that_turns_over_have_what_was_acknowledged(tmp_path: Path) -> None:
    data = tmp_path / "data"
    busy = Busy(data / "shards" / NAME)
    busy.start()
    try:
        for number in range(COPIES):
            rounds = busy.snapshots
            while busy.snapshots < rounds + 3 and busy.problem is None:
                time.sleep(0.01)
            sent, deleted = set(busy.sent), set(busy.deleted)
            life = copied(data, tmp_path / f"copy{number}")
            gone = set(busy.deleting)
            found = life.bodies()
            assert sent - gone - found == set()
            assert found & deleted == set()
    finally:
        busy.is_over = True
        busy.join()
    assert busy.problem is None
    assert busy.snapshots > 3 * COPIES


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Of a shard that has worked for a while and rests."""
    busy = Busy(tmp_path / "data" / "shards" / NAME)
    for _ in range(6):
        busy.turn()
    busy.life.disk.close()  # type: ignore[attr-defined]
    return tmp_path / "data"


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def root_of(data: Path) -> Path:
    return data / "shards" / NAME


@pytest.mark.parametrize("kind", ["segments/*.log", "index/*.idx", "snapshots/*.snap", "promise"])
def test_a_flipped_bit_is_found_in_every_kind_of_file(data: Path, kind: str) -> None:
    root = root_of(data)
    assert Disk(root).run(scrub(SHARD, is_live=False)).harms == []
    path = min(each for each in root.glob(kind) if not each.name.startswith("spare-"))
    flip(path, 20)
    (harm,) = Disk(root).run(scrub(SHARD, is_live=False)).harms
    assert harm.path == str(path.relative_to(root))


def test_a_key_or_a_segment_that_is_missing_is_found(data: Path) -> None:
    root = root_of(data)
    key = min(each for each in (root / "keys").iterdir() if not each.name.startswith("spare-"))
    key.unlink()
    (harm,) = Disk(root).run(scrub(SHARD, is_live=False)).harms
    assert (harm.path, harm.problem) == (str(key.relative_to(root)), "the file is missing")


def test_a_damaged_log_is_not_backed_up_as_if_it_were_whole(data: Path, tmp_path: Path) -> None:
    segments = sorted(each for each in (root_of(data) / "segments").iterdir() if not each.name.startswith("spare-"))
    flip(segments[-1], 600)
    with pytest.raises((copies.CopyError, CorruptLog)):
        copied(data, tmp_path / "copy")


def test_a_segment_that_grows_while_it_is_read_is_not_taken_for_damaged(data: Path) -> None:
    """Its end is read, then frames come, then what lies behind the end is looked at."""
    root = root_of(data)
    disk = Disk(root)
    segment = disk.run(list_segments())[-1]
    whole = disk.run(whole_bytes(SHARD, segment))
    path = root / "segments" / f"{segment.stem}.log"
    content = path.read_bytes()
    frames = [at for at in range(512, whole, 512) if content[at : at + 4] != bytes(4)]
    end = frames[len(frames) // 2]
    path.write_bytes(content[:end].ljust(len(content), b"\0"))
    work = whole_bytes(SHARD, segment)
    first = next(work)
    answer = disk.execute(first)
    path.write_bytes(content)  # now the rest is written
    try:
        while True:
            answer = disk.execute(work.send(answer))
    except StopIteration as done:
        assert 512 <= done.value <= end  # noqa: PT017 - a machine's result
    disk.close()


def test_a_folder_whose_master_key_is_being_changed_is_not_copied(data: Path, tmp_path: Path) -> None:
    (data / "master.key.next").write_bytes(b"")
    with pytest.raises(copies.CopyError, match="being changed"):
        copied(data, tmp_path / "copy")
