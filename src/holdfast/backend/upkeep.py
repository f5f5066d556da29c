"""What a shard's log needs besides commands: spare segments, index files, snapshots, compaction, and the removal of
what is old.

Nothing here runs in the loop for long: files are made by a maintenance thread, snapshots out of drafts that take some
milliseconds (core/log/draft.py) or, of a heavy state, by a subprocess that replays sealed segments (snapshotter.py);
compaction goes in small steps.
"""

import asyncio
import errno
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from holdfast.backend.disk import Disk
from holdfast.backend.letters import Reader
from holdfast.backend.snapshotter import NO_SPACE
from holdfast.core.errors import CorruptLog
from holdfast.core.limits import SEGMENT_BYTES
from holdfast.core.log.compaction import Choice, Compaction
from holdfast.core.log.draft import Drafts
from holdfast.core.log.files import Work
from holdfast.core.log.index_file import IndexFile
from holdfast.core.log.primary import Primary
from holdfast.core.log.segment_files import Segment, prepare_segment
from holdfast.core.log.snapshot import Advanced, keep_snapshot, remove_old
from holdfast.core.queue.command import Command
from holdfast.core.types import Lsn
from holdfast.runtime.crypto import MasterKey
from holdfast.runtime.failpoint import failpoint
from holdfast.runtime.logs import log
from holdfast.runtime.zeros import AT_ONCE, Pace

LOOK_EVERY_S = 1.0
RETRY_AFTER_S = 5.0  # a full disk is tried again
# Zeros of the next segment; who shares the processor waits as long as they work in a row. Hurried: they are late, and a
# client is in a hurry who has nothing to do with the load; the loop gives the processor away often then.
LEISURELY = Pace(work_s=0.0001, rest_s=0.0025, piece_bytes=131_072, step_bytes=262_144)
LATE = Pace(work_s=0.0001, rest_s=0.00005, piece_bytes=262_144, step_bytes=1_048_576)
URGENT = Pace(work_s=0.001, rest_s=0.00005, piece_bytes=1_048_576, step_bytes=1_048_576)
HURRIED = Pace(work_s=0.00005, rest_s=0.00005, piece_bytes=131_072, step_bytes=262_144)
INDEX_REST_S = 0.00125  # between two steps of an index
COMPACT_PAUSE_S = 0.01  # between two steps, so that clients hardly notice
COMPACT_AGAIN_S = 10.0  # before it is looked again whether a segment still empties by itself; to look costs time
SNAPSHOT_SEGMENTS = 4  # sealed segments since the last snapshot that make replaying them worth its work,
SNAPSHOT_RECORDS = 300_000  # or so many records in them: that takes seconds

Result = TypeVar("Result")


class NotNow(Exception):
    """A snapshot could not be made, and nothing is wrong with the log: says why."""


def pace_of(*, is_late: bool, is_urgent: bool, is_hurried: bool) -> Pace:
    """While nobody waits for the segment itself."""
    if not is_late:
        return LEISURELY
    if is_hurried:
        return HURRIED
    return URGENT if is_urgent else LATE


class Upkeep:
    """`submit` gives a command to the shard and answers when it is durable."""

    def __init__(
        self,
        root: Path,
        primary: Primary,
        reader: Reader,
        master: MasterKey,
        *,
        thread: Executor,
        preparing: Executor,
        submit: Callable[[Command], Awaitable[object]],
        fail: Callable[[BaseException], None],
    ) -> None:
        self._root = root
        self._shard = primary.shard
        self._journal = primary.journal
        self._reader = reader
        self._master = master
        self._disk = Disk(root)  # used in the thread
        self._thread = thread
        self._spares = Disk(root, pace=self._pace)  # used in a thread of its own
        self._preparing = preparing
        self._is_late = False  # the next spare should be further than it is,
        self._is_urgent = False  # much further,
        self._is_awaited = False  # and sends wait for it
        self._is_hurried = False  # somebody is in a hurry who has nothing to do with the load
        self._ready_bytes = 0  # of it
        self._submit = submit
        self._fail = fail
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_stopping = threading.Event()
        self._is_waiting = False  # for space, before the next spare is tried
        self._is_looking = False
        self._drafts = Drafts(primary.shard, primary.journal)
        self._is_replaying = False  # a subprocess makes a snapshot
        self._is_compact = True  # nothing has become worth compacting since it was last looked for
        self._compact_at = 0.0  # not before this it is looked for again
        self._snapshot_lsn = Lsn(0)  # of the newest snapshot that this process knows
        self._choice = Choice()
        self._compacted: set[str] = set()  # stems of segments whose living messages have been written again
        self._timer = self._loop.call_later(LOOK_EVERY_S, self._look)

    def first_spare(self) -> None:
        """Made before the shard answers anything."""
        number = self._journal.start_spare()
        cipher, key = self._master.new_cipher()
        is_made = self._disk.run(prepare_segment(number, key=key, size=SEGMENT_BYTES))
        self._journal.end_spare(cipher if is_made else None)

    def every_turn(self, is_hurried: bool) -> None:
        if self._journal.wants_spare() and not self._is_waiting:
            self._is_waiting = True
            self._start(self._prepare_spare())
        if self._is_waiting:
            lag = self._journal.spare_lag(self._ready_bytes)
            self._is_late = lag > 0
            self._is_urgent = self._journal.is_spare_urgent(lag)
            self._is_awaited = not self._journal.has_room(0)
            self._is_hurried = is_hurried

    def stop(self) -> None:
        """Before the threads end."""
        self._timer.cancel()
        self._is_stopping.set()
        for task in self._tasks:
            task.cancel()

    def close(self) -> None:
        """After the threads have ended."""
        self._disk.close()

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
        self._ready_bytes = 0
        self._is_late = self._is_urgent = self._is_awaited = self._is_hurried = False
        work = prepare_segment(number, key=key, size=SEGMENT_BYTES)
        is_made = await self._loop.run_in_executor(self._preparing, self._fill, work)
        failpoint("spare made")
        self._journal.end_spare(cipher if is_made else None)
        if not is_made:
            log.warning("no space for the next segment; new messages will be refused soon")
            await asyncio.sleep(RETRY_AFTER_S)
        self._is_waiting = False

    def _fill(self, work: Work[bool]) -> bool:
        """In the spares' thread. Descriptors are not kept: the space of a removed segment would stay taken."""
        try:
            return self._spares.run(work)
        finally:
            self._spares.close()

    def _pace(self, ready_bytes: int) -> Pace:
        """Of the next step of filling a spare with zeros, in its thread."""
        self._ready_bytes = ready_bytes
        if self._is_awaited or self._is_stopping.is_set():
            return AT_ONCE
        return pace_of(is_late=self._is_late, is_urgent=self._is_urgent, is_hurried=self._is_hurried)

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
            await self._compact()
        except OSError as problem:
            if problem.errno != errno.ENOSPC:
                raise
            log.warning("no space for an index or a snapshot; trying again later")
            await asyncio.sleep(RETRY_AFTER_S)
        self._is_looking = False

    async def _write_indexes(self) -> None:
        for stem in self._journal.sealed_without_index():
            file = await self._loop.run_in_executor(self._thread, self._make_index, stem)
            await self._in_thread(self._journal.write_index(stem, file))
            failpoint("index made")
            self._journal.indexed(stem)

    def _make_index(self, stem: str) -> IndexFile:
        """In the thread, at leisure: else the loop would get the interpreter only every second time."""
        file = self._journal.index_file(stem)
        while file.go_on() and not self._is_stopping.wait(INDEX_REST_S):
            pass
        return file

    async def _snapshot(self) -> None:
        """One at a time: each reads the one before it."""
        if self._is_replaying:
            return
        if (draft := self._drafts.take()) is not None:
            advanced = await self._in_thread(keep_snapshot(draft.head, draft.body, draft.live))
            failpoint("draft kept")
            await self._advance(draft.head.lsn, advanced)
            return
        fresh = [each for each in self._journal.segments if each.has_index_file and each.last > self._snapshot_lsn]
        upto = fresh[-1].last if fresh else Lsn(0)
        if len(fresh) >= SNAPSHOT_SEGMENTS or upto - self._snapshot_lsn >= SNAPSHOT_RECORDS:
            self._is_replaying = True
            self._start(self._replay(upto))

    async def _replay(self, upto: Lsn) -> None:
        try:
            advanced = await self._run_snapshotter(upto)
            failpoint("snapshot made")
            await self._advance(upto, advanced)
        except NotNow as problem:
            log.warning("no snapshot was made; trying again later", reason=str(problem))
            await asyncio.sleep(RETRY_AFTER_S)
        self._is_replaying = False

    async def _advance(self, lsn: Lsn, advanced: Advanced | None) -> None:
        self._snapshot_lsn = lsn
        if advanced is None:
            return
        self._journal.snapshotted(advanced.lsn)
        for stem in advanced.stems:
            self._journal.forget(stem)
            self._reader.forget(stem)
        await self._in_thread(remove_old(advanced))
        failpoint("old segments removed")
        self._compacted -= set(advanced.stems)
        self._is_compact = False

    async def _compact(self) -> None:
        """A segment that holds only a few living messages. It is removed after the next snapshots."""
        if self._is_compact or self._loop.time() < self._compact_at:
            return
        live = self._shard.live
        segment = self._choice.pick(self._journal.segments, live, done=self._compacted)
        self._is_compact = segment is None and not self._choice.is_waiting
        if segment is None:
            self._compact_at = self._loop.time() + COMPACT_AGAIN_S
            return
        self._compacted.add(segment.stem)
        try:
            await self._compact_segment(segment, live)
        except CorruptLog as problem:
            log.error("a segment is damaged and stays as it is; see docs/OPERATING.md", reason=str(problem))

    async def _compact_segment(self, segment: Segment, live: Mapping[int, int]) -> None:
        compaction = Compaction(
            self._journal.shard,
            segment,
            live=live,
            cipher=self._reader.cipher(segment.stem),
            is_alive=self._shard.is_alive,
        )
        is_over = False
        while not is_over:
            step = await self._drive(compaction.step())
            if step.compact is not None:
                failpoint("copies read")
                await self._submit(step.compact)
                failpoint("copies written")
            await asyncio.sleep(COMPACT_PAUSE_S)
            is_over = step.is_over

    async def _drive(self, work: Work[Result]) -> Result:
        """Runs a machine that looks at the shard's state: its steps in the loop, its operations in the thread."""
        value: object = None
        while True:
            try:
                operation = work.send(value)
            except StopIteration as end:
                result: Result = end.value
                return result
            value = await self._loop.run_in_executor(self._thread, self._disk.execute, operation)

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
        status = process.returncode or 0
        if status < 0:  # the system wanted its memory, perhaps
            raise NotNow(f"its process was ended by signal {-status}")
        if status == NO_SPACE:
            raise NotNow("there is no space")
        if status:
            raise RuntimeError(f"the snapshot of shard {self._journal.shard} failed; the lines above say why")
        return msgspec.json.decode(output, type=Advanced | None)
