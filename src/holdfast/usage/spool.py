"""From batches to files: a journal while a window lasts, then the store.

    batch ─▶ stretch in memory, and a frame in its journal ─▶ end of the window: taken by the store
             synced when a second is over                     ─▶ its journal removed

Laws
- What was added is in memory until it is on disk. From the end of `add` on it outlives the process, and the machine
  from the end of the `add` that completes a second; unless the disk is full or fails: then it stays in memory, windows
  grow longer instead of more, and `trouble` says so.
- A start finishes what an earlier one left: its windows are taken by the store and its epoch is ended.
- Batches come in order of time. A clock that is set back stands still until it has caught up.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from holdfast.runtime.failpoint import failpoint
from holdfast.runtime.logs import log
from holdfast.usage import journal, places, schema
from holdfast.usage.journal import Name, Writer
from holdfast.usage.room import COARSE_US, Room, coarse
from holdfast.usage.rows import Batch, Stretch
from holdfast.usage.stores import Store

WAITING_MAX: Final = 6  # complete windows that wait for a disk; after that the last one grows


class Spool:
    """Of one node. Belongs to one thread; every method may wait for the disk."""

    def __init__(self, root: Path, node: str, store: Store, *, window_us: int, bytes_max: int = 0) -> None:
        self._root = root
        self._node = node
        self._store = store
        self._window_us = window_us
        self._room = Room(root, bytes_max)
        self._folder = journal.folder_of(root, node)
        self._number = 0  # of the stretch's journal
        self._waiting: list[tuple[Stretch, Path]] = []  # complete, not taken yet, with their journals
        self._stretch: Stretch | None = None
        self._journal: Writer | None = None  # None: there is none yet, or nobody knows what is in it
        self._is_saved = True  # all of the stretch is in its journal
        self._end = 0
        self.epoch = 0  # 0: nothing was ever added
        self.trouble = ""  # why what is in memory is not on disk
        self.dropped = 0  # rows that there was no room for

    def add(self, batch: Batch) -> None:
        if self._stretch is None:
            if batch.is_empty:
                return  # so that a server that nobody uses leaves nothing behind
            self._begin(batch)
        trouble = self._try(lambda: self._turn(batch.since))
        if self._room.is_full:
            batch, dropped = coarse(batch)
            self.dropped += dropped
        self._keep(batch)
        trouble = self._try(lambda: self._save(batch)) or trouble
        self._tell(trouble)

    def _begin(self, batch: Batch) -> None:
        self.epoch = last_epoch(self._root, self._node) + 1
        self._store.begin(self.epoch)
        self._next(max(batch.since, self._store.until()))
        self._end = self._end_of(batch.since)

    def _next(self, start: int) -> None:
        self._stretch, self._journal, self._is_saved = Stretch(start), None, True
        self._number += 1

    def _end_of(self, moment: int) -> int:
        window_us = max(self._window_us, COARSE_US) if self._room.is_full else self._window_us
        return (moment // window_us + 1) * window_us

    def _keep(self, batch: Batch) -> None:
        assert self._stretch is not None
        before = self._stretch.dropped
        self._stretch.add(batch)
        self.dropped += self._stretch.dropped - before

    def _save(self, batch: Batch) -> None:
        """Only the batch if that is all that is missing, else everything."""
        assert self._stretch is not None
        if self._is_saved and batch.is_empty and self._journal is None:
            return
        was_saved, self._is_saved = self._is_saved, False
        writer, self._journal = self._journal, None
        if writer is not None and was_saved:
            self._append(writer, batch)
        else:
            name = Name(self.epoch, self._number)
            writer = Writer(self._folder, name, self._stretch.start, self._stretch.batch())
        self._journal, self._is_saved = writer, True

    def _append(self, writer: Writer, batch: Batch) -> None:
        try:
            if not batch.is_empty:
                writer.append(batch)
            if batch.until > batch.since:
                writer.sync()
        except OSError:
            writer.close()
            raise

    def _turn(self, now: int) -> None:
        """When the window is over. What waits goes first; when too much does, the window goes on."""
        assert self._stretch is not None
        if now < self._end:
            return
        self._room.look()
        until, self._end = self._end, self._end_of(now)
        if len(self._waiting) >= WAITING_MAX:
            self._take()
        self._stretch.end(until)
        self._put_by()
        self._next(self._stretch.until)
        self._take()

    def _put_by(self) -> None:
        assert self._stretch is not None
        if self._journal is not None:
            self._journal.close()
        self._waiting.append((self._stretch, Name(self.epoch, self._number).path(self._folder)))

    def _take(self, *, is_final: bool = False) -> None:
        while self._waiting:
            stretch, path = self._waiting[0]
            self._store.take(stretch, is_final=is_final and len(self._waiting) == 1)
            failpoint("usage taken, journal there")
            path.unlink(missing_ok=True)
            self._waiting.pop(0)

    def close(self) -> None:
        """The epoch is over. What cannot be written now stays in its journals, for the next start."""
        if self._stretch is not None:
            self._put_by()
            self._tell(self._try(lambda: self._take(is_final=True)))

    def _try(self, work: Callable[[], None]) -> str:
        try:
            work()
        except OSError as problem:
            return str(problem)
        return ""

    def _tell(self, trouble: str) -> None:
        if trouble and not self.trouble:
            log.error("usage cannot be written and is kept in memory; queues go on", node=self._node, reason=trouble)
        elif self.trouble and not trouble:
            log.info("usage is written again", node=self._node, rows_dropped=self.dropped)
        self.trouble = trouble


def last_epoch(root: Path, node: str) -> int:
    """The last one that anything is there of; 0: none."""
    in_journals = [each.epoch for each in journal.present(journal.folder_of(root, node))]
    in_segments = [each.epoch for kind in schema.KINDS for each in places.streams(root, kind) if each.node == node]
    return max([0, *in_journals, *in_segments])
