"""`holdfast`: the program.

A command imports its own modules and no others: who lists queues should not wait for a server to be imported.
"""

import gc
import sys
from importlib import import_module
from typing import Annotated, Any

import typer

import holdfast

GROUPS = {  # name -> the module in holdfast.cli whose `app` it is
    "queue": "queues",
    "msg": "transfer",
    "dlq": "dead_letters",
    "account": "accounts",
    "key": "keys",
    "user": "users",
    "config": "configs",
    "usage": "usage",
    "pipeline": "pipeline",
}
COMMANDS = {  # name -> module and function
    "serve": ("flags", "serve"),
    "env": ("env", "env"),
    "aws": ("aws", "aws"),
    "doctor": ("doctor", "doctor"),
    "backup": ("backups", "backup"),
    "restore": ("backups", "restore"),
    "scrub": ("backups", "scrub_data"),
    "bench": ("bench", "bench"),
}
VERSION = "--version"  # needs no command at all


def program(asked: str = "") -> typer.Typer:
    """With the command that is asked for; with all of them if that is none, for help, completion and mistakes."""
    app = typer.Typer(
        pretty_exceptions_enable=False,
        help="A durable message queue that speaks Amazon SQS.",
        no_args_is_help=True,
    )
    app.callback()(options)
    is_known = asked in GROUPS or asked in COMMANDS or asked == VERSION
    for name, module in GROUPS.items():
        if name == asked or not is_known:
            app.add_typer(_module(module).app, name=name)
    for name, (module, function) in COMMANDS.items():
        if name == asked or not is_known:
            found = _module(module)
            settings = getattr(found, "PASS_ON", None)  # of a command that takes another program's arguments
            app.command(name, context_settings=settings)(getattr(found, function))
    return app


def _module(name: str) -> Any:
    return import_module(f"holdfast.cli.{name}")


def _show_version(is_asked: bool) -> None:
    if is_asked:
        print(f"holdfast {holdfast.__version__}")
        raise typer.Exit


def options(
    version: Annotated[
        bool, typer.Option(VERSION, callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """A durable message queue that speaks Amazon SQS."""


def main() -> None:
    asked = next((each for each in sys.argv[1:] if not each.startswith("-") or each == VERSION), "")
    gc.disable()  # what is imported stays: to look for garbage in it takes a tenth of the start
    made = program(asked)
    gc.enable()
    made(prog_name="holdfast")  # also when it was started as python -m holdfast
