"""The commit protocol of tables: rows and offsets together, on the version that was looked at, or not at all."""

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from holdfast.ledger import delta_log, lock, tables
from holdfast.ledger.errors import BadFile, Busy, Conflict, LedgerError
from holdfast.ledger.files import DataFile, FileWriter
from holdfast.ledger.store import Snapshot, TableStore, hour_name, hour_of
from holdfast.ledger.tables import Table
from tests.pipeline.emitter import HOUR, T0

COUNTS = Table(
    "test.counts",
    pa.schema([("hour", tables.TIME), ("n", pa.int64()), ("price", pa.decimal128(38, 12)), ("h", tables.HISTOGRAM)]),
    by="hour",
)


@pytest.fixture
def store(tmp_path: Path) -> TableStore:
    made = TableStore(tmp_path)
    made.create(COUNTS)
    return made


def staged(store: TableStore, *rows: tuple[int, int], table: Table = COUNTS) -> list[DataFile]:
    writer = FileWriter(table.folder(store.root), table)
    columns: dict[str, Any] = {
        "hour": pa.array([T0 + hour * HOUR for hour, _ in rows], tables.TIME),
        "n": [n for _, n in rows],
        "price": pa.array([Decimal("0.0000004")] * len(rows), pa.decimal128(38, 12)),
        "h": pa.array([[n, 0] for _, n in rows], tables.HISTOGRAM),
    }
    writer.write(pa.RecordBatch.from_pydict(columns, schema=table.schema))
    return writer.close()


def append(store: TableStore, *rows: tuple[int, int], seen: Snapshot | None = None, **transactions: int) -> None:
    store.append(
        seen or store.snapshot(COUNTS), staged(store, *rows) if rows else [], transactions=transactions, run_id="r"
    )


def values(store: TableStore, *hours: int) -> list[int]:
    by_us = [T0 + each * HOUR for each in hours] or None
    return sorted(store.read(store.snapshot(COUNTS), by_us=by_us).column("n").to_pylist())


def test_a_table_that_is_not_there_is_empty(tmp_path: Path) -> None:
    seen = TableStore(tmp_path).snapshot(COUNTS)
    assert (seen.version, seen.files, seen.transactions, seen.uris()) == (-1, (), {}, [])


def test_rows_and_transaction_ids_arrive_together(store: TableStore) -> None:
    append(store, (0, 1), (1, 2), (0, 3), here=7)
    seen = store.snapshot(COUNTS)
    assert (seen.rows, seen.transactions) == (3, {"here": 7})
    assert seen.rows_by() == {T0: 2, T0 + HOUR: 1}
    assert values(store) == [1, 2, 3]
    assert values(store, 1) == [2]


def test_rows_in_any_order_get_to_the_file_of_their_hour(store: TableStore) -> None:
    rows = [(n % 3, n) for n in range(1000)]
    append(store, *rows)
    assert values(store) == list(range(1000))
    assert values(store, 1) == list(range(1, 1000, 3))
    assert len(store.snapshot(COUNTS).files) == 3


def test_transaction_ids_may_come_without_rows(store: TableStore) -> None:
    append(store, heartbeat=1)
    assert store.snapshot(COUNTS).transactions == {"heartbeat": 1}


def test_a_second_commit_on_the_same_version_is_refused(store: TableStore) -> None:
    seen = store.snapshot(COUNTS)
    append(store, (0, 1), seen=seen, at=1)
    with pytest.raises(Conflict, match="somebody else committed after version 0"):
        append(store, (0, 1), seen=seen, at=1)
    assert values(store) == [1]


def test_a_second_commit_is_refused_also_when_it_has_other_ids(store: TableStore) -> None:
    seen = store.snapshot(COUNTS)
    append(store, (0, 1), seen=seen, one=1)
    with pytest.raises(Conflict):
        append(store, (0, 1), seen=seen, two=1)


def test_an_hour_is_replaced_whole_and_others_stay(store: TableStore) -> None:
    append(store, (0, 1), (0, 2), (1, 3))
    seen = store.snapshot(COUNTS)
    store.replace(seen, staged(store, (0, 9)), by_us=[T0], transactions={"hour/x": 2}, run_id="r")
    assert values(store) == [3, 9]
    store.replace(store.snapshot(COUNTS), [], by_us=[T0 + HOUR], transactions={}, run_id="r")
    assert values(store) == [9]


def test_replacing_an_hour_takes_no_rows_of_others(store: TableStore) -> None:
    with pytest.raises(LedgerError, match="none of the hours"):
        store.replace(store.snapshot(COUNTS), staged(store, (1, 1)), by_us=[T0], transactions={}, run_id="r")


def test_a_file_that_is_gone_is_not_committed(store: TableStore) -> None:
    files = staged(store, (0, 1))
    (COUNTS.folder(store.root) / files[0].path).unlink()
    with pytest.raises(BadFile, match="cannot be read"):
        store.append(store.snapshot(COUNTS), files, transactions={}, run_id="r")
    assert store.snapshot(COUNTS).version == 0


def test_a_file_with_other_columns_is_not_committed(store: TableStore) -> None:
    files = staged(store, (0, 1))
    path = COUNTS.folder(store.root) / files[0].path
    pq.write_table(pa.table({"hour": pa.array([T0], tables.TIME), "n": ["text"]}), path)
    with pytest.raises(BadFile, match="other columns"):
        store.append(store.snapshot(COUNTS), files, transactions={}, run_id="r")


def test_a_file_with_other_rows_than_counted_is_not_committed(store: TableStore) -> None:
    one, two = staged(store, (0, 1)), staged(store, (0, 1), (0, 2))
    folder = COUNTS.folder(store.root)
    (folder / one[0].path).write_bytes((folder / two[0].path).read_bytes())
    with pytest.raises(BadFile, match="2 rows, and its writer counted 1"):
        store.append(store.snapshot(COUNTS), one, transactions={}, run_id="r")


def test_statistics_are_of_whole_numbers_and_times_only(store: TableStore) -> None:
    append(store, (0, 5), (0, -1))
    found = pa.table(DeltaTable(COUNTS.folder(store.root)).get_add_actions(flatten=True)).to_pylist()[0]
    assert (found["num_records"], found["min.n"], found["max.n"], found["null_count.n"]) == (2, -1, 5, 0)
    assert found.get("min.price") is None
    assert found.get("max.price") is None


def test_bounds_of_times_are_widened_to_milliseconds(store: TableStore) -> None:
    writer = FileWriter(tables.QUALITY_CHECKS.folder(store.root), tables.QUALITY_CHECKS)
    row = dict.fromkeys(tables.QUALITY_CHECKS.schema.names) | {
        "time": datetime.datetime(2026, 11, 16, 1, 2, 3, 4567, tzinfo=datetime.UTC)
    }
    writer.write(pa.RecordBatch.from_pylist([row], schema=tables.QUALITY_CHECKS.schema))
    statistics = writer.close()[0].statistics
    assert '"minValues": {"time": "2026-11-16T01:02:03.004Z"}' in statistics
    assert '"maxValues": {"time": "2026-11-16T01:02:03.005Z"}' in statistics


def test_many_files_of_an_hour_become_one_and_no_row_changes(store: TableStore) -> None:
    for n in range(5):
        append(store, (0, n), (1, 10 + n), at=n)
    before = values(store)
    append(store, (2, 99))
    assert store.compact(COUNTS, run_id="r", files_max=4) == 8
    seen = store.snapshot(COUNTS)
    assert (values(store), len(seen.files)) == (sorted([*before, 99]), 3)
    assert seen.transactions == {"at": 4}
    assert store.compact(COUNTS, run_id="r", files_max=4) == 0


def test_vacuum_takes_only_what_no_version_knows_and_not_before_a_week(store: TableStore) -> None:
    append(store, (0, 1))
    orphan = staged(store, (0, 2))[0].path  # as a run that died leaves one
    assert store.vacuum(COUNTS) == []
    assert store.vacuum(COUNTS, after_h=0, dry_run=True) == [orphan]
    with pytest.raises(LedgerError, match="168 h at least"):
        store.vacuum(COUNTS, after_h=1)


def test_transaction_ids_are_read_from_checkpoints_as_well(store: TableStore) -> None:
    for n in range(3):
        store.append(store.snapshot(COUNTS), [], transactions={f"node/{n}": n, "last": n}, run_id="r")
    folder = COUNTS.folder(store.root)
    DeltaTable(folder).create_checkpoint()
    append(store, last=9)
    wanted = {"node/0": 0, "node/1": 1, "node/2": 2, "last": 9}
    assert store.snapshot(COUNTS).transactions == wanted
    for path in (folder / "_delta_log").glob("0000000000000000000[0-2].json"):
        path.unlink()  # as the log's own clean-up does
    assert store.snapshot(COUNTS).transactions == wanted
    assert delta_log.transactions(folder, 4) == wanted


def test_tables_are_plain_delta_that_others_can_read(store: TableStore) -> None:
    append(store, (0, 1), (1, 2))
    delta = DeltaTable(COUNTS.folder(store.root))
    protocol = delta.protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)
    hour = datetime.datetime.fromtimestamp(T0 / 1e6, datetime.UTC)
    assert delta.to_pyarrow_table(filters=[("hour", "=", hour)]).column("n").to_pylist() == [1]


def test_a_table_with_other_columns_is_refused(store: TableStore) -> None:
    other = Table(COUNTS.name, pa.schema([("hour", tables.TIME), ("m", pa.int64())]), by="hour")
    with pytest.raises(LedgerError, match="other columns"):
        TableStore(store.root).snapshot(other)


def test_a_commit_of_somebody_else_is_seen(store: TableStore) -> None:
    store.snapshot(COUNTS)
    append(TableStore(store.root), (0, 1), at=1)
    assert store.snapshot(COUNTS).transactions == {"at": 1}


def test_a_few_rows_can_be_inserted_without_looking(store: TableStore) -> None:
    for n in range(2):
        rows = [dict.fromkeys(COUNTS.schema.names) | {"n": n, "hour": datetime.datetime.fromtimestamp(0, datetime.UTC)}]
        store.insert(COUNTS, rows, run_id="r")
    assert values(store) == [0, 1]


def test_a_second_run_is_refused_and_told_who_is_first(tmp_path: Path) -> None:
    with lock.only_run(tmp_path), pytest.raises(Busy, match=r"process \d+"), lock.only_run(tmp_path):
        pass
    with lock.only_run(tmp_path):
        pass


def test_hours_have_names() -> None:
    assert hour_name(T0 + 4 * HOUR) == "2026-11-16T04"
    assert hour_of("2026-11-16T04") == T0 + 4 * HOUR


def test_every_table_can_be_made_and_looked_at(tmp_path: Path) -> None:
    store = TableStore(tmp_path)
    for table in tables.TABLES.values():
        store.create(table)
        assert store.snapshot(table).version == 0
        assert tables.ddl(table.schema).startswith("`")
