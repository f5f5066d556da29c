"""Where foreign clients live: each has an environment of its own, with exact versions, in the user's cache folder.

An environment is made once, by the first test that needs it; its name carries a digest of its pins, so that other
versions get another folder. `python -m tests.compat.environments` makes all of them ahead of time, side by side.
What cannot be made here raises `Missing`, which says what is not tested.
"""

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

PINS = Path(__file__).with_name("pins")
CLIENTS = Path(__file__).with_name("clients")
INSTALL_S = 240
AT_ONCE = 4  # installing waits for the network most of the time
NODE_MIN = 20
PACKAGES = "usr/lib/python3/dist-packages"  # of a Debian package


class Missing(Exception):
    """A client that cannot be installed on this machine, and why."""


class Command(NamedTuple):
    """How a program of an environment is called."""

    words: tuple[str, ...]
    variables: dict[str, str]


def python(client: str) -> Path:
    """The interpreter of a virtual environment with the versions of pins/CLIENT.txt."""
    pins = PINS / f"{client}.txt"
    folder = _home(client, pins.read_bytes())
    with _made_once(folder) as is_made:
        if not is_made:
            _make_venv(folder, pins)
    return folder / "bin" / "python"


def node() -> tuple[str, Path]:
    """The program `node`, and a folder with node_modules. Scripts have to lie inside that folder to find them."""
    program = _node_program()
    pins = PINS / "node"
    folder = _home("node", (pins / "package-lock.json").read_bytes())
    with _made_once(folder) as is_made:
        if not is_made:
            folder.mkdir(parents=True)
            for each in pins.iterdir():
                shutil.copy(each, folder)
            path = f"{Path(program).parent}{os.pathsep}{os.environ.get('PATH', '')}"
            _install(["npm", "ci", "--no-audit", "--no-fund"], what="npm packages", cwd=folder, PATH=path)
    return program, folder


def java() -> Command:
    """A class path with the jars of pins/java, and our programs, compiled."""
    _need("java", "javac", "mvn", what="clients in Java need a JDK and Maven")
    pins, sources = PINS / "java" / "pom.xml", sorted(CLIENTS.glob("*.java"))
    folder = _home("java", b"".join(each.read_bytes() for each in (pins, *sources)))
    with _made_once(folder) as is_made:
        if not is_made:
            folder.mkdir(parents=True)
            shutil.copy(pins, folder)
            fetch = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime"]
            _install([*fetch, "-DoutputDirectory=lib"], what="jars", cwd=folder)
            _install(["javac", "-cp", "lib/*", "-d", ".", *map(str, sources)], what="programs in Java", cwd=folder)
    return Command(("java", "-cp", f"{folder}{os.pathsep}{folder / 'lib' / '*'}"), {})


def go() -> Command:
    """Our program, built with the modules of pins/go."""
    _need("go", what="a client in Go needs Go's compiler")
    pins, source = PINS / "go", CLIENTS / "aws_sdk.go"
    folder = _home("go", b"".join(each.read_bytes() for each in (*sorted(pins.iterdir()), source)))
    with _made_once(folder) as is_made:
        if not is_made:
            shutil.copytree(pins, folder)
            shutil.copy(source, folder)
            _install(["go", "build", "-o", "client", "."], what="modules for Go", cwd=folder, GOFLAGS="-mod=readonly")
    return Command((str(folder / "client"),), {})


def _need(*programs: str, what: str) -> None:
    absent = [each for each in programs if not shutil.which(each)]
    if absent:
        raise Missing(f"{what}, and this machine has no {' and no '.join(absent)}")


def aws_cli_2() -> Command:
    """Debian's package of the AWS CLI v2 and the Python packages that it needs, unpacked; root is not needed."""
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise Missing("the AWS CLI v2 comes as a Debian package, and this machine has no apt")
    folder = _home("aws-cli-2", b"debian")
    with _made_once(folder) as is_made:
        if not is_made:
            folder.mkdir(parents=True)
            _install(["apt-get", "download", "awscli", *_python_packages("awscli")], what="Debian packages", cwd=folder)
            for package in folder.glob("*.deb"):
                _install(["dpkg-deb", "-x", str(package), "."], what=package.name, cwd=folder)
            _install(["/usr/bin/python3", "-m", "compileall", "-q", str(folder / PACKAGES)], what="byte code")
    return Command(("/usr/bin/python3", str(folder / "usr/bin/aws")), {"PYTHONPATH": str(folder / PACKAGES)})


def _python_packages(package: str) -> list[str]:
    narrow = ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")
    command = ["apt-cache", "depends", "--recurse", *(f"--no-{each}" for each in narrow), package]
    listed = _install(command, what=f"list of packages for {package}").splitlines()
    return [each for each in listed if each.startswith("python3-") and each != "python3-minimal"]


def _node_program() -> str:
    """The machine's own where it is new enough, else the one that PyPI has."""
    found = shutil.which("node")
    if found and shutil.which("npm") and _major_version(found) >= NODE_MIN:
        return found
    return str(python("nodejs").with_name("node"))


def _major_version(program: str) -> int:
    shown = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    return int(shown.removeprefix("v").partition(".")[0] or 0)


def _home(client: str, pins: bytes) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    digest = hashlib.sha256(pins + sys.version.encode()).hexdigest()[:12]
    return cache / "holdfast" / "compat" / f"{client}-{digest}"


@contextmanager
def _made_once(folder: Path) -> Iterator[bool]:
    """Says whether it is there already. Others who need the same folder wait; what was left half done is removed."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(folder.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ready = folder.with_name(folder.name + ".ready")
        is_made = ready.exists() and folder.exists()
        if not is_made:
            shutil.rmtree(folder, ignore_errors=True)
        yield is_made
        ready.touch()


def _make_venv(folder: Path, pins: Path) -> None:
    """Without a pip of its own, which would take longer than all the rest: ours, or uv, installs into it."""
    venv.create(folder)
    interpreter = str(folder / "bin" / "python")
    if uv := shutil.which("uv"):
        command = [uv, "pip", "install", "--quiet", "--python", interpreter]
    else:
        command = [sys.executable, "-m", "pip", "--python", interpreter, "install", "--quiet"]
    _install([*command, "-r", str(pins)], what=pins.stem, PIP_DISABLE_PIP_VERSION_CHECK="1")


def _install(command: list[str], *, what: str, cwd: Path | None = None, **variables: str) -> str:
    surroundings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables
    try:
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=INSTALL_S, cwd=cwd, env=surroundings
        )
    except subprocess.CalledProcessError as problem:
        raise Missing(f"{what} could not be installed: {_gist(problem.stderr) or problem}") from None
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise Missing(f"{what} could not be installed: {problem}") from None
    return done.stdout


def _gist(complaint: str) -> str:
    """The line that says what is wrong, of the many that installers print."""
    lines = [each.strip() for each in complaint.splitlines() if each.strip()]
    return next((each for each in lines if "error" in each.lower()), lines[-1] if lines else "")[:300]


def all_makers() -> dict[str, Callable[[], object]]:
    clients = sorted(each.stem for each in PINS.glob("*.txt") if each.stem != "nodejs")  # that one only where needed
    others: dict[str, Callable[[], object]] = {"aws-cli-2": aws_cli_2, "node": node, "java": java, "go": go}
    return {each: functools.partial(python, each) for each in clients} | others


def main() -> None:
    def outcome(maker: Callable[[], object]) -> str:
        try:
            maker()
        except Missing as problem:
            return f"NOT TESTED HERE: {problem}"
        return "ready"

    with ThreadPoolExecutor(AT_ONCE) as threads:
        makers = all_makers()
        for name, line in zip(makers, threads.map(outcome, makers.values()), strict=True):
            print(f"{name:12} {line}", flush=True)


if __name__ == "__main__":
    main()
