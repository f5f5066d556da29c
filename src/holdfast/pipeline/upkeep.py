"""What is done to a ledger besides filling it: computing hours anew, building it again, making files fewer.

backfill   rollups of some hours from the ledger, whatever their numbers say
replay     a whole ledger again from the spool, into another folder; both must then say the same
compact    many small files of an hour become one
vacuum     files that no version of the last week knows are removed
prune      segments that are in the ledger, and older than wanted, are removed from the spool
"""

import hashlib
import io
from collections.abc import Collection
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.ledger import lock, tables
from holdfast.ledger.closing import HOUR_US
from holdfast.ledger.errors import LedgerError
from holdfast.ledger.positions import from_transactions
from holdfast.ledger.store import Snapshot, TableStore
from holdfast.ledger.tables import Table
from holdfast.pipeline import rollup
from holdfast.pipeline.run import Ledger, Outcome
from holdfast.usage import places, schema, segment

COMPARED: Final = (*tables.LEDGERS.values(), tables.USAGE_MINUTE, tables.USAGE_HOURLY, tables.USAGE_DAILY)
NOT_COMPARED: Final = frozenset({"run_id"})


def backfill(ledger: Ledger, *, begin_us: int, end_us: int) -> int:
    """Computes the hours from `begin_us` up to `end_us` anew. Answers how many there were."""
    with lock.only_run(ledger.store.root):
        known = rollup.ledger_numbers(ledger.store.snapshot(tables.LEDGERS[schema.METER]))
        hours = frozenset(each for each in known if begin_us - HOUR_US < each < end_us)
        if hours:
            rollup.rollup(ledger.job(), forced=hours)
        return len(hours)


def replay(ledger: Ledger, into: Ledger) -> tuple[Outcome, dict[str, bool]]:
    """Builds `into` from the spool, and says of each table whether it has the same rows as that of `ledger`."""
    if any(into.store.snapshot(table).version >= 0 for table in tables.TABLES.values()):
        raise LedgerError(f"{into.store.root} holds a ledger already: replay needs an empty folder")
    done = into.once()
    return done, {each.name: digest(ledger.store, each) == digest(into.store, each) for each in COMPARED}


def digest(store: TableStore, table: Table) -> str:
    """Of the rows, in whichever files and order they lie; of all columns but the run's."""
    seen = store.snapshot(table)
    total = hashlib.blake2b(digest_size=32)
    for by in sorted(seen.rows_by()) if table.by else [None]:
        total.update(_rows_digest(store, seen, None if by is None else [by]))
    return total.hexdigest()


def _rows_digest(store: TableStore, seen: Snapshot, by_us: Collection[int] | None) -> bytes:
    columns = [each for each in seen.table.schema.names if each not in NOT_COMPARED]
    rows = store.read(seen, columns=columns, by_us=by_us).combine_chunks()
    keys = [(field.name, "ascending") for field in rows.schema if not pa.types.is_nested(field.type)]
    written = io.BytesIO()
    # As Parquet the same values are the same bytes; Arrow's own buffers may differ in what is behind a null.
    pq.write_table(rows.sort_by(keys), written, compression="none", use_dictionary=False, write_statistics=False)
    return hashlib.blake2b(written.getvalue(), digest_size=32).digest()


def compact(ledger: Ledger) -> dict[str, int]:
    """How many files fewer each table has."""
    job = ledger.job()
    with lock.only_run(ledger.store.root):
        return {
            each.name: ledger.store.compact(each, run_id=job.run_id, files_max=1) for each in tables.TABLES.values()
        }


def vacuum(ledger: Ledger, *, dry_run: bool = False) -> dict[str, list[str]]:
    with lock.only_run(ledger.store.root):
        return {each.name: ledger.store.vacuum(each, dry_run=dry_run) for each in tables.TABLES.values()}


def prune(ledger: Ledger, *, before_us: int) -> list[Path]:
    """Removes segments whose rows are all in the ledger and older. Each node keeps its last one: readers go on from it.
    What was removed cannot be replayed."""
    removed: list[Path] = []
    with lock.only_run(ledger.store.root):
        for kind in schema.KINDS:
            seen = ledger.store.snapshot(tables.LEDGERS[kind])
            for node, at in from_transactions(kind, seen.transactions).items():
                removed.extend(_prune(ledger.spool, kind, node=node, upto=(at.epoch, at.seq - 1), before_us=before_us))
    return removed


def _prune(root: Path, kind: str, *, node: str, upto: tuple[int, int], before_us: int) -> list[Path]:
    """From the oldest on, up to the first that has to stay: what is left has no hole."""
    removed: list[Path] = []
    for stream in [each for each in places.streams(root, kind) if each.node == node]:
        for seq in places.numbers(root, stream):
            path = stream.path(root, seq)
            if (stream.epoch, seq) >= upto or segment.read_footer(path).until >= before_us:
                return removed
            path.unlink()
            removed.append(path)
    return removed
