"""A disk in memory that forgets like a real one. It carries out the core's file operations.

    File.cache    what processes see: the page cache
    File.solid    what is on the platter
    File.dirty    sectors that differ and will be written by the next sync
    File.lost     sectors that a failed sync marked clean although they never reached the platter

A power cut keeps any subset of the dirty sectors and any subset of the unsynced changes of folders: a write is torn in
its middle, a rename is lost. A killed process leaves the cache alone: the next one sees everything, durable or not.
A sector of 512 bytes is written whole or not at all; that is what the log's format relies on.
"""

import errno
from collections.abc import Callable, Iterator
from functools import lru_cache
from random import Random
from typing import Any, Final

from holdfast.core.log.files import Create, FileOp, List, Read, Rename, Size, Sync, SyncDir, Unlink, Write

SECTOR: Final = 512
FOLDERS: Final = ("segments", "index", "snapshots", "quarantine", "keys")
READING: Final = frozenset((Read, Size, List))


class File:
    __slots__ = ("cache", "dirty", "lost", "solid")

    def __init__(self) -> None:
        self.cache = bytearray()
        self.solid = bytearray()
        self.dirty: dict[int, None] = {}
        self.lost: dict[int, None] = {}

    def write(self, offset: int, data: bytes) -> None:
        cache, end = self.cache, offset + len(data)
        if end > len(cache):
            cache.extend(bytes(end - len(cache)))
        cache[offset:end] = data
        sectors = range(offset // SECTOR, -(-end // SECTOR))
        if len(sectors) == 1:
            self.dirty[sectors[0]] = None
        else:
            self.dirty.update(dict.fromkeys(sectors))
        if self.lost:
            for sector in sectors:
                self.lost.pop(sector, None)

    def sync(self) -> None:
        cache, solid = self.cache, self.solid
        if len(self.dirty) * SECTOR >= len(cache):
            solid[:] = cache
        else:
            self.fit(len(cache))
            for sector in self.dirty:
                start = sector * SECTOR
                solid[start : start + SECTOR] = cache[start : start + SECTOR]
        self.dirty.clear()

    def keep(self, sector: int) -> None:
        """This sector reaches the platter."""
        start = sector * SECTOR
        data = self.cache[start : start + SECTOR]
        self.fit(start + len(data))
        self.solid[start : start + len(data)] = data

    def fit(self, length: int) -> None:
        if length > len(self.solid):
            self.solid.extend(bytes(length - len(self.solid)))

    def forget_cache(self) -> None:
        self.cache = bytearray(self.solid)
        self.dirty.clear()
        self.lost.clear()

    def copy(self) -> "File":
        other = File()
        other.solid = bytearray(self.solid)
        other.forget_cache()
        return other

    def evict(self, sector: int) -> None:
        """The cache reads this sector again from the platter."""
        start = sector * SECTOR
        end = min(start + SECTOR, len(self.cache))
        self.cache[start:end] = self.solid[start:end].ljust(end - start, b"\0")


class Flip:
    """One damaged bit. Void once its byte was written again."""

    __slots__ = ("file", "mask", "offset", "what")

    def __init__(self, file: File, offset: int, mask: int, what: str) -> None:
        self.file, self.offset, self.mask, self.what = file, offset, mask, what

    def turn(self) -> None:
        self.file.solid[self.offset] ^= self.mask
        self.file.cache[self.offset] ^= self.mask


class Change:
    """Of a folder's names; not durable yet. `old` None: created; `new` None: unlinked."""

    __slots__ = ("file", "new", "old")

    def __init__(self, file: File, old: str | None, new: str | None) -> None:
        self.file, self.old, self.new = file, old, new

    def carry_out(self, names: dict[str, File]) -> None:
        if self.old is not None and names.get(self.old) is self.file:
            del names[self.old]
        if self.new is not None:
            names[self.new] = self.file


class Disk:
    """`roots` are the folders of shards; paths of operations are relative to one of them."""

    def __init__(self, rng: Random, roots: list[str]) -> None:
        self.names: dict[str, dict[str, File]] = {}  # folder -> name -> file, as processes see it
        self.solid_names: dict[str, dict[str, File]] = {}
        self.flips: list[Flip] = []
        self.budget: int | None = None  # bytes that fit; None: endless
        self.used = 0
        self._rng = rng
        self._changes: dict[str, list[Change]] = {}
        self._twins: dict[Change, tuple[str, Change]] = {}  # of a file that moves: folder and change on the other side
        self._changing: dict[type[Any], Callable[[str, Any], None]] = {
            Write: self._store,
            Sync: self._sync,
            Create: self._create,
            Rename: self._rename,
            SyncDir: self._sync_folder,
            Unlink: self._unlink,
        }
        for root in roots:
            for folder in ("", *FOLDERS):
                where = f"{root}/{folder}"
                self.names[where], self.solid_names[where], self._changes[where] = {}, {}, []

    # Operations

    def execute(self, root: str, op: FileOp) -> Any:
        kind = type(op)
        change = self._changing.get(kind)
        if change is not None:
            return change(root, op)
        if kind is List:
            return sorted(self.names[f"{root}/{op.path}"])  # type: ignore[union-attr]
        file = self.file(root, op.path)  # type: ignore[union-attr]
        if isinstance(op, Size):
            return len(file.cache)
        assert isinstance(op, Read)
        return bytes(memoryview(file.cache)[op.offset : op.offset + op.length])

    def _store(self, root: str, op: Write) -> None:
        file, offset, data = self.file(root, op.path), op.offset, op.data
        if offset + len(data) > len(file.cache):
            self._grow(file, offset + len(data))
        self._write(file, offset, data)

    def _sync(self, root: str, op: Sync) -> None:
        self.file(root, op.path).sync()

    def _sync_folder(self, root: str, op: SyncDir) -> None:
        where = f"{root}/{op.path}"
        for change in tuple(self._changes[where]):
            self._settle(where, change, is_kept=True)

    def _unlink(self, root: str, op: Unlink) -> None:
        where, name = _split(root, op.path)
        self._change(where, Change(self.file(root, op.path), name, None))

    def file(self, root: str, path: str) -> File:
        where, name = _split(root, path)
        file = self.names[where].get(name)
        if file is None:
            raise FileNotFoundError(errno.ENOENT, path)
        return file

    def _create(self, root: str, op: Create) -> None:
        where, name = _split(root, op.path)
        if name in self.names[where]:
            raise FileExistsError(errno.EEXIST, op.path)
        file = File()
        self._change(where, Change(file, None, name))
        if op.size:
            self._grow(file, op.size)
            file.write(0, bytes(op.size))

    def _rename(self, root: str, op: Rename) -> None:
        where, old = _split(root, op.old)
        target, new = _split(root, op.new)
        file = self.file(root, op.old)
        if (replaced := self.names[target].get(new)) is not None:
            self.used -= len(replaced.cache)
        if where == target:
            self._change(where, Change(file, old, new))
            return
        gone, come = Change(file, old, None), Change(file, None, new)
        self._twins[gone], self._twins[come] = (target, come), (where, gone)
        self._change(target, come)
        self._change(where, gone)
        self.used += len(file.cache)

    def _settle(self, where: str, change: Change, *, is_kept: bool) -> None:
        """It is on the platter, or lost. A file that moves to another folder does so in both or in neither."""
        both = [(where, change)]
        if change in self._twins:
            twin = self._twins.pop(change)
            del self._twins[twin[1]]
            both.append(twin)
        for folder, each in both:
            self._changes[folder].remove(each)
            if is_kept:
                each.carry_out(self.solid_names[folder])

    def _change(self, where: str, change: Change) -> None:
        change.carry_out(self.names[where])
        self._changes[where].append(change)
        if change.new is None:
            self.used -= len(change.file.cache)

    def _grow(self, file: File, length: int) -> None:
        grown = max(0, length - len(file.cache))
        if grown and self.budget is not None and self.used + grown > self.budget:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.used += grown

    def _write(self, file: File, offset: int, data: bytes) -> None:
        file.write(offset, data)
        if self.flips:
            end = offset + len(data)
            self.flips = [flip for flip in self.flips if flip.file is not file or not offset <= flip.offset < end]

    # Faults

    def fail_write(self, root: str, op: Write) -> None:
        """A part of it may have been written."""
        part = op.data[: self._rng.randrange(len(op.data) + 1)]
        file = self.file(root, op.path)
        self.used += max(0, op.offset + len(part) - len(file.cache))
        self._write(file, op.offset, part)
        raise OSError(errno.EIO, f"write {op.path}")

    def fail_sync(self, root: str, op: Sync) -> None:
        """As Linux does it: pages that could not be written are clean afterwards; nobody will write them again."""
        file = self.file(root, op.path)
        for sector in sorted(file.dirty):
            if self._rng.random() < 0.5:
                file.keep(sector)
            else:
                file.lost[sector] = None
        file.dirty.clear()
        raise OSError(errno.EIO, f"sync {op.path}")

    def kill(self) -> None:
        """The process died. Clean pages may leave the cache at any time: some do now."""
        for file in self._files(self.names):
            for sector in sorted(file.lost):
                if self._rng.random() < 0.5:
                    del file.lost[sector]
                    file.evict(sector)

    def cut_power(self) -> int:
        """Answers how many sectors and changes of folders were lost."""
        share = self._rng.choice((0.0, 0.5, 0.5, 0.9, 1.0))
        missing = 0
        for where, changes in self._changes.items():
            while changes:
                is_kept = self._rng.random() < share
                missing += not is_kept
                self._settle(where, changes[0], is_kept=is_kept)
        for where, names in self.solid_names.items():
            self.names[where] = dict(names)
        for file in self._files(self.names):
            for sector in sorted(file.dirty):
                if self._rng.random() < share:
                    file.keep(sector)
                else:
                    missing += 1
            file.forget_cache()
        self.used = sum(len(file.cache) for file in self._files(self.names))
        return missing

    def set_aside(self, *, but: str) -> None:
        """All folders but those of one root begin empty; nobody looks at what was there."""
        for where in self.names:
            if not where.startswith(f"{but}/"):
                self.names[where], self.solid_names[where], self._changes[where] = {}, {}, []

    def copy(self) -> "Disk":
        """What is durable now, as somebody might bring it back later."""
        other = Disk(self._rng, [])
        for where, names in self.solid_names.items():
            other.solid_names[where] = {name: file.copy() for name, file in names.items()}
            other.names[where], other._changes[where] = dict(other.solid_names[where]), []
        other.used = sum(len(file.cache) for file in other._files(other.names))
        return other

    def forget_flips(self) -> None:
        """Those in files that are gone, or lie in quarantine."""
        folders = [names for where, names in self.names.items() if not where.endswith("/quarantine")]
        self.flips = [flip for flip in self.flips if any(flip.file in names.values() for names in folders)]

    def repair(self) -> list[Flip]:
        """An operator brings the damaged files back from elsewhere."""
        flips, self.flips = self.flips, []
        for flip in flips:
            flip.turn()
        return flips

    def _files(self, names: dict[str, dict[str, File]]) -> Iterator[File]:
        for folder in names.values():
            yield from folder.values()


@lru_cache(maxsize=4096)
def _split(root: str, path: str) -> tuple[str, str]:
    folder, _, name = path.rpartition("/")
    return f"{root}/{folder}", name
