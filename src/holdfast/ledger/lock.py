"""One run at a time. The kernel drops the lock with the process, however it dies, so it is never left behind."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from holdfast.ledger.errors import Busy

FILE: Final = ".run.lock"


@contextmanager
def only_run(root: Path) -> Iterator[None]:
    root.mkdir(parents=True, exist_ok=True)
    with open(root / FILE, "a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            raise Busy(f"another run (process {holder}) works on {root}: wait for it, or stop it") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
