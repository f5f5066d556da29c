"""Where peers are kept, and which versions. `make bench-peers` puts them there; nothing is installed system-wide."""

import os
import shutil
import subprocess
from pathlib import Path

from bench.contender import Absent

ELASTICMQ = "1.7.1"
GOAWS = "v0.5.4"
NATS = "v2.15.2"
MOTO = "5.2.5"
MINISTACK = "1.5.33"
# The distribution chooses the versions of what comes from it; the results name them.
DEBIAN = ("beanstalkd", "redis-server", "redis-tools", "liblzf1", "libjemalloc2", "libatomic1")
RABBITMQ = (
    "rabbitmq-server erlang-base erlang-asn1 erlang-crypto erlang-eldap erlang-ftp erlang-inets erlang-mnesia "
    "erlang-os-mon erlang-parsetools erlang-public-key erlang-runtime-tools erlang-snmp erlang-ssl "
    "erlang-syntax-tools erlang-tftp erlang-tools erlang-xmerl"
).split()

HINT = "`make bench-peers` installs it where its registry can be reached"


def folder() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "holdfast" / "bench"


def find(name: str, *places: Path) -> Path:
    """A program from the cache folder, or else of the system."""
    for place in places:
        if (place / name).exists():
            return place / name
    found = shutil.which(name)
    if found is None:
        raise Absent(f"no {name} on this machine; {HINT}")
    return Path(found)


def debian_root() -> Path:
    return folder() / "debian"


def debian_environment() -> dict[str, str]:
    """Unpacked packages find their libraries beside them."""
    libraries = sorted({str(file.parent) for file in debian_root().glob("usr/lib/**/*.so*")})
    return {"LD_LIBRARY_PATH": ":".join(libraries)}


def version_of(command: list[str], *, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, env={**os.environ, **(environment or {})}
    )
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[0] if lines else "unknown"
