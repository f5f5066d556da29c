"""`--workers N`: a parent that only watches, and N processes that serve.

    parent: locks the folder, reserves the port, forks ──┬─▶ worker 0   leads shards 1, N+1, …
            waits for signals and for the end of workers  ├─▶ worker 1   leads shards 2, N+2, …
                                                          └─▶ …          each also answers for all others' shards

Laws
- The parent has no threads, no loop and no open database, so that it can fork at any time.
- A worker that dies is replaced; the others go on. One that says that its disk or folder cannot be used, or that dies
  before all were ready once, ends all of them: the next one would fare no better.
- At the end every worker first finishes its own requests, which may need the others; none leaves before all have.
- When the parent is gone, the workers end.
"""

import asyncio
import contextlib
import os
import select
import shutil
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

import msgspec

from holdfast.backend.host import Host
from holdfast.core.types import ShardId
from holdfast.runtime.config.kinds import Address
from holdfast.runtime.rpc import Backend
from holdfast.runtime.workers import Aside, Desk, Link, Switch

SOCKETS = "workers"
READY, DRAINED = b"r", b"d"
FINISH_S = 15.0  # from the signal to end until workers that are left are killed
REPLACE_AFTER_S = 0.5  # so that one that dies at once does not keep the machine busy
EXIT_UNUSABLE = (2, 74)  # said what is wrong: the start is refused, or the disk failed
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


class Worker(msgspec.Struct, frozen=True):
    """Which of the processes this is; alone unless told otherwise."""

    index: int = 0
    count: int = 1
    sockets: str = ""  # the folder where workers reach each other
    is_replacement: bool = False
    to_parent: int = -1
    from_parent: int = -1  # ends when the parent does, or when all have drained

    def leads(self, shard: ShardId) -> bool:
        return self.owner(shard) == self.index

    def owner(self, shard: ShardId) -> int:
        return (shard - 1) % self.count

    def path(self, index: int) -> str:
        return f"{self.sockets}/{index}"

    def tell(self, what: bytes) -> None:
        if self.to_parent >= 0:
            with contextlib.suppress(BrokenPipeError):  # the parent is gone
                os.write(self.to_parent, what)


def reserve(listen: Address) -> tuple[socket.socket, Address]:
    """Holds the port without listening on it, so that workers, also later ones, can share it."""
    holder = _bound(listen.host, listen.port, is_shared=True)
    return holder, listen._replace(port=int(holder.getsockname()[1]))


def _bound(host: str, port: int, *, is_shared: bool = False) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        if is_shared:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        made.bind((host, port))
    except BaseException:
        made.close()
        raise
    return made


def free(listen: Address) -> Address:
    """With a port that nobody uses now."""
    with _bound(listen.host, 0) as holder:
        return listen._replace(port=int(holder.getsockname()[1]))


class Met(NamedTuple):
    """The others, once they can be reached."""

    backend: Backend  # this worker's own host, and those of all others
    links: Mapping[int, Link]  # by index; none: it is alone
    aside: Aside


async def meet(worker: Worker, host: Host, shards: Sequence[ShardId]) -> Met:
    aside = Aside()
    if worker.count == 1:
        return Met(host, {}, aside)
    path = worker.path(worker.index)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)  # of the one that this one replaces
    listener = await asyncio.get_running_loop().create_unix_server(lambda: Desk(host, aside), path)
    links = {index: Link(worker.path(index)) for index in range(worker.count) if index != worker.index}
    switch = Switch(host, {each: links[worker.owner(each)] for each in shards if not worker.leads(each)}, listener)
    host.elsewhere = switch.submit
    await asyncio.gather(*(link.is_connected.wait() for link in links.values()))
    return Met(switch, links, aside)


async def leave(worker: Worker) -> None:
    """Waits until the others need this one no more."""
    if worker.count == 1:
        return
    worker.tell(DRAINED)
    loop, is_over = asyncio.get_running_loop(), asyncio.Event()
    loop.remove_reader(worker.from_parent)
    loop.add_reader(worker.from_parent, is_over.set)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(is_over.wait(), FINISH_S)
    loop.remove_reader(worker.from_parent)


class Crew:
    """`work` runs in each worker; `on_ready` in the parent, when all of them serve for the first time. In `data`,
    which nobody else may use now, is the folder of the sockets by which they reach each other."""

    def __init__(self, count: int, data: Path, work: Callable[[Worker], None], on_ready: Callable[[], None]) -> None:
        self._count = count
        self._folder = data / SOCKETS
        self._work = work
        self._on_ready = on_ready
        self._workers: dict[int, int] = {}  # process id -> index
        shutil.rmtree(self._folder, ignore_errors=True)  # of a crew that was killed
        self._folder.mkdir(mode=0o700)
        self._sockets = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        self._reports, self._report = os.pipe()
        self._held, self._hold = os.pipe()  # workers end when nobody holds it
        self._ready = self._drained = 0
        self._status = 0

    def run(self) -> int:
        """Until all workers have ended. Answers the exit status."""
        previous = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            for index in range(self._count):
                self._start(index, is_replacement=False)
            self._watch()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, previous)
            os.close(self._sockets)
            shutil.rmtree(self._folder, ignore_errors=True)
        return self._status

    def _start(self, index: int, *, is_replacement: bool) -> None:
        sys.stdout.flush()
        process = os.fork()
        if process == 0:
            self._become(index, is_replacement=is_replacement)
        self._workers[process] = index

    def _become(self, index: int, *, is_replacement: bool) -> NoReturn:
        """Runs in the child, and does not come back to the parent's code whatever happens."""
        status = 1
        try:
            os.close(self._hold)
            os.close(self._reports)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)  # unless there is something to read again
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            sockets = f"/proc/self/fd/{self._sockets}"  # the path itself may be longer than that of a socket can be
            self._work(Worker(index, self._count, sockets, is_replacement, self._report, self._held))
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        except BaseException:  # noqa: BLE001 - the root of a process
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(status)

    def _watch(self) -> None:
        while self._workers:
            number = self._wait_signal()
            if number == signal.SIGCHLD:
                self._reap()
            elif number == signal.SIGHUP:
                self._signal_all(signal.SIGHUP)
            elif number is not None:
                self._finish()
                return
            self._read_reports()

    def _wait_signal(self) -> int | None:
        found = signal.sigtimedwait(_SIGNALS, 0.05 if self._ready < self._count else 3600)
        return found.si_signo if found is not None else None

    def _read_reports(self) -> None:
        while select.select([self._reports], [], [], 0)[0]:
            for report in os.read(self._reports, 64):
                self._note(bytes([report]))

    def _note(self, report: bytes) -> None:
        if report == DRAINED:
            self._drained += 1
        elif self._ready < self._count:  # replacements say it once more
            self._ready += 1
            if self._ready == self._count:
                self._on_ready()

    def _reap(self) -> None:
        for process, index in list(self._workers.items()):
            ended, raw = os.waitpid(process, os.WNOHANG)
            if not ended:
                continue
            del self._workers[process]
            self._read_reports()
            status = os.waitstatus_to_exitcode(raw)
            if status in EXIT_UNUSABLE or self._ready < self._count:
                self._status = max(status, 1)
                self._finish()
                return
            time.sleep(REPLACE_AFTER_S)
            self._start(index, is_replacement=True)

    def _finish(self) -> None:
        """All drain, then all leave."""
        self._drained = 0
        self._signal_all(signal.SIGTERM)
        end = time.monotonic() + FINISH_S
        while self._workers and time.monotonic() < end:
            self._read_reports()
            if self._drained >= len(self._workers) and self._hold >= 0:
                os.close(self._hold)
                self._hold = -1
            self._collect()
            time.sleep(0.01)
        self._signal_all(signal.SIGKILL)

    def _collect(self) -> None:
        for process in list(self._workers):
            if os.waitpid(process, os.WNOHANG)[0]:
                del self._workers[process]

    def _signal_all(self, number: int) -> None:
        for process in self._workers:
            os.kill(process, number)
