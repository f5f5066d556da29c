"""Every case of every scenario file, in every mode; the answers must be the same."""

import difflib
from pathlib import Path

import pytest

from tests.scenarios.script import Case, outputs_of, read_cases, text_of
from tests.scenarios.world import Mode

FOLDER = Path(__file__).parent
FILES = {path: read_cases(path) for path in sorted(FOLDER.glob("*.txt"))}
CASES = {f"{path.stem}: {case.name}": case for path, cases in FILES.items() for case in cases}


@pytest.mark.parametrize("mode", Mode, ids=lambda mode: mode.value)
@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_scenario(case: Case, mode: Mode) -> None:
    written = case.text().splitlines()
    happened = case.text(outputs_of(case, mode)).splitlines()
    difference = difflib.unified_diff(written, happened, "written", "happened", lineterm="", n=12)
    assert written == happened, "\n" + "\n".join(difference)


def test_there_are_enough_cases_and_each_has_a_name_of_its_own() -> None:
    assert len(CASES) == sum(map(len, FILES.values())) >= 60


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_is_written_as_it_was_read(path: Path) -> None:
    assert text_of(FILES[path]) == path.read_text(encoding="utf-8")
