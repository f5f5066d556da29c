"""`holdfast config`: look at a configuration before a server runs with it."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.declarations import problems
from holdfast.cli.first_start import SECRETS
from holdfast.cli.flags import ConfigFile, complain, load
from holdfast.cli.keys import AsJson
from holdfast.runtime.config import example as rendering
from holdfast.runtime.config import loading
from holdfast.runtime.config.loading import ConfigError

app = typer.Typer(no_args_is_help=True, help="Configuration: check a file, show what is in force and why.")


@app.command()
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A TOML file.")], *, as_json: AsJson = False
) -> None:
    """Say what is wrong with a configuration file, or that nothing is.

    Looks at the file alone, not at the environment. Example: holdfast config check holdfast.toml
    """
    try:
        loaded = loading.load(loading.from_file(file))
        if wrong := list(problems(loaded.config)):
            raise ConfigError([f"{file}: {each}" for each in wrong])
    except ConfigError as problem:
        if as_json:
            print(json.dumps({"file": str(file), "problems": problem.problems}, indent=2))
        else:
            complain(problem)
        raise typer.Exit(2) from None
    given = sum(origin != loading.DEFAULT for origin in loaded.origins.values())
    if as_json:
        print(json.dumps({"file": str(file), "problems": [], "settings": given}, indent=2))
    else:
        print(f"{file} is right: {given} settings.")


@app.command()
def show(
    *,
    config: ConfigFile = None,
    origin: Annotated[bool, typer.Option("--origin", help="Also where each value comes from.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show every setting as it would be in force, from file and environment.

    Secrets are not shown. Example: holdfast config show --config holdfast.toml --origin
    """
    try:
        rows = list(rendering.rows(load(config)))
    except ConfigError as problem:
        complain(problem)
        raise typer.Exit(2) from None
    rows += [(name, "(set, not shown)", "environment") for name in SECRETS if os.environ.get(name)]
    if as_json:
        print(json.dumps([{"name": name, "value": value, "origin": from_} for name, value, from_ in rows], indent=2))
        return
    names, values = (max(len(row[column]) for row in rows) for column in (0, 1))
    for name, value, from_ in rows:
        print(f"{name:{names}}  {value:{values}}  {from_}" if origin else f"{name:{names}}  {value}")


@app.command()
def example() -> None:
    """Print a configuration file with every setting, its default, and what it does.

    Example: holdfast config example > holdfast.toml
    """
    print(rendering.example(), end="")
