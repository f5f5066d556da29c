"""What the first start makes in a data folder, and every later one finds there: a lock, keys, an account."""

import os
import secrets
from pathlib import Path

from holdfast.backend.ownership import DataFolderError, lock_folder
from holdfast.cli import folder, rotation
from holdfast.core.coordination.identity import ROOT
from holdfast.metadata import old_formats
from holdfast.metadata.identities import Credentials, Identities
from holdfast.metadata.service import Metadata
from holdfast.runtime.crypto import KeyFileError, MasterKey, ReceiptKey, create_key, read_key, sync_folder
from holdfast.runtime.logs import log
from holdfast.stores.sqlite import SqliteStore

_KEY_ID, _SECRET = "HOLDFAST_ACCESS_KEY_ID", "HOLDFAST_SECRET_ACCESS_KEY"
SECRETS = (_SECRET,)  # variables whose values are never shown


class StartError(Exception):
    """Why Holdfast does not start, and what to do."""


class Stores:
    """All that is open in a data folder beside the shards. No repr: it holds secrets."""

    def __init__(self, data: Path, *, account: str, is_locked: bool = False) -> None:
        """`is_locked`: by the parent of this process."""
        self._lock = -1 if is_locked else _lock(data)
        self.data = data
        if rotation.is_under_way(data):
            rotation.finish(data)
            log.info("an interrupted rotation of master.key was finished")
        self.metrics_token = _metrics_token(data)  # made before there are workers, who would all make one
        self.master = MasterKey(_key(data, folder.MASTER_KEY))
        self.receipt_key = ReceiptKey(_key(data, "receipt.key"))
        self._stores = [SqliteStore(data / folder.METADATA) for _ in range(2)]
        old_formats.prepare(self._stores[0], data)
        self.metadata, self.written = map(Metadata, self._stores)  # for the loop, and for the thread that waits
        self.identities, self.uses = (Identities(each, self.master) for each in (self.metadata, self.written))
        self.identities.claim()
        _make_account(self.identities, account)

    def close(self) -> None:
        self.close_databases()
        if self._lock >= 0:
            os.close(self._lock)

    def close_databases(self) -> None:
        for store in self._stores:
            store.close()


def _lock(data: Path) -> int:
    """Makes the folder. Answers the descriptor that holds the lock."""
    try:
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        sync_folder(data.parent)
        return lock_folder(data)
    except OSError as problem:
        raise DataFolderError(
            f"{data} cannot be used: {problem.strerror}. Choose another folder with --data."
        ) from None


def _key(data: Path, name: str) -> bytes:
    """Made at the first start. Later a missing master key is not replaced: old messages would be unreadable."""
    path = data / name
    if not path.exists():
        if name == folder.MASTER_KEY and (data / "shards").exists():
            raise KeyFileError(f"{path} is missing beside data that was written with it. Put it back.")
        create_key(path)
    return read_key(path)


def _metrics_token(data: Path) -> str:
    """What a scraper shows to read metrics, since it cannot sign requests. Made when it is missing; remove it to get
    another. An empty one, which anybody could show, counts as missing."""
    path = data / "metrics.token"
    if path.exists() and (token := path.read_text(encoding="ascii").strip()):
        return token
    token, temporary = secrets.token_urlsafe(32), path.with_suffix(".tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.write(descriptor, token.encode() + b"\n")
    os.close(descriptor)
    os.rename(temporary, path)
    return token


def _make_account(identities: Identities, account: str) -> None:
    """The account and its root key, if it has none: given by the environment, else made at random."""
    if any(each.account == account for each in identities.all_keys()):
        return
    identities.add_account(account)
    key_id, secret = _from_environment(_KEY_ID), _from_environment(_SECRET)
    if bool(key_id) != bool(secret):
        raise StartError(f"set both {_KEY_ID} and {_SECRET} (or ..._FILE), or none.")
    credentials = Credentials.checked(key_id, secret) if key_id else None
    identities.add_key(identities.user(account, ROOT), credentials)


def _from_environment(name: str) -> str:
    """A variable, or the content of the file that NAME_FILE names."""
    file = os.environ.get(name + "_FILE")
    if not file:
        return os.environ.get(name, "")
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise StartError(f"{name}_FILE names {file}, which cannot be read.") from None
