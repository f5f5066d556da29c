"""Stages are functions from rows to rows. Each is tried on rows that fit on a page, without Spark."""

import random
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from holdfast.ledger import tables
from holdfast.ledger.errors import LedgerError
from holdfast.pipeline import rows, usage
from holdfast.pipeline.publish import histogram
from holdfast.usage import schema
from tests.pipeline.emitter import DAY, HOUR, MINUTE, SECOND, T0, audit, meter, random_meter

NOW = T0 + DAY


def source(many: Iterable[tuple[Any, ...]], *, kind: str = "meter", node: str = "a") -> Any:
    columns = tables.source_schema(kind)
    plain = [(*row, node, 1, 0, number) for number, row in enumerate(many)]
    values = list(zip(*plain, strict=True)) or [()] * len(columns)
    return pa.table([pa.array(each, field.type) for each, field in zip(values, columns, strict=True)], schema=columns)


def ledger(many: Iterable[tuple[Any, ...]], *, kind: str = "meter", node: str = "a") -> Any:
    return rows.ledger_rows(source(many, kind=kind, node=node), kind=kind, run_id="r", now_us=NOW)


@pytest.mark.parametrize("kind", schema.KINDS)
def test_ledger_rows_have_the_declared_columns(kind: str) -> None:
    assert ledger([], kind=kind).schema == tables.LEDGERS[kind].schema


def test_rollups_have_the_declared_columns() -> None:
    for many in ([], [meter(T0)]):
        by_minute = usage.minutes(ledger(many), run_id="r")
        by_hour = usage.hours(by_minute, run_id="r")
        assert by_minute.schema == tables.USAGE_MINUTE.schema
        assert by_hour.schema == tables.USAGE_HOURLY.schema
        assert usage.days(by_hour, run_id="r").schema == tables.USAGE_DAILY.schema


def test_a_row_that_cannot_be_right_is_kept_and_says_why() -> None:
    many = [
        meter(T0 + 61 * MINUTE),
        meter(T0, requests=-1),
        meter(NOW + 11 * MINUTE),
        meter(NOW + 9 * MINUTE),
        meter(86_400_000_000),
        meter(T0, latency=[1, 2, 3]),
        meter(T0, latency=[7] * 32),
        (T0, None, *meter(T0)[2:]),
        (None, *meter(T0)[1:]),
    ]
    made = ledger(many)
    assert made.column("fault").to_pylist() == [
        None,
        rows.NEGATIVE,
        rows.FUTURE,
        None,
        rows.UNSET,
        rows.HISTOGRAM,
        rows.HISTOGRAM,
        rows.NULL,
        rows.NULL,
    ]
    assert made.column("hour").cast(pa.int64()).to_pylist() == [T0 + HOUR, 0, 0, NOW, 0, 0, 0, 0, 0]


def test_of_several_faults_the_first_is_told() -> None:
    assert ledger([meter(NOW + DAY, requests=-1, latency=[1])]).column("fault").to_pylist() == [rows.FUTURE]


def test_kinds_without_measures_are_checked_for_their_times() -> None:
    made = ledger([audit(T0), audit(NOW + DAY)], kind="audit")
    assert made.column("fault").to_pylist() == [None, rows.FUTURE]


def test_usage_adds_up_by_minute_hour_and_day() -> None:
    one = ledger([meter(T0, requests=3), meter(T0 + 50 * SECOND, requests=4), meter(T0 + MINUTE, requests=5)])
    other = ledger([meter(T0 + SECOND, requests=10), meter(T0 + 2 * HOUR, requests=20)], node="b")
    bad = ledger([meter(T0, requests=-100)])
    by_minute = usage.minutes(pa.concat_tables([one, other, bad]), run_id="r")
    by_hour = usage.hours(by_minute, run_id="r")
    by_day = usage.days(by_hour, run_id="r")
    found = [(row["requests"], row["billed_units"], row["latency"][9], row["nodes"]) for row in by_minute.to_pylist()]
    assert found == [(17, 17, 17, ["a", "b"]), (5, 5, 5, ["a"]), (20, 20, 20, ["b"])]
    assert [(row["requests"], row["nodes"]) for row in by_hour.to_pylist()] == [(22, ["a", "b"]), (20, ["b"])]
    assert [(row["requests"], row["bytes_in"], row["nodes"]) for row in by_day.to_pylist()] == [(42, 4200, ["a", "b"])]


def test_what_differs_in_any_key_is_kept_apart() -> None:
    many = [
        meter(T0),
        meter(T0, account="222222222222"),
        meter(T0, queue="other"),
        meter(T0, queue_type="fifo"),
        meter(T0, action="ReceiveMessage"),
        meter(T0, outcome="refused"),
    ]
    assert usage.minutes(ledger(many), run_id="r").num_rows == len(many)


def test_minutes_are_those_of_a_plain_dictionary_in_the_order_of_their_keys() -> None:
    chance = random.Random(6)
    many = [random_meter(chance, T0 + SECOND * chance.randrange(7200)) for _ in range(3000)]
    sums: dict[tuple[Any, ...], list[int]] = {}
    for time, _, account, _, queue, *rest in many:
        key = (time - time % MINUTE, account, queue, *rest[:4])
        *measures, latency = rest[4:]
        known = sums.setdefault(key, [0] * (len(measures) + 32))
        sums[key] = [before + more for before, more in zip(known, [*measures, *latency], strict=True)]
    made = usage.minutes(ledger(many), run_id="r")
    names = ("minute", *tables.KEYS)
    table = made.set_column(1, "minute", made.column("minute").cast(pa.int64())).to_pylist()
    found = {
        tuple(row[each] for each in names): [*(row[each] for each in tables.MEASURES), *row["latency"]] for row in table
    }
    assert found == sums
    assert [tuple(row[each] for each in names) for row in table] == sorted(sums)


def test_parts_of_an_hour_added_up_one_by_one_are_the_whole_hour() -> None:
    chance = random.Random(7)
    parts = [
        ledger([random_meter(chance, T0 + SECOND * chance.randrange(120)) for _ in range(100)], node=f"node-{each}")
        for each in range(5)
    ]
    whole = usage.minutes(pa.concat_tables(parts), run_id="r")
    again = usage.merged([usage.minutes(each, run_id="r") for each in parts], into=tables.USAGE_MINUTE, run_id="r")
    assert again.to_pylist() == whole.to_pylist()


def test_sets_of_more_nodes_than_a_number_has_bits_are_whole() -> None:
    names = [f"node-{number:03d}" for number in range(200)]
    many = pa.concat_tables([ledger([meter(T0)], node=name) for name in reversed(names)])
    (row,) = usage.minutes(many, run_id="r").to_pylist()
    assert (row["nodes"], row["requests"]) == (names, 200)


def test_more_different_keys_than_a_number_can_tell_apart_are_still_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(8)
    many = ledger([random_meter(chance, T0 + SECOND * chance.randrange(600)) for _ in range(500)])
    wanted = usage.minutes(many, run_id="r").to_pylist()
    monkeypatch.setattr(usage, "_CODE_MAX", 5_000)
    assert usage.minutes(many, run_id="r").to_pylist() == wanted


def test_a_sum_that_does_not_fit_is_an_error_and_no_other_number() -> None:
    many = [meter(T0, units=2**62) for _ in range(3)]
    with pytest.raises(LedgerError, match="does not fit into 64 bits"):
        usage.minutes(ledger(many), run_id="r")


def test_no_principal_gets_into_a_rollup() -> None:
    assert "principal" not in tables.USAGE_MINUTE.schema.names


def test_a_quantile_is_inside_the_bucket_of_its_call_and_nothing_measured_has_none() -> None:
    counts = np.zeros((3, 32), np.int64)
    counts[0, 10], counts[0, 20] = 99, 1  # calls of half a millisecond to one, and one of half a second to one
    counts[1, 31] = 1
    median, almost_all = histogram.quantiles_ms(counts, [0.5, 0.999])
    assert 0.512 < median[0] < 1.024
    assert 524 < almost_all[0] <= 1048.576
    assert median[1] == almost_all[1] == 2**31 / 1000
    assert np.isnan([median[2], almost_all[2]]).all()
