"""fdatasync that nobody waits for: the kernel does it aside, and a descriptor becomes readable when one is done.

This is Linux's own asynchronous I/O (io_submit, IOCB_CMD_FDSYNC), called through ctypes: Python has no name for it. It
means what fdatasync means, errors included. Why it is worth it: docs/decisions/0025. Where the package was compiled,
the two calls that every frame makes are in C (_aio.c).

    begin(descriptor, token) ──▶ kernel ──▶ .descriptor is readable ──▶ ended() answers (token, errno) of those done
"""

import contextlib
import ctypes
import os
import platform
import sys
from types import ModuleType
from typing import Final

UNDER_WAY_MAX: Final = 64  # syncs at a time: one per shard
# io_setup, io_destroy, io_submit, io_getevents, by machine
_CALLS: Final = {"x86_64": (206, 207, 209, 208), "aarch64": (0, 1, 2, 4)}
_FDSYNC: Final = 3
_TELL: Final = 1  # by an eventfd
_HEAD, _TAIL, _MAGIC = 2, 3, 4  # numbers in the ring of what has ended, which the kernel shows to the process,
_IS_RING: Final = 0xA10A10A1  # and the last one of them


def _find_direct() -> ModuleType | None:
    try:
        from holdfast.runtime import _aio  # noqa: PLC0415 - where it was compiled
    except ImportError:
        return None
    return _aio


_DIRECT: Final = _find_direct()


class _Request(ctypes.Structure):
    """struct iocb, on a little-endian machine."""

    _fields_ = (
        ("token", ctypes.c_uint64),
        ("key", ctypes.c_uint32),
        ("flags_of_read_or_write", ctypes.c_uint32),
        ("operation", ctypes.c_uint16),
        ("priority", ctypes.c_int16),
        ("descriptor", ctypes.c_uint32),
        ("buffer", ctypes.c_uint64),
        ("length", ctypes.c_uint64),
        ("offset", ctypes.c_int64),
        ("reserved", ctypes.c_uint64),
        ("flags", ctypes.c_uint32),
        ("told_by", ctypes.c_uint32),
    )


class _Event(ctypes.Structure):
    """struct io_event."""

    _fields_ = (
        ("token", ctypes.c_uint64),
        ("request", ctypes.c_uint64),
        ("result", ctypes.c_int64),
        ("result_2", ctypes.c_int64),
    )


class KernelSyncs:
    """Raises OSError where the system has no such thing, or has no more of it. Belongs to one thread."""

    def __init__(self, direct: ModuleType | None = _DIRECT) -> None:
        """`direct`: the module that _aio.c becomes, if it was built."""
        self._direct = direct
        calls = _CALLS.get(platform.machine()) if sys.platform == "linux" else None
        if calls is None:
            raise OSError("asynchronous syncs are known for Linux on x86_64 and aarch64")
        setup, self._destroy, self._submit, self._get_events = calls
        self._context = ctypes.c_ulong(0)
        # Neither call waits, so the interpreter's lock need not be given away for them.
        self._system = ctypes.PyDLL(None, use_errno=True).syscall
        self._system.restype = ctypes.c_long
        self._call(setup, UNDER_WAY_MAX, ctypes.byref(self._context))
        self._ring = (ctypes.c_uint32 * 5).from_address(self._context.value)
        self._can_look = self._ring[_MAGIC] == _IS_RING
        self.descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._request = _Request(operation=_FDSYNC, flags=_TELL, told_by=self.descriptor)
        self._requests = (ctypes.POINTER(_Request) * 1)(ctypes.pointer(self._request))
        self._events = (_Event * UNDER_WAY_MAX)()
        self._at_once = (ctypes.c_long * 2)(0, 0)

    def _call(self, *arguments: object) -> int:
        result: int = self._system(*arguments)
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result

    def begin(self, descriptor: int, token: int) -> None:
        """Everything written to the file so far; `ended` answers the token when it is durable, or is known not to be.
        The descriptor must stay open until then."""
        if self._direct is not None:
            self._direct.begin(self._context.value, descriptor, token, self.descriptor)
            return
        self._request.token = token
        self._request.descriptor = descriptor
        self._call(self._submit, self._context, 1, self._requests)

    def has_ended(self) -> bool:
        """`ended` has something to tell, or may have. Asks nobody: a tenth of a microsecond."""
        return not self._can_look or self._ring[_HEAD] != self._ring[_TAIL]

    def ended(self) -> list[tuple[int, int]]:
        """Tokens and error numbers, 0 for success, of what was done since it was asked last."""
        if self._direct is not None:
            found: list[tuple[int, int]] = self._direct.ended(self._context.value, self.descriptor)
            return found
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.descriptor)
        events = self._events
        count = self._call(self._get_events, self._context, 0, UNDER_WAY_MAX, events, self._at_once)
        return [(events[place].token, -events[place].result) for place in range(count)]

    def close(self) -> None:
        """Waits for those under way."""
        self._call(self._destroy, self._context)
        os.close(self.descriptor)
