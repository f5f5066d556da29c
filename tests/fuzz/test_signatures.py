"""The fuzzer of signatures, for a few seconds; `make fuzz` goes on for longer. And the fuzzer itself: mistakes in the
verifier that it has to notice."""

import pytest

from tests.fuzz import signatures
from tests.fuzz.weakenings import WEAKENINGS, weakened

COUNT = 10_000  # make test tries 100,000 by the command
CAUGHT_WITHIN = 20_000


def test_what_botocore_signs_is_accepted_and_the_judge_agrees() -> None:
    for sent in signatures.signed_requests():
        assert signatures.is_accepted(signatures.real(), sent)
        assert signatures.judge(sent) == ""


def test_what_is_signed_for_others_is_refused() -> None:
    for sent in signatures.foreign_requests():
        assert not signatures.is_accepted(signatures.real(), sent)


def test_a_changed_request_is_accepted_only_if_botocore_signs_it_alike() -> None:
    found = signatures.run(signatures.real, COUNT)
    assert found.wrong == []
    assert found.accepted > COUNT // 50  # changes without meaning do no harm


@pytest.mark.parametrize("name", WEAKENINGS)
def test_a_mistake_in_the_verifier_is_noticed(name: str) -> None:
    found = signatures.run(weakened(WEAKENINGS[name]), CAUGHT_WITHIN)
    assert found.wrong, f"not noticed in {CAUGHT_WITHIN} requests"
