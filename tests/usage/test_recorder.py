"""The thread: it writes what it is given, names its node, and falls back to the journal where segments cannot go on."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from holdfast.usage import nodes, places, recorder, schema, segment
from holdfast.usage.recorder import BEHIND_AT, Recorder
from holdfast.usage.rows import Batch
from holdfast.usage.spool import Spool
from holdfast.usage.stores import Segments
from tests.usage.test_spool import NODE, SECOND, batch, journals, requests


def record(root: Path, seconds: range, *, others: Sequence[str] = (), node: str = NODE) -> Recorder:
    made = Recorder(root, node, others=others, window_us=10 * SECOND)
    for second in seconds:
        made.put(batch(second))
    made.close()
    return made


def test_what_is_put_is_in_segments_when_it_is_closed(tmp_path: Path) -> None:
    made = record(tmp_path, range(15))
    assert (made.trouble, made.dropped, requests(tmp_path)) == ("", 0, 15)
    record(tmp_path, range(15, 20))
    assert requests(tmp_path) == 20


def test_nothing_is_written_for_nothing(tmp_path: Path) -> None:
    made = Recorder(tmp_path / "usage", NODE, window_us=SECOND)
    made.put(Batch(0, 1))
    made.close()
    assert not (tmp_path / "usage").exists()


def test_segments_that_cannot_go_on_leave_the_journal_to_a_command(tmp_path: Path) -> None:
    record(tmp_path, range(5))
    (stream,) = places.streams(tmp_path, schema.METER)
    path = stream.path(tmp_path, 0)
    whole = path.read_bytes()
    path.write_bytes(b"damaged")
    record(tmp_path, range(10, 20))
    assert [each.suffix for each in journals(tmp_path)] == [".journal"]
    path.write_bytes(whole)
    record(tmp_path, range(30, 31))
    assert requests(tmp_path) == 16


def test_a_mistake_in_the_thread_is_told_and_ends_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "Spool", lambda *_, **__: 1 / 0)
    made = record(tmp_path, range(2))
    assert "has ended" in made.trouble


def test_a_disk_that_hangs_is_told_before_memory_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recorder, "_run", lambda _: None)
    made = Recorder(tmp_path, NODE, window_us=SECOND)
    for second in range(BEHIND_AT):
        assert not made.is_behind
        made.put(batch(second))
    assert made.is_behind
    assert made.trouble == "the disk does not answer"


def test_a_server_keeps_its_name_and_its_workers_have_their_own(tmp_path: Path) -> None:
    name = nodes.server_name(tmp_path / "a")
    assert nodes.server_name(tmp_path / "a") == name != nodes.server_name(tmp_path / "b")
    assert places.NODE.fullmatch(name)
    assert nodes.node_name(name, index=0, count=1) == name
    assert [nodes.node_name(name, index=each, count=2) for each in range(2)] == [f"{name}-w0", f"{name}-w1"]


def test_nodes_of_an_earlier_number_of_workers_are_finished(tmp_path: Path) -> None:
    for node in ("srv-w0", "srv-w1", "other"):
        crashed = Spool(tmp_path, node, Segments(tmp_path, node), window_us=10 * SECOND)
        crashed.add(batch(1))
    assert nodes.others(tmp_path, "srv", count=2) == []
    others = nodes.others(tmp_path, "srv", count=1)
    assert others == ["srv-w0", "srv-w1"]
    record(tmp_path, range(10, 11), others=others, node="srv")
    streams = places.streams(tmp_path, schema.METER)
    assert [each.node for each in streams] == ["srv", "srv-w0", "srv-w1"]
    assert all(segment.read_footer(each.path(tmp_path, 0)).is_final for each in streams)
    assert [each.parent.name for each in journals(tmp_path)] == ["other"]
