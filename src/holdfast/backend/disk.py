"""Carries out the core's file operations in a shard's folder, and runs the machines that yield them.

Laws
- What fails is raised as OSError, never retried: after a failed fsync nobody knows what is on the disk.
- A file is written and synced through the same descriptor, since the kernel reports a write-back error only to
  descriptors that were open when it happened.
- An instance belongs to one thread.
"""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

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
from holdfast.runtime.crypto import sync_folder
from holdfast.runtime.failpoint import failpoint
from holdfast.runtime.writeback import write_all
from holdfast.runtime.zeros import AT_ONCE, Pace, fill

FOLDERS: Final = ("segments", "index", "snapshots", "quarantine", "keys")
OPEN_MAX: Final = 8  # descriptors kept; each also keeps the space of a file that was removed
BUFFER_BYTES: Final = 65_536  # for reads at once that are no longer: making one each time takes as long as the read

Result = TypeVar("Result")
_fdatasync: Final[Callable[[int], None]] = getattr(os, "fdatasync", os.fsync)


def make_folders(root: Path) -> None:
    """The folders of a shard, durable up to the data folder, which is two levels above."""
    root.mkdir(parents=True, exist_ok=True)
    for name in FOLDERS:
        (root / name).mkdir(exist_ok=True)
    for folder in (root, root.parent, root.parent.parent):
        sync_folder(folder)


class Disk:
    def __init__(self, root: Path, *, open_max: int = OPEN_MAX, pace: Callable[[int], Pace] | None = None) -> None:
        """`pace` is asked before each step of making a large file, and told how much of it there is."""
        self._root = f"{root}/"
        self._open_max = open_max
        self._pace = pace
        self._buffer = memoryview(bytearray(BUFFER_BYTES))
        self._open: dict[str, int] = {}  # path -> descriptor, least recently opened first
        self._doers: dict[type[Any], Callable[[Any], Any]] = {
            Create: self._create,
            Write: self._write,
            Sync: self._sync,
            Rename: self._rename,
            SyncDir: self._sync_folder,
            Unlink: self._unlink,
            Read: self._read,
            Size: self._size,
            List: self._list,
        }

    def execute(self, operation: FileOp) -> Any:
        return self._doers[type(operation)](operation)

    def run(self, work: Work[Result], *, meter: Callable[[int], None] | None = None) -> Result:
        """Runs a machine to its end. Takes as long as its operations take. `meter` is told of bytes read."""
        step: Callable[[Any], FileOp] = work.send
        value: Any = None
        while True:
            try:
                operation = step(value)
            except StopIteration as end:
                result: Result = end.value
                return result
            try:
                step, value = work.send, self.execute(operation)
            except OSError as problem:
                step, value = work.throw, problem
            if meter is not None and type(operation) is Read and type(value) is bytes:
                meter(len(value))

    def close(self) -> None:
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()

    def read_now(self, path: str, offset: int, length: int) -> bytes | None:
        """None when that would have to wait for the disk, or when the file system cannot tell. Where the operating
        system cannot ask, it waits."""
        buffer = self._buffer[:length] if length <= BUFFER_BYTES else memoryview(bytearray(length))
        try:
            count = os.preadv(self.descriptor(path), [buffer], offset, _NOWAIT)
        except BlockingIOError:
            return None
        except OSError as problem:
            if problem.errno not in _CANNOT_TELL:
                raise
            return None  # as in memory: such a file system is read by the thread
        return bytes(buffer) if count == length else None

    def expect(self, path: str, offset: int, length: int) -> None:
        """Asks the system to read these bytes soon, where it can be asked."""
        if _advise is not None:
            _advise(self.descriptor(path), offset, length, os.POSIX_FADV_WILLNEED)

    def descriptor(self, path: str) -> int:
        descriptor = self._open.get(path)
        if descriptor is None:
            descriptor = self._keep(path, os.open(self._root + path, os.O_RDWR | os.O_CLOEXEC))
        return descriptor

    def _keep(self, path: str, descriptor: int) -> int:
        if len(self._open) >= self._open_max:
            oldest = next(iter(self._open))
            os.close(self._open.pop(oldest))
        self._open[path] = descriptor
        return descriptor

    def forget(self, path: str) -> None:
        """Closes its descriptor."""
        descriptor = self._open.pop(path, None)
        if descriptor is not None:
            os.close(descriptor)

    def _create(self, operation: Create) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = self._keep(operation.path, os.open(self._root + operation.path, flags, 0o600))
        self._fill(descriptor, operation.size)
        failpoint("file created")

    def _fill(self, descriptor: int, size: int) -> None:
        """With zeros."""
        offset = 0
        while offset < size:
            pace = AT_ONCE if self._pace is None else self._pace(offset)
            step = min(pace.step_bytes, size - offset)
            fill(descriptor, offset, step, pace)
            offset += step

    def _write(self, operation: Write) -> None:
        failpoint("before a write")
        write_all(self.descriptor(operation.path), operation.data, operation.offset)
        failpoint("written, not synced")

    def _sync(self, operation: Sync) -> None:
        _fdatasync(self.descriptor(operation.path))
        failpoint("synced, not answered")

    def _rename(self, operation: Rename) -> None:
        os.rename(self._root + operation.old, self._root + operation.new)
        self.forget(operation.new)
        descriptor = self._open.pop(operation.old, None)
        if descriptor is not None:
            self._open[operation.new] = descriptor
        failpoint("file renamed")

    def _sync_folder(self, operation: SyncDir) -> None:
        sync_folder(Path(self._root + operation.path))
        failpoint("folder synced")

    def _unlink(self, operation: Unlink) -> None:
        self.forget(operation.path)
        os.unlink(self._root + operation.path)
        failpoint("file unlinked")

    def _read(self, operation: Read) -> bytes:
        descriptor = self.descriptor(operation.path)
        parts, offset, left = [], operation.offset, operation.length
        while left and (data := os.pread(descriptor, left, offset)):
            parts.append(data)
            offset += len(data)
            left -= len(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _size(self, operation: Size) -> int:
        return os.stat(self._root + operation.path).st_size

    def _list(self, operation: List) -> list[str]:
        return sorted(os.listdir(self._root + operation.path))


_CANNOT_TELL: Final = (errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL)
_advise: Final = getattr(os, "posix_fadvise", None)
_NOWAIT: Final = getattr(os, "RWF_NOWAIT", 0)
