"""Keys and ciphers. Everything in a segment's messages is sealed with AES-256-GCM.

    DIR/master.key ──wraps──▶ shards/N/keys/STEM.key: one random data key per segment ──seals──▶ records
                └─derives─▶ one key for secrets ──seals──▶ secret access keys in metadata.db
    DIR/receipt.key ──authenticates──▶ receipt handles

A key file is `magic 8 bytes | 32 bytes of key`. A wrapped key is AES key wrap (RFC 3394), 40 bytes, so a wrong master
key is noticed at once. The nonce of a record is epoch(32) ‖ lsn(64); with one key per segment and one epoch per start
it never comes twice. A sealed secret is `nonce 12 bytes, random | secret | tag 16`, bound to the id of its access key.

The MAC of a receipt handle is AES-256-CBC-MAC of exactly two blocks, which is safe because no other length is ever
authenticated with its key. Unlike a keyed hash it is made for all handles of a batch in two calls.
"""

import os
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap, aes_key_wrap

from holdfast.core.queue.cipher import Places, open_each, seal_each
from holdfast.runtime.failpoint import failpoint

if TYPE_CHECKING:
    from holdfast.runtime._aes import Gcm, Macs

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
BLOCK: Final = 16
MAC_BYTES: Final = 12  # of a block, in a receipt handle
FINGERPRINT_BYTES: Final = 16
MAGIC: Final = b"HFKEY\0\0\1"
_nonce: Final = struct.Struct(">IQ").pack


class KeyFileError(Exception):
    """A key file cannot be used; says what to do."""


def _find_direct() -> "tuple[Callable[[bytes], Gcm], Callable[[bytes], Macs]] | tuple[None, None]":
    try:
        from holdfast.runtime._aes import Gcm, Macs  # noqa: PLC0415 - where it was compiled, and OpenSSL is there
    except ImportError:
        return None, None
    return Gcm, Macs


_new_gcm, _new_macs = _find_direct()


class SegmentCipher:
    """Seals and opens the messages of one segment."""

    __slots__ = ("_cipher", "_gcm")

    def __init__(self, key: bytes) -> None:
        self._gcm = _new_gcm(key) if _new_gcm is not None else None
        self._cipher = AESGCM(key) if self._gcm is None else None

    def _seal(self, epoch: int, lsn: int, content: bytes, clear: bytes) -> bytes:
        assert self._cipher is not None
        return self._cipher.encrypt(_nonce(epoch, lsn), content, clear)

    def seal_all(self, epoch: int, first: int, contents: list[bytes], clears: bytes) -> bytes:
        if self._gcm is not None:
            return self._gcm.seal_all(epoch, first, contents, clears)
        return seal_each(self._seal, epoch, first, contents, clears)

    def open(self, epoch: int, lsn: int, sealed: bytes, clear: bytes) -> bytes:
        content: bytes | None = None
        if self._gcm is not None:
            content = self._gcm.open(epoch, lsn, sealed, clear)
        elif self._cipher is not None:
            with suppress(InvalidTag):
                content = self._cipher.decrypt(_nonce(epoch, lsn), sealed, clear)
        if content is None:
            raise ValueError(f"record {lsn} of epoch {epoch} is not what was sealed")
        return content

    def open_all(self, epoch: int, places: Places, data: bytes, base: int, width: int) -> list[bytes]:
        if self._gcm is not None:
            lsns, offsets, lengths = places
            return self._gcm.open_all(epoch, lsns, offsets, lengths, data, base, width)
        return open_each(self, epoch, places, data=data, base=base, width=width)


class ReceiptKey:
    """Authenticates receipt handles."""

    __slots__ = ("_direct", "_encrypt")

    def __init__(self, key: bytes) -> None:
        derived = HKDFExpand(SHA256(), KEY_BYTES, b"holdfast receipts 2").derive(key)
        self._direct = _new_macs(derived) if _new_macs is not None else None
        self._encrypt = Cipher(algorithms.AES(derived), modes.ECB()).encryptor().update

    def with_macs(self, rows: bytes, width: int, at: int, start: int) -> bytes:
        """Each row of so many bytes from `start` to the end of the two blocks in it that begin at `at`, and then 12
        bytes: the MAC of these blocks."""
        if self._direct is not None:
            return self._direct.with_macs(rows, width, at, start)
        firsts = b"".join([rows[place : place + BLOCK] for place in range(at, len(rows), width)])
        seconds = b"".join([rows[place : place + BLOCK] for place in range(at + BLOCK, len(rows), width)])
        chained = int.from_bytes(self._encrypt(firsts)) ^ int.from_bytes(seconds)
        macs, end = self._encrypt(chained.to_bytes(len(firsts))), at + 2 * BLOCK
        parts: list[bytes] = []
        for row in range(len(rows) // width):
            parts += rows[row * width + start : row * width + end], macs[row * BLOCK : row * BLOCK + MAC_BYTES]
        return b"".join(parts)


class MasterKey:
    """Wraps the data keys of segments, and seals secrets."""

    __slots__ = ("_key", "_secrets")

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._secrets = AESGCM(HKDFExpand(SHA256(), KEY_BYTES, b"holdfast secrets 1").derive(key))

    def new_cipher(self) -> tuple[SegmentCipher, bytes]:
        """A cipher with a fresh random key, and that key wrapped."""
        key = os.urandom(KEY_BYTES)
        return SegmentCipher(key), aes_key_wrap(self._key, key)

    @property
    def fingerprint(self) -> str:
        """Tells master keys apart, and nothing else about them."""
        return HKDFExpand(SHA256(), FINGERPRINT_BYTES, b"holdfast fingerprint 1").derive(self._key).hex()

    def cipher(self, wrapped: bytes) -> SegmentCipher:
        return SegmentCipher(self._unwrap(wrapped))

    def _unwrap(self, wrapped: bytes) -> bytes:
        try:
            return aes_key_unwrap(self._key, wrapped)
        except (InvalidUnwrap, ValueError):
            raise KeyFileError(
                "a segment's key does not open with master.key. Put the master.key back that this data was "
                "written with; without it the messages cannot be read."
            ) from None

    def rewrap(self, wrapped: bytes, *, old: "MasterKey") -> bytes:
        """A data key that this or the old master key wraps, wrapped by this one."""
        try:
            self._unwrap(wrapped)
        except KeyFileError:
            return aes_key_wrap(self._key, old._unwrap(wrapped))
        return wrapped

    def reseal(self, sealed: bytes, *, key_id: str, old: "MasterKey") -> bytes:
        """A secret that this or the old master key seals, sealed by this one."""
        try:
            self.open_secret(sealed, key_id=key_id)
        except KeyFileError:
            return self.seal_secret(old.open_secret(sealed, key_id=key_id), key_id=key_id)
        return sealed

    def seal_secret(self, secret: str, *, key_id: str) -> bytes:
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._secrets.encrypt(nonce, secret.encode(), key_id.encode())

    def open_secret(self, sealed: bytes, *, key_id: str) -> str:
        try:
            return self._secrets.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], key_id.encode()).decode()
        except InvalidTag:
            raise KeyFileError(
                f"the secret of {key_id} does not open with master.key. Put the master.key back that this data was "
                "written with."
            ) from None


def read_key(path: Path) -> bytes:
    data = path.read_bytes()
    if len(data) != len(MAGIC) + KEY_BYTES or not data.startswith(MAGIC):
        raise KeyFileError(f"{path} is no key file of this version. Restore it from a backup.")
    return data[len(MAGIC) :]


def create_key(path: Path) -> bytes:
    """A new random key, durable before it is used."""
    key = os.urandom(KEY_BYTES)
    temporary = path.with_suffix(".tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(descriptor, MAGIC + key)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    failpoint("key written")
    os.rename(temporary, path)
    failpoint("key renamed")
    sync_folder(path.parent)
    return key


def sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
