"""Looking at tables: the first rows of one, and what was put aside. Reads no more files than it shows rows of."""

from collections.abc import Iterable
from typing import Any, Final

from holdfast.ledger import tables
from holdfast.ledger.files import DataFile
from holdfast.ledger.store import Snapshot, TableStore
from holdfast.ledger.tables import Table
from holdfast.usage import schema

# A view, not a table: rows of all kinds that cannot be right. They are in the ledger, and counted nowhere.
QUARANTINE: Final = "ledger.quarantine"
_SHOWN: Final = ("fault", "time", "account", "queue", "node", "epoch", "seq", "row")

Rows = list[dict[str, Any]]


def first_rows(store: TableStore, table: Table, *, limit: int) -> Rows:
    seen = store.snapshot(table)
    return _rows(store, seen, seen.files, names=table.schema.names, limit=limit)


def quarantine(store: TableStore, *, limit: int) -> Rows:
    """With the segment, and the row in it, that each came in."""
    found: Rows = []
    for kind in schema.KINDS:
        seen = store.snapshot(tables.LEDGERS[kind])
        names = [name for name in _SHOWN if name in seen.table.schema.names]
        aside = [file for file in seen.files if file.by_us == tables.NO_HOUR_US]
        found += [{"kind": kind, **row} for row in _rows(store, seen, aside, names=names, limit=limit - len(found))]
    return found


def quarantined(store: TableStore) -> int:
    """How many rows there are; reads none of them."""
    return sum(store.snapshot(tables.LEDGERS[kind]).rows_by().get(tables.NO_HOUR_US, 0) for kind in schema.KINDS)


def _rows(store: TableStore, seen: Snapshot, files: Iterable[DataFile], *, names: list[str], limit: int) -> Rows:
    found: Rows = []
    for file in files:
        if len(found) >= limit:
            break
        found += store.read_file(seen, file, columns=names).slice(0, limit - len(found)).to_pylist()
    return found
