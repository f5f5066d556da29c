"""Hands written pages to the disk before a sync asks for them (Linux's sync_file_range; Python has no name for it).

Nothing is durable by it, which only a sync does: but the disk works already, nobody waits for a flush of its cache, and
the sync at the end finds little left to do.
"""

import ctypes
import errno
import os
from collections.abc import Callable
from typing import Final

_WAIT, _BEGIN = 1, 2  # for pages that are under way; with those that are not
_CANNOT: Final = (errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.EOPNOTSUPP)

Call = Callable[[int, int, int, int], int]


def _find() -> Call | None:
    try:
        found = ctypes.CDLL(None, use_errno=True).sync_file_range
    except (AttributeError, OSError, TypeError):  # another system
        return None
    found.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return found


_sync_file_range: Final = _find()


def write_all(descriptor: int, data: bytes, offset: int) -> None:
    """A system may write less than it is asked for."""
    written = os.pwrite(descriptor, data, offset)
    while written < len(data):
        written += os.pwrite(descriptor, memoryview(data)[written:], offset + written)


def begin(descriptor: int, offset: int, length: int) -> bool:
    """These bytes are on their way. False: the system cannot do that."""
    return _ask(descriptor, offset, length, _BEGIN)


def wait(descriptor: int, offset: int, length: int) -> None:
    """Until the disk has them, in its cache perhaps. Raises what the disk says, and nobody is told of that again."""
    _ask(descriptor, offset, length, _WAIT)


def _ask(descriptor: int, offset: int, length: int, what: int) -> bool:
    if _sync_file_range is None:
        return False
    if _sync_file_range(descriptor, offset, length, what) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number))
