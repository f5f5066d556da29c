"""`holdfast user`: users and their policies. A running server notices changes within a second."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import folder
from holdfast.cli.keys import Account, AsJson
from holdfast.metadata.identities import IdentityError

app = typer.Typer(no_args_is_help=True, help="Users: make and list them, and say what they may do.")

Name = Annotated[str, typer.Argument(help="The user's name.")]


@app.command()
def create(name: Name, *, data: folder.Data = folder.DEFAULT, account: Account = None) -> None:
    """Make a user, who may do nothing until a policy allows it.

    Example: holdfast user create worker && holdfast key create --user worker
    """
    with folder.explained(), folder.identities(data) as store:
        user = store.add_user(account or folder.described(data).account, name)
    print(user.arn)


@app.command()
def ls(*, data: folder.Data = folder.DEFAULT, as_json: AsJson = False) -> None:
    """List users with the names of their policies.

    Example: holdfast user ls
    """
    with folder.explained(), folder.identities(data) as store:
        rows = [(each, sorted(each.policies)) for each in store.all_users()]
    if as_json:
        shown = [{"account": each.account, "name": each.name, "arn": each.arn, "policies": own} for each, own in rows]
        print(json.dumps(shown, indent=2))
        return
    for each, own in rows:
        print(f"{each.arn}  {', '.join(own) or '-'}")


@app.command()
def policy(
    name: Name,
    *,
    data: folder.Data = folder.DEFAULT,
    account: Account = None,
    policy_name: Annotated[str, typer.Option("--name", help="Which of the user's policies.")] = "default",
    file: Annotated[Path | None, typer.Option(help="Set the policy from this file; - reads standard input.")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the policy.")] = False,
) -> None:
    """Show, set or remove what a user may do: an IAM policy without a Principal.

    Example: holdfast user policy worker --file receive-only.json
    """
    with folder.explained(), folder.identities(data) as store:
        user = store.user(account or folder.described(data).account, name)
        if file is not None:
            store.put_policy(user, policy_name, document=_read(file))
        elif remove:
            store.remove_policy(user, policy_name)
        for each, document in sorted(store.user(user.account, name).policies.items()):
            print(f"{each}: {document.strip()}")


def _read(file: Path) -> str:
    if str(file) == "-":
        return sys.stdin.read()
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise IdentityError(f"{file} cannot be read: {problem}") from None
