"""The data folder as commands see it that work on a server's keys and users, whether it runs or not."""

import contextlib
import os
import pwd
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from holdfast.metadata.identities import Identities, IdentityError
from holdfast.metadata.service import Metadata, MetadataError, check_format
from holdfast.runtime.crypto import KeyFileError, MasterKey, read_key
from holdfast.stores.sqlite import SqliteStore, StoreError

DEFAULT = Path("data")
SERVER = "server.json"  # written by a server that is ready
METADATA = "metadata.db"
MASTER_KEY = "master.key"
NEXT_MASTER_KEY = "master.key.next"  # while the master key is being changed
PROBLEMS = (IdentityError, KeyFileError, MetadataError, StoreError)  # each says what to do

Data = Annotated[Path, typer.Option("--data", envvar="HOLDFAST__SERVER__DATA", help="The server's data folder.")]


class Described(msgspec.Struct, frozen=True):
    """What commands need to know of the server that last ran in a folder."""

    endpoint: str = "http://127.0.0.1:9324"  # as it can be reached from this machine
    account: str = "000000000000"
    region: str = "us-east-1"
    admin: str = "http://127.0.0.1:9325"
    authority: str = ""  # a file with the CA that clients should trust; empty: one that they know


def describe(data: Path, server: Described) -> None:
    write_whole(data / SERVER, msgspec.json.encode(server).decode())


def described(data: Path) -> Described:
    """The usual, where no server has run yet."""
    try:
        return msgspec.json.decode((data / SERVER).read_bytes(), type=Described)
    except (FileNotFoundError, msgspec.DecodeError):
        return Described()


def write_whole(path: Path, text: str) -> None:
    """Whoever reads it sees all of it, or what was there before."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text + "\n", encoding="utf-8")
    temporary.rename(path)


@contextlib.contextmanager
def identities(data: Path) -> Iterator[Identities]:
    check(data)
    path = data / METADATA
    if (data / NEXT_MASTER_KEY).exists():
        raise IdentityError(
            f"the master key of {data} is being changed, or that was interrupted. Finish it: holdfast key rotate-master"
        )
    store = SqliteStore(path)
    try:
        if not check_format(store, where=path):
            raise IdentityError(_no_data(data))
        yield Identities(Metadata(store), MasterKey(read_key(data / MASTER_KEY)))
    finally:
        store.close()


def check(data: Path) -> None:
    """Refuses a folder of somebody else: who may read secrets is decided by the operating system."""
    path, master = data / METADATA, data / MASTER_KEY
    try:
        owner = data.stat().st_uid
        is_there = path.exists() and master.exists()
    except OSError:
        raise IdentityError(_no_data(data)) from None
    if owner != os.geteuid():
        raise IdentityError(f"{data} belongs to {_name(owner)}. Run this command as {_name(owner)}.")
    if not is_there:
        raise IdentityError(_no_data(data))


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
    except PROBLEMS as problem:
        typer.echo(f"holdfast: {problem}", err=True)
        raise typer.Exit(2) from None
