"""What a shard's log needs besides commands: spare segments, index files, snapshots, and the removal of what is old.

Nothing here runs in the loop for long: files are made by a maintenance thread, snapshots by a subprocess of low
priority that replays sealed segments (snapshotter.py).
"""

import asyncio
import errno
import sys
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from holdfast.backend.disk import Disk
from holdfast.core.files import Work
from holdfast.core.journal import Journal
from holdfast.core.limits import SEGMENT_BYTES
from holdfast.core.segment_files import prepare_segment
from holdfast.core.snapshot import Advanced, remove_old
from holdfast.runtime.crypto import MasterKey
from holdfast.runtime.logs import say

LOOK_EVERY_S = 1.0
RETRY_AFTER_S = 5.0  # a full disk is tried again
SNAPSHOT_SEGMENTS = 4  # sealed segments since the last snapshot that make the next one worth its work

Result = TypeVar("Result")


class Upkeep:
    def __init__(
        self,
        root: Path,
        journal: Journal,
        master: MasterKey,
        *,
        thread: Executor,
        fail: Callable[[BaseException], None],
    ) -> None:
        self._root = root
        self._journal = journal
        self._master = master
        self._disk = Disk(root)  # used in the thread
        self._thread = thread
        self._fail = fail
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_waiting = False  # for space, before the next spare is tried
        self._is_looking = False
        self._snapshot_lsn = 0  # of the newest snapshot this process has made
        self._timer = self._loop.call_later(LOOK_EVERY_S, self._look)

    def first_spare(self) -> None:
        """Made before the shard answers anything."""
        number = self._journal.start_spare()
        cipher, key = self._master.new_cipher()
        is_made = self._disk.run(prepare_segment(number, key=key, size=SEGMENT_BYTES))
        self._journal.end_spare(cipher if is_made else None)

    def every_turn(self) -> None:
        if self._journal.wants_spare() and not self._is_waiting:
            self._is_waiting = True
            self._start(self._prepare_spare())

    def close(self) -> None:
        self._timer.cancel()
        for task in self._tasks:
            task.cancel()

    def _start(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            self._fail(problem)

    async def _in_thread(self, work: Work[Result]) -> Result:
        return await self._loop.run_in_executor(self._thread, self._disk.run, work)

    # spare segments

    async def _prepare_spare(self) -> None:
        number = self._journal.start_spare()
        cipher, key = self._master.new_cipher()
        is_made = await self._in_thread(prepare_segment(number, key=key, size=SEGMENT_BYTES))
        self._journal.end_spare(cipher if is_made else None)
        if not is_made:
            say("no space for the next segment; new messages will be refused soon")
            await asyncio.sleep(RETRY_AFTER_S)
        self._is_waiting = False

    # indexes and snapshots

    def _look(self) -> None:
        if not self._is_looking:
            self._is_looking = True
            self._start(self._look_after())
        self._timer = self._loop.call_later(LOOK_EVERY_S, self._look)

    async def _look_after(self) -> None:
        try:
            await self._write_indexes()
            await self._snapshot()
        except OSError as problem:
            if problem.errno != errno.ENOSPC:
                raise
            say("no space for an index or snapshot; trying again later")
            await asyncio.sleep(RETRY_AFTER_S)
        self._is_looking = False

    async def _write_indexes(self) -> None:
        for stem in self._journal.sealed_without_index():
            await self._in_thread(self._journal.write_index(stem))
            self._journal.indexed(stem)

    async def _snapshot(self) -> None:
        sealed = [each for each in self._journal.segments if each.has_index_file]
        fresh = [each for each in sealed if each.last > self._snapshot_lsn]
        if len(fresh) < SNAPSHOT_SEGMENTS:
            return
        advanced = await self._run_snapshotter(fresh[-1].last)
        if advanced is None:
            return
        self._snapshot_lsn = advanced.lsn
        for stem in advanced.stems:
            self._journal.forget(stem)
        await self._in_thread(remove_old(advanced))

    async def _run_snapshotter(self, upto: int) -> Advanced | None:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "holdfast.backend.snapshotter",
            str(self._root),
            str(self._journal.shard),
            str(upto),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            output, _ = await process.communicate()
        except asyncio.CancelledError:
            process.kill()
            raise
        if process.returncode:
            raise RuntimeError(f"the snapshot of shard {self._journal.shard} failed; the lines above say why")
        return msgspec.json.decode(output, type=Advanced | None)
