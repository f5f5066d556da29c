"""What the first start makes in a data folder, and every later one finds there: a lock, keys, an account."""

import os
from pathlib import Path

import msgspec

from holdfast.backend.host import DataFolderError, lock_folder
from holdfast.cli import folder
from holdfast.core.identity import ROOT
from holdfast.metadata.identities import Credentials, Identities
from holdfast.runtime.crypto import KeyFileError, MasterKey, create_key, read_key, sync_folder

_KEY_ID, _SECRET = "HOLDFAST_ACCESS_KEY_ID", "HOLDFAST_SECRET_ACCESS_KEY"
SECRETS = (_SECRET,)  # variables whose values are never shown


class StartError(Exception):
    """Why Holdfast does not start, and what to do."""


class Keys(msgspec.Struct, frozen=True):
    """No repr of the bytes: they are secrets."""

    master: MasterKey
    receipt: bytes

    def __repr__(self) -> str:
        return "Keys()"


def open_folder(data: Path) -> int:
    """Makes and locks it. Answers the descriptor that holds the lock."""
    try:
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        sync_folder(data.parent)
        return lock_folder(data)
    except OSError as problem:
        raise DataFolderError(
            f"{data} cannot be used: {problem.strerror}. Choose another folder with --data."
        ) from None


def load_keys(data: Path) -> Keys:
    """Made at the first start. Later a missing one is not replaced: it would make the old messages unreadable."""
    master, receipts = data / folder.MASTER_KEY, data / "receipt.key"
    if not master.exists():
        if (data / "shards").exists():
            raise KeyFileError(f"{master} is missing beside data that was written with it. Put it back.")
        create_key(master)
    if not receipts.exists():
        create_key(receipts)
    return Keys(MasterKey(read_key(master)), read_key(receipts))


def first_account(identities: Identities, account: str) -> None:
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
