"""The demo's day: real segments, the same for the same seed, and with everything in it that it is said to show."""

import datetime
from pathlib import Path
from typing import Any

import pytest

from holdfast.pipeline.demo import scenario, spool, traffic
from holdfast.usage import schema, segment

DAY = datetime.date(2026, 11, 15)


@pytest.fixture(scope="module")
def rows() -> list[traffic.Counted]:
    return list(traffic.day(DAY))


def of(rows: list[traffic.Counted], kind: str) -> list[dict[str, object]]:
    names = schema.names(kind)
    return [{"minute": each.minute, **dict(zip(names, each.row, strict=True))} for each in rows if each.kind == kind]


def test_segments_are_whole_chained_and_without_gaps(tmp_path: Path) -> None:
    count = spool.write(tmp_path, DAY)
    footers = [segment.read_footer(path) for path in sorted(tmp_path.rglob("*.parquet"))]
    assert sum(footer.rows for footer in footers) == count
    for kind in schema.KINDS:
        for node in scenario.NODES:
            assert list(segment.check(tmp_path, kind, node)) == []
    assert {footer.epoch for footer in footers if footer.node == "node-b"} == {1, 2}


def test_a_histogram_has_as_many_calls_as_its_row(rows: list[traffic.Counted]) -> None:
    assert all(sum(row["latency"]) == row["requests"] for row in of(rows, schema.METER))  # type: ignore[call-overload]


def test_the_same_seed_gives_the_same_day_and_another_one_does_not(rows: list[traffic.Counted]) -> None:
    assert list(traffic.day(DAY, hours=range(3))) == [each for each in rows if each.minute < 180]
    assert list(traffic.day(DAY, seed=2, hours=range(1))) != [each for each in rows if each.minute < 60]


def test_there_is_an_outage_of_one_node_and_only_then_calls_fail(rows: list[traffic.Counted]) -> None:
    failed = [each for each in rows if each.kind == schema.METER and "failed" in each.row]
    begin, end = scenario.OUTAGE
    assert failed
    assert {each.node for each in failed} == {"node-b"}
    assert all(begin <= each.minute < end for each in failed)


def test_a_dead_letter_queue_grows_all_day_but_for_one_redrive(rows: list[traffic.Counted]) -> None:
    states = [row for row in of(rows, schema.QUEUE_STATE) if row["queue"] == "charges-dead.fifo"]
    (moved_at,) = [place for place, row in enumerate(states) if row["redriven"]]
    depth: Any = [row["visible"] for row in states]
    assert depth[:moved_at] == sorted(depth[:moved_at])
    assert depth[moved_at:] == sorted(depth[moved_at:])
    died = sum(1 for row in of(rows, schema.DEAD_LETTER) if row["queue"] == "charges.fifo")
    assert depth[-1] + states[moved_at]["redriven"] == died


def test_commands_are_polled_in_vain(rows: list[traffic.Counted]) -> None:
    receives = [
        row for row in of(rows, schema.METER) if (row["queue"], row["action"]) == ("commands", "ReceiveMessage")
    ]
    assert sum(row["empty_receives"] for row in receives) > 0.9 * sum(row["requests"] for row in receives)  # type: ignore[misc]
