"""`holdfast-table`: rows of a DataFrame become files of a ledger's table, and one commit.

Tasks write Parquet with pyarrow (faster here than Spark's own writer, and with the types that Delta wants) and tell
what they wrote. When all of them are done, `commit` checks their files and commits them together with the transaction
ids, on the version that the job looked at. Nothing is overwritten, ever; files of tasks that died are no part of
anything.

| option       |                                                                          |
|--------------|--------------------------------------------------------------------------|
| path         | folder of the ledger                                                     |
| table        | its name, `rollup.usage_hourly`                                          |
| schema, by   | its columns (`encode`), and the one that keeps files apart               |
| version      | that the job looked at; another commit since then is a Conflict          |
| run_id       |                                                                          |
| transactions | JSON: ids to set in the same commit                                      |
| replace      | JSON: hours, in µs, whose rows make way                                  |
| rows         | how many there must be; otherwise nothing is committed                   |
"""

import base64
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

from holdfast.ledger.errors import Conflict, LedgerError, Unbalanced
from holdfast.ledger.files import DataFile, FileWriter
from holdfast.ledger.store import TableStore
from holdfast.ledger.tables import Table

FORMAT: Final = "holdfast-table"


class TableSink(DataSource):
    @classmethod
    def name(cls) -> str:
        return FORMAT

    def writer(self, schema: Any, overwrite: bool) -> "TableWriter":
        if overwrite:
            raise LedgerError(f"{FORMAT} never overwrites: use mode('append'), and the option `replace` for hours")
        return TableWriter(dict(self.options), columns=list(schema.names))


class Written(WriterCommitMessage):
    """What a task wrote: a list of DataFile as JSON, for plain text survives any pickler."""

    def __init__(self, files: bytes) -> None:
        self.files = files


class TableWriter(DataSourceArrowWriter):
    def __init__(self, options: Mapping[str, str], *, columns: list[str]) -> None:
        self._options = options
        self._table = _table(options)
        if columns != self._table.schema.names:
            raise LedgerError(f"{self._table.name} has the columns {', '.join(self._table.schema.names)}")

    @property
    def _store(self) -> TableStore:
        return TableStore(Path(self._options["path"]))

    def write(self, iterator: Iterator[Any]) -> Written:
        pa.set_cpu_count(1)  # Spark runs a task for each core already
        writer = FileWriter(self._table.folder(self._store.root), self._table)
        for batch in iterator:
            writer.write(batch)
        files = writer.close()
        pa.default_memory_pool().release_unused()  # the worker waits for a minute, with what it holds
        return Written(msgspec.json.encode(files))

    def commit(self, messages: list[Any]) -> None:
        written = [msgspec.json.decode(each.files, type=list[DataFile]) for each in messages if each is not None]
        added = [file for files in written for file in files]
        _require_rows(added, self._options.get("rows"), table=self._table.name)
        store = self._store
        seen = store.snapshot(self._table)
        version = int(self._options["version"])
        if seen.version != version:
            raise Conflict(f"{self._table.name} is at version {seen.version}, and the run looked at {version}")
        transactions = msgspec.json.decode(self._options.get("transactions", "{}"), type=dict[str, int])
        replaced = msgspec.json.decode(self._options.get("replace", "[]"), type=list[int])
        run_id = self._options["run_id"]
        if replaced:
            store.replace(seen, added, by_us=replaced, transactions=transactions, run_id=run_id)
        else:
            store.append(seen, added, transactions=transactions, run_id=run_id)

    def abort(self, messages: list[Any]) -> None:
        """Files without a commit are no part of the table; vacuum removes them when no run can be using them."""


def encode(schema: Any) -> str:
    """An Arrow schema as an option."""
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def _table(options: Mapping[str, str]) -> Table:
    missing = [name for name in ("path", "table", "schema", "version", "run_id") if not options.get(name)]
    if missing:
        raise LedgerError(f"{FORMAT} needs the options {', '.join(missing)}")
    columns = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(options["schema"])))
    return Table(options["table"], columns, by=options.get("by", ""))


def _require_rows(added: list[DataFile], wanted: str | None, *, table: str) -> None:
    found = sum(each.rows for each in added)
    if wanted is not None and found != int(wanted):
        raise Unbalanced(f"{table}: {found} rows were written, and the segments have {wanted}; nothing was committed")
