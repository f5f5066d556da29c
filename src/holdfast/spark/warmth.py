"""A warm start: the classes that Spark loads, kept in an archive that the next JVM maps into memory (Java's AppCDS).

    holdfast pipeline warmup      runs a made-up day in a JVM that writes down, when it ends, what it has loaded
    session()                     names the archive to the JVM, where there is one

Laws
- An archive is a matter of seconds only. Java itself checks that it belongs to these jars and to this Java, and goes on
  without one that does not, or that is damaged; so nobody has to remember to make it anew.
- It is put in place when it is whole.
"""

import contextlib
import hashlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyspark
from pyspark import SparkContext

from holdfast.ledger.errors import LedgerError

QUIET: Final = "-Xshare:auto -Xlog:disable -Xlog:all=error:stderr"  # an archive that does not fit is no news
WRITE_S: Final = 120  # seconds that a JVM may take to write its archive when it ends


def archive() -> Path:
    """Where that of this Spark is, or would be: installations do not share one, for it names their jars."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    place = hashlib.sha256(pyspark.__file__.encode()).hexdigest()[:8]
    return cache / "holdfast" / f"spark-{pyspark.__version__}-{place}.jsa"


def options() -> str:
    """For a JVM that is about to start; empty when there is no archive."""
    found = archive()
    return f'-XX:SharedArchiveFile="{found}" {QUIET}' if found.is_file() else ""


@contextlib.contextmanager
def recording() -> Iterator[str]:
    """Answers what a JVM that starts in here has to be told. On leaving it ends, and the archive is put in place."""
    target = archive()
    target.parent.mkdir(parents=True, exist_ok=True)
    made = target.with_suffix(f".{os.getpid()}")
    try:
        yield f'-XX:ArchiveClassesAtExit="{made}" {QUIET}'
        _end()
        if not made.is_file():
            raise LedgerError("Java wrote no archive. Sessions start as before; this Java may not know how to")
        made.replace(target)
    finally:
        made.unlink(missing_ok=True)


def _end() -> None:
    """Of the session's JVM, in order: only then does it write."""
    context: Any = SparkContext._active_spark_context
    if context is None:
        raise LedgerError("no session was started, so there is nothing to keep")
    gateway = SparkContext._gateway
    context.stop()
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    gateway.proc.stdin.close()
    try:
        gateway.proc.wait(WRITE_S)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        raise LedgerError(f"Java did not end within {WRITE_S} s; there is no archive") from None
