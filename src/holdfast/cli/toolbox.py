"""What pipeline commands need before they need the pipeline: folders, options, and whether its parts are there.

The pipeline is an extra and takes a second to import. So commands are declared without it, and `workshop` loads what
they do when one of them runs; what is missing is an error that names its fix.
"""

import contextlib
import functools
import importlib.metadata
import inspect
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, NamedTuple

import typer

from holdfast.cli import connect, folder, screen
from holdfast.cli.connect import Mistake
from holdfast.ledger.errors import LedgerError
from holdfast.pipeline import rates  # needs nothing of the extra
from holdfast.usage import convert as conversion

EXTRA = "The pipeline needs its extra: pip install 'holdfast[spark]' (in a checkout: make setup-spark)."
JAVA = "Spark needs Java 17 or later: install a JRE (Debian: apt install openjdk-17-jre-headless), or set JAVA_HOME."
LOCAL = "local[*]"
PACKAGES = ("pyspark", "pyarrow", "deltalake", "jinja2")
JAVA_MIN = 17
MEMORY_MIN = 3 * 1024**3  # Spark's driver, its workers and this process
FREE_MIN = 1024**3
OK, WARN, BAD = "ok", "warning", "problem"

LedgerFolder = Annotated[
    Path | None, typer.Option("--ledger", metavar="DIR", help="The ledger's folder. None: `ledger` in the data folder.")
]
UsageFolder = Annotated[
    Path | None,
    typer.Option(
        "--usage", metavar="DIR", envvar="HOLDFAST__USAGE__FOLDER", help="Segments. None: `usage` in the data folder."
    ),
]
RatesFile = Annotated[
    Path | None, typer.Option("--rates", metavar="FILE", help="What a request costs. None: example prices.")
]
Master = Annotated[
    str,
    typer.Option(metavar="URL", help="Where Spark runs: local[*], spark://HOST:PORT, or sc://HOST:PORT for Connect."),
]


class Places(NamedTuple):
    ledger: Path
    usage: Path
    region: str
    data: Path = Path()


def places(data: Path, *, ledger: Path | None, usage: Path | None = None) -> Places:
    return Places(ledger or data / "ledger", usage or data / "usage", folder.described(data).region, data)


def placed(command: Callable[..., None]) -> Callable[..., None]:
    """A command that takes `at: Places` has in its stead the options that say where these are."""
    return _placed(command, {"data": folder.DEFAULT, "ledger": None, "usage": None})


def placed_ledger(command: Callable[..., None]) -> Callable[..., None]:
    """The same for one that reads no usage."""
    return _placed(command, {"data": folder.DEFAULT, "ledger": None})


def _placed(command: Callable[..., None], defaults: Mapping[str, Path | None]) -> Callable[..., None]:
    kinds = {"data": folder.Data, "ledger": LedgerFolder, "usage": UsageFolder}
    own = [each for each in inspect.signature(command).parameters.values() if each.name != "at"]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kinds[name])
        for name, default in defaults.items()
    ]

    @functools.wraps(command)
    def run(*, data: Path, ledger: Path | None, usage: Path | None = None, **given: Any) -> None:
        with explained():
            at = places(data, ledger=ledger, usage=usage)
        command(at=at, **given)

    signature = inspect.Signature([*own, *added])
    run.__annotations__ = {each.name: each.annotation for each in signature.parameters.values()}
    run.__signature__ = signature  # type: ignore[attr-defined]
    return run


def require_extra() -> None:
    missing = [name for name in PACKAGES if not has_package(name)]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        raise Mistake(f"{' and '.join(missing)} {are} not installed. {EXTRA}")


def workshop() -> ModuleType:
    """What commands do, with the pipeline behind it."""
    require_extra()
    from holdfast.cli import workshop as loaded  # noqa: PLC0415 - an extra that most servers do not have

    return loaded


def has_package(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return str(Path(home) / "bin" / "java")
    return shutil.which("java")


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """What cannot be done becomes one line that names the fix."""
    with connect.explained():
        try:
            yield
        except LedgerError as problem:
            raise Mistake(str(problem)) from None


# --- doctor ------------------------------------------------------------------------------------------------


class Finding(NamedTuple):
    check: str
    state: str
    seen: str
    fix: str = ""


def examine(at: Places, rates_file: Path | None) -> list[Finding]:
    return [
        _packages(),
        _java(),
        _memory(),
        _space(at.ledger),
        _usage(at.usage),
        _ledger(at.ledger),
        _rates(rates_file),
    ]


def _packages() -> Finding:
    found = [f"{name} {importlib.metadata.version(name)}" for name in PACKAGES if has_package(name)]
    missing = [name for name in PACKAGES if not has_package(name)]
    if missing:
        return Finding("packages", BAD, f"without {', '.join(missing)}", EXTRA)
    return Finding("packages", OK, ", ".join(found))


def _java() -> Finding:
    program = java()
    if program is None:
        return Finding("Java", BAD, "not found", JAVA)
    try:
        told = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError) as problem:
        return Finding("Java", BAD, f"{program}: {problem}", JAVA)
    line = told.splitlines()[0] if told else ""
    digits = line.partition('"')[2].partition(".")[0].strip('"')
    is_old = digits.isdigit() and int(digits) < JAVA_MIN
    return Finding("Java", BAD if is_old else OK, line, JAVA if is_old else "")


def _memory() -> Finding:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    seen = f"{screen.size(total)} in this machine"
    if total < MEMORY_MIN:
        return Finding("memory", WARN, seen, "Less than 3 GiB: run the pipeline elsewhere, or with --master spark://…")
    return Finding("memory", OK, seen)


def _space(ledger: Path) -> Finding:
    place = ledger.absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    fix = (
        ""
        if free >= FREE_MIN
        else "Free some, or put the ledger elsewhere with --ledger: a run that finds no room stops."
    )
    return Finding("disk space", OK if free >= FREE_MIN else WARN, f"{screen.size(free)} free at {place}", fix)


def _usage(usage: Path) -> Finding:
    if not usage.is_dir():
        fix = "Name the server's folder with --data, or the segments' with --usage. A server makes it when it is used."
        return Finding("usage", BAD, f"{usage} is not there", fix)
    count = sum(1 for _ in usage.glob("*/*/*/*.parquet"))
    if not count and conversion.keeping(usage):
        return Finding("usage", OK, f"journals in {usage}, of a server without pyarrow; a run converts them")
    fix = "" if count else "Nothing was handed over yet: usage is sealed ten seconds after it was counted."
    return Finding("usage", OK if count else WARN, f"{count:,} segments in {usage}", fix)


def _ledger(ledger: Path) -> Finding:
    if not ledger.is_dir():
        return Finding("ledger", OK, f"{ledger} is made by the first run")
    if not os.access(ledger, os.R_OK | os.W_OK | os.X_OK):
        return Finding(
            "ledger", BAD, f"{ledger} cannot be written", f"Run this as its owner: chown -R $(id -un) {ledger}"
        )
    if not has_package("deltalake"):
        return Finding("ledger", WARN, f"{ledger} was not looked at", EXTRA)
    try:
        rows = workshop().ledger_rows(ledger)
    except LedgerError as problem:
        return Finding("ledger", BAD, str(problem), "Restore it, or build it again: holdfast pipeline replay --help")
    return Finding("ledger", OK, f"{rows:,} rows in {ledger}")


def _rates(path: Path | None) -> Finding:
    try:
        found = rates.load(path)
    except rates.RatesError as problem:
        return Finding("rates", BAD, str(problem))
    return Finding("rates", OK, f"{len(found.own.rates)} rates in {found.own.currency}: {found.own.source}")
