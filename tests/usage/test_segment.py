"""Segments: what is written is read, and what was changed, removed or put elsewhere is found."""

import os
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.usage import places, schema, segment
from holdfast.usage.places import Place, Stream
from holdfast.usage.rows import Batch, Stretch
from holdfast.usage.segment import BrokenChain, Damaged, Footer, Gap, SegmentError, UnknownVersion
from holdfast.usage.stores import Segments
from tests.usage.rows import START, WINDOW, Node, row


@pytest.mark.parametrize("kind", schema.KINDS)
def test_what_is_written_is_read(tmp_path: Path, kind: str) -> None:
    rows = [row(kind, number) for number in (3, 1, 2)]
    place = Place(Stream(kind, "node-1", 1), 0)
    segment.write(tmp_path, place, rows, previous=segment.NO_DIGEST, until=START, lifetime=segment.totals(kind, rows))
    footer, table = segment.read(place.stream.path(tmp_path, 0))
    assert footer.place == place
    assert (footer.rows, footer.min_time, footer.max_time) == (3, START + WINDOW, START + 3 * WINDOW)
    assert footer.lifetime["rows"] == 3
    assert table.schema == segment.arrow_schema(kind)
    times = table.column("time").cast(pa.int64()).to_pylist()
    others = [table.column(name).to_pylist() for name in schema.names(kind)[1:]]
    assert list(zip(times, *others, strict=True)) == rows


def write_old(root: Path, kind: str) -> Path:
    """Two rows, as the first version wrote them."""
    columns, stream = schema.columns(kind, 1), Stream(kind, "node-1", 1)
    rows = [row(kind)[: len(columns)]] * 2
    footer = Footer(1, *stream, 0, 2, START, START, START + WINDOW, segment.NO_DIGEST, False, {"rows": 2})
    described = segment.arrow_schema(kind, 1).with_metadata({segment.KEY: msgspec.json.encode(footer)})
    arrays = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), described, strict=True)]
    path = stream.path(root, 0)
    path.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_arrays(arrays, schema=described), path, write_page_checksum=True)
    return path


OLD = {schema.QUEUE_STATE: (0, 0, ""), schema.DEAD_LETTER: ("",)}  # kinds that have grown, and what old rows lack


@pytest.mark.parametrize("kind", schema.KINDS)
def test_segments_of_the_first_version_are_read_and_continued(tmp_path: Path, kind: str) -> None:
    whole = schema.COLUMNS[kind]
    path = write_old(tmp_path, kind)
    missing = OLD.get(kind, ())
    assert len(whole) == len(schema.columns(kind, 1)) + len(missing)
    footer, table = segment.read(path)
    assert (footer.version, table.schema) == (1, segment.arrow_schema(kind))
    assert [table.column(each.name).to_pylist() for each in whole[len(whole) - len(missing) :]] == [
        [value] * 2 for value in missing
    ]
    store = Segments(tmp_path, "node-1")
    store.begin(1)
    store.take(Stretch.of(START + 9 * WINDOW, [Batch(START + 9 * WINDOW, START + 10 * WINDOW)]), is_final=True)
    assert list(segment.check(tmp_path, kind, "node-1")) == []
    last = segment.read_footer(Stream(kind, "node-1", 1).path(tmp_path, 1))
    assert (last.version, last.lifetime["rows"]) == (schema.VERSION, 2)


def test_rows_of_an_old_journal_are_completed() -> None:
    for kind, missing in OLD.items():
        whole = row(kind)
        assert schema.completed(kind, whole) == whole
        assert schema.completed(kind, whole[: len(whole) - len(missing)])[len(whole) - len(missing) :] == missing


def test_a_heartbeat_has_no_rows_and_says_until_when_nothing_happened(tmp_path: Path) -> None:
    footer, table = segment.read(Node(tmp_path, schema.METER).write(0))
    assert (footer.rows, footer.min_time, footer.until, table.num_rows) == (0, 0, START + WINDOW, 0)


def test_lifetimes_add_up_the_measures_of_all_segments(tmp_path: Path) -> None:
    node = Node(tmp_path, schema.METER)
    for count in (2, 0, 3):
        path = node.write(count)
    units = schema.names(schema.METER).index("units")
    expected = 2 * row(schema.METER, 0)[units] + 3 * row(schema.METER, 2)[units]
    lifetime = segment.read_footer(path).lifetime
    assert (lifetime["rows"], lifetime["units"]) == (5, expected)
    assert "latency" not in lifetime


def test_segments_in_a_row_over_two_epochs_are_in_order(tmp_path: Path) -> None:
    node = Node(tmp_path, schema.AUDIT)
    for count, is_final in ((1, False), (0, False), (2, True), (1, False)):
        node.write(count, is_final=is_final)
    assert list(segment.check(tmp_path, schema.AUDIT, "node-1")) == []
    streams = places.streams(tmp_path, schema.AUDIT)
    assert [(each.epoch, places.numbers(tmp_path, each)) for each in streams] == [(1, [0, 1, 2]), (2, [0])]


def written(tmp_path: Path) -> list[Path]:
    node = Node(tmp_path, schema.DEAD_LETTER)
    return [node.write(1, is_final=number == 2) for number in range(5)]


def problems(tmp_path: Path) -> list[type[SegmentError]]:
    return [type(each) for each in segment.check(tmp_path, schema.DEAD_LETTER, "node-1")]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_missing_segment_is_seen(tmp_path: Path, number: int) -> None:
    written(tmp_path)[number].unlink()
    assert problems(tmp_path) == [Gap]


def test_segments_that_were_taken_over_may_be_removed_from_the_beginning(tmp_path: Path) -> None:
    paths = written(tmp_path)
    paths[0].unlink()
    paths[1].unlink()
    assert problems(tmp_path) == []


def test_a_segment_in_the_place_of_another_is_seen(tmp_path: Path) -> None:
    paths = written(tmp_path)
    paths[1].write_bytes(paths[0].read_bytes())
    assert problems(tmp_path) == [Damaged]


def test_a_segment_that_was_written_anew_breaks_the_chain(tmp_path: Path) -> None:
    paths = written(tmp_path)
    footer = segment.read_footer(paths[1])
    paths[1].unlink()
    segment.write(tmp_path, footer.place, [], previous=footer.previous, until=footer.until, lifetime=footer.lifetime)
    assert problems(tmp_path) == [BrokenChain]


def test_a_changed_byte_is_found_wherever_it_is(tmp_path: Path) -> None:
    path = written(tmp_path)[1]
    whole = path.read_bytes()
    for place in range(0, len(whole), 97):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x41]) + whole[place + 1 :])
        assert problems(tmp_path), f"byte {place}"


@pytest.mark.parametrize("length", [0, 3, 100])
def test_a_cut_file_is_damaged(tmp_path: Path, length: int) -> None:
    path = written(tmp_path)[0]
    os.truncate(path, length)
    with pytest.raises(Damaged, match="cannot be read as a segment"):
        segment.read_footer(path)


def test_a_version_that_is_not_known_is_refused_and_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path)[0]
    monkeypatch.setattr(schema, "VERSION", schema.VERSION - 1)
    with pytest.raises(UnknownVersion, match="use a newer one"):
        segment.read_footer(path)


def test_other_columns_are_damage(tmp_path: Path) -> None:
    path = written(tmp_path)[0]
    table = pq.read_table(path, partitioning=None)
    pq.write_table(table.drop_columns(["reason"]).replace_schema_metadata(table.schema.metadata), path)
    with pytest.raises(Damaged, match="other columns"):
        segment.read(path)


def test_a_number_is_never_given_twice(tmp_path: Path) -> None:
    path = written(tmp_path)[0]
    before, footer = path.read_bytes(), segment.read_footer(path)
    with pytest.raises(SegmentError, match="never given twice"):
        segment.write(tmp_path, footer.place, [], previous=footer.previous, until=0, lifetime={})
    assert path.read_bytes() == before


def test_what_is_no_segment_is_not_taken_for_one(tmp_path: Path) -> None:
    path = written(tmp_path)[0]
    for name in ("0000000009.tmp", "9.parquet", "0000000009.parquet.crc", "notes.txt"):
        (path.parent / name).write_bytes(b"")
    for folder in ("1", "latest", "000000001"):
        (path.parent.parent / folder).mkdir()
    (tmp_path / "other").mkdir()
    assert problems(tmp_path) == []
    assert [each.epoch for each in places.streams(tmp_path, schema.DEAD_LETTER)] == [1, 2]
    assert places.place_of(path.with_name("9.parquet")) is None
    assert places.place_of(tmp_path / "other" / "n" / "00000001" / "0000000000.parquet") is None
    assert places.place_of(Path("0000000000.parquet")) is None


def test_every_column_has_a_meaning_and_begins_with_time() -> None:
    for kind in schema.KINDS:
        columns = schema.columns(kind)
        assert columns[0].name == "time"
        assert all(each.meaning for each in columns)
        assert len({each.name for each in columns}) == len(columns)
    with pytest.raises(ValueError, match="is not known"):
        schema.columns(schema.METER, schema.VERSION + 1)
