"""What an operator sees when something is wrong: the command says what, where and what to do; nothing is counted twice
and nothing is lost. All of it without a JVM.
"""

import errno
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.cli.main import program
from holdfast.ledger import lock, tables
from holdfast.ledger.errors import BadFile, Conflict, LedgerError, Unbalanced
from holdfast.ledger.positions import from_transactions
from holdfast.ledger.store import TableStore
from holdfast.pipeline import rates, reports
from holdfast.pipeline.job import translate
from holdfast.pipeline.rates import RatesError
from holdfast.pipeline.run import explain
from tests.pipeline.emitter import DAY, HOUR, MINUTE, T0, Emitter, meter
from tests.pipeline.test_report_checks import HOUR as BILLED_HOUR
from tests.pipeline.test_report_checks import RECORD


@pytest.fixture
def emitter(tmp_path: Path) -> Emitter:
    """Heartbeats only: they are taken over without a JVM, by the same plan and commit as rows."""
    made = Emitter(tmp_path / "usage", "a")
    for minute in range(4):
        made.emit([], until=T0 + minute * MINUTE)
    return made


def once(emitter: Emitter) -> tuple[int, str]:
    done = CliRunner().invoke(
        program("pipeline"), ["pipeline", "once", "--no-reports", "--data", str(emitter.root.parent)]
    )
    return done.exit_code, done.stderr.strip()


def next_number(emitter: Emitter) -> int:
    """Of the segment that the ledger wants."""
    store = TableStore(emitter.root.parent / "ledger")
    return from_transactions("meter", store.snapshot(tables.LEDGERS["meter"]).transactions)["a"].seq


def damage(emitter: Emitter) -> None:
    data = bytearray(emitter.path(2).read_bytes())
    data[len(data) // 2] ^= 1
    emitter.path(2).write_bytes(bytes(data))


def cut(emitter: Emitter) -> None:
    emitter.path(2).write_bytes(emitter.path(2).read_bytes()[:100])


def remove(emitter: Emitter) -> None:
    emitter.path(2).unlink()


def repeat(emitter: Emitter) -> None:
    emitter.path(2).write_bytes(emitter.path(1).read_bytes())


def exchange(emitter: Emitter) -> None:
    second, third = emitter.path(2).read_bytes(), emitter.path(3).read_bytes()
    emitter.path(2).write_bytes(third)
    emitter.path(3).write_bytes(second)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (damage, "bring back the one that the node wrote"),
        (cut, "cannot be read as a segment"),
        (remove, "is missing, and"),
        (repeat, "says that it is number 1"),
        (exchange, "says that it is number 3"),
    ],
)
def test_a_segment_that_is_not_what_the_node_wrote_stops_there_until_it_is_back(
    emitter: Emitter, wrong: Callable[[Emitter], None], said: str
) -> None:
    whole = {seq: emitter.path(seq).read_bytes() for seq in range(4)}
    wrong(emitter)
    code, text = once(emitter)
    assert (code, said in text, str(emitter.path(2).parent) in text) == (1, True, True)
    assert next_number(emitter) <= 2
    for seq, data in whole.items():
        emitter.path(seq).write_bytes(data)
    assert once(emitter) == (0, "")
    assert next_number(emitter) == 4


def test_a_version_that_is_not_known_stops_there_and_asks_for_a_newer_holdfast(
    emitter: Emitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as future:
        future.setattr("holdfast.usage.schema.VERSION", 99)
        emitter.emit([], until=T0 + HOUR)
    code, text = once(emitter)
    assert (code, "has schema version 99" in text, "use a newer one" in text) == (1, True, True)
    assert next_number(emitter) == 4


def test_rows_with_a_clock_in_the_future_are_put_aside_with_their_segment(tmp_path: Path) -> None:
    emitter = Emitter(tmp_path / "usage", "a")
    emitter.emit([meter(T0), meter(T0 + 3650 * DAY)], until=T0 + MINUTE)
    assert once(emitter) == (0, "")
    shown = CliRunner().invoke(
        program("pipeline"), ["pipeline", "show", "ledger.quarantine", "--json", "--data", str(tmp_path)]
    )
    (row,) = json.loads(shown.stdout)
    assert (row["fault"], row["kind"], row["queue"]) == ("clock_in_the_future", "meter", "orders")
    assert [row[name] for name in ("node", "epoch", "seq", "row")] == ["a", 1, 0, 1]
    listed = CliRunner().invoke(program("pipeline"), ["pipeline", "show", "--json", "--data", str(tmp_path)])
    assert {each["table"]: each["rows"] for each in json.loads(listed.stdout)}["ledger.quarantine"] == 1


def test_two_runs_at_once_are_refused_and_the_second_does_it_later(emitter: Emitter) -> None:
    with lock.only_run(emitter.root.parent / "ledger"):
        code, text = once(emitter)
    assert (code, "another run" in text, "wait for it" in text) == (2, True, True)
    assert once(emitter) == (0, "")
    assert next_number(emitter) == 4


def test_a_full_disk_is_told_and_the_next_run_goes_on(emitter: Emitter, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as full:

        def refuse(*_: object, **__: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        full.setattr("holdfast.ledger.store.TableStore.append", refuse)
        code, text = once(emitter)
    assert (code, "the disk is full; nothing was committed. Make room and run it again" in text) == (2, True)
    assert once(emitter) == (0, "")
    assert next_number(emitter) == 4


def test_usage_before_the_first_rate_is_not_free(tmp_path: Path) -> None:
    store = TableStore(tmp_path)
    record = {**RECORD, "sku": rates.FIFO, "start": BILLED_HOUR}
    store.insert(tables.BILLING_USAGE, [record], run_id="r")
    used = reports._first_used(store, store.snapshot(tables.BILLING_USAGE).rows_by())
    rates.require(rates.load(), used)
    late = rates.parse(
        rates.DEFAULT.read_text(encoding="utf-8").replace("valid_from = 2026-01-01", "valid_from = 2999-01-01"),
        where="mine.toml",
    )
    with pytest.raises(RatesError, match=r"no rate for requests-.* Add one with valid_from = 2026"):
        rates.require(late, used)


@pytest.mark.parametrize(
    ("line", "kind", "said"),
    [
        ("holdfast.ledger.errors.Conflict: x is at version 4", Conflict, "x is at version 4"),
        ("holdfast.ledger.errors.BadFile: f has 1 row", BadFile, "f has 1 row"),
        ("holdfast.ledger.errors.Unbalanced: 3, not 4", Unbalanced, "3, not 4"),
        ("OSError: [Errno 28] No space left on device", LedgerError, "the disk is full; nothing was committed"),
        ("java.lang.OutOfMemoryError: heap", LedgerError, "OutOfMemoryError"),
    ],
)
def test_an_error_of_a_task_is_told_without_its_traces(line: str, kind: type[LedgerError], said: str) -> None:
    told = translate(RuntimeError(f"Job aborted\n\tat org.apache.spark.Some(Trace.scala:1)\n{line}\n\tat java.Thread"))
    assert type(told) is kind
    assert said in str(told)
    assert "Trace.scala" not in str(told)


def test_errors_of_the_system_are_told_as_what_they_mean_for_the_ledger() -> None:
    assert "Make room" in str(explain(OSError(errno.EDQUOT, "Disk quota exceeded")))
    assert "nothing was committed" in str(explain(OSError(errno.EACCES, "Permission denied")))
