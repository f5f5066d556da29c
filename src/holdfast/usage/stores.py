"""What becomes of a stretch that is complete: segments where pyarrow is installed, else a file that keeps it.

Both know until when they have everything of an epoch. A stretch that began before then was taken already; after a crash
between taking it and removing its journal it is offered once more.
"""

import importlib.util
import os
from pathlib import Path
from typing import Final, Protocol

from holdfast.usage import journal, places, schema
from holdfast.usage.journal import Name, Writer
from holdfast.usage.places import Place, Stream
from holdfast.usage.rows import Row, Stretch

GRACE_US: Final = 5 * 60 * 1_000_000  # after its end an hour is left open for so long
_HOUR_US: Final = 3_600_000_000


class StoreError(Exception):
    """What is there already cannot be continued; says why."""


class Store(Protocol):
    """Belongs to one node, and to one thread."""

    def begin(self, epoch: int) -> None: ...

    def until(self) -> int:
        """The end of all that is here, in any epoch, µs."""
        ...

    def take(self, stretch: Stretch, *, is_final: bool = False) -> bool:
        """Durable when it returns. What was taken before is not taken again, so it may be repeated after an error.
        Answers whether anything was taken."""
        ...


def is_heartbeat_due(before: int, until: int) -> bool:
    """Whether a kind without rows has to say so: when that lets an hour be closed. A server that does nothing writes
    four files an hour for it; each minute, they would be 20 MB a day."""
    return (until - GRACE_US) // _HOUR_US > (before - GRACE_US) // _HOUR_US


def has_arrow() -> bool:
    return importlib.util.find_spec("pyarrow") is not None


class Segments:
    """Numbered Parquet files. Needs pyarrow."""

    def __init__(self, root: Path, node: str) -> None:
        # Its own allocator asks for huge pages, and clears them while the loop waits for the interpreter: 14 ms.
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
        from holdfast.usage import segment  # noqa: PLC0415 - pyarrow need not be there, and takes 0.1 s

        self._segment = segment
        self._root = root
        self._node = node
        self._epoch = 0
        self._heads = {kind: self._find(kind) for kind in schema.KINDS}

    def _find(self, kind: str) -> "_Head":
        """The last segment of a kind. Others may have been removed after they were taken over, this one is kept."""
        for stream in reversed([each for each in places.streams(self._root, kind) if each.node == self._node]):
            for seq in reversed(places.numbers(self._root, stream)):
                path = stream.path(self._root, seq)
                try:
                    footer = self._segment.read_footer(path)
                except self._segment.SegmentError as problem:
                    raise StoreError(str(problem)) from None
                return _Head(
                    stream.epoch,
                    seq + 1,
                    self._segment.digest(path),
                    until=footer.until,
                    lifetime=footer.lifetime,
                    is_final=footer.is_final,
                )
        none = dict.fromkeys(self._segment.totals(kind, ()), 0)
        return _Head(0, 0, self._segment.NO_DIGEST, until=0, lifetime=none, is_final=True)

    def until(self) -> int:
        return max(each.until for each in self._heads.values())

    @property
    def open_epoch(self) -> int:
        """The last epoch if segments that end it are missing; 0: none are."""
        last = max(each.epoch for each in self._heads.values())
        is_ended = all(each.epoch == last and each.is_final for each in self._heads.values())
        return 0 if is_ended else last

    def begin(self, epoch: int) -> None:
        """`epoch` may be one that a crash ended."""
        self._epoch = epoch

    def take(self, stretch: Stretch, *, is_final: bool = False) -> bool:
        has_taken = False
        for kind, head in self._heads.items():
            is_there = head.epoch == self._epoch and (head.until > stretch.start or head.is_final)
            rows = [] if is_there else stretch.rows(kind)
            is_due = is_heartbeat_due(head.until, stretch.until) and not is_there
            if rows or is_due or (is_final and not (head.epoch == self._epoch and head.is_final)):
                self._write(kind, rows, stretch.until, is_final=is_final)
                has_taken = has_taken or bool(rows)
        return has_taken

    def _write(self, kind: str, rows: list[Row], until: int, *, is_final: bool) -> None:
        head = self._heads[kind]
        seq = head.next_seq if head.epoch == self._epoch else 0
        added = self._segment.totals(kind, rows)
        lifetime = {name: count + head.lifetime.get(name, 0) for name, count in added.items()}
        digest = self._segment.write(
            self._root,
            Place(Stream(kind, self._node, self._epoch), seq),
            rows,
            previous=head.digest,
            until=max(until, head.until),
            lifetime=lifetime,
            is_final=is_final,
        )
        self._heads[kind] = _Head(
            self._epoch, seq + 1, digest, until=max(until, head.until), lifetime=lifetime, is_final=is_final
        )


class _Head:
    """The newest segment of a kind, and what the next one follows from it."""

    __slots__ = ("digest", "epoch", "is_final", "lifetime", "next_seq", "until")

    def __init__(
        self, epoch: int, next_seq: int, digest: str, *, until: int, lifetime: dict[str, int], is_final: bool
    ) -> None:
        self.epoch = epoch
        self.next_seq = next_seq
        self.digest = digest
        self.until = until
        self.lifetime = lifetime
        self.is_final = is_final


class Kept:
    """A journal of complete stretches for each epoch, one frame each. `holdfast usage convert` makes segments of it."""

    def __init__(self, root: Path, node: str) -> None:
        self._folder = journal.folder_of(root, node)
        self._epoch = 0
        self._until = 0
        self._writer: Writer | None = None

    def begin(self, epoch: int) -> None:
        self._epoch = epoch

    def until(self) -> int:
        return self._until

    def take(self, stretch: Stretch, *, is_final: bool = False) -> bool:
        is_due = is_heartbeat_due(self._until, stretch.until) or is_final
        if self._until > stretch.start or (stretch.is_empty and not is_due):
            return False
        if self._writer is None:
            self._writer = Writer(self._folder, Name(self._epoch, journal.KEPT), stretch.start, stretch.batch())
        else:
            self._writer.append(stretch.batch())
            self._writer.sync()
        self._until = stretch.until
        return True
