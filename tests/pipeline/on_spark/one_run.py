"""A program: one run, in a JVM of its own, with all its work done by tasks.

    python -m tests.pipeline.on_spark.one_run SPOOL LEDGER [MASTER or sc://REMOTE]

Tests kill its processes at fault points (HOLDFAST_FAILPOINT), or all of them at any time, and start it again.
"""

import sys
from pathlib import Path
from typing import Any

import msgspec

from holdfast.pipeline.publish import billing
from holdfast.pipeline.run import Ledger
from holdfast.spark.session import SMALL, session
from tests.pipeline.emitter import DAY, T0


def main(spool: Path, root: Path, where: str = "local[2]") -> None:
    def start() -> Any:
        started.append(session(remote=where) if where.startswith("sc://") else session(master=where, settings=SMALL))
        return started[-1]

    started: list[Any] = []
    ledger = Ledger(root, spool, session=start, records=billing.records, now_us=now_us, rows_here_max=0)
    print(msgspec.json.encode(ledger.once()).decode())
    for each in started:
        each.stop()


def now_us() -> int:
    return T0 + 30 * DAY


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
