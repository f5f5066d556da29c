"""Prints the Python that `make setup` uses: the first one on the path, unless the system has a clearly faster one.

A Python that was compiled without profile-guided optimisation, as pyenv does unless told otherwise, runs Holdfast up to
a third slower than a distribution's. Both are timed for a tenth of a second each. A distribution's often cannot make a
pip of its own (Debian has that in another package): it will do if the first one on the path has a pip that can lend a
hand.
"""

import re
import shutil
import subprocess
import sys

CANDIDATES = ("python3", "/usr/bin/python3", "/usr/local/bin/python3")
FASTER = 1.2  # worth it from here on

LENDING = (22, 3)  # the first pip that installs into another Python's environment

_TRIAL = """
import sys, timeit, venv
assert sys.version_info >= (3, 11)
class Thing:
    __slots__ = ("value",)
    def __init__(self, value): self.value = value
    def add(self, other): return self.value + other
def run():
    for each in range(20_000): Thing(each).add(1)
print(min(timeit.repeat(run, number=1, repeat=12)))
"""


def trial(python: str) -> float | None:
    """Seconds, the best of three rounds; None when it cannot be used."""
    rounds = [once(python) for _ in range(3)]
    return min((each for each in rounds if each), default=None)


def once(python: str) -> float | None:
    done = subprocess.run([python, "-c", _TRIAL], capture_output=True, text=True, check=False)
    return float(done.stdout) if done.returncode == 0 else None


def gets_pip(python: str) -> bool:
    """An environment of this Python: from itself, or from the one that `make setup` asks then."""
    is_own = subprocess.run([python, "-c", "import ensurepip"], capture_output=True, check=False).returncode == 0
    return is_own or lends_pip()


def lends_pip() -> bool:
    said = subprocess.run([CANDIDATES[0], "-m", "pip", "--version"], capture_output=True, text=True, check=False).stdout
    version = re.match(r"pip (\d+)\.(\d+)", said)
    return version is not None and (int(version[1]), int(version[2])) >= LENDING


def main() -> None:
    paths = [path for name in CANDIDATES if (path := shutil.which(name)) and gets_pip(path)]
    found = {path: seconds for path in paths if (seconds := trial(path))}
    if not found:
        print(CANDIDATES[0])  # make setup says what is wrong with it
        return
    usual, fastest = next(iter(found)), min(found, key=lambda path: found[path])
    is_worth_it = found[usual] > FASTER * found[fastest]
    if is_worth_it:
        print(f"{fastest} is {found[usual] / found[fastest]:.1f} times as fast as {usual}: using it", file=sys.stderr)
    print(fastest if is_worth_it else usual)


main()
