"""Work that is not what a client waits for: it takes the processor when clients leave it."""

import os
import sys
import threading
from typing import Final

NICENESS: Final = 10  # a tenth of a busy core


def step_aside() -> None:
    """The calling thread, where the system can tell threads apart; it cannot be taken back."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
