"""One process at a time has a data folder."""

import fcntl
import os
from pathlib import Path


class DataFolderError(Exception):
    """The data folder cannot be used; says what to do."""


def lock_folder(root: Path) -> int:
    """Keeps other processes away from this data until the descriptor is closed, that is, until this process ends."""
    descriptor = os.open(root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise DataFolderError(
            f"{root} is in use by another holdfast process. Stop that one, or give this one a folder of its own."
        ) from None
    return descriptor
