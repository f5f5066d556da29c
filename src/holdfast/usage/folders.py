"""Files that are there whole or not at all, and folders that stay."""

import errno
import os
from pathlib import Path

from holdfast.runtime.crypto import sync_folder


def make_folders(folder: Path) -> None:
    if folder.is_dir():
        return
    make_folders(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def replace_file(path: Path, data: bytes) -> None:
    """Written under another name, synced, renamed, and the name synced."""
    temporary = path.with_suffix(".tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            write_at(descriptor, data, 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)  # a full disk needs the room
        raise
    sync_folder(path.parent)


def write_at(descriptor: int, data: bytes, offset: int) -> None:
    """All of it."""
    written = os.pwrite(descriptor, data, offset)
    if written != len(data):
        raise OSError(errno.ENOSPC, f"only {written} of {len(data)} bytes were written")
