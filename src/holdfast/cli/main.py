"""`holdfast`: the program."""

from typing import Annotated

import typer

import holdfast
from holdfast.cli import (
    accounts,
    aws,
    backups,
    bench,
    configs,
    dead_letters,
    doctor,
    env,
    flags,
    keys,
    pipeline,
    queues,
    transfer,
    usage,
    users,
)

app = typer.Typer(
    pretty_exceptions_enable=False,
    help="A durable message queue that speaks Amazon SQS.",
    no_args_is_help=True,
)
app.add_typer(queues.app, name="queue")
app.add_typer(transfer.app, name="msg")
app.add_typer(dead_letters.app, name="dlq")
app.add_typer(accounts.app, name="account")
app.add_typer(keys.app, name="key")
app.add_typer(users.app, name="user")
app.add_typer(configs.app, name="config")
app.add_typer(usage.app, name="usage")
app.add_typer(pipeline.app, name="pipeline")
app.command()(flags.serve)
app.command()(env.env)
app.command(context_settings=aws.PASS_ON)(aws.aws)
app.command()(doctor.doctor)
app.command()(backups.backup)
app.command()(backups.restore)
app.command("scrub")(backups.scrub_data)
app.command()(bench.bench)


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


def main() -> None:
    app(prog_name="holdfast")  # also when it was started as python -m holdfast
