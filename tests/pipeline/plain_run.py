"""A program: takes segments over into the ledger as a run does, with the same plan, files and commit, without Spark.

    python -m tests.pipeline.plain_run SPOOL LEDGER

Tests kill it at fault points (HOLDFAST_FAILPOINT) and start it again.
"""

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

from holdfast.ledger import lock, spool, tables
from holdfast.ledger.files import FileWriter
from holdfast.ledger.positions import from_transactions, to_transactions
from holdfast.ledger.store import TableStore
from tests.pipeline.emitter import HOUR

METER = tables.LEDGERS["meter"]
SEGMENTS_PER_COMMIT = 7
FILES_MAX = 3  # so that it compacts in between


def run(root: Path, ledger: Path) -> None:
    store = TableStore(ledger)
    with lock.only_run(ledger):
        store.create(METER)
        while _take_some(store, root):
            store.compact(METER, run_id="plain", files_max=FILES_MAX)


def _take_some(store: TableStore, root: Path) -> bool:
    seen = store.snapshot(METER)
    positions = from_transactions("meter", seen.transactions)
    plan = spool.plan(root, "meter", positions=positions, segments_max=SEGMENTS_PER_COMMIT)
    if not plan.ranges:
        return False
    writer = FileWriter(seen.folder, METER)
    for batch in spool.read(root, "meter", plan.ranges, batch_rows=16):
        writer.write(_stamped(batch))
    store.append(seen, writer.close(), transactions=to_transactions("meter", plan.after), run_id="plain")
    return True


def _stamped(batch: Any) -> Any:
    hours = [time - time % HOUR for time in batch.column("time").cast(pa.int64()).to_pylist()]
    count = batch.num_rows
    added: list[Any] = [
        pa.array(hours, tables.TIME),
        pa.nulls(count, pa.string()),
        pa.repeat("plain", count),
        pa.repeat(pa.scalar(1, pa.int32()), count),
    ]
    return pa.RecordBatch.from_arrays([*batch.columns, *added], schema=METER.schema)


if __name__ == "__main__":
    run(Path(sys.argv[1]), Path(sys.argv[2]))
