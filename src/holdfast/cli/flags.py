"""The flags of `holdfast serve`, as one layer of its configuration. They are made from the table of settings, so that a
setting cannot have a flag that says something else.
"""

import gc
import inspect
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli.first_start import StartError
from holdfast.runtime.config import kinds, loading
from holdfast.runtime.config.example import as_text
from holdfast.runtime.config.loading import ConfigError, Layer, Loaded
from holdfast.runtime.config.settings import Setting, settings

ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="A TOML file with settings; `holdfast config example` prints one.")
]
Limit = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        metavar="KIND=RATE",
        help="KIND=PER_SECOND[:BURST]: how fast an account, a queue or an action may be used; may be repeated. "
        "KIND is account, queue or action. Without it nothing is limited.",
    ),
]
_LIMITED = ("account", "queue", "action")


def _with_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Typer reads flags from a signature: this one gets a parameter for each setting that has a flag of its own."""
    own = inspect.signature(command).parameters.values()
    named = [each for each in own if each.kind is inspect.Parameter.KEYWORD_ONLY]
    made = [
        inspect.Parameter(_parameter(each), inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_option(each))
        for each in _flagged()
    ]
    command.__signature__ = inspect.Signature([*named, *made])  # type: ignore[attr-defined]
    return command


def _flagged() -> Iterator[Setting]:
    return (each for each in settings() if each.flag and "=" not in each.flag)


def _parameter(setting: Setting) -> str:
    return f"{setting.section}__{setting.key}"


def _option(setting: Setting) -> Any:
    expected: Any = str
    if setting.kind is kinds.FLAG:
        expected = bool
    elif setting.kind in (kinds.NETWORKS, kinds.PATTERNS):
        expected = list[str]
    has_default = not isinstance(setting.default, bool) and setting.default not in (None, ())
    default = f" Default: {as_text(setting.default)}." if has_default else ""
    option = typer.Option(
        setting.flag,
        help=setting.explanation + default,
        metavar=setting.kind.sign or None,
        show_default=False,
        hidden=setting.is_hidden,
    )
    return Annotated[expected | None, option]


@_with_flags
def serve(*, config: ConfigFile = None, limit: Limit = None, **given: Any) -> None:
    """Serve queues from one folder on one machine.

    Every flag is also a setting of a file and a variable of the environment; flags win, then the environment.

    Example: holdfast serve --data ./data --limit account=5000
    """
    gc.disable()  # until everything is imported and recovered: `serving` switches it on
    from holdfast.cli import serve as serving  # noqa: PLC0415 - other commands start faster without a server

    flags = loading.from_flags({each.name: given[_parameter(each)] for each in _flagged()})
    try:
        serving.run(load(config, flags, _limits(limit or [])))
    except (StartError, ConfigError) as problem:
        complain(problem)
        raise typer.Exit(2) from None


def load(file: Path | None, *flags: Layer) -> Loaded:
    """The configuration in force: file, environment, flags."""
    layers = [loading.from_file(file)] if file is not None else []
    return loading.load(*layers, loading.from_environment(os.environ), *flags)


def complain(problem: Exception) -> None:
    for line in str(problem).splitlines():
        typer.echo(f"holdfast: {line}", err=True)


def _limits(given: list[str]) -> Layer:
    layer = Layer({}, [])
    for text in given:
        kind, equals, rate = text.partition("=")
        if equals and kind in _LIMITED:
            layer.given[f"limits.{kind}"] = loading.Given(rate, f"--limit {text}")
        else:
            layer.problems.append(
                f"--limit {text} is not KIND=PER_SECOND[:BURST]; for example account=5000 or queue=100:500."
            )
    return layer
