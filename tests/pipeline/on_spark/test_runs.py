"""Whole runs, from segments to closed hours: totals are those of the nodes, to the unit, whatever happens."""

import functools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from holdfast.ledger import tables
from holdfast.ledger.errors import Busy, LedgerError
from holdfast.ledger.store import TableStore, hour_name
from holdfast.pipeline import close, rollup, rows, upkeep
from holdfast.pipeline.close import Terms
from holdfast.pipeline.job import ROWS_HERE_MAX
from holdfast.pipeline.publish import billing
from holdfast.pipeline.run import Ledger, Outcome
from holdfast.pipeline.watch import POLL_S, watch
from tests.pipeline.emitter import DAY, HOUR, MINUTE, T0, Emitter, audit, meter

NOW = T0 + 30 * DAY
Open = Callable[..., Ledger]


@pytest.fixture
def ledger(spark: SparkSession, tmp_path: Path, spool: Path) -> Open:
    def opened(folder: str = "ledger", *, session: Callable[[], Any] = lambda: spark, **more: Any) -> Ledger:
        spool.mkdir(exist_ok=True)
        usual: dict[str, Any] = {"records": billing.records, "now_us": lambda: NOW}
        return Ledger(tmp_path / folder, spool, session=session, **(usual | more))

    return opened


def no_session() -> SparkSession:
    raise AssertionError("a session was started")


def total(store: TableStore, table: tables.Table, measure: str) -> int:
    return sum(int(each) for each in store.read(store.snapshot(table), columns=[measure]).column(measure).to_pylist())


def require_exact(ledger: Ledger, *emitters: Emitter, unbilled: int = 0, faulty: int = 0) -> None:
    """What the nodes counted is in the ledger, in every rollup, and, but for open hours, in what is billed."""
    units = sum(each.units for each in emitters)
    store = TableStore(ledger.store.root)
    assert total(store, tables.LEDGERS["meter"], "units") == units
    for table in (tables.USAGE_MINUTE, tables.USAGE_HOURLY, tables.USAGE_DAILY):
        assert total(store, table, "billed_units") == units - faulty
    assert total(store, tables.BILLING_USAGE, "quantity") == units - faulty - unbilled
    assert [each for each in ledger.check() if not each.is_good] == []


def closed_hours(ledger: Ledger) -> list[int]:
    found = rollup.numbers(TableStore(ledger.store.root).snapshot(tables.BILLING_USAGE))
    return [(each - T0) // HOUR for each in sorted(found)]


def billing_records(ledger: Ledger) -> list[dict[str, Any]]:
    store = TableStore(ledger.store.root)
    found: list[dict[str, Any]] = store.read(store.snapshot(tables.BILLING_USAGE)).to_pylist()
    return found


def test_a_ledger_from_the_first_segment_to_a_node_that_is_back_after_eight_days(ledger: Open, spool: Path) -> None:
    ledger = functools.partial(ledger, rows_here_max=0)  # all of it by tasks
    a, b = Emitter(spool, "a"), Emitter(spool, "b")
    events = Emitter(spool, "a", kind="audit")
    events.emit([audit(T0)], until=T0 + HOUR)
    for each in (a, b):
        each.traffic(T0, T0 + 2 * HOUR, step=10 * MINUTE)
    first = ledger().once()
    assert (first.segments, first.rows, first.hours_rolled_up, first.hours_closed) == (25, 97, 2, 1)
    assert closed_hours(ledger()) == [0]
    last_hour = sum(row["billed_units"] for row in _hourly(ledger()) if hour_name(_us(row["hour"])).endswith("T01"))
    require_exact(ledger(), a, b, unbilled=last_hour)

    # Nothing new: no session. Heartbeats: time passes, the second hour can close.
    assert not ledger(session=no_session).once().did_something
    for each in (a, b):
        each.emit([], until=T0 + 2 * HOUR + 6 * MINUTE, is_final=True)
    assert ledger().once().hours_closed == 1
    require_exact(ledger(), a, b)
    assert {each["record_type"] for each in billing_records(ledger())} == {"ORIGINAL"}

    # A node that was away for eight days has rows for a closed hour. The built-in file source would have left them out.
    late = Emitter(spool, "late")
    late.emit(
        [meter(T0 + MINUTE, account="000000000000", queue="q1", requests=1000)], until=T0 + 8 * DAY, is_final=True
    )
    done = ledger().once()
    assert (done.rows, done.hours_rolled_up, done.hours_closed) == (1, 1, 1)
    require_exact(ledger(), a, b, late)
    corrections = [each for each in billing_records(ledger()) if each["record_type"] != "ORIGINAL"]
    assert sorted(each["record_type"] for each in corrections) in ([], ["RESTATEMENT", "RETRACTION"])
    before = {each["record_id"] for each in billing_records(ledger())}
    assert all(each["correction_of"] in before for each in corrections)

    # Computing anew, and building anew, give the same rows.
    digests = {each.name: upkeep.digest(ledger().store, each) for each in upkeep.COMPARED}
    assert upkeep.backfill(ledger(), begin_us=T0, end_us=T0 + DAY) == 2
    assert {each.name: upkeep.digest(ledger().store, each) for each in upkeep.COMPARED} == digests
    outcome, same = upkeep.replay(ledger(), ledger("again", rows_here_max=ROWS_HERE_MAX))  # and not
    assert outcome.rows == 98
    assert same == dict.fromkeys(same, True)


def _hourly(ledger: Ledger) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ledger.store.read(ledger.store.snapshot(tables.USAGE_HOURLY)).to_pylist()
    return found


def _us(moment: Any) -> int:
    return round(float(moment.timestamp())) * 1_000_000


def test_a_gap_holds_its_hours_open_and_faulty_rows_are_kept_but_not_billed(ledger: Open, spool: Path) -> None:
    good, holey = Emitter(spool, "good"), Emitter(spool, "holey")
    good.emit([meter(T0, requests=5), meter(NOW + DAY, requests=7)], until=T0 + 3 * HOUR)
    for number in range(4):
        holey.emit([meter(T0 + number * HOUR, requests=10)], until=T0 + (number + 1) * HOUR)
    missing = holey.path(2)
    missing.rename(missing.with_suffix(".away"))
    done = ledger().once()
    assert [(each.node, each.what) for each in done.problems] == [("holey", "gap")]
    assert (done.rows, done.hours_closed) == (4, 1)
    assert closed_hours(ledger()) == [0]
    failed = [each for each in ledger().check() if not each.is_good]
    assert [(each.check, each.subject) for each in failed] == [("gaps", "meter/holey")]
    left_behind = Terms(abandoned=frozenset({"holey"}))  # when the operator says that it never comes back
    assert [
        (hour - T0) // HOUR for hour in close.due(ledger().store, problems=done.problems, terms=left_behind, now_us=NOW)
    ] == [1]

    missing.with_suffix(".away").rename(missing)
    good.emit([], until=T0 + 9 * HOUR, is_final=True)
    holey.emit([], until=T0 + 9 * HOUR, is_final=True)
    assert ledger().once().is_good
    assert closed_hours(ledger()) == [0, 1, 2, 3]
    require_exact(ledger(), good, holey, faulty=7)
    faults = ledger().store.read(ledger().store.snapshot(tables.LEDGERS["meter"]), columns=["fault"])
    assert [each for each in faults.column("fault").to_pylist() if each] == [rows.FUTURE]


def test_watching_takes_over_what_comes_and_refuses_a_second_run(ledger: Open, spool: Path) -> None:
    emitter = Emitter(spool)
    told: list[Outcome | LedgerError] = []
    looks: list[float] = []

    def stop(pause_s: float) -> bool:
        """Called between looks at the spool: a node writes a segment each time but the last, when nothing is new."""
        looks.append(pause_s)
        if len(looks) <= 2:
            emitter.emit([meter(T0 + len(looks) * MINUTE)], until=T0 + (len(looks) + 1) * MINUTE)
        if len(looks) == 4:
            with pytest.raises(Busy, match="another run"):
                ledger().once()
        return len(looks) == 4

    watch(ledger(), stop=stop, on_run=told.append)
    assert [each.rows for each in told if isinstance(each, Outcome)] == [1, 1]
    assert set(looks) == {POLL_S}
    require_exact(ledger(), emitter, unbilled=2)

    # Rows that vanish from a table stop closing, until they are computed anew.
    store = ledger().store
    store.replace(store.snapshot(tables.USAGE_HOURLY), [], by_us=[T0], transactions={}, run_id="a mistake")
    emitter.emit([], until=T0 + 2 * HOUR)
    with pytest.raises(
        LedgerError, match=r"no hour is closed while checks fail: rollups rollup.usage_hourly: 0, not 2"
    ):
        ledger(session=no_session).once()
    assert closed_hours(ledger()) == []
    runs = store.read(store.snapshot(tables.PIPELINE_RUNS)).to_pylist()
    assert sorted(each["outcome"] for each in runs) == ["done", "done", "failed"]
    assert upkeep.backfill(ledger(), begin_us=T0, end_us=T0 + HOUR) == 1
    assert ledger().once().hours_closed == 1
    require_exact(ledger(), emitter)

    # Segments may go when their rows are in the ledger; each node keeps its last one.
    emitter.emit([meter(T0 + 2 * HOUR)], until=T0 + 3 * HOUR)
    assert upkeep.prune(ledger(), before_us=T0 + 2 * MINUTE + 1) == [emitter.path(0)]
    assert upkeep.prune(ledger(), before_us=NOW) == [emitter.path(1)]
    assert ledger().problems() == []


def test_usage_is_taken_over_while_an_hour_closes_aside(ledger: Open, spool: Path) -> None:
    emitter = Emitter(spool)
    told: list[Outcome | LedgerError] = []
    followed: list[int] = []
    went_on, never = threading.Event(), threading.Event()

    def late_records(*given: Any, **more: Any) -> Any:
        assert went_on.wait(60)
        return billing.records(*given, **more)

    def on_run(found: Outcome | LedgerError) -> None:
        told.append(found)
        if len(told) == 2:
            went_on.set()

    def stop(pause_s: float) -> bool:
        if emitter.seq < 2:
            number = emitter.seq
            emitter.emit([meter(T0 + number * 2 * HOUR)], until=T0 + 2 * HOUR + number * MINUTE)
        return len(told) == 3 or never.wait(pause_s)

    def follow(own: Ledger, done: Outcome) -> None:
        followed.append(done.hours_closed)
        assert own.store.snapshot(tables.BILLING_USAGE).rows >= done.hours_closed

    watch(ledger(records=late_records), stop=stop, on_run=on_run, follow=follow)
    seen = [(each.rows, each.hours_closed) for each in told if isinstance(each, Outcome)]
    assert seen == [(1, 0), (1, 0), (0, 1)]
    assert followed[0] == 1
    assert closed_hours(ledger()) == [0]


def test_a_spool_that_is_not_there_is_told(spark: SparkSession, tmp_path: Path) -> None:
    nowhere = Ledger(tmp_path / "l", tmp_path / "nowhere", session=lambda: spark, records=billing.records)
    with pytest.raises(LedgerError, match="is no folder; the spool of a server is the folder `usage`"):
        nowhere.once()
