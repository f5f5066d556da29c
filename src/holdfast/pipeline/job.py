"""What the steps of a run share, and the only place that reads and writes tables with Spark.

A step looks at its tables (`look`), makes a DataFrame of what it read, and hands it to `commit` together with the
snapshot that it looked at. The session is started by the first step that needs it: a run that finds nothing new, or
heartbeats only, never starts a JVM.
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from holdfast.ledger import errors, tables
from holdfast.ledger.errors import LedgerError
from holdfast.ledger.store import Snapshot, TableStore
from holdfast.ledger.tables import Table
from holdfast.spark import table_sink


class Job:
    def __init__(
        self, store: TableStore, spool: Path, *, session: Callable[[], SparkSession], run_id: str, now_us: int
    ) -> None:
        self.store = store
        self.spool = spool
        self.run_id = run_id
        self.now_us = now_us  # of the run: no step asks the clock
        self._session = session

    @functools.cached_property
    def spark(self) -> SparkSession:
        return self._session()

    def look(self, table: Table) -> Snapshot:
        """Makes the table if it is not there, so that there is a version to commit on."""
        seen = self.store.snapshot(table)
        if seen.version >= 0:
            return seen
        self.store.create(table)
        return self.store.snapshot(table)

    def read(self, seen: Snapshot, by_us: Iterable[int] | None = None) -> DataFrame:
        """Rows of a snapshot, or of some of its hours. The same files, whatever is committed meanwhile."""
        ddl = tables.ddl(seen.table.schema)
        uris = seen.uris(by_us)
        return self.spark.read.schema(ddl).parquet(*uris) if uris else self.spark.createDataFrame([], ddl)

    def commit(
        self,
        rows: DataFrame,
        seen: Snapshot,
        *,
        transactions: Mapping[str, int],
        replace: Iterable[int] = (),
        rows_expected: int | None = None,
    ) -> None:
        """Writes files in tasks, and commits them on the version that was seen. All or nothing."""
        options = {
            "path": str(self.store.root),
            "table": seen.table.name,
            "schema": table_sink.encode(seen.table.schema),
            "by": seen.table.by,
            "version": str(seen.version),
            "run_id": self.run_id,
            "transactions": msgspec.json.encode(transactions).decode(),
            "replace": msgspec.json.encode(sorted(replace)).decode(),
        }
        if rows_expected is not None:
            options["rows"] = str(rows_expected)
        try:
            rows.write.format(table_sink.FORMAT).options(**options).mode("append").save()
        except (PySparkException, Py4JError) as problem:
            raise translate(problem) from problem


def translate(problem: Exception) -> LedgerError:
    """Spark wraps an error of a worker in pages of traces; the last line that names one of ours is what happened."""
    lines = [line.strip() for line in str(problem).splitlines()]
    for line in reversed(lines):
        for each in (errors.Conflict, errors.BadFile, errors.Unbalanced, errors.LedgerError):
            _, found, text = line.partition(f"holdfast.ledger.errors.{each.__name__}: ")
            if found:
                return each(text)
    if any("No space left on device" in line or "Errno 28" in line for line in lines):
        return LedgerError("the disk is full; nothing was committed. Make room and run it again")
    return LedgerError(f"Spark failed; nothing was committed. {_gist(lines)}")


def _gist(lines: list[str]) -> str:
    told = [line for line in lines if "Error" in line or "Exception" in line]
    return (told or lines or [""])[0][:500]
