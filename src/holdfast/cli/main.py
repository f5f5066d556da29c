"""`holdfast`: the program."""

import sys
from pathlib import Path
from typing import Annotated

import typer

import holdfast
from holdfast.cli import accounts, env, folder, keys, users
from holdfast.cli import serve as serving

app = typer.Typer(
    pretty_exceptions_enable=False,
    help="A durable message queue that speaks Amazon SQS.",
    no_args_is_help=True,
    add_completion=False,
)
app.add_typer(accounts.app, name="account")
app.add_typer(keys.app, name="key")
app.add_typer(users.app, name="user")
app.command()(env.env)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        print(f"holdfast {holdfast.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """A durable message queue that speaks Amazon SQS."""


@app.command()
def serve(
    *,
    data: Annotated[Path, typer.Option(help="Folder for messages, keys and the catalogue of queues.")] = folder.DEFAULT,
    listen: Annotated[str, typer.Option(help="HOST:PORT; port 0 lets the system choose.")] = "127.0.0.1:9324",
    no_auth: Annotated[
        bool, typer.Option("--no-auth", help="Accept every request, whoever signed it; on a loopback address.")
    ] = False,
    no_auth_anywhere: Annotated[
        bool, typer.Option("--no-auth-anywhere", help="With --no-auth: also on addresses that others can reach.")
    ] = False,
    limit: Annotated[
        list[str] | None,
        typer.Option(
            help="KIND=PER_SECOND[:BURST]: how fast an account, a queue or an action may be used; may be repeated. "
            "KIND is account, queue or action. Without it nothing is limited."
        ),
    ] = None,
    relaxed: Annotated[
        bool, typer.Option("--relaxed", help="Without the 60-second rules of AWS, for tests and development.")
    ] = False,
    ready_file: Annotated[
        Path | None, typer.Option(help="Written with the endpoint when requests are accepted.")
    ] = None,
    shards: Annotated[int, typer.Option(hidden=True, min=1, max=64)] = 1,
) -> None:
    """Serve queues from one folder on one machine.

    Example: holdfast serve --data ./data --limit account=5000
    """
    try:
        settings = serving.Settings.checked(
            data=data,
            listen=listen,
            is_open_to_all=no_auth,
            is_open_anywhere=no_auth_anywhere,
            limits=limit or [],
            is_strict=not relaxed,
            ready_file=ready_file,
            shards=shards,
        )
        serving.run(settings)
    except serving.StartError as problem:
        print(f"holdfast: {problem}", file=sys.stderr)
        raise typer.Exit(2) from None


def main() -> None:
    app()
