"""What a disk holds of a data folder when the power goes, from what the folder held and what was noted since.

A power cut keeps any subset of the sectors and any subset of the changes of names that were not synced: a write is torn
in its middle, a rename is lost. The rules, and the files, are those of the simulator's disk (tests/sim/disk.py); here
the bytes are those of a real process.

SQLite's files are not watched: they stay as they are, as if it had synced everything. A test of its own looks at the
system calls, whether a change of the catalogue is synced before it is answered (test_faults.py).
"""

import json
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from tests.sim.disk import Change, File

_LENGTHS = struct.Struct("<II")
UNWATCHED = (".db", ".db-wal", ".db-shm", "lock", "endpoint", "endpoint.tmp")  # ends of names

Flying = tuple[int, dict[int, bytes]]  # what a sync under way is writing: the length, and sector -> bytes


class Platter:
    """Made while no server runs: all that is there then is durable."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._names: dict[str, dict[str, File]] = {}  # folder -> name -> file, as the process saw it
        self._solid: dict[str, dict[str, File]] = {}
        self._changes: dict[str, list[Change]] = {}
        self._new_folders: dict[str, None] = {}  # not durable in their parents
        self._files: dict[int, File] = {}  # by inode
        self._syncs: dict[tuple[int, ...], tuple[File, Flying] | tuple[str, list[Change], list[str]]] = {}
        self._add_folder(str(root.parent))  # only for the name of the root
        for folder in [root, *(each for each in root.rglob("*") if each.is_dir())] if root.exists() else []:
            self._add_folder(str(folder))
        for path in root.rglob("*"):
            if path.is_file() and not path.name.endswith(UNWATCHED):
                self._load(path)

    def _add_folder(self, path: str) -> None:
        self._names[path], self._solid[path], self._changes[path] = {}, {}, []

    def _load(self, path: Path) -> None:
        file = self._files[path.stat().st_ino] = File()
        file.cache = bytearray(path.read_bytes())
        file.solid = bytearray(file.cache)
        for names in (self._names, self._solid):
            names[str(path.parent)][path.name] = file

    # What happened

    def replay(self, journal: Path) -> int:
        """Answers how many notes there were. The last may be torn, for its writer was killed."""
        count = 0
        for head, data in _notes(journal.read_bytes()):
            getattr(self, "_" + head[0])(*head[1:], *([data] if head[0] == "write" else []))
            count += 1
        return count

    def _create(self, inode: int, path: str) -> None:
        folder, _, name = path.rpartition("/")
        if name.endswith(UNWATCHED) or (name in self._names[folder] and self._files.get(inode)):
            return
        self._files[inode] = file = File()
        self._change(folder, Change(file, None, name))

    def _change(self, folder: str, change: Change) -> None:
        change.carry_out(self._names[folder])
        self._changes[folder].append(change)

    def _write(self, inode: int, offset: int, zeros: int, data: bytes) -> None:
        if inode in self._files:
            self._files[inode].write(offset, data or bytes(zeros))

    def _truncate(self, inode: int, size: int) -> None:
        if inode in self._files:
            del self._files[inode].cache[size:]

    def _syncing(self, inode: int, path: str, which: list[int]) -> None:
        if path in self._names:
            inside = [each for each in self._new_folders if each.rpartition("/")[0] == path]
            self._syncs[tuple(which)] = (path, list(self._changes[path]), inside)
        elif inode in self._files:
            file = self._files[inode]
            flying = {sector: bytes(file.cache[sector * 512 : sector * 512 + 512]) for sector in file.dirty}
            self._syncs[tuple(which)] = (file, (len(file.cache), flying))

    def _synced(self, which: list[int]) -> None:
        match self._syncs.pop(tuple(which), None):
            case (File() as file, (length, flying)):
                del file.solid[length:]  # a file that was cut off stays so
                for sector, data in flying.items():
                    _keep(file, sector, data)
                    if file.cache[sector * 512 : sector * 512 + 512] == data:
                        file.dirty.pop(sector, None)
            case (str() as folder, changes, inside):
                for change in changes:
                    change.carry_out(self._solid[folder])
                    if change in self._changes[folder]:
                        self._changes[folder].remove(change)
                for each in inside:
                    self._new_folders.pop(each, None)

    def _rename(self, old: str, new: str) -> None:
        folder, _, name = new.rpartition("/")
        before = old.rpartition("/")[2]
        file = self._names[folder].get(before)
        if file is not None:
            self._change(folder, Change(file, before, name))

    def _unlink(self, path: str) -> None:
        folder, _, name = path.rpartition("/")
        file = self._names[folder].get(name)
        if file is not None:
            self._change(folder, Change(file, name, None))

    def _mkdir(self, path: str) -> None:
        if path not in self._names:
            self._add_folder(path)
            self._new_folders[path] = None

    # The cut

    def cut(self, rng: Random) -> int:
        """Makes the folder what the disk would have. Answers how many sectors and names were lost."""
        share = rng.choice((0.0, 0.2, 0.5, 0.8))  # of what was not synced and is there all the same
        lost = 0
        for folder, changes in self._changes.items():
            for change in changes:
                if rng.random() < share:
                    change.carry_out(self._solid[folder])
                else:
                    lost += 1
        for folder in self._solid:
            if folder in self._new_folders and rng.random() >= share:
                shutil.rmtree(folder, ignore_errors=True)
                lost += 1
            elif Path(folder).exists() and folder != str(self._root.parent):
                lost += self._put(Path(folder), share, rng)
        return lost

    def _put(self, folder: Path, share: float, rng: Random) -> int:
        lost = 0
        names = self._solid[str(folder)]
        for path in folder.iterdir():
            if path.is_file() and path.name not in names and not path.name.endswith(UNWATCHED):
                path.unlink()
        for name, file in names.items():
            for sector in sorted(file.dirty):
                if rng.random() < share:
                    _keep(file, sector, bytes(file.cache[sector * 512 : sector * 512 + 512]))
                else:
                    lost += 1
            (folder / name).write_bytes(file.solid)
            (folder / name).chmod(0o600)
        return lost


def _keep(file: File, sector: int, data: bytes) -> None:
    start = sector * 512
    file.fit(start + len(data))
    file.solid[start : start + len(data)] = data


def _notes(journal: bytes) -> Iterator[tuple[list[Any], bytes]]:
    at = 0
    while at + _LENGTHS.size <= len(journal):
        head, data = _LENGTHS.unpack_from(journal, at)
        start = at + _LENGTHS.size
        at = start + head + data
        if at > len(journal):
            return
        yield json.loads(journal[start : start + head]), journal[start + head : at]
