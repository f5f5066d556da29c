"""What the spool hands out: contiguous, whole, shared by the nodes; and what is wrong is named, not skipped."""

import shutil
from pathlib import Path

import pytest

from holdfast.ledger import spool
from holdfast.ledger.positions import Position, from_transactions, to_transactions
from holdfast.ledger.spool import Plan, Range
from holdfast.usage import segment
from tests.pipeline.emitter import HOUR, MINUTE, T0, Emitter, meter


def plan(root: Path, positions: dict[str, Position] | None = None, *, segments_max: int = 1000) -> Plan:
    return spool.plan(root, "meter", positions=positions or {}, segments_max=segments_max)


def node(root: Path, name: str = "a", *, segments: int = 5) -> Emitter:
    emitter = Emitter(root, name)
    for number in range(segments):
        emitter.emit([meter(T0 + number * MINUTE)], until=T0 + (number + 1) * MINUTE)
    return emitter


def what(found: Plan) -> list[tuple[str, str]]:
    return [(each.node, each.what) for each in found.problems]


def test_a_spool_that_is_not_there_has_nothing(tmp_path: Path) -> None:
    assert plan(tmp_path / "none").ranges == ()
    assert not spool.has_new(tmp_path / "none", "meter", {})


def test_all_segments_are_planned_once(tmp_path: Path) -> None:
    node(tmp_path)
    first = plan(tmp_path)
    assert first.ranges == (Range("a", 1, 0, 5),)
    assert (first.rows, first.segments) == (5, 5)
    assert plan(tmp_path, first.after).ranges == ()
    assert not spool.has_new(tmp_path, "meter", first.after)


def test_a_plan_goes_over_the_end_of_an_epoch(tmp_path: Path) -> None:
    emitter = node(tmp_path, segments=2)
    emitter.emit([], until=T0 + HOUR, is_final=True)
    emitter.emit([meter(T0 + HOUR)], until=T0 + HOUR + MINUTE)
    found = plan(tmp_path)
    assert found.ranges == (Range("a", 1, 0, 3), Range("a", 2, 0, 1))
    assert found.after["a"].place == (2, 1)
    assert found.after["a"].until_us == T0 + HOUR + MINUTE


def test_a_limit_is_shared_by_the_nodes_and_no_node_starves(tmp_path: Path) -> None:
    node(tmp_path, "away-for-a-week", segments=20)
    node(tmp_path, "b", segments=2)
    node(tmp_path, "c", segments=9)
    counted = {each.node: each.end for each in plan(tmp_path, segments_max=12).ranges}
    assert counted == {"away-for-a-week": 5, "b": 2, "c": 5}
    assert {each.node for each in plan(tmp_path, segments_max=1).ranges} == {"away-for-a-week", "b", "c"}


def test_limited_plans_add_up_to_the_whole(tmp_path: Path) -> None:
    emitters = [node(tmp_path, name, segments=count) for name, count in (("a", 7), ("b", 1), ("c", 4))]
    positions: dict[str, Position] = {}
    rows = 0
    while (found := plan(tmp_path, positions, segments_max=4)).ranges:
        positions |= found.after
        rows += found.rows
    assert rows == sum(each.rows for each in emitters)


def test_a_deleted_segment_is_a_gap_and_stops_only_its_node(tmp_path: Path) -> None:
    node(tmp_path, "a").path(2).unlink()
    node(tmp_path, "b")
    found = plan(tmp_path)
    assert what(found) == [("a", "gap")]
    assert "0000000002.parquet is missing" in found.problems[0].detail
    assert found.ranges == (Range("a", 1, 0, 2), Range("b", 1, 0, 5))


def test_a_deleted_first_segment_is_a_gap(tmp_path: Path) -> None:
    node(tmp_path).path(0).unlink()
    assert what(plan(tmp_path)) == [("a", "gap")]


def test_an_epoch_without_its_end_is_a_gap_when_the_next_has_begun(tmp_path: Path) -> None:
    emitter = node(tmp_path, segments=2)
    final = emitter.emit([meter(T0 + HOUR)], until=T0 + HOUR, is_final=True)
    emitter.emit([], until=T0 + 2 * HOUR)
    final.unlink()
    found = plan(tmp_path)
    assert what(found) == [("a", "gap")]
    assert found.ranges == (Range("a", 1, 0, 2),)


def test_a_missing_end_of_the_spool_is_no_gap_but_simply_not_there_yet(tmp_path: Path) -> None:
    node(tmp_path).path(4).unlink()
    assert plan(tmp_path).ranges == (Range("a", 1, 0, 4),)


def test_exchanged_segments_are_found(tmp_path: Path) -> None:
    emitter = node(tmp_path)
    one, two = emitter.path(1).read_bytes(), emitter.path(2).read_bytes()
    emitter.path(1).write_bytes(two)
    emitter.path(2).write_bytes(one)
    found = plan(tmp_path)
    assert what(found) == [("a", "damaged")]
    assert found.ranges == (Range("a", 1, 0, 1),)


def test_a_repeated_segment_is_found(tmp_path: Path) -> None:
    emitter = node(tmp_path)
    shutil.copy(emitter.path(4), emitter.path(5))
    assert what(plan(tmp_path)) == [("a", "damaged")]


def test_a_segment_of_another_node_is_found(tmp_path: Path) -> None:
    shutil.copy(node(tmp_path, "b").path(2), node(tmp_path, "a").path(2))
    assert what(plan(tmp_path)) == [("a", "damaged")]


def test_a_segment_that_was_written_again_with_other_rows_breaks_the_chain_and_is_not_taken(tmp_path: Path) -> None:
    emitter = node(tmp_path)
    path, lifetime = emitter.path(2), segment.read_footer(emitter.path(2)).lifetime
    previous = segment.read_footer(path).previous
    place = segment.read_footer(path).place
    path.unlink()
    segment.write(tmp_path, place, [meter(T0, units=99)], previous=previous, until=T0, lifetime=lifetime)
    found = plan(tmp_path)
    assert what(found) == [("a", "broken_chain")]
    assert found.ranges == (Range("a", 1, 0, 2),)


def test_the_chain_holds_from_plan_to_plan(tmp_path: Path) -> None:
    emitter = node(tmp_path, segments=3)
    taken = plan(tmp_path).after
    emitter.previous = "ab" * 32  # as if the segment before had been another one
    emitter.emit([], until=T0 + HOUR)
    found = plan(tmp_path, taken)
    assert what(found) == [("a", "broken_chain")]
    assert found.ranges == ()


@pytest.mark.parametrize("place", [0, 2, 4])
@pytest.mark.parametrize("share", [0.02, 0.1, 0.3, 0.5, 0.7, 0.98])
def test_a_changed_byte_is_found_before_anything_is_counted(tmp_path: Path, place: int, share: float) -> None:
    path = node(tmp_path).path(place)
    whole = segment.read(path)
    data = bytearray(path.read_bytes())
    data[int(len(data) * share)] ^= 0xFF
    path.write_bytes(data)
    found = plan(tmp_path)
    if place == 4 and not found.problems:
        assert segment.read(path) == whole  # it has no successor yet to vouch for it, but pages vouch for their rows
    else:
        assert len(found.problems) == 1
        assert all(each.end <= place for each in found.ranges)


def test_a_torn_segment_is_named(tmp_path: Path) -> None:
    path = node(tmp_path).path(3)
    path.write_bytes(path.read_bytes()[:100])
    found = plan(tmp_path)
    assert what(found) == [("a", "damaged")]
    assert str(path) in found.problems[0].detail


def test_an_unknown_version_waits_for_a_newer_holdfast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    emitter = node(tmp_path, segments=2)
    with monkeypatch.context() as future:
        future.setattr("holdfast.usage.schema.VERSION", 99)
        emitter.emit([], until=T0 + HOUR)
    found = plan(tmp_path)
    assert what(found) == [("a", "unknown_version")]
    assert "newer" in found.problems[0].detail
    assert found.ranges == (Range("a", 1, 0, 2),)


def test_counters_that_jump_are_found(tmp_path: Path) -> None:
    emitter = node(tmp_path, segments=2)
    emitter.lifetime["rows"] += 1
    emitter.emit([], until=T0 + HOUR)
    assert what(plan(tmp_path)) == [("a", "counters")]


def test_positions_survive_as_transaction_ids(tmp_path: Path) -> None:
    emitter = node(tmp_path, segments=2)
    emitter.emit([], until=T0 + HOUR, is_final=True)
    node(tmp_path, "b")
    after = plan(tmp_path).after
    assert from_transactions("meter", to_transactions("meter", after)) == after
    assert after["a"].place == (2, 0)


def test_rows_are_read_in_order_with_their_origin(tmp_path: Path) -> None:
    node(tmp_path)
    ranges = plan(tmp_path).ranges
    batches = list(spool.read(tmp_path, "meter", ranges, batch_rows=2))
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [(row["node"], row["epoch"], row["seq"], row["row"]) for row in rows] == [("a", 1, n, 0) for n in range(5)]


@pytest.mark.parametrize("parts", [1, 2, 3, 100])
def test_tasks_share_the_segments_and_lose_none(tmp_path: Path, parts: int) -> None:
    node(tmp_path, "a", segments=7)
    node(tmp_path, "b", segments=3)
    tasks = spool.split(tmp_path, "meter", plan(tmp_path).ranges, parts=parts)
    places = [(each.node, seq) for task in tasks for each in task for seq in range(each.start, each.end)]
    assert sorted(places) == [("a", n) for n in range(7)] + [("b", n) for n in range(3)]
    assert len(tasks) <= parts + 1


def test_a_task_gets_the_same_stretch_of_time_of_all_nodes(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        node(tmp_path, name, segments=8)
    first, second = spool.split(tmp_path, "meter", plan(tmp_path).ranges, parts=2)
    assert {(each.node, each.end) for each in first if each.end > 3} == {("a", 4), ("b", 4), ("c", 4)}
    assert min(each.start for each in second) == 4
