"""Where segments are: a folder per kind, node and epoch, and in it files with numbers that have no holes.

    usage/meter/node-1/00000003/0000000017.parquet
          kind  node   epoch    seq

Laws
- A node's epochs are 1, 2, 3, …: one per start, each with at least one segment of every kind, the last of them final.
  The numbers of an epoch are 0, 1, 2, …. So a missing file is seen as soon as a later one is there.
- One place has one spelling. Whatever else lies in the folders is no segment: temporary files, notes, other versions.
"""

import os
import re
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.usage import schema

SUFFIX: Final = ".parquet"
NODE: Final = re.compile(r"[a-z0-9][a-z0-9.-]{0,62}")
_EPOCH = re.compile(r"[0-9]{8}")
_FILE = re.compile(r"([0-9]{10})\.parquet")


class Stream(NamedTuple):
    """The segments of one epoch, which are numbered."""

    kind: str
    node: str
    epoch: int

    def folder(self, root: Path) -> Path:
        return root / self.kind / self.node / f"{self.epoch:08d}"

    def path(self, root: Path, seq: int) -> Path:
        return self.folder(root) / f"{seq:010d}{SUFFIX}"


class Place(NamedTuple):
    stream: Stream
    seq: int


def place_of(path: Path) -> Place | None:
    """What the last four parts of a path name; None when it is no segment."""
    if len(path.parts) < 4:
        return None
    kind, node, epoch, file = path.parts[-4:]
    found = _FILE.fullmatch(file)
    if found is None or kind not in schema.COLUMNS or not NODE.fullmatch(node) or not _EPOCH.fullmatch(epoch):
        return None
    return Place(Stream(kind, node, int(epoch)), int(found[1]))


def streams(root: Path, kind: str) -> list[Stream]:
    """All epochs of all nodes, in order. O(epochs)."""
    return [
        Stream(kind, node, int(epoch))
        for node in _entries(root / kind, NODE)
        for epoch in _entries(root / kind / node, _EPOCH)
    ]


def numbers(root: Path, stream: Stream) -> list[int]:
    """Of the segments that are there, in order. O(files)."""
    return [int(name.removesuffix(SUFFIX)) for name in _entries(stream.folder(root), _FILE)]


def _entries(folder: Path, pattern: re.Pattern[str]) -> list[str]:
    try:
        return sorted(each for each in os.listdir(folder) if pattern.fullmatch(each))
    except (FileNotFoundError, NotADirectoryError):
        return []
