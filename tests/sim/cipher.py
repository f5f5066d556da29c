"""A cheap cipher for simulated disks, and the book of every (key, nonce) that was ever used to seal (I20).

Not a cipher for anything else: a keyed BLAKE2b makes a short stream that is repeated over the content, and the MAC.
"""

from hashlib import blake2b
from typing import Final

from holdfast.core.errors import CorruptLog
from holdfast.core.queue.cipher import Places, open_each, seal_each

KEY_BYTES: Final = 16
_MAC: Final = 16
_STREAM: Final = 64


class SealBook:
    """`seals` counts; a pair that comes twice is kept in `repeated`."""

    def __init__(self) -> None:
        self.seals = 0
        self.repeated: list[tuple[bytes, int, int]] = []
        self._seen: set[tuple[bytes, int, int]] = set()

    def add(self, key: bytes, epoch: int, lsn: int) -> None:
        self.seals += 1
        pair = (key, epoch, lsn)
        if pair in self._seen:
            self.repeated.append(pair)
        self._seen.add(pair)


class SimCipher:
    def __init__(self, key: bytes, book: SealBook) -> None:
        self._key = key
        self._book = book

    def seal(self, epoch: int, lsn: int, content: bytes, clear: bytes) -> bytes:
        self._book.add(self._key, epoch, lsn)
        hidden = self._mix(epoch, lsn, content)
        return hidden + self._mac(epoch, lsn, hidden, clear)

    def seal_all(self, epoch: int, first: int, contents: list[bytes], clears: bytes) -> bytes:
        return seal_each(self.seal, epoch, first, contents, clears)

    def open(self, epoch: int, lsn: int, sealed: bytes, clear: bytes) -> bytes:
        hidden = sealed[:-_MAC]
        if sealed[-_MAC:] != self._mac(epoch, lsn, hidden, clear):
            raise ValueError(f"record {lsn} of epoch {epoch} is not what was sealed")
        return self._mix(epoch, lsn, hidden)

    def open_all(self, epoch: int, places: Places, data: bytes, base: int, width: int) -> list[bytes]:
        return open_each(self, epoch, places, data=data, base=base, width=width)

    def _mix(self, epoch: int, lsn: int, data: bytes) -> bytes:
        nonce = epoch.to_bytes(4) + lsn.to_bytes(8)
        stream = blake2b(nonce, key=self._key, digest_size=_STREAM).digest() * (len(data) // _STREAM + 1)
        mixed = int.from_bytes(data) ^ int.from_bytes(stream[: len(data)])
        return mixed.to_bytes(len(data))

    def _mac(self, epoch: int, lsn: int, hidden: bytes, clear: bytes) -> bytes:
        mac = blake2b(clear, key=self._key, digest_size=_MAC)
        mac.update(epoch.to_bytes(4) + lsn.to_bytes(8))
        mac.update(hidden)
        return mac.digest()


def wrap(key: bytes) -> bytes:
    """As it stands in a key file, as long as AES key wrap makes it: damage is noticed."""
    return key + blake2b(key, digest_size=40 - KEY_BYTES).digest()


def unwrap(data: bytes, path: str) -> bytes:
    key = data[:KEY_BYTES]
    if wrap(key) != data:
        raise CorruptLog(f"{path}: this is no wrapped key")
    return key
