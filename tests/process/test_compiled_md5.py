"""Sums that are made side by side (src/holdfast/protocol/_md5.c) are those that hashlib makes one by one."""

import hashlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.protocol import digests
from tests.process.built_c import built

LANES = 16
AROUND = (0, 1, 55, 56, 57, 63, 64, 65, 119, 120, 121, 127, 128, 129)  # ends of a block, with and without its length
Sums = Callable[[list[bytes]], list[bytes] | None]


@pytest.fixture(scope="module")
def sums(tmp_path_factory: pytest.TempPathFactory) -> Sums:
    found: Sums = built("holdfast/protocol/_md5.c", tmp_path_factory.mktemp("md5")).sums
    return found


def one_by_one(texts: list[bytes]) -> list[bytes]:
    return [hashlib.md5(text, usedforsecurity=False).digest() for text in texts]


@pytest.mark.parametrize("count", [3, 7, 8, 9, LANES, LANES + 1, 3 * LANES])
@pytest.mark.parametrize("length", [*AROUND, 1024])
def test_texts_of_one_length_have_the_sums_of_hashlib(sums: Sums, count: int, length: int) -> None:
    texts = [bytes([number]) * length for number in range(count)]
    assert sums(texts) == one_by_one(texts)


@given(lengths=st.lists(st.one_of(st.sampled_from(AROUND), st.integers(0, 1000)), max_size=40), seed=st.binary())
def test_texts_of_different_lengths_have_the_sums_of_hashlib(sums: Sums, lengths: list[int], seed: bytes) -> None:
    texts = [hashlib.shake_128(seed + bytes([number])).digest(length) for number, length in enumerate(lengths)]
    blocks = [length // 64 + 1 for length in lengths]
    is_worth_it = bool(blocks) and sum(blocks) >= 3 * max(blocks)
    assert sums(texts) == (one_by_one(texts) if is_worth_it else None)


def test_few_texts_and_one_that_is_longer_than_the_others_together_are_left_to_hashlib(sums: Sums) -> None:
    assert sums([]) is sums([b"a"]) is sums([b"a", b"b"]) is sums([b"a" * 10_000, b"b", b"c", b"d"]) is None


@pytest.mark.parametrize("texts", [(b"a", b"b", b"c"), [b"a", "b", b"c"], [b"a", b"b", bytearray(b"c")], None])
def test_what_is_no_list_of_bytes_is_refused(sums: Callable[[object], object], texts: object) -> None:
    with pytest.raises(TypeError, match="a list of bytes"):
        sums(texts)


def test_who_asks_for_them_gets_the_same_with_and_without_it(sums: Sums, monkeypatch: pytest.MonkeyPatch) -> None:
    for bodies in ([], [b"a"], [b"a" * 1024, b"b" * 1000, b"c" * 30, b"d" * 999], [b"a" * 9999, b"b", b"c"]):
        monkeypatch.setattr(digests, "_together", sums)
        assert digests.bodies_md5(bodies) == one_by_one(bodies)
        monkeypatch.setattr(digests, "_together", lambda _: None)
        assert digests.bodies_md5(bodies) == one_by_one(bodies)
