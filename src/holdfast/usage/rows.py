"""What goes through the spool: counted cells and rows of note, from the loop to the files.

Batch   of a second or a part of it; the unit of the journal
Stretch of a window, all kinds; the unit of segments
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from holdfast.core import usage
from holdfast.core.usage import Cell, Key, Window
from holdfast.usage import schema

ROWS_MAX = 100_000  # of a kind that wait for a disk (about 50 MiB); beyond that they are dropped, and that is said

Row = Sequence[Any]
NOTED = tuple(kind for kind in schema.KINDS if kind != schema.METER)  # what is not counted but written row by row


class Batch(msgspec.Struct, frozen=True, array_like=True):
    since: int  # µs; what is in it happened from then on
    until: int  # µs: no other batch has anything that happened before then; `since` until a second is complete
    counted: list[tuple[Key, Cell]] = []
    noted: dict[str, list[Row]] = {}  # by kind

    @property
    def is_empty(self) -> bool:
        return not self.counted and not any(self.noted.values())


class Stretch:
    """Batches put together. Grows while the disk is full, within bounds."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.until = start  # as far as it is filled
        self.dropped = 0  # rows that there was no room for
        self._window = Window()
        self._noted: dict[str, list[Row]] = {kind: [] for kind in NOTED}

    @property
    def is_empty(self) -> bool:
        return not len(self._window) and not any(self._noted.values())

    @classmethod
    def of(cls, start: int, batches: Iterable[Batch]) -> "Stretch":
        made = cls(start)
        for each in batches:
            made.add(each)
        return made

    def add(self, batch: Batch) -> None:
        self.until = max(self.until, batch.until)
        self._window.add(batch.counted)
        for kind, rows in batch.noted.items():
            held = self._noted[kind]
            room = ROWS_MAX - len(held)
            held += rows[:room]
            self.dropped += max(0, len(rows) - room)

    def end(self, until: int) -> None:
        """Nothing more comes before then."""
        self.until = max(self.until, until)

    def batch(self) -> Batch:
        """All of it, as one."""
        return Batch(self.start, self.until, list(self._window), {k: v for k, v in self._noted.items() if v})

    def rows(self, kind: str) -> list[Row]:
        """As the schema wants them."""
        if kind != schema.METER:
            return [schema.completed(kind, row) for row in self._noted[kind]]
        length_ms = (self.until - self.start) // 1000
        return [_meter_row(self.start, length_ms, key, cell) for key, cell in self._window]


def _meter_row(start: int, length_ms: int, key: Key, cell: Cell) -> Row:
    return (
        start,
        length_ms,
        key.account,
        key.principal,
        key.queue,
        key.queue_type,
        key.action,
        key.outcome,
        key.error_code,
        *cell[: usage.LATENCY],
        cell[usage.LATENCY :],
    )
