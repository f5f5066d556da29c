"""A copy of a data folder that a server can start from, taken while another one may be writing to it.

    shards ─▶ databases ─▶ keys and whatever else is there ─▶ every shard scrubbed and replayed ─▶ manifest

What makes it consistent
- Segments, snapshots and keys are opened before the first byte is copied: what upkeep removes meanwhile stays readable.
  Snapshots are opened first; if the newest of them is still in its place when everything is open, nothing that it
  needs had been removed. Otherwise all is opened anew.
- Of the segment that grows, the frames are copied that are whole. What was acknowledged before is among them.
- The catalogue comes after the shards: a queue that it knows and the log does not is made again, empty, by the next
  start. The other way round its lane could be given out a second time. A queue that was removed in between leaves a
  lane without a name, which takes space until its messages expire.
- Databases are copied by SQLite's own backup.

Laws: everything is synced; the copy counts when the manifest is there, which is written last.
"""

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import Any

import msgspec

from holdfast.backend.disk import Disk, make_folders
from holdfast.core.errors import CorruptLog
from holdfast.core.limits import SEGMENT_BYTES
from holdfast.core.log.files import Read, Work
from holdfast.core.log.promise import PROMISE
from holdfast.core.log.recovery import rehearse
from holdfast.core.log.scrub import scrub, whole_bytes
from holdfast.core.log.segment import parse_stem
from holdfast.core.log.segment_files import Segment, read_index_head
from holdfast.core.queue.shard import Shard
from holdfast.core.types import ShardId
from holdfast.runtime.crypto import sync_folder

FORMAT = 1
MASTER_KEY, NEXT_MASTER_KEY = "master.key", "master.key.next"
MANIFEST = "backup.json"
SHARDS = "shards"
PIN_ATTEMPTS = 20  # a snapshot every few seconds is already much
KEPT_SNAPSHOTS = 2
PIECE_BYTES = 1_048_576
DIGEST_BYTES = 32
# Of the process that runs, not of the data. A copy that went on numbering a server's usage would look like that server.
LEFT_OUT = ("lock", "server.json", "endpoint", "usage", "workers")
PASSING = (".tmp", "-wal", "-shm", "-journal")

Meter = Callable[[int], None]  # so many bytes more


class CopyError(Exception):
    """Why there is no copy; says what to do."""


class Entry(msgspec.Struct, frozen=True):
    bytes: int
    blake2b: str


class Manifest(msgspec.Struct, frozen=True):
    format: int
    version: str  # of the Holdfast that made it
    made: str  # when, UTC
    last_lsns: dict[str, int]  # by shard
    files: dict[str, Entry]  # by path


class _Pinned(msgspec.Struct):
    """Open files of one shard: removed or not, they can be read."""

    snapshots: dict[str, int]
    segments: dict[str, int]  # in log order
    keys: dict[str, bytes]

    def close(self) -> None:
        for descriptor in (*self.snapshots.values(), *self.segments.values()):
            os.close(descriptor)


def copy_data(
    source: Path, target: Path, *, version: str, made: str, meter: Meter, segment_bytes: int = SEGMENT_BYTES
) -> Manifest:
    """`target` is an empty folder."""
    last_lsns = {}
    master = _master_key(source)
    for shard in shards_of(source):
        name = f"{shard:04d}"
        _copy_shard(source / SHARDS / name, target / SHARDS / name, shard, meter)
    _copy_others(source, target, meter)
    if _master_key(source) != master:
        raise CopyError("the master key was changed meanwhile, so the copy has things under both. Take it again.")
    for shard in shards_of(target):
        last_lsns[f"{shard:04d}"] = _prove(target / SHARDS / f"{shard:04d}", shard, segment_bytes)
    manifest = Manifest(FORMAT, version, made, last_lsns, dict(_entries(target)))
    _write(target / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")
    _sync_folders(target)
    return manifest


def _master_key(source: Path) -> bytes:
    """As it is on disk; empty when there is none."""
    if (source / NEXT_MASTER_KEY).exists():
        raise CopyError("the master key is being changed. Take the backup when that is done: holdfast key --help")
    path = source / MASTER_KEY
    return path.read_bytes() if path.exists() else b""


def shards_of(data: Path) -> list[ShardId]:
    folder = data / SHARDS
    return (
        sorted(ShardId(int(each.name)) for each in folder.iterdir() if each.name.isdigit()) if folder.exists() else []
    )


def read_manifest(backup: Path) -> Manifest:
    try:
        manifest = msgspec.json.decode((backup / MANIFEST).read_bytes(), type=Manifest)
    except FileNotFoundError:
        raise CopyError(f"{backup} is no backup, or an unfinished one: it has no {MANIFEST}.") from None
    except msgspec.DecodeError as problem:
        raise CopyError(f"{backup / MANIFEST} is damaged: {problem}. Take another backup.") from None
    if manifest.format != FORMAT:
        raise CopyError(f"{backup} has format {manifest.format}, this Holdfast reads {FORMAT}. Use a newer version.")
    return manifest


def copy_back(backup: Path, target: Path, *, meter: Meter) -> Manifest:
    """Into an empty folder. Every file must be as the manifest says."""
    manifest = read_manifest(backup)
    for path, entry in manifest.files.items():
        file = target / path
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            found = _copy_file(backup / path, file, meter)
        except FileNotFoundError:
            raise CopyError(f"{backup / path} is missing. Take another backup.") from None
        if found != entry:
            raise CopyError(f"{backup / path} is damaged: it is not what was backed up. Take another backup.")
    for shard in shards_of(target):
        make_folders(target / SHARDS / f"{shard:04d}")
    _sync_folders(target)
    return manifest


# one shard


def _copy_shard(source: Path, target: Path, shard: ShardId, meter: Meter) -> None:
    make_folders(target)
    pinned = _pin(source)
    try:
        for name, descriptor in pinned.snapshots.items():
            _copy_open(descriptor, target / "snapshots" / name, os.fstat(descriptor).st_size, meter)
        stems = list(pinned.segments)
        for stem, descriptor in pinned.segments.items():
            end = _end_of(source, shard, stem, descriptor, is_last=stem == stems[-1])
            file = target / "segments" / f"{stem}.log"
            _copy_open(descriptor, file, end, meter)
            _lengthen(file, os.fstat(descriptor).st_size)
            _write(target / "keys" / f"{stem}.key", pinned.keys[stem])
        for stem in stems[:-1]:
            _copy_index(source / "index" / f"{stem}.idx", target / "index" / f"{stem}.idx", meter)
        _copy_file(source / PROMISE, target / PROMISE, meter)
    except FileNotFoundError as problem:
        raise CopyError(f"{problem.filename} disappeared. Is {source} still the data of a server?") from None
    finally:
        pinned.close()


def _pin(source: Path) -> _Pinned:
    for _ in range(PIN_ATTEMPTS):
        pinned = _Pinned({}, {}, {})
        try:
            if _open_all(source, pinned):
                return pinned
        except FileNotFoundError:
            pass  # removed between being listed and being opened
        except OSError:
            pinned.close()
            raise
        pinned.close()
    raise CopyError(f"{source} changes faster than it can be opened. Try again when the server has less to do.")


def _open_all(source: Path, pinned: _Pinned) -> bool:
    """False: a snapshot went away meanwhile, and with it perhaps segments that it needs."""
    names = _snapshots(source)[:KEPT_SNAPSHOTS]
    for name in names:
        pinned.snapshots[name] = os.open(source / "snapshots" / name, os.O_RDONLY | os.O_CLOEXEC)
    found = [each.stem for each in (source / "segments").glob("*.log") if not each.name.startswith("spare-")]
    for stem in sorted(found, key=lambda stem: parse_stem(stem)[::-1]):
        pinned.segments[stem] = os.open(source / "segments" / f"{stem}.log", os.O_RDONLY | os.O_CLOEXEC)
        pinned.keys[stem] = (source / "keys" / f"{stem}.key").read_bytes()
    now = _snapshots(source)
    return names[0] in now if names else not now


def _snapshots(source: Path) -> list[str]:
    """Newest first."""
    return sorted((each.name for each in (source / "snapshots").glob("*.snap")), reverse=True)


def _end_of(source: Path, shard: ShardId, stem: str, descriptor: int, *, is_last: bool) -> int:
    """How many bytes of a segment to copy."""
    segment = Segment(stem, *parse_stem(stem))
    if is_last:
        return _drive(whole_bytes(shard, segment), descriptor)
    disk = Disk(source)
    head = disk.run(read_index_head(shard, segment))
    disk.close()
    return head.used if head is not None else os.fstat(descriptor).st_size


def _drive(work: Work[int], descriptor: int) -> int:
    """A machine that only reads one file, on its open descriptor."""
    value: Any = None
    while True:
        try:
            operation = work.send(value)
        except StopIteration as end:
            return int(end.value)
        assert isinstance(operation, Read), "it only reads"
        value = os.pread(descriptor, operation.length, operation.offset)


def _prove(root: Path, shard: ShardId, segment_bytes: int) -> int:
    """The copy is whole and can be started from."""
    disk = Disk(root)
    try:
        report = disk.run(scrub(shard, is_live=False))
        if report.harms:
            harm = report.harms[0]
            raise CopyError(f"{harm.path} is damaged: {harm.problem}. `holdfast scrub` says more.")
        return disk.run(rehearse(shard, machine=Shard, segment_bytes=segment_bytes))
    except CorruptLog as problem:
        raise CopyError(f"a server could not start from this copy: {problem}") from None
    finally:
        disk.close()


# files


def _copy_others(source: Path, target: Path, meter: Meter) -> None:
    for path in sorted(source.iterdir()):
        if path.name in LEFT_OUT or path.name.endswith(PASSING) or path.name == SHARDS or path.is_symlink():
            continue
        if path.is_dir():
            shutil.copytree(path, target / path.name)
        elif path.suffix == ".db":
            _copy_database(path, target / path.name)
        elif path.is_file():
            _copy_file(path, target / path.name, meter)


def _copy_database(source: Path, target: Path) -> None:
    origin, copy = sqlite3.connect(source), sqlite3.connect(target)
    try:
        origin.backup(copy)
    finally:
        origin.close()
        copy.close()
    target.chmod(0o600)
    _sync(target)


def _copy_index(source: Path, target: Path, meter: Meter) -> None:
    """An index that is not there yet, or not any more, can be made again."""
    try:
        _copy_file(source, target, meter)
    except FileNotFoundError:
        target.unlink(missing_ok=True)


def _copy_file(source: Path, target: Path, meter: Meter) -> Entry:
    descriptor = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _copy_open(descriptor, target, os.fstat(descriptor).st_size, meter)
    finally:
        os.close(descriptor)


def _copy_open(descriptor: int, target: Path, length: int, meter: Meter) -> Entry:
    digest, offset = blake2b(digest_size=DIGEST_BYTES), 0
    with target.open("xb") as file:
        os.fchmod(file.fileno(), 0o600)
        while offset < length and (piece := os.pread(descriptor, min(PIECE_BYTES, length - offset), offset)):
            digest.update(piece)
            if piece.count(0) < len(piece):
                file.write(piece)
            else:
                file.seek(len(piece), os.SEEK_CUR)  # zeros take no space
            offset += len(piece)
            meter(len(piece))
        file.truncate(offset)
        file.flush()
        os.fsync(file.fileno())
    return Entry(offset, digest.hexdigest())


def _lengthen(path: Path, length: int) -> None:
    """With zeros that take no space."""
    os.truncate(path, length)
    _sync(path)


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    path.chmod(0o600)
    _sync(path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folders(root: Path) -> None:
    for folder, _, _ in os.walk(root):
        sync_folder(Path(folder))


def _entries(root: Path) -> Iterator[tuple[str, Entry]]:
    for path in sorted(root.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                digest = file_digest(file, lambda: blake2b(digest_size=DIGEST_BYTES))
            yield str(path.relative_to(root)), Entry(path.stat().st_size, digest.hexdigest())
