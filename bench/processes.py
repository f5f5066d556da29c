"""Servers as processes: started on a core of their own, their use of CPU, memory and disk read from /proc."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
START_S = 60.0
STOP_S = 10.0


class StartError(Exception):
    """A server that did not come up, with what it said."""


def cores() -> tuple[int, int]:
    """The server's and the generator's; the same one on a machine that has only one."""
    usable = sorted(os.sched_getaffinity(0))
    return usable[0], usable[-1]


@contextlib.contextmanager
def pinned(core: int) -> Iterator[None]:
    """This process, and whatever it starts meanwhile, runs on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Served:
    """A running server and its children."""

    def __init__(self, command: list[str], *, log: Path, core: int, environment: dict[str, str] | None = None) -> None:
        self.log = log
        with pinned(core), log.open("ab") as output:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **(environment or {})},
                cwd=log.parent,
                start_new_session=True,
            )

    def wait_for(self, file: Path) -> str:
        deadline = time.monotonic() + START_S
        while not file.exists():
            self.check(deadline)
            time.sleep(0.005)
        return file.read_text(encoding="utf-8").strip()

    def wait_for_port(self, port: int) -> None:
        deadline = time.monotonic() + START_S
        while True:
            self.check(deadline)
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                return
            time.sleep(0.05)

    def check(self, deadline: float) -> None:
        said = self.log.read_text(encoding="utf-8", errors="replace")[-1000:]
        if self.process.poll() is not None:
            self.kill()  # what it has started may still run
            raise StartError(f"it ended with status {self.process.returncode}: {said}")
        if time.monotonic() > deadline:
            self.kill()
            raise StartError(f"it was not ready after {START_S:.0f} s: {said}")

    def pids(self) -> list[int]:
        """All processes of its session, since some servers are several."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and _session(entry) == self.process.pid:
                found.append(int(entry.name))
        return found

    def pin(self, core: int | None) -> None:
        """Moves all its threads to one core, or sets them free."""
        wanted = {core} if core is not None else set(range(os.cpu_count() or 1))
        for pid in self.pids():
            for thread in Path(f"/proc/{pid}/task").iterdir():
                with contextlib.suppress(ProcessLookupError):
                    os.sched_setaffinity(int(thread.name), wanted)

    def pause(self) -> None:
        self._tell(signal.SIGSTOP)

    def resume(self) -> None:
        self._tell(signal.SIGCONT)

    def _tell(self, what: signal.Signals) -> None:
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, what)

    def cpu_s(self) -> float:
        """Its own, and that of the kernel's workers, who sync and write back for it: they belong to nobody, and nobody
        else should have work for them while a server is measured."""
        return self.own_cpu_s() + _workers_cpu_s()

    def own_cpu_s(self) -> float:
        return sum(map(_cpu_s, self.pids()))

    def resident(self) -> int:
        return sum(int(_read(pid, "statm", "0 0").split()[1]) * PAGE for pid in self.pids())

    def written(self) -> int:
        """Bytes handed to the system by write(), to files and to clients. (What /proc says of the disk counts whole
        folios of the page cache, many times what is written.)"""
        lines = [line for pid in self.pids() for line in _read(pid, "io").splitlines()]
        return sum(int(line.split()[1]) for line in lines if line.startswith("wchar"))

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_S)
        self.kill()


def _read(pid: int, name: str, otherwise: str = "") -> str:
    """A process may end between being listed and being read."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return otherwise


def _session(entry: Path) -> int:
    fields = _read(int(entry.name), "stat").rpartition(")")[2].split()
    return int(fields[3]) if fields else 0


def _kernel_workers() -> list[int]:
    found = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in found if _read(pid, "comm").startswith("kworker/")]


_workers: dict[int, float] = {}  # what each kernel worker had used when it was seen last


def _workers_cpu_s() -> float:
    """Of those that have ended, too: they would take their time out of the sum."""
    for pid in _kernel_workers():
        _workers[pid] = max(_workers.get(pid, 0.0), _cpu_s(pid))
    return sum(_workers.values())


def _cpu_s(pid: int) -> float:
    fields = _read(pid, "stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS if fields else 0.0


def waited_s() -> float:
    """How long this process has been ready to run without running."""
    return int(_read(os.getpid(), "schedstat", "0 0 0").split()[1]) / 1e9


def free_port() -> int:
    """For servers that cannot choose one themselves. Another program might take it first; then the start fails."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert isinstance(port, int)
    return port


def folder_bytes(folder: Path) -> int:
    """What it takes on the disk, holes not counted."""
    return sum(file.stat().st_blocks * 512 for file in folder.rglob("*") if file.is_file())
