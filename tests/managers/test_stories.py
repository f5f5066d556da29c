"""Every story of every file: what is written there is what happens."""

import difflib
from pathlib import Path

import pytest

from tests.managers.script import outputs_of
from tests.scenarios.script import Case, read_cases, text_of

FILES = {path: read_cases(path) for path in sorted(Path(__file__).parent.glob("*.txt"))}
CASES = {f"{path.stem}: {case.name}": case for path, cases in FILES.items() for case in cases}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_story(case: Case) -> None:
    written = case.text().splitlines()
    happened = case.text(outputs_of(case)).splitlines()
    difference = difflib.unified_diff(written, happened, "written", "happened", lineterm="", n=12)
    assert written == happened, "\n" + "\n".join(difference)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_is_written_as_it_was_read(path: Path) -> None:
    assert text_of(FILES[path]) == path.read_text(encoding="utf-8")
