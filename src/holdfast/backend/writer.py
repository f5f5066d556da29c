"""The helper thread that writes and syncs the logs, while the loop collects the next frames.

One thread for all shards of a host. A write or sync that fails ends the process: nobody knows what is on the disk, and
what is not known to be durable must not be acknowledged.
"""

import queue
import threading
from collections.abc import Callable
from typing import Any

from holdfast.backend.disk import Disk
from holdfast.core.log.files import FileOp
from holdfast.runtime import metrics

Job = tuple[Disk, tuple[FileOp, ...], Callable[[], None]]


class Writer:
    """`fail` is called in whatever thread meets the failure and must not return."""

    def __init__(
        self, *, to_loop: Callable[..., Any], fail: Callable[[BaseException], None], syncs: metrics.Histogram
    ) -> None:
        self._syncs = syncs
        self._to_loop = to_loop
        self._fail = fail
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="holdfast-writer", daemon=True)
        self._thread.start()

    def hand_over(self, disk: Disk, operations: tuple[FileOp, ...], on_done: Callable[[], None]) -> None:
        """`on_done` is called in the loop. The disk belongs to the thread until then."""
        self._jobs.put((disk, operations, on_done))

    def close(self) -> None:
        self._jobs.put(None)
        self._thread.join()

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
            self._to_loop(on_done)
