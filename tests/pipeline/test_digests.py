"""The chain over audit files: whatever somebody changes afterwards is found, and it is said where."""

import datetime
import json
from pathlib import Path

import pytest

from holdfast.pipeline import digests
from holdfast.pipeline.digests import Entry, Event

HOURS = [datetime.datetime(2026, 11, 15, hour, tzinfo=datetime.UTC) for hour in (8, 9, 10)]


def event(hour: int, number: int) -> Event:
    uid = f"n/1/{hour}/{number}"
    text = json.dumps({"api": {"operation": "CreateQueue"}, "metadata": {"uid": uid}})
    return Event(HOURS[hour] + datetime.timedelta(minutes=number), uid, text)


EVENTS = {HOURS[0]: [event(0, 0), event(0, 1)], HOURS[1]: [], HOURS[2]: [event(2, 0)]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "audit"


@pytest.fixture
def entries(folder: Path) -> list[Entry]:
    return digests.seal(folder, [], hours=EVENTS)


def problems(folder: Path, entries: list[Entry]) -> list[str]:
    known = {each.uid: each.text for hour in EVENTS.values() for each in hour}
    return [f"{each.path}: {each.problem}" for each in digests.verify(folder, entries, events=known)]


def test_a_chain_that_nobody_touched_holds_and_has_a_file_for_an_hour_without_events(
    folder: Path, entries: list[Entry]
) -> None:
    assert problems(folder, entries) == []
    assert [(entry.path, entry.lines) for entry in entries] == [
        ("2026/11/15/08.0.jsonl", 2),
        ("2026/11/15/09.0.jsonl", 0),
        ("2026/11/15/10.0.jsonl", 1),
    ]


def test_every_single_changed_byte_is_found(folder: Path, entries: list[Entry]) -> None:
    path = folder / entries[0].path
    sealed = path.read_bytes()
    for place in range(len(sealed)):
        path.write_bytes(sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :])
        assert len(problems(folder, entries)) == 1, place
    path.write_bytes(sealed)
    assert problems(folder, entries) == []


def test_the_line_that_was_changed_is_named(folder: Path, entries: list[Entry]) -> None:
    path = folder / entries[0].path
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], lines[1].replace("Create", "Delete")]) + "\n")
    (said,) = problems(folder, entries)
    assert said.startswith("2026/11/15/08.0.jsonl: was changed: line 2 is not what the ledger has")


def test_a_removed_and_an_added_file_are_found(folder: Path, entries: list[Entry]) -> None:
    (folder / entries[2].path).rename(folder / "2026/11/15/11.0.jsonl")
    assert problems(folder, entries) == [
        "2026/11/15/10.0.jsonl: cannot be read: No such file or directory",
        "2026/11/15/11.0.jsonl: no digest knows this file: it was added",
    ]


def test_a_changed_file_with_a_changed_entry_breaks_the_chain(folder: Path, entries: list[Entry]) -> None:
    forged = digests.seal(folder.parent / "forged", [], hours={**EVENTS, HOURS[0]: [event(0, 0)]})
    (folder / forged[0].path).write_bytes((folder.parent / "forged" / forged[0].path).read_bytes())
    assert problems(folder, [forged[0], *entries[1:]]) == [
        "2026/11/15/09.0.jsonl: digest 1 does not follow from the one before it: the chain was changed"
    ]


def test_a_removed_entry_is_found(folder: Path, entries: list[Entry]) -> None:
    assert "2026/11/15/10.0.jsonl: the chain lacks digest 1: an entry was removed" in problems(
        folder, [entries[0], entries[2]]
    )


def test_sealing_again_adds_nothing_and_a_late_event_gets_a_part_of_its_own(folder: Path, entries: list[Entry]) -> None:
    assert digests.seal(folder, entries, hours=EVENTS) == []
    (late,) = digests.seal(folder, entries, hours={**EVENTS, HOURS[0]: [*EVENTS[HOURS[0]], event(0, 7)]})
    assert (late.path, late.part, late.lines, late.previous) == ("2026/11/15/08.1.jsonl", 1, 1, entries[-1].digest)
    assert digests.verify(folder, [*entries, late]) == []
