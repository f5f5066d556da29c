"""Work on the data folder that takes minutes, asked for on the admin port: a scrub, a backup.

Laws
- Each is done by a process of its own, of low priority, with the command that an operator would use.
- One of a kind at a time: who asks for another is told of the one that runs.
- Nothing of a request reaches a path or a command: folders are the configuration's, names are made from the time.
"""

import asyncio
import contextlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from holdfast.console.facts import DONE, FAILED, RUNNING, Backup, Scrub
from holdfast.core.errors import UnsupportedOperation

NICENESS = 5  # clients come first, and it ends on a busy machine, too
FINDINGS = 1  # the exit status of a scrub that found damage
PROBLEM_CHARS_MAX = 1000  # of what a command complained about

NO_FOLDER = "The server has no folder for backups. Set it: [admin] backups, or --backups DIR."


class Chore:
    """One kind of work: what was told of it the last time."""

    def __init__(self, kind: type[Scrub] | type[Backup], *command: str, fine: tuple[int, ...] = (0,)) -> None:
        self.told: Any = kind()
        self._kind = kind
        self._command = command
        self._fine = fine  # exit statuses with which it has done what it should
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self, *more: str) -> None:
        if self.told.state == RUNNING:
            return
        self.told = self._kind(state=RUNNING, began=int(time.time()))
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "holdfast",
                *self._command,
                *more,
                "--json",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as problem:  # no memory, or too many processes
            self.told = self._failed(f"it could not be started: {problem}")
            return
        with contextlib.suppress(ProcessLookupError):  # it has ended already
            os.setpriority(os.PRIO_PROCESS, self._process.pid, NICENESS)
        self._task = asyncio.create_task(self._wait(self._process))

    async def _wait(self, process: asyncio.subprocess.Process) -> None:
        output, complaint = await process.communicate()
        if process.returncode not in self._fine:
            said = complaint.decode(errors="replace").strip()[-PROBLEM_CHARS_MAX:]
            self.told = self._failed(said or f"it ended with {process.returncode}")
            return
        try:
            done = msgspec.json.decode(output, type=self._kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as problem:  # its disk was full, or it is of another version
            said = output.decode(errors="replace").strip()[-PROBLEM_CHARS_MAX:]
            self.told = self._failed(f"what it said cannot be read ({problem}): {said}")
            return
        self.told = msgspec.structs.replace(done, state=DONE, began=self.told.began, ended=int(time.time()))

    def _failed(self, problem: str) -> Scrub | Backup:
        return self._kind(state=FAILED, problem=problem, began=self.told.began, ended=int(time.time()))

    async def stop(self) -> None:
        """It goes with the server."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
        if self._task is not None:
            await self._task


class Chores:
    def __init__(self, data: Path, backups: Path | None) -> None:
        self._data = data
        self._backups = backups
        self.scrub = Chore(Scrub, "scrub", "--data", str(data), fine=(0, FINDINGS))
        self.backup = Chore(Backup, "backup", "--data", str(data))

    async def start_backup(self) -> None:
        if self._backups is None:
            raise UnsupportedOperation(NO_FOLDER)
        name = time.strftime("%Y-%m-%dT%H-%M-%SZ", time.gmtime())
        await self.backup.start(str(self._backups.absolute() / name))

    async def stop(self) -> None:
        await self.scrub.stop()
        await self.backup.stop()
