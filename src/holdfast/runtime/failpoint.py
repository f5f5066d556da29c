"""Named places at which a test lets a process die as if by kill -9.

`HOLDFAST_FAILPOINT=NAME` in its environment kills it there, `NAME:3` when it comes there for the third time; otherwise
a place costs one comparison. The variable is read here and not by the configuration, for it is no setting, and the
helper processes of a server have to see it, too.

Names are literals: tests/process/test_failpoints.py reads them from the source and kills a server under load at each.
"""

import itertools
import os
import signal
from typing import Final

VARIABLE: Final = "HOLDFAST_FAILPOINT"
_NAME, _, _TIMES = os.environ.get(VARIABLE, "").partition(":")
_visits: Final = itertools.count(1)


def failpoint(name: str) -> None:
    if name == _NAME and next(_visits) == int(_TIMES or 1):
        os.kill(os.getpid(), signal.SIGKILL)
