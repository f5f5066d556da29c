"""`holdfast user`: users and their policies. A running server notices changes within a second."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli import folder
from holdfast.cli.keys import Account, AsJson
from holdfast.core.coordination.identity import User
from holdfast.metadata.identities import IdentityError

app = typer.Typer(no_args_is_help=True, help="Users: make and list them, and say what they may do.")

Name = Annotated[str, typer.Argument(help="The user's name.")]


@app.command()
def create(name: Name, *, data: folder.Data = folder.DEFAULT, account: Account = None, as_json: AsJson = False) -> None:
    """Make a user, who may do nothing until a policy allows it.

    Example: holdfast user create worker && holdfast key create --user worker
    """
    with folder.explained(), folder.identities(data) as store:
        user = store.add_user(account or folder.described(data).account, name)
    print(json.dumps(_shown(user), indent=2) if as_json else user.arn)


@app.command()
def ls(*, data: folder.Data = folder.DEFAULT, as_json: AsJson = False) -> None:
    """List users with the names of their policies.

    Example: holdfast user ls
    """
    with folder.explained(), folder.identities(data) as store:
        users = list(store.all_users())
    if as_json:
        print(json.dumps([_shown(each) for each in users], indent=2))
        return
    for each in users:
        print(f"{each.arn}  {', '.join(sorted(each.policies)) or '-'}")


def _shown(user: User) -> dict[str, Any]:
    return {"account": user.account, "name": user.name, "arn": user.arn, "policies": sorted(user.policies)}


@app.command()
def policy(
    name: Name,
    *,
    data: folder.Data = folder.DEFAULT,
    account: Account = None,
    policy_name: Annotated[str, typer.Option("--name", help="Which of the user's policies.")] = "default",
    file: Annotated[Path | None, typer.Option(help="Set the policy from this file; - reads standard input.")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the policy.")] = False,
    as_json: AsJson = False,
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
        policies = store.user(user.account, name).policies
    if as_json:
        print(json.dumps({each: json.loads(document) for each, document in sorted(policies.items())}, indent=2))
        return
    for each, document in sorted(policies.items()):
        print(f"{each}: {document.strip()}")


def _read(file: Path) -> str:
    if str(file) == "-":
        return sys.stdin.read()
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise IdentityError(f"{file} cannot be read: {problem}") from None
