"""The journal: what was counted since the last segment, in frames. What is written survives the end of the process, and
what is synced, each second, also that of the machine.

    file   magic 8 │ version u32 │ epoch u32 │ number u64 │ start of the window i64, µs │ crc u32 │ frames …
    frame  length u32 │ crc u32 │ payload: a Batch, MessagePack

All little-endian. A frame's CRC-32C continues that of the frame before, the first one that of the header: bytes that an
older file left behind cannot be taken for a frame of this one.

Laws
- A frame counts when it is whole. What follows the first one that is not was never synced, and is not counted.
- A file is replaced whole or grows at its end; it is never changed in between.
"""

import os
import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import google_crc32c
import msgspec

from holdfast.runtime.failpoint import failpoint
from holdfast.usage.folders import make_folders, replace_file, write_at
from holdfast.usage.rows import Batch

VERSION: Final = 1
KEPT: Final = 0  # the number of the journal that keeps an epoch's complete windows; others begin with 1
_MAGIC = b"HFUSAGEJ"
_HEAD = struct.Struct("<8sIIQq")
_CRC = struct.Struct("<I")
_FRAME = struct.Struct("<II")
_NAME = re.compile(r"([0-9]{8})-([0-9]{10})\.journal")
_fdatasync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Batch).decode


class JournalError(Exception):
    """The file is no journal of ours; says what to do."""


class Name(NamedTuple):
    epoch: int
    number: int

    def path(self, folder: Path) -> Path:
        return folder / f"{self.epoch:08d}-{self.number:010d}.journal"


def folder_of(root: Path, node: str) -> Path:
    return root / "journal" / node


def present(folder: Path) -> list[Name]:
    """In order."""
    if not folder.is_dir():
        return []
    found = (_NAME.fullmatch(each) for each in os.listdir(folder))
    return sorted(Name(int(each[1]), int(each[2])) for each in found if each)


class Writer:
    """One journal that grows. Created with its first batch, whole or not at all."""

    def __init__(self, folder: Path, name: Name, start: int, first: Batch) -> None:
        self.path = name.path(folder)
        make_folders(folder)
        head = _head(name, start)
        frame, self._crc = _frame(first, google_crc32c.value(head))
        data = head + _CRC.pack(google_crc32c.value(head)) + frame
        replace_file(self.path, data)
        self._length = len(data)
        self._is_synced = True
        self._file = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC)

    def append(self, batch: Batch) -> None:
        """Not synced. May be repeated after an error: what was half written is written over."""
        frame, crc = _frame(batch, self._crc)
        write_at(self._file, frame, self._length)
        self._crc, self._length = crc, self._length + len(frame)
        self._is_synced = False

    def sync(self) -> None:
        """Returns when all frames are on disk."""
        if not self._is_synced:
            failpoint("usage written, not synced")
            _fdatasync(self._file)
            self._is_synced = True

    def close(self) -> None:
        os.close(self._file)


def _head(name: Name, start: int) -> bytes:
    return _HEAD.pack(_MAGIC, VERSION, *name, start)


def _frame(batch: Batch, crc: int) -> tuple[bytes, int]:
    payload = _encode(batch)
    crc = google_crc32c.extend(crc, payload)
    return _FRAME.pack(len(payload), crc) + payload, crc


class Reader:
    """Reads a file from its start, also one whose end is torn. `torn` is known when all batches were read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.torn = 0  # bytes at the end that are no frame
        with open(path, "rb") as file:
            head, crc = file.read(_HEAD.size), file.read(_CRC.size)
        wrong = len(crc) < _CRC.size or _CRC.unpack(crc)[0] != google_crc32c.value(head) or head[:8] != _MAGIC
        if wrong:
            raise JournalError(f"{path} does not begin as a usage journal: it is damaged.")
        _, version, epoch, number, self.start = _HEAD.unpack(head)
        if version != VERSION:
            raise JournalError(f"{path} has version {version}, and this Holdfast knows {VERSION}: use a newer one.")
        self.name = Name(epoch, number)
        self._crc = google_crc32c.value(head)

    def __iter__(self) -> Iterator[Batch]:
        crc, at, size = self._crc, _HEAD.size + _CRC.size, self.path.stat().st_size
        with open(self.path, "rb") as file:
            file.seek(at)
            while len(start := file.read(_FRAME.size)) == _FRAME.size:
                length, wanted = _FRAME.unpack(start)
                payload = file.read(min(length, size))  # a torn length may be anything
                crc = google_crc32c.extend(crc, payload)
                if len(payload) < length or crc != wanted:
                    break
                at += _FRAME.size + length
                yield _decode(payload)
        self.torn = size - at
