"""Loaded by every Python that a test starts with this folder on its path: a disk below it that is watched, or fails.

It wraps the calls of `os` and the system calls of `ctypes` through which Holdfast changes files, and nothing of
Holdfast: the code under test is the code that ships. SQLite calls the system itself and is not seen here.
$HOLDFAST_TEST_DISK says what to do, as JSON:

    root      only this folder matters, and that its own name is durable
    journal   every change and every sync is noted there; platter.py reads it after a power cut
    faults    a file; while it exists, each of its lines `CALL PART ERRNO` makes calls fail on paths that contain PART,
              or wait, if ERRNO is `hold`. `grow` is a write beyond a file's end: the way in which a full disk fails
    slow_s    a sync takes up to so long, and more when it really does: so that a kill often falls into one
    is_lying  syncs are not noted, as on a disk that acknowledges and forgets: tests that prove the tests
    limits    bounds of core/limits.py that are to be smaller, so that segments roll and snapshots are made in seconds
    upkeep    the same for backend/upkeep.py

A note of the journal is one write: lengths of its head and data, the head as JSON, the data.
"""

import ctypes
import json
import os
import random
import struct
import sys
import threading
import time
from typing import Any

SETTING = "HOLDFAST_TEST_DISK"
HOLD = "hold"
HOLD_S = 0.01
_lengths = struct.Struct("<II").pack


class Watch:
    """Changes are noted when they have happened, syncs also when they begin: what is written meanwhile is not."""

    def __init__(self, setting: dict[str, Any]) -> None:
        self._root = setting["root"]
        self._faults = setting.get("faults", "")
        self._slow_s = setting.get("slow_s", 0.0)
        self._is_lying = setting.get("is_lying", False)
        self._paths: dict[int, str] = {}  # descriptor -> path when it was opened
        self._journal = os.open(setting["journal"], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._do = {name: getattr(os, name) for name in WRAPPED}

    def install(self) -> None:
        for name in WRAPPED:
            setattr(os, name, getattr(self, name))
        asides = Asides(self)

        class Library(ctypes.PyDLL):
            def __getattr__(self, name: str) -> Any:
                found = super().__getattr__(name)
                return asides.around(found) if name == "syscall" else found

        ctypes.PyDLL = Library  # type: ignore[misc]

    def _note(self, *head: object, data: bytes = b"") -> None:
        text = json.dumps(head).encode()
        self._do["write"](self._journal, _lengths(len(text), len(data)) + text + data)

    def _is_below(self, path: str) -> bool:
        return path == self._root or path.startswith(self._root + "/") or path == os.path.dirname(self._root)

    def _fail_if_told(self, call: str, path: str) -> None:
        while (number := self._fault(call, path)) == HOLD:
            time.sleep(HOLD_S)
        if number:
            raise OSError(int(number), os.strerror(int(number)), path)

    def _fault(self, call: str, path: str) -> str:
        """What stands in its line; nothing if there is none."""
        if not self._faults or not os.path.exists(self._faults):
            return ""
        with open(self._faults, encoding="ascii") as faults:
            for line in faults:
                wanted, part, number = line.split()
                if wanted == call and part in path:
                    return number
        return ""

    def open(self, path: Any, flags: int, mode: int = 0o777, **options: Any) -> int:
        name = os.path.abspath(os.fspath(path))
        if not self._is_below(name) or options:
            return int(self._do["open"](path, flags, mode, **options))
        if flags & os.O_CREAT:
            self._fail_if_told("create", name)
        descriptor: int = self._do["open"](path, flags, mode)
        self._paths[descriptor] = name
        if flags & os.O_CREAT:
            self._note("create", os.fstat(descriptor).st_ino, name)
        if flags & os.O_TRUNC:
            self._note("truncate", os.fstat(descriptor).st_ino, 0)
        return descriptor

    def close(self, descriptor: int) -> None:
        self._paths.pop(descriptor, None)
        self._do["close"](descriptor)

    def pwrite(self, descriptor: int, data: Any, offset: int) -> int:
        return self._write(descriptor, data, offset, lambda: self._do["pwrite"](descriptor, data, offset))

    def write(self, descriptor: int, data: Any) -> int:
        offset = os.lseek(descriptor, 0, os.SEEK_CUR) if descriptor in self._paths else 0
        return self._write(descriptor, data, offset, lambda: self._do["write"](descriptor, data))

    def _write(self, descriptor: int, data: Any, offset: int, do: Any) -> int:
        path = self._paths.get(descriptor)
        if path is None:
            return int(do())
        self._fail_if_told("write", path)
        if offset + len(data) > os.fstat(descriptor).st_size:
            self._fail_if_told("grow", path)
        written = int(do())
        content = bytes(memoryview(data)[:written])
        is_empty = not any(content)
        self._note(
            "write", os.fstat(descriptor).st_ino, offset, written if is_empty else 0, data=b"" if is_empty else content
        )
        return written

    def fsync(self, descriptor: int) -> None:
        self._sync("fsync", descriptor)

    def fdatasync(self, descriptor: int) -> None:
        self._sync("fdatasync", descriptor)

    def _sync(self, call: str, descriptor: int) -> None:
        if descriptor not in self._paths:
            self._do[call](descriptor)
            return
        which = (os.getpid(), threading.get_ident())
        time.sleep(self.begin_sync(call, descriptor, which))
        self._do[call](descriptor)
        self.end_sync(which)

    def begin_sync(self, call: str, descriptor: int, which: tuple[int, int]) -> float:
        """Answers how many seconds it should take at least."""
        path = self._paths[descriptor]
        self._fail_if_told(call, path)
        if not self._is_lying:
            self._note("syncing", os.fstat(descriptor).st_ino, path, which)
        return random.uniform(0, self._slow_s)

    def end_sync(self, which: tuple[int, int]) -> None:
        if not self._is_lying:
            self._note("synced", which)

    def rename(self, old: Any, new: Any, **options: Any) -> None:
        self._fail_if_told("rename", str(new))
        self._do["rename"](old, new, **options)
        if self._is_below(os.path.abspath(new)):
            self._note("rename", os.path.abspath(old), os.path.abspath(new))

    def unlink(self, path: Any, **options: Any) -> None:
        self._fail_if_told("unlink", str(path))
        self._do["unlink"](path, **options)
        if self._is_below(os.path.abspath(path)):
            self._note("unlink", os.path.abspath(path))

    def mkdir(self, path: Any, *rest: Any, **options: Any) -> None:
        self._do["mkdir"](path, *rest, **options)
        if self._is_below(os.path.abspath(path)):
            self._note("mkdir", os.path.abspath(path))


class Asides:
    """Syncs that the kernel does aside: struct iocb goes in by io_submit, struct io_event comes out of io_getevents."""

    SUBMIT = (209, 2)  # on x86_64 and aarch64
    GET_EVENTS = (208, 4)
    TOKEN, DESCRIPTOR, TOLD_BY = 0, 20, 60  # places in struct iocb
    EVENT = struct.Struct("<QQqq")

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._due: dict[int, float] = {}  # token -> when it may end at the earliest
        self._failed: dict[int, int] = {}  # token -> errno
        self._held: list[tuple[int, int, int, int]] = []  # events
        self._told_by = -1

    def around(self, system: Any) -> Any:
        system.restype = ctypes.c_long

        def call(number: int, *arguments: Any) -> int:
            if number in self.SUBMIT and len(arguments) == 3:
                self._begin(ctypes.string_at(arguments[2][0], 64))
            result = int(system(number, *arguments))
            if number in self.GET_EVENTS and len(arguments) == 5 and result >= 0:
                return self._end(arguments[3], result)
            return result

        return call

    def _begin(self, request: bytes) -> None:
        (token,) = struct.unpack_from("<Q", request, self.TOKEN)
        (descriptor,) = struct.unpack_from("<I", request, self.DESCRIPTOR)
        (self._told_by,) = struct.unpack_from("<I", request, self.TOLD_BY)
        try:
            wait_s = self._watch.begin_sync("fdatasync", descriptor, (os.getpid(), -token))
        except OSError as problem:
            self._failed[token], wait_s = problem.errno or 0, 0.0
        self._due[token] = time.monotonic() + wait_s

    def _end(self, events: Any, count: int) -> int:
        """Hands out those whose time has come. For the others somebody tells the loop later."""
        size, now = self.EVENT.size, time.monotonic()
        self._held += [self.EVENT.unpack_from(events, place * size) for place in range(count)]
        ready = [event for event in self._held if self._due[event[0]] <= now]
        self._held = [event for event in self._held if self._due[event[0]] > now]
        for place, (token, request, result, more) in enumerate(ready):
            number = self._failed.get(token, 0)
            if not number:
                self._watch.end_sync((os.getpid(), -token))
            self.EVENT.pack_into(events, place * size, token, request, -number or result, more)
        if self._held:
            wait_s = min(self._due[event[0]] for event in self._held) - now
            timer = threading.Timer(wait_s, os.eventfd_write, (self._told_by, 1))
            timer.daemon = True
            timer.start()
        return len(ready)


WRAPPED = ("open", "close", "pwrite", "write", "fsync", "fdatasync", "rename", "unlink", "mkdir")


def _install(setting: dict[str, Any]) -> None:
    Watch(setting).install()
    if not any("holdfast" in each for each in sys.orig_argv):
        return  # some other program
    from holdfast.core import limits  # noqa: PLC0415 - before anything takes its names from there

    for name, value in setting.get("limits", {}).items():
        assert hasattr(limits, name), name
        setattr(limits, name, value)
    if any("snapshotter" in each for each in sys.orig_argv):
        return
    from holdfast.backend import upkeep  # noqa: PLC0415

    for name, value in setting.get("upkeep", {}).items():
        assert hasattr(upkeep, name), name
        setattr(upkeep, name, value)


if SETTING in os.environ:
    _install(json.loads(os.environ[SETTING]))
