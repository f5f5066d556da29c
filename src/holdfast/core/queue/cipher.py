"""What seals the contents of messages. The core says what and for which place, the shell how (runtime/crypto.py)."""

from collections.abc import Callable
from struct import Struct
from typing import Final, Protocol

_length: Final = Struct("<I").pack


Places = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]  # of records in a file: lsns, offsets, lengths


class Cipher(Protocol):
    """Seals the contents of records under one segment's data key."""

    def seal_all(self, epoch: int, first: int, contents: list[bytes], clears: bytes) -> bytes:
        """Of records that follow each other, with clear parts of one length. Answers them as they stand in the log:
        length of the rest | clear part | sealed content. What is clear is authenticated with it."""
        ...

    def open(self, epoch: int, lsn: int, sealed: bytes, clear: bytes) -> bytes:
        """Raises ValueError when the bytes are not what was sealed."""
        ...

    def open_all(self, epoch: int, places: Places, data: bytes, base: int, width: int) -> list[bytes]:
        """Contents of records of one file, whose bytes from `base` on are `data`, with clear parts of one width. Ends
        before the first that is not what was sealed."""
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


def open_each(cipher: Cipher, epoch: int, places: Places, *, data: bytes, base: int, width: int) -> list[bytes]:
    """`Cipher.open_all` for ciphers that have only `open`."""
    contents: list[bytes] = []
    for lsn, offset, length in zip(*places, strict=True):
        start = offset - base
        if start < 0 or start + length > len(data) or length < width:
            break
        try:
            contents.append(cipher.open(epoch, lsn, data[start + width : start + length], data[start : start + width]))
        except ValueError:
            break
    return contents
