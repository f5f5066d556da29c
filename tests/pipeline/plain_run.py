"""A program: takes segments over and rolls them up as a run does that has little to do, without Spark.

    python -m tests.pipeline.plain_run SPOOL LEDGER

Tests kill it at fault points (HOLDFAST_FAILPOINT) and start it again.
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from holdfast.ledger import lock, tables
from holdfast.ledger.store import TableStore
from holdfast.pipeline import ingest, rollup
from holdfast.pipeline.job import Job
from tests.pipeline.emitter import DAY, T0

SEGMENTS_PER_COMMIT = 7
FILES_MAX = 3  # so that it compacts in between


def run(root: Path, ledger: Path) -> None:
    store = TableStore(ledger)
    job = Job(store, root, session=_no_session, run_id="plain", now_us=T0 + DAY)
    with lock.only_run(ledger):
        while ingest.has_new(store, root):
            ingest.ingest(job, segments_max=SEGMENTS_PER_COMMIT, rounds_max=1)
            store.compact(tables.LEDGERS["meter"], run_id="plain", files_max=FILES_MAX)
            rollup.rollup(job)


def _no_session() -> SparkSession:
    raise AssertionError("a session was started")


if __name__ == "__main__":
    run(Path(sys.argv[1]), Path(sys.argv[2]))
