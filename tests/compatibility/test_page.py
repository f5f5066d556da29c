"""docs/COMPATIBILITY.md is complete, up to date, and claims nothing that does not exist."""

from pathlib import Path

from tests.compatibility import claims, page
from tests.compatibility.differences import NEVER_SENT, NOTES

SOURCE = page.ROOT / "src" / "holdfast"


def test_the_page_is_what_the_tests_say() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.text(), "run: python -m tests.compatibility"


def test_everything_in_the_service_model_is_proven_or_said_not_to_be_there() -> None:
    assert page.unproven() == set()


def test_every_claim_is_about_something_that_exists() -> None:
    assert {*page.proofs(), *NEVER_SENT, *NOTES} <= claims.vocabulary()


def test_what_is_said_never_to_be_sent_is_neither_proven_nor_raised() -> None:
    assert page.proofs().keys().isdisjoint(NEVER_SENT)
    files = [each for each in SOURCE.rglob("*.py") if each.name != "errors.py"]
    for name in (claim.partition(".")[2] for claim in NEVER_SENT):
        assert not [str(each) for each in files if _mentions(each, name)]


def _mentions(file: Path, name: str) -> bool:
    return f"errors.{name}" in (source := file.read_text(encoding="utf-8")) or f"{name}(" in source
