"""What seals the contents of messages. The core says what and for which place, the shell how (runtime/crypto.py)."""

from collections.abc import Callable
from struct import Struct
from typing import Final, Protocol

_length: Final = Struct("<I").pack


class Cipher(Protocol):
    """Seals the contents of records under one segment's data key."""

    def seal_all(self, epoch: int, first: int, contents: list[bytes], clears: bytes) -> bytes:
        """Of records that follow each other, with clear parts of one length. Answers them as they stand in the log:
        length of the rest | clear part | sealed content. What is clear is authenticated with it."""
        ...

    def open(self, epoch: int, lsn: int, sealed: bytes, clear: bytes) -> bytes:
        """Raises ValueError when the bytes are not what was sealed."""
        ...


def seal_each(
    seal: Callable[[int, int, bytes, bytes], bytes], epoch: int, first: int, contents: list[bytes], clears: bytes
) -> bytes:
    """`Cipher.seal_all` for ciphers that can `seal` one content: epoch, lsn, content, clear part."""
    width, lsn, at = len(clears) // len(contents), first, 0
    records: list[bytes] = []
    for content in contents:
        clear = clears[at : at + width]
        sealed = seal(epoch, lsn, content, clear)
        records += (_length(width + len(sealed)), clear, sealed)
        lsn += 1
        at += width
    return b"".join(records)
