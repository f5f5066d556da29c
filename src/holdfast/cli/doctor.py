"""`holdfast doctor`: is this machine, and this data folder, fit for a server? Every finding names its fix.

Checks look and do not repair. The one that writes is fsync's: a small file in the data folder, removed afterwards.
"""

import os
import platform
import resource
import shutil
import socket
import sqlite3
import sysconfig
import tempfile
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
import typer

from holdfast.cli import connect, folder, screen
from holdfast.client.sqs import ClientError, Refused
from holdfast.runtime.crypto import KeyFileError, read_key

OK, WARN, BAD = "ok", "warning", "problem"
FREE_WARN_BYTES = 2 * 1024**3  # what a few segments, snapshots and their compaction take
FREE_BAD_BYTES = 256 * 1024**2  # less than a segment and its successor, with something left for the rest
SYNC_WARN_S = 0.020  # then every acknowledgement takes as long
SYNC_ROUNDS = 20
FILES_WARN = 4096  # descriptors; each connection is one
SKEW_WARN_S = 60  # signatures are refused from 900 s on
ANSWER_S = 5.0


class Finding(msgspec.Struct, frozen=True):
    check: str
    state: str
    seen: str
    fix: str = ""


def doctor(
    *,
    data: folder.Data = folder.DEFAULT,
    listen: Annotated[str, typer.Option(help="Where the server shall listen; checked when none is running.")] = "",
    as_json: connect.AsJson = False,
) -> None:
    """Check data folder, disk, clock, port, key and Python of this machine. Exit code 1 when something is wrong.

    Example: holdfast doctor --data ./data
    """
    checks: list[Callable[[], Finding]] = [
        _python,
        _files,
        lambda: _folder(data),
        lambda: _space(data),
        lambda: _sync(data),
        lambda: _master_key(data),
        lambda: _databases(data),
        lambda: _server(data, listen),
        lambda: _clock(data),
    ]
    findings = [check() for check in checks]
    if as_json:
        screen.show_json([msgspec.to_builtins(each) for each in findings])
    else:
        screen.table(("CHECK", "STATE", "SEEN"), [(f.check, f.state, f.seen) for f in findings], empty="")
        for each in findings:
            if each.fix:
                print(f"\n{each.check}: {each.fix}")
    if any(each.state == BAD for each in findings):
        raise typer.Exit(connect.FINDINGS)


def _python() -> Finding:
    seen = f"{platform.python_implementation()} {platform.python_version()}, {platform.system()} {platform.machine()}"
    if not __debug__:
        return Finding(
            "python", BAD, f"{seen}, with -O", "Start it without -O: it removes checks that protect messages."
        )
    options = str(sysconfig.get_config_var("CONFIG_ARGS") or "")
    is_distributed = not options or "--prefix=/usr'" in options  # by those who optimise without telling
    if not is_distributed and "--enable-optimizations" not in options:
        fix = "This Python was built without --enable-optimizations; another build is up to a third faster."
        return Finding("python", WARN, f"{seen}, not optimised", fix)
    return Finding("python", OK, seen)


def _files() -> Finding:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < FILES_WARN:
        fix = f"Each connection is one. Raise the limit: ulimit -Hn {FILES_WARN}, or LimitNOFILE= in systemd."
        return Finding("open files", WARN, f"at most {hard}", fix)
    return Finding("open files", OK, "without limit" if hard == resource.RLIM_INFINITY else f"at most {hard:,}")


def _existing(data: Path) -> Path:
    """The folder, or the one it would be made in."""
    place = data.absolute()
    while not place.exists():
        place = place.parent
    return place


def _folder(data: Path) -> Finding:
    place = _existing(data)
    if place != data.absolute():
        is_usable = os.access(place, os.W_OK | os.X_OK)
        fix = "" if is_usable else f"Choose another folder with --data, or make {place} writable."
        return Finding("data folder", OK if is_usable else BAD, f"{data} does not exist yet", fix)
    status = data.stat()
    if status.st_uid != os.geteuid() or not os.access(data, os.R_OK | os.W_OK | os.X_OK):
        fix = f"Run this as the server's user, or give it the folder: chown -R $(id -un) {data}"
        return Finding("data folder", BAD, f"{data} belongs to user {status.st_uid}", fix)
    if status.st_mode & 0o077:
        fix = f"Others on this machine can look into it: chmod 700 {data}"
        return Finding("data folder", WARN, f"{data} has mode {status.st_mode & 0o777:o}", fix)
    return Finding("data folder", OK, f"{data}, for its owner only")


def _space(data: Path) -> Finding:
    usage = shutil.disk_usage(_existing(data))
    seen = f"{screen.size(usage.free)} free of {screen.size(usage.total)}"
    if usage.free < FREE_WARN_BYTES:
        fix = "Free some, or move the folder to a larger disk: with a full disk new messages are refused."
        return Finding("disk space", BAD if usage.free < FREE_BAD_BYTES else WARN, seen, fix)
    return Finding("disk space", OK, seen)


def _sync(data: Path) -> Finding:
    """As the log does: a sector written in place, then fdatasync."""
    times = []
    try:
        with tempfile.TemporaryFile(dir=_existing(data)) as file:
            file.write(bytes(512 * SYNC_ROUNDS))
            file.flush()
            os.fsync(file.fileno())
            for number in range(SYNC_ROUNDS):
                start = time.perf_counter()
                os.pwrite(file.fileno(), os.urandom(512), 512 * number)
                getattr(os, "fdatasync", os.fsync)(file.fileno())
                times.append(time.perf_counter() - start)
    except OSError as problem:
        fix = "Make the folder writable, or choose another one with --data."
        return Finding("fsync", BAD, str(problem.strerror), fix)
    median, slowest = sorted(times)[SYNC_ROUNDS // 2], max(times)
    seen = f"{median * 1000:.2f} ms usually, {slowest * 1000:.1f} ms at worst of {SYNC_ROUNDS}"
    if median > SYNC_WARN_S:
        fix = "Every acknowledgement takes that long. Use a local SSD; avoid network and FUSE file systems."
        return Finding("fsync", WARN, seen, fix)
    return Finding("fsync", OK, seen)


def _master_key(data: Path) -> Finding:
    path = data / folder.MASTER_KEY
    try:
        read_key(path)
        mode = path.stat().st_mode & 0o777
    except FileNotFoundError:
        is_new = not (data / "shards").exists()
        fix = "" if is_new else "Put it back from a backup: without it the messages cannot be read."
        return Finding("master key", OK if is_new else BAD, "made at the first start" if is_new else "missing", fix)
    except (KeyFileError, OSError) as problem:
        return Finding("master key", BAD, str(problem), "Restore it from a backup.")
    if mode & 0o077:
        return Finding("master key", BAD, f"mode {mode:o}", f"Others can read it: chmod 600 {path}")
    return Finding("master key", OK, "readable by its owner only; keep a copy of it elsewhere")


def _databases(data: Path) -> Finding:
    paths = sorted(data.glob("*.db"))
    for path in paths:
        try:
            connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
            (answer,) = connection.execute("PRAGMA quick_check").fetchone()
            connection.close()
        except sqlite3.Error as problem:
            answer = str(problem)
        if answer != "ok":
            fix = "Stop the server, keep the folder, and restore the newest backup elsewhere: holdfast restore --help"
            return Finding("databases", BAD, f"{path.name}: {answer}", fix)
    return Finding("databases", OK, ", ".join(each.name for each in paths) or "none yet")


def _server(data: Path, listen: str) -> Finding:
    """Does it answer with the folder's own key? If none runs: is its port free?"""
    described = folder.described(data)
    address = listen or urlsplit(described.endpoint).netloc
    try:
        with connect.find(data, described.endpoint, {}).client() as sqs:
            sqs.call("ListQueues", MaxResults=1)
    except (*folder.PROBLEMS, OSError):
        return _port(address, "it has no key yet")
    except Refused as refusal:
        fix = f"Another server may have the port, or the key was disabled: holdfast key ls --data {data}"
        return Finding("server", BAD, f"{described.endpoint} refuses this folder's key: {refusal.code}", fix)
    except ClientError as problem:
        return _port(address, str(problem))
    return Finding("server", OK, f"answers at {described.endpoint}, and accepts this folder's key")


def _port(listen: str, why: str) -> Finding:
    host, _, port = listen.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as attempt:
            attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            attempt.bind((host.strip("[]"), int(port)))
    except (OSError, ValueError) as problem:
        fix = "Choose another address: holdfast serve --listen 127.0.0.1:9400"
        return Finding("server", BAD, f"no answer ({why}), and {listen} is taken: {problem}", fix)
    return Finding("server", OK, f"not running; {listen} is free")


def _clock(data: Path) -> Finding:
    """Against the server's own, which may be another machine's some day; signatures are dated."""
    address = urlsplit(folder.described(data).endpoint)
    date = _date_at(address.hostname or "", address.port) if address.scheme == "http" else None
    year = time.gmtime().tm_year
    if year < 2025:
        return Finding("clock", BAD, f"it is the year {year}", "Set the clock: signatures carry the time.")
    if date is None:
        return Finding("clock", OK, time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()))
    skew = abs(parsedate_to_datetime(date).timestamp() - time.time())
    if skew > SKEW_WARN_S:
        fix = "Set the clocks: a request whose date is 15 minutes off is refused."
        return Finding("clock", WARN, f"{skew:.0f} s from the server's", fix)
    return Finding("clock", OK, f"{time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime())}, as the server's")


def _date_at(host: str, port: int | None) -> str | None:
    """What a server says of the time; None when none answers."""
    connection = HTTPConnection(host, port, timeout=ANSWER_S)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().getheader("Date")
    except (OSError, HTTPException):
        return None
    finally:
        connection.close()
