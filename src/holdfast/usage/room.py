"""How much room usage may take where nobody takes it away, and what gives way when there is no more: detail, not money.

    room ──▶ 80 % of it: a warning, each day ──▶ all of it: windows of ten minutes, without principals and error codes,
                                                 and no more rows of queue states, dead letters and actions on messages

Laws
- What an account owes for a queue is written down, whatever room is left. So is who changed what.
- Nothing is dropped before the log has said for how long it will not be; what is dropped is counted.
- Files are never removed here: only the pipeline knows which of them are in its ledger.
"""

import os
import time
from pathlib import Path
from typing import Final

from holdfast.core.usage import Window
from holdfast.runtime.logs import log
from holdfast.usage import schema
from holdfast.usage.rows import Batch, Row

MEASURE_S: Final = 3600.0  # between two looks at all files: 5 µs each
WARN_S: Final = 86_400.0
WARN_SHARE: Final = 0.8
COARSE_US: Final = 600_000_000  # windows when the room is used up: a sixtieth of the files
_PLANE: Final = schema.names(schema.AUDIT).index("plane")
_FIX: Final = "run `holdfast pipeline once` and `holdfast pipeline prune`, or raise [usage] room_mib, or turn usage off"


class Room:
    """Belongs to the thread that writes."""

    def __init__(self, root: Path, bytes_max: int) -> None:
        self._root = root
        self._bytes_max = bytes_max  # 0: no limit
        self._measured_s: float | None = None
        self._warned_s: float | None = None
        self.is_full = False

    def look(self) -> None:
        """Now and then: reads the sizes of all files."""
        now_s = time.monotonic()
        if not self._bytes_max or (self._measured_s is not None and now_s - self._measured_s < MEASURE_S):
            return
        self._measured_s = now_s
        taken = _size(self._root)
        was_full, self.is_full = self.is_full, taken >= self._bytes_max
        if self.is_full and not was_full:
            log.error(
                "the room for usage is used up: it is written with less detail, and rows about messages are dropped",
                **self._told(taken),
            )
        elif was_full and not self.is_full:
            log.info("usage is written in full again", **self._told(taken))
        elif taken >= WARN_SHARE * self._bytes_max and self._is_due(now_s):
            self._warned_s = now_s
            log.warning("usage has taken most of its room, and will soon lose detail", **self._told(taken))

    def _is_due(self, now_s: float) -> bool:
        return self._warned_s is None or now_s - self._warned_s >= WARN_S

    def _told(self, taken: int) -> dict[str, str]:
        return {
            "folder": str(self._root),
            "taken_mib": str(taken >> 20),
            "room_mib": str(self._bytes_max >> 20),
            "fix": _FIX,
        }


def coarse(batch: Batch) -> tuple[Batch, int]:
    """What of a batch is kept when the room is used up, and how many rows are not."""
    window = Window()
    window.add((key._replace(principal="", error_code=""), cell) for key, cell in batch.counted)
    kept = [row for row in batch.noted.get(schema.AUDIT, ()) if not _is_data(row)]
    dropped = sum(map(len, batch.noted.values())) - len(kept)
    return Batch(batch.since, batch.until, list(window), {schema.AUDIT: kept} if kept else {}), dropped


def _is_data(row: Row) -> bool:
    return bool(row[_PLANE] == "data")


def _size(folder: Path) -> int:
    """Of all files below; those that vanish meanwhile count nothing."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(place, name)).st_size
            except FileNotFoundError:
                continue
    return total
