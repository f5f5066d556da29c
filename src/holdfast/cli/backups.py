"""`holdfast backup`, `restore` and `scrub`: the data folder as a whole, whether its server runs or not."""

import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, TypeVar

import typer

import holdfast
from holdfast.backend import copies
from holdfast.backend.disk import Disk
from holdfast.backend.ownership import DataFolderError, lock_folder
from holdfast.cli import connect, folder, screen
from holdfast.core.errors import CorruptLog
from holdfast.core.log.recovery import rehearse
from holdfast.core.log.scrub import Harm, Report, scrub
from holdfast.core.queue.shard import Shard
from holdfast.core.types import ShardId
from holdfast.runtime.crypto import sync_folder

UNFINISHED = ".unfinished"

Result = TypeVar("Result")


def backup(
    destination: Annotated[Path, typer.Argument(metavar="DEST", help="A folder that does not exist yet.")],
    *,
    data: folder.Data = folder.DEFAULT,
    as_json: connect.AsJson = False,
) -> None:
    """Copy a server's data to another folder; the server may go on working.

    Everything that was acknowledged before the backup began is in it. The copy is proven before it gets its name: every
    checksum is verified, and the log replayed as a start would do. It holds master.key: whoever can read the backup can
    read the messages.

    Example: holdfast backup /mnt/backups/2026-01-31
    """
    with connect.explained():
        _check_data(data)
        if destination.exists():
            raise connect.Mistake(f"{destination} exists already. A backup needs a folder of its own.")
        manifest = _into(destination, lambda place, meter: _copy(data, place, meter), total=_bytes_below(data))
    size = sum(each.bytes for each in manifest.files.values())
    if as_json:
        shown = {"destination": str(destination), "files": len(manifest.files), "bytes": size}
        screen.show_json(shown | {"last_lsns": manifest.last_lsns})
    else:
        print(f"{destination}: {len(manifest.files)} files, {screen.size(size)}, verified and replayed")


def _copy(data: Path, place: Path, meter: copies.Meter) -> copies.Manifest:
    made = datetime.now(UTC).isoformat(timespec="seconds")
    return copies.copy_data(data, place, version=holdfast.__version__, made=made, meter=meter)


def restore(
    source: Annotated[Path, typer.Argument(metavar="SRC", help="A folder that `holdfast backup` made.")],
    *,
    data: Annotated[Path, typer.Option("--data", metavar="DIR", help="Where to; must not exist, or be empty.")],
    as_json: connect.AsJson = False,
) -> None:
    """Make a data folder from a backup; every file is compared with what was backed up.

    Messages that were deleted after the backup come back, with their old ids and receive counts.

    Example: holdfast restore /mnt/backups/2026-01-31 --data ./data
    """
    with connect.explained():
        if data.exists() and (not data.is_dir() or any(data.iterdir())):
            raise connect.Mistake(f"{data} is not empty. Restore into a folder that does not exist yet.")
        total = sum(each.bytes for each in _told(lambda: copies.read_manifest(source)).files.values())
        manifest = _into(data, lambda place, meter: copies.copy_back(source, place, meter=meter), total=total)
    if as_json:
        screen.show_json({"data": str(data), "files": len(manifest.files), "made": manifest.made})
    else:
        print(f"{data}: {len(manifest.files)} files of {manifest.made}. Start it: holdfast serve --data {data}")


def _into(destination: Path, fill: Callable[[Path, copies.Meter], copies.Manifest], *, total: int) -> copies.Manifest:
    """Under another name until it is complete."""
    place = destination.with_name(destination.name + UNFINISHED)
    if place.exists():
        raise connect.Mistake(f"{place} is in the way, of an attempt that did not end. Remove it first.")
    try:
        place.mkdir(parents=True, mode=0o700)
        with screen.progress("copying", total, is_bytes=True) as meter:
            manifest = _told(lambda: fill(place, meter))
        place.rename(destination)
        sync_folder(destination.parent)
    except BaseException as problem:
        shutil.rmtree(place, ignore_errors=True)
        if isinstance(problem, OSError):
            raise connect.Mistake(f"{problem.filename or destination}: {problem.strerror}") from None
        raise
    return manifest


def _told(work: Callable[[], Result]) -> Result:
    try:
        return work()
    except (copies.CopyError, CorruptLog) as problem:
        raise connect.Mistake(str(problem)) from None


def _check_data(data: Path) -> None:
    if not copies.shards_of(data):
        raise connect.Mistake(f"{data} is no data folder of Holdfast. Name the server's folder with --data.")


def _bytes_below(data: Path) -> int:
    return sum(each.stat().st_size for each in data.rglob("*") if each.is_file() and "spare-" not in each.name)


def scrub_data(*, data: folder.Data = folder.DEFAULT, as_json: connect.AsJson = False) -> None:
    """Read everything that has a checksum, and name what is damaged. Exit code 1 when something is.

    While a server runs, the end of its log is left out; without one, nobody can start it until this is over.

    Example: holdfast scrub --data ./data
    """
    with connect.explained():
        _check_data(data)
        lock = _lock_if_idle(data)
        reports = {shard: _scrub_shard(data, shard, is_live=lock is None) for shard in copies.shards_of(data)}
        if lock is not None:
            os.close(lock)
    files = sum(each.files for each in reports.values())
    rows = [
        (f"shards/{shard:04d}/{harm.path}", harm.first, harm.last, harm.problem)
        for shard, report in reports.items()
        for harm in report.harms
    ]
    if as_json:
        harms = [dict(zip(("path", "first", "last", "problem"), row, strict=True)) for row in rows]
        screen.show_json({"files": files, "is_live": lock is None, "damaged": harms})
    elif rows:
        for path, first, last, problem in rows:
            print(f"{data / path} bytes {first}–{last}: {problem}")
        screen.note("Keep the folder as it is. Restore the newest backup elsewhere: holdfast restore --help")
    else:
        where = "except the end of the log, which is being written" if lock is None else "the server does not run"
        print(f"{data}: {files} files without damage ({where})")
    if rows:
        raise typer.Exit(connect.FINDINGS)


def _lock_if_idle(data: Path) -> int | None:
    """None: a server has it."""
    try:
        return lock_folder(data)
    except DataFolderError:
        return None
    except OSError as problem:
        raise connect.Mistake(f"{data} cannot be read: {problem.strerror}.") from None


def _scrub_shard(data: Path, shard: ShardId, *, is_live: bool) -> Report:
    root = data / copies.SHARDS / f"{shard:04d}"
    disk, report = Disk(root), Report()
    try:
        with screen.progress(f"shard {shard}", _bytes_below(root), is_bytes=True) as meter:
            report = disk.run(scrub(shard, is_live=is_live), meter=meter)
        if not is_live and not report.harms:
            disk.run(rehearse(shard, machine=Shard))
    except CorruptLog as problem:
        report.harms.append(Harm("segments", 0, 0, f"a server could not start from this: {problem}"))
    finally:
        disk.close()
    return report
