"""`holdfast env`: what a client needs to know, for a shell, a .env file or a program."""

import json
import shlex
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import folder
from holdfast.core.coordination.identity import ROOT
from holdfast.metadata.identities import Credentials, Identities, IdentityError

UNSET = ("AWS_PROFILE", "AWS_SESSION_TOKEN")  # both would win over the keys


def env(
    *,
    data: folder.Data = folder.DEFAULT,
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
    as_dotenv: Annotated[bool, typer.Option("--dotenv", help="As lines for a .env file.")] = False,
) -> None:
    """Print the settings that make AWS tools talk to this server as its root.

    Only the OS user who owns the data folder can read them. In a shell:

        eval "$(holdfast env)"
    """
    with folder.explained():
        values = variables(data)
    if as_json:
        print(json.dumps(values, indent=2))
    elif as_dotenv:
        for name, value in values.items():
            print(f"{name}={value}")
    else:
        for name, value in values.items():
            print(f"export {name}={shlex.quote(value)}")
        print(f"unset {' '.join(UNSET)}")


def variables(data: Path) -> dict[str, str]:
    server = folder.described(data)
    with folder.identities(data) as store:
        credentials = root_credentials(store, server.account)
    if credentials is None:
        raise IdentityError(f"the root of account {server.account} has no active key. Make one: holdfast key create")
    values = {
        "AWS_ACCESS_KEY_ID": credentials.id,
        "AWS_SECRET_ACCESS_KEY": credentials.secret,
        "AWS_REGION": server.region,
        "AWS_DEFAULT_REGION": server.region,
        "AWS_ENDPOINT_URL_SQS": server.endpoint,
    }
    return {**values, "AWS_CA_BUNDLE": server.authority} if server.authority else values


def root_credentials(store: Identities, account: str) -> Credentials | None:
    """The newest active key of the account's root."""
    for key in reversed(store.all_keys()):
        if key.is_active and (key.account, key.user) == (account, ROOT):
            return store.credentials(key.id)
    return None
