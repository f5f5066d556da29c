"""Tables on disk, in the open Delta format, written through `deltalake`. The one place that knows it.

    look (Snapshot) ──▶ work, write files ──▶ commit on the version that was looked at ──▶ look again

Laws
- A commit names the version that its work was computed from, and is made of that version alone: if anybody committed in
  between it raises Conflict, and the run starts over. (deltalake would otherwise take an append from a stale look, and
  does not refuse a transaction id that was there before.)
- Rows and what they were made of, as transaction ids, are one commit: they cannot disagree.
- Before a commit every file is there, and its footer has the table's columns and the rows that its writer counted.
- Files are removed only by vacuum, and only those that no run can be using.
"""

import datetime
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from holdfast.ledger import delta_log, files
from holdfast.ledger.errors import Conflict, LedgerError
from holdfast.ledger.files import DataFile, FileWriter
from holdfast.ledger.tables import Table
from holdfast.runtime.failpoint import failpoint

FILES_PER_HOUR_MAX: Final = 50  # more are compacted: each costs a reader an open and a footer
VACUUM_AFTER_H: Final = 7 * 24  # longer than any run, and than a reader that looks at an old version
INSERT_TRIES: Final = 10  # others insert a few rows at a time, too
PROPERTIES: Final = {"delta.checkpointInterval": "50"}

_SECOND_US: Final = 1_000_000


class Snapshot(msgspec.Struct, frozen=True):
    """A table at one version. `version` is -1, and all else empty, while it does not exist."""

    table: Table
    folder: Path
    version: int
    files: tuple[DataFile, ...]
    transactions: dict[str, int]

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.files)

    def uris(self, by_us: Iterable[int] | None = None) -> list[str]:
        """Paths of all files, or of those of some hours."""
        wanted = None if by_us is None else frozenset(by_us)
        return [str(self.folder / each.path) for each in self.files if wanted is None or each.by_us in wanted]

    def rows_by(self) -> dict[int, int]:
        """Rows per value of the `by` column."""
        counted: dict[int, int] = {}
        for each in self.files:
            if each.by_us is not None:
                counted[each.by_us] = counted.get(each.by_us, 0) + each.rows
        return counted

    def numbers(self, prefix: str) -> dict[str, int]:
        """The transaction ids that begin with `prefix`, without it."""
        return {
            name.removeprefix(prefix): number for name, number in self.transactions.items() if name.startswith(prefix)
        }


class TableStore:
    def __init__(self, root: Path) -> None:
        self.root = root
        self._last: dict[str, Snapshot] = {}
        self._delta: dict[str, Any] = {}  # opened once: bringing one up to date reads what was committed since

    def snapshot(self, table: Table) -> Snapshot:
        """The newest version. Costs one look at the folder while nobody has committed."""
        last = self._last.get(table.name)
        if last is None or last.version < 0 or _commit_path(last.folder, last.version + 1).exists():
            last = self._last[table.name] = self._load(table)
        return last

    def _load(self, table: Table) -> Snapshot:
        folder = table.folder(self.root)
        if not (folder / "_delta_log").is_dir():
            return Snapshot(table, folder, -1, (), {})
        delta = self._delta.get(table.name)
        if delta is None:
            delta = self._delta[table.name] = _open(folder)
            _require_columns(delta, table)
        else:
            _catch_up(delta, folder)
        version = delta.version()
        return Snapshot(table, folder, version, tuple(_files(delta, table)), delta_log.transactions(folder, version))

    def create(self, table: Table) -> None:
        """Does nothing when it is there."""
        folder = table.folder(self.root)
        folder.mkdir(parents=True, exist_ok=True)
        by = [table.by] if table.by else None
        DeltaTable.create(
            folder, schema=table.schema, mode="ignore", partition_by=by, name=table.name, configuration=PROPERTIES
        )

    def append(
        self, seen: Snapshot, added: Sequence[DataFile], *, transactions: Mapping[str, int], run_id: str
    ) -> None:
        """One commit on the version that was seen. Transaction ids may come alone, without rows."""
        self._commit(seen, added, removed=(), transactions=transactions, run_id=run_id)

    def replace(
        self,
        seen: Snapshot,
        added: Sequence[DataFile],
        *,
        by_us: Iterable[int],
        transactions: Mapping[str, int],
        run_id: str,
    ) -> None:
        """All rows of these hours (or days) make way for the new ones, in one commit."""
        gone = frozenset(by_us)
        strangers = sorted(each.path for each in added if each.by_us not in gone)
        if strangers:
            raise LedgerError(f"{seen.table.name}: {strangers[0]} belongs to none of the hours that are replaced")
        removed = [each for each in seen.files if each.by_us in gone]
        self._commit(seen, added, removed=removed, transactions=transactions, run_id=run_id)

    def compact(self, table: Table, *, run_id: str, files_max: int = FILES_PER_HOUR_MAX) -> int:
        """One file for each hour that has more than `files_max`. Changes no row. Answers how many files are gone."""
        seen = self.snapshot(table)
        counted: dict[int | None, list[DataFile]] = {}
        for each in seen.files:
            counted.setdefault(each.by_us, []).append(each)
        removed = [each for many in counted.values() if len(many) > files_max for each in many]
        if not removed:
            return 0
        writer = FileWriter(seen.folder, table)
        for each in removed:
            for batch in pq.ParquetFile(seen.folder / each.path).iter_batches(batch_size=files.GROUP_ROWS):
                writer.write(batch)
        added = writer.close()
        if sum(each.rows for each in added) != sum(each.rows for each in removed):
            raise LedgerError(f"{table.name}: compaction would have changed the number of rows; nothing was committed")
        self._commit(seen, added, removed=removed, transactions={}, run_id=run_id, changes_data=False)
        return len(removed) - len(added)

    def vacuum(self, table: Table, *, after_h: int = VACUUM_AFTER_H, dry_run: bool = False) -> list[str]:
        """Removes files that no version of the last hours knows, also those that runs left when they died."""
        folder = table.folder(self.root)
        if not (folder / "_delta_log").is_dir():
            return []
        if after_h < VACUUM_AFTER_H and not dry_run:
            raise LedgerError(f"vacuum after {after_h} h could take files from a run: {VACUUM_AFTER_H} h at least")
        found: list[str] = _open(folder).vacuum(
            retention_hours=after_h, dry_run=dry_run, enforce_retention_duration=False, full=True
        )
        return found

    def read(self, seen: Snapshot, *, columns: Sequence[str] | None = None, by_us: Iterable[int] | None = None) -> Any:
        """Rows as an Arrow table, without Spark. For what fits into memory."""
        names = list(columns or seen.table.schema.names)
        empty = pa.schema([seen.table.schema.field(each) for each in names]).empty_table()
        wanted = None if by_us is None else frozenset(by_us)
        parts = [
            self.read_file(seen, each, columns=names).cast(empty.schema)
            for each in seen.files
            if wanted is None or each.by_us in wanted
        ]
        return pa.concat_tables([empty, *parts])

    def read_file(self, seen: Snapshot, file: DataFile, *, columns: Sequence[str]) -> Any:
        try:
            return pq.ParquetFile(seen.folder / file.path).read(columns=list(columns)).select(columns)
        except (OSError, pa.ArrowException) as problem:
            raise LedgerError(f"{seen.folder / file.path} of {seen.table.name} cannot be read: {problem}") from None

    def insert(self, table: Table, rows: Sequence[Mapping[str, Any]], *, run_id: str) -> None:
        """A few rows, written here. Tries again when others commit, for these rows depend on nothing."""
        self.create(table)
        writer = FileWriter(table.folder(self.root), table)
        for batch in pa.Table.from_pylist(list(rows), schema=table.schema).to_batches():
            writer.write(batch)
        added = writer.close()
        for attempt in range(INSERT_TRIES):
            try:
                self.append(self.snapshot(table), added, transactions={}, run_id=run_id)
            except Conflict:
                if attempt == INSERT_TRIES - 1:
                    raise
            else:
                return

    def _commit(
        self,
        seen: Snapshot,
        added: Sequence[DataFile],
        *,
        removed: Sequence[DataFile],
        transactions: Mapping[str, int],
        run_id: str,
        changes_data: bool = True,
    ) -> None:
        failpoint("after_stage")
        for each in added:
            files.verify(seen.folder, each, table=seen.table)
        delta = self._delta.pop(seen.table.name, None)  # after a commit that failed nobody may use it
        if delta is None or delta.version() != seen.version:
            delta = _open(seen.folder, version=seen.version)
        by, now_ms = seen.table.by, time.time_ns() // 1_000_000
        actions = [
            *(_add(each, by=by, now_ms=now_ms, changes_data=changes_data) for each in added),
            *(_remove(each, by=by, now_ms=now_ms, changes_data=changes_data) for each in removed),
        ]
        properties = CommitProperties(
            app_transactions=[Transaction(name, number) for name, number in sorted(transactions.items())],
            max_commit_retries=0,  # a retry would commit on a version that nobody looked at
            custom_metadata={"run_id": run_id},
        )
        failpoint("before_commit")
        try:
            delta.create_write_transaction(
                actions, "append", delta.schema(), partition_by=[by] if by else None, commit_properties=properties
            )
        except CommitFailedError as problem:
            raise Conflict(
                f"{seen.table.name}: somebody else committed after version {seen.version}; nothing was added. "
                f"Run it again. ({problem})"
            ) from None
        self._delta[seen.table.name] = delta
        failpoint("after_commit")


def _open(folder: Path, version: int | None = None) -> Any:
    try:
        return DeltaTable(folder, version=version)
    except DeltaError as problem:
        raise LedgerError(f"{folder} cannot be read as a table: {problem}") from None


def _catch_up(delta: Any, folder: Path) -> None:
    try:
        delta.update_incremental()
    except DeltaError as problem:
        raise LedgerError(f"{folder} cannot be read as a table: {problem}") from None


def _commit_path(folder: Path, version: int) -> Path:
    return folder / "_delta_log" / f"{version:020d}.json"


def _require_columns(delta: Any, table: Table) -> None:
    found = pa.schema(delta.schema().to_arrow())
    if found.names != table.schema.names:
        raise LedgerError(
            f"{table.name} has other columns than this Holdfast writes ({', '.join(found.names)}): "
            "use the version that made it, or replay into a new folder"
        )


def _files(delta: Any, table: Table) -> Iterable[DataFile]:
    actions = pa.table(delta.get_add_actions(flatten=True))
    names = actions.column_names
    paths, sizes, rows = (actions.column(each).to_pylist() for each in ("path", "size_bytes", "num_records"))
    by: list[int | None] = [None] * len(paths)
    if table.by and f"partition.{table.by}" in names:
        by = actions.column(f"partition.{table.by}").cast(pa.int64()).to_pylist()
    found = [DataFile(*each) for each in zip(paths, sizes, rows, by, strict=True)]
    return sorted(found, key=lambda each: (each.by_us or 0, each.path))


def _values(file: DataFile, by: str) -> dict[str, str | None]:
    return {by: files.partition_value(file.by_us)} if by else {}


def _add(file: DataFile, *, by: str, now_ms: int, changes_data: bool) -> Any:
    return AddAction(file.path, file.size, _values(file, by), now_ms, changes_data, file.statistics)


def _remove(file: DataFile, *, by: str, now_ms: int, changes_data: bool) -> Any:
    return RemoveAction(file.path, changes_data, now_ms, file.size, _values(file, by))


def hour_name(hour_us: int) -> str:
    """`2026-11-16T04`, as transaction ids and messages name an hour."""
    return datetime.datetime.fromtimestamp(hour_us // _SECOND_US, datetime.UTC).strftime("%Y-%m-%dT%H")


def hour_of(name: str) -> int:
    """The reverse of `hour_name`, in µs."""
    return int(datetime.datetime.fromisoformat(f"{name}:00:00+00:00").timestamp()) * _SECOND_US
