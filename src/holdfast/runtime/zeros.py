"""Fills a file with zeros beside others who want the same processor.

Whoever gives the processor away for a moment, as a busy loop does for its syncs (docs/decisions/0032), gets it back
when the other one rests, or at the scheduler's next tick: up to 4 ms later. So this rests often, not only when there
is time. Where memory has to be got first, as on a virtual machine that gave it back, a megabyte takes the kernel 2 to
3 ms. Where the package was compiled, all of it is in C (_zeros.c), which asks for the interpreter's lock once a step,
instead of four times a piece.
"""

import os
import time
from types import ModuleType
from typing import Final, NamedTuple

from holdfast.runtime import writeback
from holdfast.runtime.writeback import write_all

WRITE_BYTES_MIN: Final = 16_384  # then it looks how long it has worked; of less the kernel makes smaller parts, which
WRITE_BYTES_MAX: Final = 65_536  # cost more, so it is as much as does not take half of the time
AHEAD_BYTES: Final = 1_048_576  # are under way: the log's own syncs do not queue behind all of the file

_ZEROS: Final = bytes(WRITE_BYTES_MAX)
_fdatasync: Final = getattr(os, "fdatasync", os.fsync)


class Pace(NamedTuple):
    work_s: float  # of the processor in a row; then, and at the end of a step,
    rest_s: float  # others have it. 0: no rests
    piece_bytes: int  # handed to the disk together, which costs about as much for few bytes as for many
    step_bytes: int  # until the pace may change


AT_ONCE: Final = Pace(1.0, 0.0, AHEAD_BYTES, AHEAD_BYTES)


def _find_direct() -> ModuleType | None:
    try:
        from holdfast.runtime import _zeros  # noqa: PLC0415 - where it was compiled
    except ImportError:
        return None
    return _zeros


_DIRECT: Final = _find_direct()


def fill(descriptor: int, offset: int, length: int, pace: Pace, *, direct: ModuleType | None = _DIRECT) -> None:
    """A step, in the order of the file. Not durable: a sync has to follow. `direct`: the module that _zeros.c becomes,
    if it was built."""
    if direct is not None:
        direct.fill(descriptor, offset, length, int(pace.work_s * 1e9), int(pace.rest_s * 1e9), pace.piece_bytes)
        return
    end, handed, size = offset + length, offset, WRITE_BYTES_MIN
    began = now = time.thread_time()
    while offset < end:
        count = min(size, end - offset)
        write_all(descriptor, _ZEROS[:count], offset)
        offset += count
        if offset - handed >= pace.piece_bytes or offset == end:
            _hand_over(descriptor, handed, offset - handed)
            handed = offset
        before, now = now, time.thread_time()
        if (now - before) * 4 < pace.work_s:
            size = min(size * 2, WRITE_BYTES_MAX)
        elif (now - before) * 2 > pace.work_s:
            size = max(size // 2, WRITE_BYTES_MIN)
        if pace.rest_s and (offset == end or now - began >= pace.work_s):
            time.sleep(pace.rest_s)
            began = now = time.thread_time()


def _hand_over(descriptor: int, offset: int, count: int) -> None:
    """Bytes that were just written: so that the disk never has much to do at once, and no sync but the last one has to
    wait for it, where the system can do that."""
    if writeback.begin(descriptor, offset, count):
        if offset + count > AHEAD_BYTES:
            until = offset + count - AHEAD_BYTES
            writeback.wait(descriptor, max(0, until - count), min(until, count))
    elif offset // AHEAD_BYTES != (offset + count) // AHEAD_BYTES:
        _fdatasync(descriptor)
