"""What the steps of a run share, and the only place that hands work to Spark.

A step looks at its tables (`look`) and computes what is missing on the snapshot that it looked at, in one of two ways:

- orders (`carry_out`): Spark's tasks read and write files, and the step commits what they answer;
- a DataFrame of what is there (`read`), which `commit` writes and commits.

Little work is not handed over: up to `rows_here_max` rows it is done, or written, in this process, by the same code.
The session is started by the first step that needs it. So a run that finds nothing new, or little and no hour to close,
never starts a JVM.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from holdfast.ledger import errors, tables
from holdfast.ledger.errors import LedgerError
from holdfast.ledger.files import DataFile, FileWriter
from holdfast.ledger.store import Snapshot, TableStore
from holdfast.ledger.tables import Table
from holdfast.pipeline import orders
from holdfast.pipeline.orders import Made, Order
from holdfast.spark import table_sink

ROWS_HERE_MAX: Final = 200_000  # takes two seconds here, and a session takes ten to start; as rows, 50 MB


class Job:
    def __init__(
        self,
        store: TableStore,
        spool: Path,
        *,
        session: Callable[[], SparkSession],
        run_id: str,
        now_us: int,
        rows_here_max: int = ROWS_HERE_MAX,
    ) -> None:
        self.store = store
        self.spool = spool
        self.run_id = run_id
        self.now_us = now_us  # of the run: no step asks the clock
        self.rows_here_max = rows_here_max
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
        if uris:
            return self.spark.read.schema(ddl).parquet(*uris)
        return self.spark.createDataFrame(seen.table.schema.empty_table(), ddl)  # Arrow: Spark sees that it is empty

    def carry_out(self, many: Sequence[Order], *, rows: int) -> Made:
        """All of them, or an error; `rows` is how many they read. Nothing is committed."""
        done = map(orders.carry_out, many) if rows <= self.rows_here_max else self._distribute(many)
        made: Made = {}
        for files_of in done:
            for name, files in files_of.items():
                made.setdefault(name, []).extend(files)
        return made

    def _distribute(self, many: Sequence[Order]) -> list[Made]:
        """A task for each: a range of numbers as partitions needs no shuffle, and its plan no compiler."""
        encoded = [orders.encode(each) for each in many]

        def work(batches: Iterator[Any]) -> Iterator[Any]:
            pa.set_cpu_count(1)  # Spark runs a task for each core already
            for batch in batches:
                made = [orders.carry_out_encoded(encoded[number]) for number in batch.column(0).to_pylist()]
                pa.default_memory_pool().release_unused()  # the worker waits for a minute, with what it holds
                yield pa.RecordBatch.from_pydict({"made": pa.array(made, pa.binary())})

        numbers = self.spark.range(0, len(encoded), 1, len(encoded))
        try:
            found = numbers.mapInArrow(work, "made BINARY").collect()
        except (PySparkException, Py4JError) as problem:
            raise translate(problem) from problem
        return [orders.decode_made(bytes(row.made)) for row in found]

    def commit(
        self,
        rows: DataFrame,
        seen: Snapshot,
        *,
        transactions: Mapping[str, int],
        replace: Iterable[int] = (),
        rows_max: int | None = None,
        rows_expected: int | None = None,
    ) -> None:
        """Writes files, and commits them on the version that was seen. All or nothing. Few rows, of which there are
        `rows_max` at most, are written here: tasks that write take a second or two per table to set up."""
        if rows_max is None or rows_max > self.rows_here_max:
            self._commit_by_tasks(rows, seen, transactions=transactions, replace=replace, rows_expected=rows_expected)
            return
        writer = FileWriter(seen.folder, seen.table)
        try:
            found = rows.toArrow()
        except (PySparkException, Py4JError) as problem:
            raise translate(problem) from problem
        if found.num_rows:
            writer.add(found)
        self.settle(seen, writer.close(), transactions=transactions, replace=replace)

    def settle(
        self,
        seen: Snapshot,
        added: Sequence[DataFile],
        *,
        transactions: Mapping[str, int],
        replace: Iterable[int] = (),
    ) -> None:
        """Files that are written already become part of the table, in place of the hours to `replace`."""
        gone = list(replace)
        if gone:
            self.store.replace(seen, added, by_us=gone, transactions=transactions, run_id=self.run_id)
        else:
            self.store.append(seen, added, transactions=transactions, run_id=self.run_id)

    def _commit_by_tasks(
        self,
        rows: DataFrame,
        seen: Snapshot,
        *,
        transactions: Mapping[str, int],
        replace: Iterable[int],
        rows_expected: int | None,
    ) -> None:
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
