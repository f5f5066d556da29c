"""Writes and syncs the logs, while the loop collects the next frames.

    usual:    the loop writes into the page cache, the kernel syncs aside and tells the loop
    else:     a helper thread does it all, one thing after the other

Usual is what nearly every flush is: bytes for one file that is there, and its sync. The thread does what is large or
touches folders, and everything where the system cannot sync aside. The kernel needs the loop's processor for moments
only, and a loop that never rests has to give them to it (docs/decisions/0032).

A write or sync that fails ends the process: nobody knows what is on the disk, and what is not known to be durable must
not be acknowledged.
"""

import asyncio
import os
import queue
import threading
from collections.abc import Callable
from typing import Final

from holdfast.backend.disk import Disk
from holdfast.core.log.files import FileOp, Sync, Write
from holdfast.runtime import metrics
from holdfast.runtime.failpoint import failpoint
from holdfast.runtime.logs import log
from holdfast.runtime.syncs import KernelSyncs

LOOP_BYTES_MAX: Final = 262_144  # written by the loop itself: about 0.1 ms of copying
NEIGHBOUR_S: Final = 0.001  # the kernel needs less: somebody else took the processor that was given away,
KEEP_S_MIN: Final = 0.01  # so it is kept for so long, and twice as long each time in a row that this happens,
KEEP_S_MAX: Final = 1.0  # but no longer than that

Done = Callable[[], None]
Job = tuple[Disk, tuple[FileOp, ...], Done]


class Writer:
    """`fail` is called in whatever thread meets the failure and must not return."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, fail: Callable[[BaseException], None], syncs: metrics.Histogram
    ) -> None:
        self._loop = loop
        self._fail = fail
        self._syncs = syncs
        self._kernel = _kernel_syncs()
        self._under_way: dict[int, tuple[float, Done]] = {}  # syncs by the kernel: when each began, and whom to tell
        self._token = 0
        self._keep_s = KEEP_S_MIN
        self._keeps_until = 0.0
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._helper = threading.Thread(target=self._work, name="holdfast-writer", daemon=True)
        self._helper.start()
        if self._kernel is not None:
            loop.add_reader(self._kernel.descriptor, self._reap)

    def hand_over(self, disk: Disk, operations: tuple[FileOp, ...], on_done: Done) -> None:
        """`on_done` is called in the loop. The disk belongs to the writer until then."""
        kernel, path = self._kernel, _usual_path(operations)
        if kernel is not None and path is not None:
            self._begin(kernel, (disk, operations, on_done), path)
        else:
            self._jobs.put((disk, operations, on_done))

    def give_way(self) -> None:
        """Whoever works on without a rest calls this between two things: the kernel goes on with what is under way."""
        began = metrics.now()
        if self._under_way and began >= self._keeps_until:
            os.sched_yield()
            ended = metrics.now()
            if ended - began <= NEIGHBOUR_S:
                self._keep_s = KEEP_S_MIN
            else:
                self._keeps_until = ended + self._keep_s
                self._keep_s = min(KEEP_S_MAX, self._keep_s * 2)

    def hear(self) -> None:
        """Whoever is in a hurry calls this instead, where `on_done` may be called: who waits for a sync that has ended
        is told at once, and not when the loop comes round."""
        self.give_way()
        if self._under_way and self._kernel is not None and self._kernel.has_ended():
            self._reap()

    def close(self) -> None:
        self._jobs.put(None)
        self._helper.join()
        if self._kernel is not None:
            self._loop.remove_reader(self._kernel.descriptor)
            self._kernel.close()

    # by the kernel

    def _begin(self, kernel: KernelSyncs, job: Job, path: str) -> None:
        disk, operations, on_done = job
        self._token += 1
        self._under_way[self._token] = metrics.now(), on_done
        try:
            for operation in operations[:-1]:
                disk.execute(operation)
            kernel.begin(disk.descriptor(path), self._token)
        except OSError as problem:
            self._fail(problem)

    def _reap(self) -> None:
        assert self._kernel is not None
        for token, number in self._kernel.ended():
            if number:
                self._fail(OSError(number, os.strerror(number)))
            failpoint("synced aside, not answered")
            began, on_done = self._under_way.pop(token)
            self._syncs.note(metrics.now() - began)
            on_done()

    # by the thread

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            disk, operations, on_done = job
            began = metrics.now()
            try:
                for operation in operations:
                    disk.execute(operation)
            except OSError as problem:
                self._fail(problem)
            self._syncs.note(metrics.now() - began)
            self._loop.call_soon_threadsafe(on_done)


def _kernel_syncs() -> KernelSyncs | None:
    try:
        return KernelSyncs()
    except OSError as problem:
        log.info("the system cannot sync aside; a thread does it, which costs more", reason=str(problem))
        return None


def _usual_path(operations: tuple[FileOp, ...]) -> str | None:
    """Of the one file that is written, not too much, and synced; None when something else is to be done."""
    *before, last = operations
    if not isinstance(last, Sync):
        return None
    size = 0
    for operation in before:
        if not isinstance(operation, Write) or operation.path != last.path:
            return None
        size += len(operation.data)
    return last.path if size <= LOOP_BYTES_MAX else None
