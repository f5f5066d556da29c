"""Texts that begin alike have the sums that hashlib gives them, by both ways."""

import hashlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.admission import hashes
from holdfast.core.admission.hashes import Begun
from tests.process.built_c import built

New = Callable[[bytes], Begun]
TEXTS = st.binary(max_size=200) | st.sampled_from([55, 56, 63, 64, 65, 119, 128, 100_000]).map(bytes)


@pytest.fixture(scope="module", params=["hashlib", "C"])
def new(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> New:
    if request.param == "hashlib":
        return hashes.PlainBegun
    found: New = built("holdfast/core/admission/_begun.c", tmp_path_factory.mktemp("begun")).Begun
    return found


@given(start=TEXTS, rests=st.lists(TEXTS, min_size=1, max_size=3))
def test_texts_that_begin_alike_have_their_own_sums(new: New, start: bytes, rests: list[bytes]) -> None:
    begun = new(start)
    for rest in rests:
        whole = hashlib.sha256(start + rest)
        assert begun.sum_of(rest) == whole.digest()
        assert begun.hex_of(rest) == whole.hexdigest().encode()


def test_only_bytes_are_hashed(new: New) -> None:
    for wrong in ("text", None, 5):
        with pytest.raises(TypeError):
            new(wrong)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            new(b"").hex_of(wrong)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            new(b"").sum_of(wrong)  # type: ignore[arg-type]
