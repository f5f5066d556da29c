"""The spool: what was added is in segments once, however the process ended and whatever the disk did."""

import errno
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.usage import LATENCY, REQUESTS, UNITS, WIDTH, Key
from holdfast.usage import convert, journal, places, room, schema, segment, spool, stores
from holdfast.usage.journal import Reader
from holdfast.usage.rows import Batch, Row
from holdfast.usage.spool import Spool
from holdfast.usage.stores import Kept, Segments
from tests.usage.rows import START, row

SECOND = 1_000_000
NODE = "node-1"


def batch(second: int, requests: int = 1, **noted: list[Row]) -> Batch:
    """Requests of a second, spread over three queues."""
    counted = []
    for number in range(requests):
        cell = [0] * WIDTH
        cell[REQUESTS] = cell[UNITS] = cell[LATENCY + 9] = 1
        counted.append((Key("1", "arn:ann", f"queue-{number % 3}", "SendMessage", "success", ""), cell))
    since = START + second * SECOND
    return Batch(since, since + SECOND, counted, noted)


class Process:
    """A server's life as far as its usage is concerned."""

    def __init__(self, root: Path, *, has_arrow: bool = True) -> None:
        self.root = root
        if has_arrow:
            made = Segments(root, NODE)
            convert.finish(root, NODE, made, before=spool.last_epoch(root, NODE) + 1)
        self.spool = Spool(root, NODE, made if has_arrow else Kept(root, NODE), window_us=10 * SECOND)

    def run(self, seconds: range, requests: int = 1, **noted: list[Row]) -> "Process":
        for second in seconds:
            self.spool.add(batch(second, requests, **noted))
        return self


def segments(root: Path, kind: str = schema.METER) -> list[tuple[segment.Footer, Any]]:
    assert list(segment.check(root, kind, NODE)) == []
    found = []
    for stream in places.streams(root, kind):
        found += [segment.read(stream.path(root, seq)) for seq in places.numbers(root, stream)]
    return found


def requests(root: Path) -> int:
    total = sum(sum(table.column("requests").to_pylist()) for _, table in segments(root))
    footer = segments(root)[-1][0]
    assert footer.lifetime["requests"] == footer.lifetime["units"] == total
    return total


def journals(root: Path) -> list[Path]:
    return sorted((root / "journal").rglob("*.*"))


def test_a_window_becomes_one_row_per_key(tmp_path: Path) -> None:
    Process(tmp_path).run(range(21), 6).spool.close()
    (first, table), (_, second), (last, rest) = segments(tmp_path)
    assert table.column("requests").to_pylist() == second.column("requests").to_pylist() == [20, 20, 20]
    assert table.column("latency").to_pylist()[0][9] == 20
    assert (first.min_time, first.until, first.is_final) == (START, START + 10 * SECOND, False)
    assert (rest.column("requests").to_pylist(), last.is_final) == ([2, 2, 2], True)
    assert table.column("window_ms").to_pylist() == [10_000] * 3
    assert journals(tmp_path) == []
    assert requests(tmp_path) == 21 * 6


def test_every_kind_ends_its_epoch_and_the_next_start_goes_on(tmp_path: Path) -> None:
    for start in range(3):
        audit: list[Row] = [row(schema.AUDIT, start)]
        Process(tmp_path).run(range(100 * start, 100 * start + 2), audit=audit).spool.close()
    for kind in schema.KINDS:
        footers = [footer for footer, _ in segments(tmp_path, kind)]
        assert [(each.epoch, each.is_final) for each in footers] == [(1, True), (2, True), (3, True)]
    assert [footer.rows for footer, _ in segments(tmp_path, schema.AUDIT)] == [2, 2, 2]


def test_a_server_that_nobody_used_leaves_nothing(tmp_path: Path) -> None:
    Process(tmp_path).run(range(200), 0).spool.close()
    assert list(tmp_path.iterdir()) == []


def test_a_quiet_server_says_when_an_hour_can_close_that_nothing_happened(tmp_path: Path) -> None:
    hour = 3_600
    assert START % (hour * SECOND) == 0
    process = Process(tmp_path).run(range(5)).run(range(5, 2 * hour + 400), 0)
    for kind in schema.KINDS:
        footers = [footer for footer, _ in segments(tmp_path, kind)]
        assert [each.rows for each in footers] == [kind == schema.METER, 0, 0, 0]
        marks = [START + (passed + 300) * SECOND for passed in (0, hour, 2 * hour)]
        assert [each.until for each in footers[1:]] == marks
    process.spool.close()


def test_what_was_added_before_a_second_is_over_outlives_the_process(tmp_path: Path) -> None:
    process = Process(tmp_path)
    for part in range(4):
        whole = batch(0)
        process.spool.add(Batch(whole.since, whole.until if part == 3 else whole.since, whole.counted))
        (path,) = journals(tmp_path)
        assert len(list(Reader(path))) == part + 1
    assert requests_after_a_crash(tmp_path) == 4


def requests_after_a_crash(root: Path) -> int:
    Process(root).spool.close()
    return requests(root)


def test_only_complete_seconds_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(journal, "_fdatasync", synced.append)
    process, whole = Process(tmp_path), batch(0)
    for until in (whole.since, whole.since, whole.since, whole.until):
        process.spool.add(Batch(whole.since, until, whole.counted))
    process.spool.add(Batch(whole.until, whole.until + SECOND))
    assert len(synced) == 1


class Folder:
    """Looks as large as a test wants, each time that it is measured."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes = 0
        monkeypatch.setattr(room, "_size", lambda _: self.bytes)
        monkeypatch.setattr(room, "MEASURE_S", 0.0)


def test_a_server_whose_usage_has_no_more_room_goes_on_with_less_detail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Folder(monkeypatch)
    made = Spool(tmp_path, NODE, Segments(tmp_path, NODE), window_us=10 * SECOND, bytes_max=1000)
    data, management = list(row(schema.AUDIT)), list(row(schema.AUDIT))
    data[schema.names(schema.AUDIT).index("plane")] = "data"
    noted: dict[str, list[Row]] = {schema.AUDIT: [data, management], schema.QUEUE_STATE: [row(schema.QUEUE_STATE)]}
    for second in range(2_000):
        folder.bytes = 850 if second < 20 else 1200 if second < 1500 else 500
        made.add(batch(second, 3, **noted))
    made.close()
    assert requests(tmp_path) == 3 * 2000  # all that is billed
    full = [table for footer, table in segments(tmp_path) if footer.max_time - footer.min_time == 0]
    lengths = {length for table in full for length in table.column("window_ms").to_pylist()}
    assert lengths == {10_000, 580_000, 600_000}
    principals = {name for table in full for name in table.column("principal").to_pylist()}
    assert principals == {"arn:ann", ""}
    assert sum(footer.rows for footer, _ in segments(tmp_path, schema.AUDIT)) == 2 * 2000 - made.dropped // 2
    said = "".join(capsys.readouterr())
    assert said.index("taken most of its room") < said.index("is used up") < said.index("in full again")


def test_a_folder_without_a_limit_is_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_size", lambda _: 1 / 0)
    Process(tmp_path).run(range(30), 1).spool.close()
    assert requests(tmp_path) == 30


def test_the_size_of_a_folder_is_that_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "one").write_bytes(b"12345")
    (tmp_path / "a" / "b" / "two").write_bytes(b"123")
    assert room._size(tmp_path) == 8


@pytest.mark.parametrize("seconds", [1, 9, 10, 11, 25])
@pytest.mark.parametrize("has_arrow", [True, False])
def test_a_crash_loses_nothing_that_was_added(tmp_path: Path, seconds: int, has_arrow: bool) -> None:
    Process(tmp_path, has_arrow=has_arrow).run(range(seconds), 4)
    Process(tmp_path, has_arrow=has_arrow).run(range(seconds, 2 * seconds), 4)
    Process(tmp_path).run(range(100, 101), 1).spool.close()
    assert requests(tmp_path) == 2 * seconds * 4 + 1
    assert [footer.epoch for footer, _ in segments(tmp_path) if footer.is_final] == [1, 2, 3]
    assert journals(tmp_path) == []


def test_a_journal_that_is_cut_anywhere_gives_what_was_whole(tmp_path: Path) -> None:
    Process(tmp_path).run(range(4), 2)
    (path,) = journals(tmp_path)
    data = path.read_bytes()
    ends: list[int] = []
    for length in range(len(data) + 1):
        path.write_bytes(data[:length])
        try:
            reader = Reader(path)
        except journal.JournalError:
            assert length < 36
            continue
        count = len(list(reader))
        ends += [] if reader.torn else [length]
        assert (ends[-1], len(ends)) == (length - reader.torn, count + 1)
    assert len(ends) == 5  # the header alone, and after each of four frames


def test_a_changed_byte_in_a_journal_ends_it_there(tmp_path: Path) -> None:
    Process(tmp_path).run(range(3), 2)
    (path,) = journals(tmp_path)
    whole, all_batches = path.read_bytes(), list(Reader(path))
    for place in range(40, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        found = list(Reader(path))
        assert found == all_batches[: len(found)]
        assert len(found) < 3


def test_a_journal_that_is_none_is_put_aside_and_nothing_else_stops(tmp_path: Path) -> None:
    Process(tmp_path).run(range(3), 2)
    (path,) = journals(tmp_path)
    path.write_bytes(b"not a journal")
    Process(tmp_path).run(range(10, 11), 5).spool.close()
    assert requests(tmp_path) == 5
    assert [each.suffix for each in journals(tmp_path)] == [".damaged"]


class FullDisk:
    """Refuses to write while it is full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_full = False
        for module in (journal, segment):
            monkeypatch.setattr(module, "replace_file", self._guarded(module.replace_file))
        monkeypatch.setattr(journal, "_fdatasync", self._guarded(journal._fdatasync))

    def _guarded(self, write: Any) -> Any:
        def guarded(*arguments: Any) -> Any:
            if self.is_full:
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(*arguments)

        return guarded


@pytest.mark.parametrize("has_arrow", [True, False])
@pytest.mark.parametrize("full", [range(3), range(3, 15), range(5, 300)])
def test_a_full_disk_delays_usage_and_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: range, has_arrow: bool
) -> None:
    disk, process = FullDisk(monkeypatch), Process(tmp_path, has_arrow=has_arrow)
    for second in range(full.stop + 25):
        disk.is_full = second in full
        process.run(range(second, second + 1), 2)
        assert bool(process.spool.trouble) == disk.is_full
    process.spool.close()
    if not has_arrow:
        convert.finish(tmp_path, NODE, Segments(tmp_path, NODE), before=2)
    assert requests(tmp_path) == 2 * (full.stop + 25)
    times = [footer.min_time for footer, _ in segments(tmp_path) if footer.rows]
    assert times == sorted(set(times))


def test_a_crash_while_the_disk_is_full_counts_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, process = FullDisk(monkeypatch), Process(tmp_path)
    process.run(range(5), 2)
    disk.is_full = True
    process.run(range(5, 40), 2)
    disk.is_full = False
    Process(tmp_path).run(range(50, 51), 1).spool.close()
    assert requests(tmp_path) in (5 * 2 + 1, 6 * 2 + 1)  # the sixth was written and not synced


def test_rows_beyond_the_bound_are_dropped_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.usage.rows.ROWS_MAX", 5)
    process = Process(tmp_path).run(range(3), 1, audit=[row(schema.AUDIT)] * 2)
    assert process.spool.dropped == 1
    process.spool.close()
    assert [footer.rows for footer, _ in segments(tmp_path, schema.AUDIT)] == [5]


def test_what_was_taken_twice_is_there_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash between the segments of a window and the end of its journal."""
    process = Process(tmp_path).run(range(9), 3)
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)
    process.run(range(9, 12), 3)
    monkeypatch.undo()
    assert len(journals(tmp_path)) == 2
    Process(tmp_path).run(range(20, 21), 1).spool.close()
    assert requests(tmp_path) == 12 * 3 + 1


@pytest.mark.parametrize("count", range(4))
def test_a_crash_between_the_segments_of_a_window_repeats_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Kinds are written one after the other; `count` of them are there when the process dies."""
    noted: dict[str, list[Row]] = {kind: [row(kind)] for kind in schema.KINDS if kind != schema.METER}
    process = Process(tmp_path).run(range(9), 3, **noted)
    write, left = segment.write, [count]

    class Killed(BaseException):
        pass

    def dying(*arguments: Any, **named: Any) -> str:
        if not left[0]:
            raise Killed
        left[0] -= 1
        return write(*arguments, **named)

    monkeypatch.setattr(segment, "write", dying)
    with pytest.raises(Killed):
        process.run(range(10, 11), 3)
    monkeypatch.undo()
    Process(tmp_path).run(range(20, 21), 1).spool.close()
    assert requests(tmp_path) == 9 * 3 + 1
    for kind in noted:
        assert sum(footer.rows for footer, _ in segments(tmp_path, kind)) == 9


def test_a_clock_that_is_set_back_does_not_write_into_the_past(tmp_path: Path) -> None:
    Process(tmp_path).run(range(100, 112), 1).spool.close()
    Process(tmp_path).run(range(3), 1).spool.close()
    untils = [footer.until for footer, _ in segments(tmp_path)]
    assert untils == sorted(untils)
    assert requests(tmp_path) == 15
    assert min(footer.min_time for footer, _ in segments(tmp_path) if footer.epoch == 2) >= START + 110 * SECOND


def test_pyarrow_is_found_where_it_is() -> None:
    assert stores.has_arrow()
