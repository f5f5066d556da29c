"""SHA-256 of texts that begin alike: what they have in common is hashed once."""

from collections.abc import Callable
from hashlib import sha256
from typing import Final, Protocol


class Begun(Protocol):
    def sum_of(self, rest: bytes) -> bytes:
        """SHA-256 of the start and this."""
        ...

    def hex_of(self, rest: bytes) -> bytes:
        """The same in hexadecimal digits."""
        ...


class PlainBegun:
    """By hashlib."""

    __slots__ = ("_copy",)

    def __init__(self, start: bytes) -> None:
        self._copy: Final = sha256(start).copy

    def sum_of(self, rest: bytes) -> bytes:
        hashed = self._copy()
        hashed.update(rest)
        return hashed.digest()

    def hex_of(self, rest: bytes) -> bytes:
        hashed = self._copy()
        hashed.update(rest)
        return hashed.hexdigest().encode()


def _find_begun() -> Callable[[bytes], Begun]:
    try:
        from holdfast.core.admission._begun import Begun as Direct  # noqa: PLC0415 - where it was compiled
    except ImportError:
        return PlainBegun
    return Direct


begun: Final = _find_begun()
EMPTY: Final = begun(b"")
