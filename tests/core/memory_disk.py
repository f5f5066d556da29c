"""A disk in memory for tests of the log, which can lose its power; and a state that the log can be replayed into.

What was not synced is lost by sector, what was not synced in a folder (new, renamed, removed names) by folder.
"""

from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Any, Self, TypeVar

import msgspec

from holdfast.core.limits import STRETCH_BITS
from holdfast.core.log.files import (
    Create,
    FileOp,
    List,
    Read,
    Rename,
    Size,
    Sync,
    SyncDir,
    Unlink,
    Work,
    Write,
)
from holdfast.core.log.journal import Journal
from holdfast.core.log.recovery import Recovered, recover
from holdfast.core.log.segment_files import prepare_segment
from holdfast.core.queue.cipher import Places, open_each, seal_each
from holdfast.core.queue.codec import encode
from holdfast.core.queue.headers import header_of
from holdfast.core.queue.record import NO_DIGEST, Arrived, Deleted, Moved, Record, Sent
from holdfast.core.types import Epoch, Group, Header, Instant, LaneId, Lsn, Seq, ShardId, WallMs

Result = TypeVar("Result")
SECTOR = 512
SHARD = ShardId(7)
LANE = LaneId(3)
SEGMENT = 16_384
RESERVE = 4_096


class PowerCut(Exception):
    """The machine stopped between two operations."""


class File:
    def __init__(self) -> None:
        self.data = bytearray()
        self.synced = b""
        self.dirty: set[int] = set()  # sectors that the next sync will write

    def write(self, offset: int, data: bytes) -> None:
        self.data.extend(bytes(max(0, offset - len(self.data))))
        self.data[offset : offset + len(data)] = data
        self.dirty.update(range(offset // SECTOR, -(-(offset + len(data)) // SECTOR)))

    def persist(self, sectors: Iterable[int]) -> None:
        merged = bytearray(self.synced)
        for sector in sorted(sectors):
            at = sector * SECTOR
            merged.extend(bytes(max(0, at - len(merged))))
            merged[at : at + SECTOR] = self.data[at : at + SECTOR]
        self.synced = bytes(merged)
        self.dirty.clear()


def lose_all(_: int) -> bool:
    return False


class MemoryDisk:
    def __init__(self, capacity: int = 1 << 40) -> None:
        self.names: dict[str, File] = {}
        self.durable: dict[str, File] = {}
        self.capacity = capacity
        self.done: list[FileOp] = []  # operations that change something

    def do(self, op: FileOp) -> Any:
        if not isinstance(op, Read | Size | List):
            self.done.append(op)
        match op:
            case Create(path, size):
                if path in self.names:
                    raise FileExistsError(17, path)
                self.names[path] = File()
                self._write(path, 0, bytes(size))
            case Write(path, offset, data):
                self._write(path, offset, data)
            case Sync(path):
                self.names[path].persist(self.names[path].dirty)
            case Rename(old, new):
                self.names[new] = self.names.pop(old)
            case SyncDir(folder):
                self._keep_names(folder)
            case Unlink(path):
                del self.names[path]
            case Read(path, offset, length):
                return bytes(self.names[path].data[offset : offset + length])
            case Size(path):
                return len(self.names[path].data)
            case List(folder):
                return sorted(name_in(path) for path in self.names if folder_of(path) == folder)
        return None

    def run(self, work: Work[Result], *, cut_after: int | None = None) -> Result:
        """Carries a machine's operations out; PowerCut after so many that change something."""
        answer: Any = None
        failure: OSError | None = None
        start = len(self.done)
        while True:
            try:
                op = work.throw(failure) if failure is not None else work.send(answer)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            if len(self.done) - start == cut_after and not isinstance(op, Read | Size | List):
                raise PowerCut
            answer, failure = None, None
            try:
                answer = self.do(op)
            except OSError as problem:
                failure = problem

    def do_all(self, ops: Iterable[FileOp]) -> None:
        for op in ops:
            self.do(op)

    def cut_power(self, keep: Callable[[int], bool] = lose_all) -> None:
        """`keep` is asked for each unsynced sector and folder, counted through, whether it reached the disk."""
        asked = iter(range(1 << 40))
        for folder in sorted({folder_of(path) for path in [*self.names, *self.durable]}):
            if keep(next(asked)):
                self._keep_names(folder)
        for path in sorted(self.durable):
            file = self.durable[path]
            file.persist([sector for sector in sorted(file.dirty) if keep(next(asked))])
            file.data = bytearray(file.synced)
        self.names = dict(self.durable)

    def lose_sync(self) -> None:
        """A sync failed and nobody was told: what is only in memory counts as clean from now on."""
        for file in self.names.values():
            file.dirty.clear()

    def copy(self) -> "MemoryDisk":
        """After a power cut or a sync of everything: what is durable."""
        twin = MemoryDisk(self.capacity)
        for path, file in self.names.items():
            twin.put(path, bytes(file.data))
        return twin

    def put(self, path: str, data: bytes) -> None:
        """Durably, past all rules: for tests that damage files."""
        file = self.names.setdefault(path, File())
        file.data, file.synced, file.dirty = bytearray(data), data, set()
        self.durable[path] = file

    def get(self, path: str) -> bytes:
        return bytes(self.names[path].data)

    def paths(self, folder: str) -> list[str]:
        return sorted(path for path in self.names if folder_of(path) == folder)

    def _write(self, path: str, offset: int, data: bytes) -> None:
        file = self.names[path]
        grown = max(0, offset + len(data) - len(file.data))
        if sum(len(each.data) for each in self.names.values()) + grown > self.capacity:
            raise OSError(28, "No space left on device")
        file.write(offset, data)

    def _keep_names(self, folder: str) -> None:
        self.durable = {path: file for path, file in self.durable.items() if folder_of(path) != folder}
        self.durable |= {path: file for path, file in self.names.items() if folder_of(path) == folder}


def folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def name_in(path: str) -> str:
    return path.rpartition("/")[2]


class Plain:
    """A cipher that hides nothing and still notices a wrong key, place or clear part."""

    def __init__(self, key: bytes = b"key") -> None:
        self.key = key

    def _tag(self, epoch: int, lsn: int, content: bytes, clear: bytes) -> bytes:
        return blake2b(repr((self.key, epoch, lsn, content, clear)).encode(), digest_size=16).digest()

    def seal(self, epoch: int, lsn: int, content: bytes, clear: bytes) -> bytes:
        return content + self._tag(epoch, lsn, content, clear)

    def seal_all(self, epoch: int, first: int, contents: list[bytes], clears: bytes) -> bytes:
        return seal_each(self.seal, epoch, first, contents, clears)

    def open(self, epoch: int, lsn: int, sealed: bytes, clear: bytes) -> bytes:
        if sealed[-16:] != self._tag(epoch, lsn, sealed[:-16], clear):
            raise ValueError("this is not what was sealed")
        return sealed[:-16]

    def open_all(self, epoch: int, places: Places, data: bytes, base: int, width: int) -> list[bytes]:
        return open_each(self, epoch, places, data=data, base=base, width=width)


class Book:
    """The living messages, and a digest of everything that was applied in its order."""

    def __init__(self, shard: ShardId) -> None:
        self.shard = shard
        self.lsn = Lsn(0)
        self.messages: dict[tuple[LaneId, Seq], Header] = {}
        self.history = b""
        self.histories: dict[int, bytes] = {}  # after each record since the start; not part of the state
        self.frame = (Epoch(0), Instant(0), WallMs(0))

    @property
    def live(self) -> dict[int, int]:
        table: dict[int, int] = {}
        for header in self.messages.values():
            stretch = header.at >> STRETCH_BITS
            table[stretch] = table.get(stretch, 0) + header.size
        return table

    def begin(self, epoch: Epoch, now: Instant, wall: WallMs) -> None:
        assert (epoch, now) >= self.frame[:2]
        self.frame = (epoch, now, wall)

    def apply(self, record: Record) -> None:
        epoch, now, wall = self.frame
        self.lsn = Lsn(self.lsn + 1)
        if isinstance(record, Sent | Arrived | Moved):
            header = header_of(record, epoch, self.lsn, now)
            self.messages[record.lane, header.seq] = header
            record = msgspec.structs.replace(record, content=b"")
        elif isinstance(record, Deleted):
            for seq in record.seqs:
                self.messages.pop((record.lane, seq), None)
        said = repr((self.history, epoch, now, wall, self.lsn, record))
        self.history = blake2b(said.encode(), digest_size=16).digest()
        self.histories[self.lsn] = self.history

    def is_alive(self, lane: LaneId, header: Header) -> bool:
        held = self.messages.get((lane, header.seq))
        return held is not None and held.at == header.at

    def dump(self) -> bytes:
        rows = [(lane, header) for (lane, _), header in sorted(self.messages.items())]
        return msgspec.msgpack.encode((self.shard, self.lsn, self.frame, self.history, rows))

    @classmethod
    def restore(cls, data: bytes) -> Self:
        kind = tuple[int, int, tuple[int, int, int], bytes, list[tuple[int, Header]]]
        try:
            shard, lsn, frame, history, rows = msgspec.msgpack.decode(data, type=kind)
        except msgspec.DecodeError as problem:
            raise ValueError(str(problem)) from problem
        book = cls(ShardId(shard))
        book.lsn, book.history = Lsn(lsn), history
        book.frame = (Epoch(frame[0]), Instant(frame[1]), WallMs(frame[2]))
        book.messages = {(LaneId(lane), header.seq): header for lane, header in rows}
        return book


def sent(seq: int, content: bytes = b"content", *, lane: LaneId = LANE) -> Sent:
    """With a group, so that its record is of the long kind."""
    size = len(content)
    return Sent(lane, Seq(seq), Group(1), size, 0, 0, WallMs(5), NO_DIGEST, False, content)


def record_bytes(record: Record) -> int:
    return len(encode(record, Epoch(1), Lsn(1), cipher=Plain()))


class Host:
    """A shard as its owner runs it: what the tests of the log drive."""

    def __init__(
        self,
        disk: MemoryDisk,
        *,
        cut_after: int | None = None,
        segment: int = SEGMENT,
        cipher: type[Plain] = Plain,
    ) -> None:
        self.disk = disk
        self.cipher = cipher
        self.time = 0
        self.segment = segment
        work = recover(SHARD, machine=Book, identity=b"host", segment_bytes=segment, reserve_bytes=RESERVE)
        self.recovered: Recovered[Book] = disk.run(work, cut_after=cut_after)
        self.book, self.journal = self.recovered.shard, self.recovered.journal
        self.seq = max([0, *(seq for _, seq in self.book.messages)])

    @property
    def stems(self) -> list[str]:
        return [segment.stem for segment in self.journal.segments]

    def key_of(self, number: int) -> bytes:
        return f"key {self.journal.epoch}.{number}".encode()

    def prepare(self) -> bool:
        number = self.journal.start_spare()
        key = self.key_of(number)
        is_ready = self.disk.run(prepare_segment(number, key=key, size=self.segment))
        self.journal.end_spare(self.cipher(key) if is_ready else None)
        return is_ready

    def begin(self) -> None:
        self.time += 1000
        now = self.journal.begin(Instant(self.time), WallMs(self.time))
        self.book.begin(self.journal.epoch, now, WallMs(self.time))

    def add(self, *records: Record) -> Journal:
        if self.journal.wants_spare():
            self.prepare()
        self.begin()
        for record in records:
            self.journal.append(record)
            self.book.apply(record)
        return self.journal

    def write(self, *records: Record) -> None:
        """One flush with these records, done and synced."""
        self.disk.do_all(self.add(*records).flush())
        self.journal.synced()

    def send(self, count: int = 1, size: int = 100) -> None:
        self.seq += count
        first = self.seq - count + 1
        self.write(*(sent(seq, bytes([seq % 251]) * size) for seq in range(first, self.seq + 1)))

    def delete(self, *seqs: int) -> None:
        self.write(*(Deleted(LANE, (Seq(seq),)) for seq in seqs))

    def idle(self) -> None:
        self.begin()
        self.disk.do_all(self.journal.flush(is_idle=True))
        self.journal.synced()

    def write_indexes(self) -> None:
        for stem in self.journal.sealed_without_index():
            self.disk.run(self.journal.write_index(stem))
            self.journal.indexed(stem)
