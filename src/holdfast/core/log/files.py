"""File operations as data.

Machines that touch the disk (recovery, snapshots, compaction, preparing a segment) are generators: they yield an
operation, the shell or the simulator carries it out and sends the result back. So the order of operations is decided
here and can be tested with a power cut after each one.

Paths are relative to the shard's folder. An operation that fails is thrown into the generator as OSError.
"""

from collections.abc import Generator, Iterable
from typing import Any, TypeVar

from holdfast.core.values import Fact


class Create(Fact, frozen=True):
    """A new file of `size` zero bytes, really allocated. Fails when it exists. Not durable before Sync and SyncDir."""

    path: str
    size: int = 0


class Write(Fact, frozen=True):
    path: str
    offset: int
    data: bytes


class Sync(Fact, frozen=True):
    """fdatasync of one file."""

    path: str


class Rename(Fact, frozen=True):
    """Atomic; replaces the target. Not durable before SyncDir."""

    old: str
    new: str


class SyncDir(Fact, frozen=True):
    path: str


class Unlink(Fact, frozen=True):
    path: str


class Read(Fact, frozen=True):
    """Answers the bytes, fewer at the end of the file."""

    path: str
    offset: int
    length: int


class Size(Fact, frozen=True):
    """Answers the file's length in bytes."""

    path: str


class List(Fact, frozen=True):
    """Answers the sorted names in a folder; the folders of a shard always exist."""

    path: str


FileOp = Create | Write | Sync | Rename | SyncDir | Unlink | Read | Size | List
Result = TypeVar("Result")
Work = Generator[FileOp, Any, Result]


def perform(operations: Iterable[FileOp]) -> Work[None]:
    """One after the other."""
    yield from operations


def replace(path: str, data: bytes) -> Work[None]:
    """Puts a whole small file in place so that a power cut leaves either the old or the new one."""
    folder = path.rpartition("/")[0]
    temporary = path + ".tmp"
    if temporary.rpartition("/")[2] in (yield List(folder)):
        yield Unlink(temporary)
    yield Create(temporary)
    yield Write(temporary, 0, data)
    yield Sync(temporary)
    yield Rename(temporary, path)
    yield SyncDir(folder)
