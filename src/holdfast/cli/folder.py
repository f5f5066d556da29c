"""The data folder as commands see it that work on a server's keys and users, whether it runs or not."""

import contextlib
import os
import pwd
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from holdfast.runtime.crypto import KeyFileError, MasterKey, read_key
from holdfast.stores.identities import Identities, IdentityError

DEFAULT = Path("data")
ENDPOINT = "endpoint"  # written by a server that is ready: where it can be reached from this machine
IDENTITIES = "identities.db"
MASTER_KEY = "master.key"

Data = Annotated[Path, typer.Option("--data", help="The server's data folder.")]


@contextlib.contextmanager
def identities(data: Path) -> Iterator[Identities]:
    """Refuses a folder of somebody else: who may read secrets is decided by the operating system."""
    path, master = data / IDENTITIES, data / MASTER_KEY
    try:
        owner = data.stat().st_uid
        is_there = path.exists() and master.exists()
    except OSError:
        raise IdentityError(_no_data(data)) from None
    if owner != os.geteuid():
        raise IdentityError(f"{data} belongs to {_name(owner)}. Run this command as {_name(owner)}.")
    if not is_there:
        raise IdentityError(_no_data(data))
    store = Identities(path, MasterKey(read_key(master)))
    try:
        yield store
    finally:
        store.close()


def _no_data(data: Path) -> str:
    return (
        f"{data} is no data folder of Holdfast. Name the server's folder with --data, or start a server first: "
        f"holdfast serve --data {data}"
    )


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Problems become one line that names the fix."""
    try:
        yield
    except (IdentityError, KeyFileError) as problem:
        typer.echo(f"holdfast: {problem}", err=True)
        raise typer.Exit(2) from None
