"""The last boto3 that spoke Query, in an environment of its own: it cannot share one with today's.

Made once, in the user's cache folder. `python -m tests.process.query_client` makes it ahead of time.
"""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

VERSIONS = ("boto3==1.28.80", "botocore==1.31.80")
INSTALL_S = 240


class NotAvailable(Exception):
    """It could not be installed, most likely because no package registry can be reached."""


def home() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "holdfast" / f"query-client-1.31.80-py{sys.version_info.major}{sys.version_info.minor}"


def python() -> Path:
    """The interpreter of the environment, which is made if it is not there."""
    folder = home()
    interpreter, done = folder / "bin" / "python", folder / "ready"
    if done.exists():
        return interpreter
    shutil.rmtree(folder, ignore_errors=True)
    try:
        venv.create(folder, with_pip=True)
        command = [str(interpreter), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *VERSIONS]
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=INSTALL_S)
    except subprocess.CalledProcessError as problem:
        raise NotAvailable(f"{' '.join(VERSIONS)} could not be installed: {problem.stderr or problem}") from None
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise NotAvailable(f"{' '.join(VERSIONS)} could not be installed: {problem}") from None
    done.touch()
    return interpreter


if __name__ == "__main__":
    print(python())
