"""`holdfast account`: the tenants of a server. Each has its own queues, users and keys, and sees another's queue only
where that queue's policy invites it. A running server notices changes within a second.
"""

import json
from collections import Counter
from typing import Annotated

import typer

from holdfast.cli import folder
from holdfast.cli.keys import AsJson, show_new
from holdfast.core.coordination.identity import ROOT
from holdfast.metadata.identities import IdentityError

app = typer.Typer(no_args_is_help=True, help="Accounts: make and list them. Each owns its queues and users.")


@app.command()
def create(
    account: Annotated[str, typer.Argument(metavar="ACCOUNT", help="12 digits.")],
    *,
    data: folder.Data = folder.DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Make an account, and print the key of its root with its secret.

    Example: holdfast account create 111111111111
    """
    with folder.explained(), folder.identities(data) as store:
        if account in store.all_accounts():
            raise IdentityError(
                f"there is an account {account} already. For another key: holdfast key create --account {account}"
            )
        store.add_account(account)
        made = store.add_key(store.user(account, ROOT))
    show_new(made, as_json=as_json)


@app.command()
def ls(*, data: folder.Data = folder.DEFAULT, as_json: AsJson = False) -> None:
    """List accounts, with how many users and active keys they have.

    Example: holdfast account ls
    """
    with folder.explained(), folder.identities(data) as store:
        users = Counter(each.account for each in store.all_users() if each.name != ROOT)
        keys = Counter(each.account for each in store.all_keys() if each.is_active)
        rows = [{"id": each, "users": users[each], "active_keys": keys[each]} for each in store.all_accounts()]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        print(f"{row['id']}  users {row['users']}  active keys {row['active_keys']}")
