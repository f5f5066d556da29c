"""Another master key for a data folder, while no server runs in it.

    everything opens with master.key? ─▶ master.key.next ─▶ key files of all shards ─▶ secrets ─▶ renamed to master.key

Laws
- Every step is durable before the next begins. Until the last one both keys are there, and each thing is under one of
  them; so whoever finds master.key.next, a start or this command, finishes the work from the beginning.
- Nothing is changed before everything has been opened once.
- A secret cannot be sealed under the old key meanwhile: the store has the fingerprint of the key that counts, and
  whoever adds a secret checks it.
"""

import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec

from holdfast.backend.disk import Disk
from holdfast.cli import folder
from holdfast.core.log.rewrap import rewrap_keys
from holdfast.metadata.identities import Identities
from holdfast.metadata.old_formats import IDENTITIES, IMPORTED
from holdfast.metadata.service import Metadata
from holdfast.runtime.crypto import KeyFileError, MasterKey, create_key, read_key, sync_folder
from holdfast.stores.sqlite import SqliteStore


class Rotated(msgspec.Struct, frozen=True):
    segments: int
    secrets: int


def is_under_way(data: Path) -> bool:
    return (data / folder.NEXT_MASTER_KEY).exists()


def rotate(data: Path) -> Rotated:
    """The folder is locked, and has metadata. Finishes what was interrupted, else begins anew."""
    if not is_under_way(data):
        old = MasterKey(read_key(data / folder.MASTER_KEY))
        _rewrap_shards(data, old, old)  # opens them all, and changes nothing
        with _identities(data, old) as identities:
            identities.claim()
            identities.open_all()
        create_key(data / folder.NEXT_MASTER_KEY)
    return finish(data)


def finish(data: Path) -> Rotated:
    """From master.key.next on. The folder is locked."""
    old, new = (MasterKey(read_key(data / name)) for name in (folder.MASTER_KEY, folder.NEXT_MASTER_KEY))
    segments = _rewrap_shards(data, old, new)
    with _identities(data, new) as identities:
        secrets = identities.reseal(old)
    (data / (IDENTITIES + IMPORTED)).unlink(missing_ok=True)  # its secrets are under the old key
    (data / folder.NEXT_MASTER_KEY).rename(data / folder.MASTER_KEY)
    sync_folder(data)
    return Rotated(segments, secrets)


def _rewrap_shards(data: Path, old: MasterKey, new: MasterKey) -> int:
    shards = data / "shards"
    count = 0
    for root in sorted(shards.iterdir()) if shards.exists() else ():
        disk = Disk(root)
        try:
            count += disk.run(rewrap_keys(partial(_rewrap, root, old=old, new=new)))
        finally:
            disk.close()
    return count


def _rewrap(root: Path, path: str, wrapped: bytes, *, old: MasterKey, new: MasterKey) -> bytes:
    try:
        return new.rewrap(wrapped, old=old)
    except KeyFileError as problem:
        raise KeyFileError(f"{root / path}: {problem}") from None


@contextlib.contextmanager
def _identities(data: Path, master: MasterKey) -> Iterator[Identities]:
    store = SqliteStore(data / folder.METADATA)
    try:
        yield Identities(Metadata(store), master)
        store.forget_history()  # has secrets that were sealed before
    finally:
        store.close()
