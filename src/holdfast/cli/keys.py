"""`holdfast key`: access keys, and the master key under which all others are. A running server notices changes of
access keys within a second.
"""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.backend.ownership import DataFolderError, lock_folder
from holdfast.cli import folder, rotation
from holdfast.core.coordination.identity import DAY_S, ROOT, Key
from holdfast.metadata.identities import Credentials
from holdfast.runtime.crypto import KeyFileError

app = typer.Typer(no_args_is_help=True, help="Access keys: make, list, disable and rotate them; rotate the master key.")

Account = Annotated[str | None, typer.Option(help="The account, 12 digits; else that of the server.")]
AsJson = Annotated[bool, typer.Option("--json", help="As JSON.")]
KeyId = Annotated[str, typer.Argument(metavar="ACCESS_KEY_ID", help="As `holdfast key ls` shows it.")]


@app.command()
def create(
    *,
    data: folder.Data = folder.DEFAULT,
    user: Annotated[str, typer.Option(help="Whose key; root is the account itself.")] = ROOT,
    account: Account = None,
    as_json: AsJson = False,
) -> None:
    """Make a key for a user, and print it with its secret.

    Example: holdfast key create --user worker
    """
    with folder.explained(), folder.identities(data) as store:
        show_new(store.add_key(store.user(account or folder.described(data).account, user)), as_json=as_json)


@app.command()
def ls(*, data: folder.Data = folder.DEFAULT, as_json: AsJson = False) -> None:
    """List keys, without their secrets.

    Example: holdfast key ls
    """
    with folder.explained(), folder.identities(data) as store:
        used = store.used_days()
        rows = [_row(each, used.get(each.id)) for each in store.all_keys()]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        last = f"last used {row['last_used']}" if row["last_used"] else "never used"
        print(f"{row['id']}  {row['account']}  {row['user']}  {row['state']}  created {row['created']}  {last}")


@app.command()
def disable(key_id: KeyId, *, data: folder.Data = folder.DEFAULT, as_json: AsJson = False) -> None:
    """Refuse whatever is signed with a key from now on.

    Example: holdfast key disable AKIAEXAMPLEEXAMPLE22
    """
    with folder.explained(), folder.identities(data) as store:
        store.disable_key(key_id)
    if as_json:
        print(json.dumps({"id": key_id, "state": "disabled"}, indent=2))
    else:
        print(f"{key_id} is disabled; a running server refuses it within a second.")


@app.command()
def rotate(
    key_id: KeyId,
    *,
    data: folder.Data = folder.DEFAULT,
    keep_old: Annotated[
        bool, typer.Option("--keep-old", help="Leave the old key active until you disable it yourself.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make a new key for the same user, and disable the old one.

    Example: holdfast key rotate AKIAEXAMPLEEXAMPLE22 --keep-old
    """
    with folder.explained(), folder.identities(data) as store:
        old = store.key(key_id)
        made = store.add_key(store.user(old.account, old.user))
        if not keep_old:
            store.disable_key(key_id)
    show_new(made, as_json=as_json)


@app.command("rotate-master")
def rotate_master(*, data: folder.Data = folder.DEFAULT, as_json: AsJson = False) -> None:
    """Replace master.key, which everything in the folder is encrypted under. The server has to be stopped.

    Messages are not written again: the keys of their segments are, and so are the secrets of access keys. If it is
    interrupted, this command or the next start finishes it.

    Example: holdfast key rotate-master
    """
    with folder.explained():
        folder.check(data)
        lock = _lock(data)
        try:
            done = rotation.rotate(data)
        finally:
            os.close(lock)
    if as_json:
        print(json.dumps({"segments": done.segments, "secrets": done.secrets}))
        return
    print(f"{data / folder.MASTER_KEY} is new. Under it now: segments {done.segments}, secrets {done.secrets}.")
    print("Backups that were made before still need the key that was there then.")


def _lock(data: Path) -> int:
    try:
        return lock_folder(data)
    except DataFolderError:
        raise KeyFileError(f"a server runs in {data}. Stop it, rotate, and start it again.") from None


def show_new(made: Credentials, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"AccessKeyId": made.id, "SecretAccessKey": made.secret}))
    else:
        print(f"access key  {made.id}\nsecret      {made.secret}")


def _row(key: Key, used_day: int | None) -> dict[str, Any]:
    return {
        "id": key.id,
        "account": key.account,
        "user": key.user,
        "state": "active" if key.is_active else "disabled",
        "created": _day(key.created // 1000),
        "last_used": _day(used_day * DAY_S) if used_day else None,
    }


def _day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()
