"""An archive for warm starts is named to Java only where there is one, and only a whole one is put in place."""

from pathlib import Path

import pytest

from holdfast.spark import warmth


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_java_is_told_nothing_where_there_is_no_archive() -> None:
    assert warmth.options() == ""


def test_java_is_told_where_the_archive_is(tmp_path: Path) -> None:
    warmth.archive().parent.mkdir()
    warmth.archive().write_bytes(b"classes")
    assert warmth.archive().is_relative_to(tmp_path)
    assert f'-XX:SharedArchiveFile="{warmth.archive()}"' in warmth.options()


def run_out_of_room() -> None:
    with warmth.recording() as told:
        Path(told.split('"')[1]).write_bytes(b"half of the cl")
        raise OSError("no room")


def test_an_archive_that_did_not_come_about_leaves_the_one_before(tmp_path: Path) -> None:
    warmth.archive().parent.mkdir()
    warmth.archive().write_bytes(b"classes")
    with pytest.raises(OSError, match="no room"):
        run_out_of_room()
    assert [each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()] == [b"classes"]
