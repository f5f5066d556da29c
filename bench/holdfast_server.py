"""Holdfast as it is served: signatures checked, every message on disk before its reply; and without the former."""

import secrets
import sys
from pathlib import Path

import holdfast
from bench.contender import Contender, Place, Running
from bench.dialects.sqs import Sqs
from bench.processes import Served
from bench.results import OPEN, OURS

SOURCE = str(Path(holdfast.__file__).parent.parent)


def start(place: Place, *, data: Path | None = None, options: tuple[str, ...] = ()) -> Running:
    """`data` may hold queues of an earlier start."""
    data = data or place.folder / "data"
    ready, secret_file = place.folder / "ready", place.folder / "secret"
    ready.unlink(missing_ok=True)
    if not secret_file.exists():
        secret_file.write_text(secrets.token_urlsafe(30), encoding="utf-8")
    secret = secret_file.read_text(encoding="utf-8")
    key = "HFBENCHBENCHBENCHBEN"
    arguments = ["serve", "--data", str(data), "--listen", "127.0.0.1:0", "--ready-file", str(ready), *options]
    served = Served(
        [sys.executable, "-m", "holdfast", *arguments],
        log=place.folder / "log",
        core=place.core,
        environment={"PYTHONPATH": SOURCE, "HOLDFAST_ACCESS_KEY_ID": key, "HOLDFAST_SECRET_ACCESS_KEY": secret},
    )
    endpoint = served.wait_for(ready).splitlines()[0]  # the second is the admin port
    return Running(served, Sqs(endpoint, key=key, secret=secret), holdfast.__version__)


def start_open(place: Place) -> Running:
    """Without signatures, as its peers are; the rest is the same."""
    return start(place, options=("--no-auth",))


HOLDFAST = Contender(OURS, True, "fdatasync before the reply, signatures checked", start)
HOLDFAST_OPEN = Contender(OPEN, True, "fdatasync before the reply, signatures not looked at", start_open)
