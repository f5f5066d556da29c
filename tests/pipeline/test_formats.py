"""The protocols of `holdfast-usage` and `holdfast-table`, as Spark would call them, without Spark."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from holdfast.ledger import spool as spools
from holdfast.ledger import tables
from holdfast.ledger.errors import Conflict, LedgerError, Unbalanced
from holdfast.ledger.store import TableStore
from holdfast.pipeline import ingest, rows
from holdfast.pipeline.job import Job
from holdfast.spark import table_sink
from holdfast.spark.table_sink import TableSink, TableWriter
from holdfast.spark.usage_source import UsageSource, UsageStreamReader
from tests.pipeline.emitter import HOUR, MINUTE, T0, Emitter, meter

METER = tables.LEDGERS["meter"]
Offset = dict[str, Any]


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "usage"


def emit(spool: Path, node: str, *, count: int = 4) -> Emitter:
    made = Emitter(spool, node)
    for number in range(count):
        made.emit([meter(T0 + number * MINUTE, requests=number + 1)], until=T0 + (number + 1) * MINUTE)
    return made


# --- reading -----------------------------------------------------------------------------------------------


def stream(spool: Path, **options: str) -> UsageStreamReader:
    return UsageSource({"path": str(spool), **options}).streamReader(None)


def units(reader: UsageStreamReader, start: Offset, end: Offset) -> list[int]:
    batches = [batch for each in reader.partitions(start, end) for batch in reader.read(each)]
    return [value for batch in batches for value in batch.column("units").to_pylist()]


def offsets(reader: UsageStreamReader, start: Offset) -> Iterator[tuple[Offset, Offset]]:
    """Begin and end of each micro-batch, until there is nothing new."""
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        yield start, end
        start = end


def test_micro_batches_have_two_segments_of_both_nodes_in_turn_and_every_row_once(spool: Path) -> None:
    emitters = [emit(spool, "a"), emit(spool, "b", count=1)]
    reader = stream(spool, maxSegments="2")
    found = list(offsets(reader, reader.initialOffset()))
    assert [len(units(reader, *each)) for each in found] == [2, 2, 1]
    assert found[0][1] == {"a": {"1": 1}, "b": {"1": 1}}
    assert sum(sum(units(reader, *each)) for each in found) == sum(each.units for each in emitters)


def test_the_same_offsets_are_the_same_rows_in_a_new_process_and_after_more_has_come(spool: Path) -> None:
    emitter = emit(spool, "a")
    reader = stream(spool)
    ((start, end),) = offsets(reader, reader.initialOffset())
    before = units(reader, start, end)
    emitter.emit([meter(T0, requests=100)], until=T0 + HOUR)
    assert units(stream(spool), start, end) == before == [1, 2, 3, 4]


def test_what_comes_while_all_that_is_there_is_read_is_for_the_next_query(spool: Path) -> None:
    emitter = emit(spool, "a")
    reader = stream(spool, maxSegments="3")
    reader.prepareForTriggerAvailableNow()
    first = reader.latestOffset({}, reader.getDefaultReadLimit())
    emitter.emit([meter(T0, requests=100)], until=T0 + HOUR, is_final=True)
    emitter.emit([meter(T0, requests=10)], until=T0 + HOUR)
    ((_, last),) = offsets(reader, first)
    assert units(reader, {}, last) == [1, 2, 3, 4]
    ((_, end),) = offsets(following := stream(spool), last)
    assert end == {"a": {"1": 5, "2": 1}}
    assert units(following, last, end) == [100, 10]


DRAIN = """
import sys
from holdfast.spark.usage_source import UsageSource
reader = UsageSource({"path": sys.argv[1]}).streamReader(None)
print(reader.latestOffset({}, reader.getDefaultReadLimit()))
"""


def test_a_reader_that_is_killed_while_it_looks_for_the_end_has_changed_nothing(spool: Path) -> None:
    emit(spool, "a")
    before = {path: path.read_bytes() for path in spool.rglob("*") if path.is_file()}
    program, dying = [sys.executable, "-c", DRAIN, str(spool)], os.environ | {"HOLDFAST_FAILPOINT": "in_latest_offset"}
    assert subprocess.run(program, env=dying, check=False, timeout=120).returncode == -signal.SIGKILL
    assert {path: path.read_bytes() for path in spool.rglob("*") if path.is_file()} == before
    again = subprocess.run(program, check=True, capture_output=True, text=True, timeout=120)
    assert again.stdout.strip() == "{'a': {'1': 4}}"


def test_a_hole_is_an_error_that_names_the_file_for_batches_and_streams(spool: Path) -> None:
    emit(spool, "a").path(1).unlink()
    source = UsageSource({"path": str(spool)})
    with pytest.raises(LedgerError, match=r"0000000001\.parquet is missing"):
        source.reader(None).partitions()
    reader = stream(spool)
    with pytest.raises(LedgerError, match=r"0000000001\.parquet is missing"):
        reader.latestOffset({}, reader.getDefaultReadLimit())


def test_an_empty_spool_has_the_columns_of_its_kind_and_a_task_without_rows(tmp_path: Path) -> None:
    (tmp_path / "meter").mkdir()
    source = UsageSource({"path": str(tmp_path)})
    assert source.schema() == tables.ddl(tables.source_schema("meter"))
    reader = source.reader(None)
    (only,) = reader.partitions()
    assert list(reader.read(only)) == []
    assert spools.nodes(tmp_path, "meter") == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "needs the folder of the spool"),
        ({"path": "u", "kind": "meters"}, "is none of meter, audit"),
        ({"path": "u", "partitions": "0"}, "option partitions is '0', and has to be a whole number from 1"),
    ],
)
def test_an_option_that_is_wrong_is_told_what_is_right(options: dict[str, str], said: str) -> None:
    with pytest.raises(LedgerError, match=said):
        UsageSource(options)


def test_heartbeats_need_no_spark(spool: Path, tmp_path: Path) -> None:
    def no_session() -> SparkSession:
        raise AssertionError("a session was started")

    emitter = Emitter(spool)
    emitter.emit([], until=T0 + HOUR)
    job = Job(TableStore(tmp_path / "ledger"), spool, session=no_session, run_id="r", now_us=T0 + HOUR)
    done = ingest.ingest(job)
    assert (done.segments, done.rows) == (1, 0)
    assert not ingest.has_new(job.store, spool)
    numbers = job.store.snapshot(METER).transactions
    assert numbers["until/meter/node-1"] == T0 + HOUR
    assert msgspec.json.encode(numbers)


# --- writing -----------------------------------------------------------------------------------------------


def writer(store: TableStore, **more: str) -> TableWriter:
    options = {
        "path": str(store.root),
        "table": METER.name,
        "schema": table_sink.encode(METER.schema),
        "by": METER.by,
        "version": str(store.snapshot(METER).version),
        "run_id": "r",
    }
    return TableWriter(options | more, columns=list(METER.schema.names))


def batches(spool: Path) -> Iterator[Any]:
    plan = spools.plan(spool, "meter", positions={})
    for batch in spools.read(spool, "meter", plan.ranges, batch_rows=100):
        source = pa.Table.from_batches([batch])
        yield from rows.ledger_rows(source, kind="meter", run_id="r", now_us=T0 + HOUR).to_batches()


def test_a_commit_on_an_old_version_or_of_too_few_rows_adds_nothing(spool: Path, tmp_path: Path) -> None:
    emit(spool, "a")
    store = TableStore(tmp_path / "ledger")
    store.create(METER)
    first, second, short = writer(store), writer(store), writer(store, rows="5")
    written = [each.write(batches(spool)) for each in (first, second, short)]
    with pytest.raises(Unbalanced, match="4 rows were written, and the segments have 5"):
        short.commit([written[2]])
    first.commit([written[0]])
    with pytest.raises(Conflict):
        second.commit([written[1]])
    assert TableStore(store.root).snapshot(METER).rows == 4


def test_overwriting_a_table_and_missing_options_are_refused(tmp_path: Path) -> None:
    schema = StructType([StructField("n", LongType())])
    sink = TableSink({"path": str(tmp_path), "table": METER.name})
    with pytest.raises(LedgerError, match="never overwrites"):
        sink.writer(schema, overwrite=True)
    with pytest.raises(LedgerError, match="needs the options schema, version, run_id"):
        sink.writer(schema, overwrite=False)
