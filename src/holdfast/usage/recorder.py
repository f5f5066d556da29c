"""The thread that writes usage down. The loop hands batches over and never waits for it.

loop: soon after anything was counted, a Batch ─▶ queue ─▶ thread: Spool ─▶ journal, segments
"""

import threading
from collections.abc import Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from holdfast.runtime.aside import step_aside
from holdfast.runtime.logs import log
from holdfast.usage import convert, spool
from holdfast.usage.rows import Batch
from holdfast.usage.spool import Spool
from holdfast.usage.stores import Kept, Segments, Store, StoreError, has_arrow

BEHIND_AT: Final = 120  # batches that wait for the thread, of six seconds at least; then the loop goes on counting


class Recorder:
    """`others`: nodes that this server was in an earlier start and is no more. What they left is finished."""

    def __init__(
        self, root: Path, node: str, *, others: Sequence[str] = (), window_us: int, bytes_max: int = 0
    ) -> None:
        self._root = root
        self._node = node
        self._others = others
        self._window_us = window_us
        self._bytes_max = bytes_max
        self._batches: SimpleQueue[Batch | None] = SimpleQueue()
        self._spool: Spool | None = None
        self._is_broken = False
        self._thread = threading.Thread(target=self._run, name="holdfast-usage", daemon=True)
        self._thread.start()

    @property
    def is_behind(self) -> bool:
        """The disk hangs: keep what you have."""
        return self._batches.qsize() >= BEHIND_AT

    @property
    def trouble(self) -> str:
        """Why usage is not on disk; empty: it is."""
        if self._is_broken:
            return "the thread that writes usage has ended"
        if self.is_behind:
            return "the disk does not answer"
        return self._spool.trouble if self._spool is not None else ""

    @property
    def dropped(self) -> int:
        return self._spool.dropped if self._spool is not None else 0

    def put(self, batch: Batch) -> None:
        self._batches.put(batch)

    def close(self) -> None:
        """Waits until everything is written."""
        self._batches.put(None)
        self._thread.join()

    def _run(self) -> None:
        step_aside()
        try:
            while (batch := self._batches.get()) is not None:
                self._add(batch)
            if self._spool is not None:
                self._spool.close()
        except Exception as problem:  # noqa: BLE001 - the root of a thread; queues do not depend on it
            self._is_broken = True
            log.error("usage is not written any more, by a mistake in Holdfast", problem=problem)

    def _add(self, batch: Batch) -> None:
        """Opens when there is something to write, so that a start does not wait for it."""
        if self._spool is None and not batch.is_empty:
            self._spool = Spool(
                self._root, self._node, self._store(), window_us=self._window_us, bytes_max=self._bytes_max
            )
        if self._spool is not None:
            self._spool.add(batch)

    def _store(self) -> Store:
        """What an earlier start left is finished first, so that segments come in order."""
        if not has_arrow():
            return Kept(self._root, self._node)
        try:
            count = sum(convert.finish_all(self._root, each) for each in self._others)
            made = Segments(self._root, self._node)
            count += convert.finish(self._root, self._node, made, before=spool.last_epoch(self._root, self._node) + 1)
        except (StoreError, OSError) as problem:
            log.error("usage stays in the journal; `holdfast usage convert` says more", reason=str(problem))
            return Kept(self._root, self._node)
        if count:
            log.info("usage of the last start is in segments", node=self._node, windows=count)
        return made
