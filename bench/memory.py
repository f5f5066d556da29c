"""Memory as it is on a machine that has worked for a while: all of it holds something, mostly pages of files.

A virtual machine may hand what is free back to its host, and get it again when it is first touched. On machines like
that of the published figures this costs 1 to 3 µs for each KB that a server writes to a new file (0.2 for memory that
was in use), and nothing for one that keeps messages in memory which it has used before. It says something of the host
and nothing of the server; so before anybody is measured, free memory is filled with pages of a file, which the system
takes back one by one. Files that were removed leave free memory behind, so it is topped up before each run.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LEFT_BYTES = 128 << 20  # stay free: about what the system keeps
STEP_BYTES = 1 << 20
FILE_BYTES = 1 << 40  # of holes: reading them takes memory, and no disk


class Filler:
    """Reads on through its file, so that what it was before is the first that the system takes back."""

    def __init__(self, descriptor: int | None) -> None:
        """None: fills nothing."""
        self._descriptor = descriptor
        self._offset = 0
        self._buffer = bytearray(STEP_BYTES)

    def top_up(self) -> int:
        """Answers how many bytes were filled."""
        if self._descriptor is None:
            return 0
        wanted = free_bytes() - LEFT_BYTES
        done = 0
        while done < wanted and free_bytes() > LEFT_BYTES:
            count = os.preadv(self._descriptor, [self._buffer], self._offset)
            if not count:
                break
            self._offset += count
            done += count
        return done


@contextmanager
def filled(folder: Path) -> Iterator[Filler]:
    """Yields what keeps it full."""
    file = folder / "memory"
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.truncate(descriptor, FILE_BYTES)
        yield Filler(descriptor)
    finally:
        os.close(descriptor)
        file.unlink()


def free_bytes(meminfo: Path = Path("/proc/meminfo")) -> int:
    for line in meminfo.read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        if name == "MemFree":
            return int(value.split()[0]) * 1024
    return 0
