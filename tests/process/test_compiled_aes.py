"""What is sealed and authenticated by the shorter way (runtime/_aes.c) is what `cryptography` makes of it."""

import itertools
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.queue.cipher import seal_each
from holdfast.runtime.crypto import SegmentCipher
from tests.process.built_c import built

if TYPE_CHECKING:
    from holdfast.runtime._aes import Gcm, Macs

KEYS = st.binary(min_size=32, max_size=32)
PLACES = st.tuples(st.integers(0, 0xFFFFFFFF), st.integers(0, (1 << 64) - 1))  # epoch and lsn
LENGTHS = st.sampled_from([0, 1, 15, 16, 17, 95, 96, 97, 1024, 70_000])  # around blocks, and around six of them
CONTENTS = st.lists(LENGTHS.map(lambda length: bytes(range(256)) * (length // 256) + bytes(length % 256)), min_size=1)


@pytest.fixture(scope="module")
def aes(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return built("holdfast/runtime/_aes.c", tmp_path_factory.mktemp("aes"))


@pytest.fixture(scope="module")
def new(aes: ModuleType) -> "type[Gcm]":
    found: type[Gcm] = aes.Gcm
    return found


@pytest.fixture(scope="module")
def new_macs(aes: ModuleType) -> "type[Macs]":
    found: type[Macs] = aes.Macs
    return found


def sealed_by_cryptography(key: bytes, epoch: int, first: int, contents: list[bytes], clears: bytes) -> bytes:
    def seal(epoch: int, lsn: int, content: bytes, clear: bytes) -> bytes:
        nonce = epoch.to_bytes(4) + (lsn % (1 << 64)).to_bytes(8)
        return AESGCM(key).encrypt(nonce, content, clear)

    return seal_each(seal, epoch, first, contents, clears)


@given(key=KEYS, place=PLACES, contents=CONTENTS, width=st.sampled_from([0, 1, 29, 62]))
def test_records_have_the_bytes_that_cryptography_gives_them(
    new: "type[Gcm]", key: bytes, place: tuple[int, int], contents: list[bytes], width: int
) -> None:
    clears = bytes(number % 251 for number in range(width * len(contents)))
    gcm = new(key)
    records = sealed_by_cryptography(key, *place, contents, clears)
    assert gcm.seal_all(*place, contents, clears) == records
    assert gcm.seal_all(*place, contents, clears) == records, "nothing is left over from the time before"


@given(key=KEYS, place=PLACES, content=st.binary(max_size=200), clear=st.binary(max_size=40))
def test_a_record_opens_and_opens_again(
    new: "type[Gcm]", key: bytes, place: tuple[int, int], content: bytes, clear: bytes
) -> None:
    epoch, lsn = place
    sealed = AESGCM(key).encrypt(epoch.to_bytes(4) + lsn.to_bytes(8), content, clear)
    gcm = new(key)
    assert gcm.open(*place, sealed, clear) == content
    assert gcm.open(*place, sealed, clear) == content


@given(content=st.binary(max_size=40), clear=st.binary(min_size=1, max_size=40), data=st.data())
def test_a_record_that_was_changed_anywhere_does_not_open(
    new: "type[Gcm]", content: bytes, clear: bytes, data: st.DataObject
) -> None:
    gcm = new(bytes(32))
    sealed = gcm.seal_all(1, 2, [content], clear)[4 + len(clear) :]
    at, bit = data.draw(st.integers(0, len(sealed) + len(clear) - 1)), data.draw(st.integers(0, 7))
    changed = bytearray(sealed + clear)
    changed[at] ^= 1 << bit
    assert gcm.open(1, 2, bytes(changed[: len(sealed)]), bytes(changed[len(sealed) :])) is None
    for epoch, lsn in ((2, 2), (1, 3)):
        assert gcm.open(epoch, lsn, sealed, clear) is None
    assert new(b"k" * 32).open(1, 2, sealed, clear) is None
    assert gcm.open(1, 2, sealed[:-1], clear) is None
    assert gcm.open(1, 2, sealed, clear) == content, "a record that did not open leaves nothing behind"


@given(place=PLACES, contents=CONTENTS, width=st.sampled_from([0, 1, 29]), data=st.data())
def test_records_open_together_up_to_the_first_that_was_changed(
    new: "type[Gcm]", place: tuple[int, int], contents: list[bytes], width: int, data: st.DataObject
) -> None:
    key, epoch, first = b"k" * 32, place[0], place[1] % (1 << 63)
    records = sealed_by_cryptography(key, epoch, first, contents, bytes(width * len(contents)))
    lengths = tuple(width + len(content) + 16 for content in contents)
    ends = [7 + end for end in itertools.accumulate(4 + length for length in lengths)]  # 7: where the file begins
    offsets = tuple(end - length for end, length in zip(ends, lengths, strict=True))
    lsns = tuple(range(first, first + len(contents)))
    gcm = new(key)
    assert gcm.open_all(epoch, lsns, offsets, lengths, records, 7, width) == contents
    at = data.draw(st.integers(0, len(contents) - 1))
    changed = bytearray(records)
    changed[data.draw(st.integers(offsets[at] - 7, ends[at] - 8))] ^= 0x40
    opened = gcm.open_all(epoch, lsns, offsets, lengths, bytes(changed), 7, width)
    assert opened == contents[:at]
    twin = SegmentCipher(key)
    twin._gcm, twin._cipher = None, AESGCM(key)
    assert twin.open_all(epoch, (lsns, offsets, lengths), bytes(changed), 7, width) == opened
    assert twin.open_all(epoch, (lsns, offsets, lengths), records, 7, width) == contents


PLACE: Final = ((2,), (10,), (20,))


@pytest.mark.parametrize(
    "places",
    [
        ((2,), (9,), (20,)),
        ((2,), (11,), (20,)),
        ((2,), (10,), (21,)),
        ((2,), (10,), (3,)),
        ((2,), (10,), (-1,)),
        ((2,), (0,), (1 << 62,)),
        ((2,), (1 << 62,), (20,)),
        ((), (), ()),
    ],
)
def test_a_record_that_is_not_within_the_bytes_does_not_open(
    new: "type[Gcm]", places: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
) -> None:
    record = sealed_by_cryptography(bytes(32), 1, 2, [b""], b"1234")[4:]
    assert new(bytes(32)).open_all(1, *PLACE, record, 10, 4) == [b""]
    assert new(bytes(32)).open_all(1, *places, record, 10, 4) == []
    twin = SegmentCipher(bytes(32))
    twin._gcm, twin._cipher = None, AESGCM(bytes(32))
    assert twin.open_all(1, places, record, 10, 4) == []


def test_what_are_no_places_is_refused(new: "type[Gcm]") -> None:
    gcm = new(bytes(32))
    for columns in (([2], (10,), (20,)), ((2, 3), (10,), (20,)), ((2,), (10,), ())):
        with pytest.raises(TypeError):
            gcm.open_all(1, *columns, bytes(20), 10, 4)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        gcm.open_all(1, *PLACE, "x", 10, 4)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        gcm.open_all(1, *PLACE, bytes(20), 10, -1)
    with pytest.raises(TypeError):
        gcm.open_all(1, ("a",), (10,), (20,), bytes(20), 10, 4)  # type: ignore[arg-type]
    for epoch, lsn, base in ((1 << 32, 2, 10), (-1, 2, 10), (1, -1, 10), (1, 1 << 64, 10), (1, 2, -1)):
        with pytest.raises(OverflowError):
            gcm.open_all(epoch, (lsn,), (10,), (20,), bytes(20), base, 4)


@pytest.mark.parametrize("short", [b"", b"x", bytes(15)])
def test_what_is_too_short_for_a_seal_does_not_open(new: "type[Gcm]", short: bytes) -> None:
    assert new(bytes(32)).open(1, 2, short, b"") is None


def test_what_cannot_be_sealed_is_refused(new: "type[Gcm]") -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        new(bytes(16))
    gcm = new(bytes(32))
    for contents, clears in (([], b""), ([b"a", b"b"], b"xyz"), (["a"], b"x"), (b"a", b"x"), ([b"a"], "x")):
        with pytest.raises(TypeError):
            gcm.seal_all(1, 2, contents, clears)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        gcm.open(1, 2, "sealed", b"")  # type: ignore[arg-type]
    for epoch, lsn in ((1 << 32, 1), (-1, 1), (1, -1), (1, 1 << 64)):
        with pytest.raises(OverflowError):
            gcm.seal_all(epoch, lsn, [b"a"], b"")
        with pytest.raises(OverflowError):
            gcm.open(epoch, lsn, bytes(16), b"")
    with pytest.raises(TypeError):
        gcm.seal_all(1, 2, [b"a"])  # type: ignore[call-arg]


def mac(key: bytes, row: bytes) -> bytes:
    """CBC-MAC of two blocks: what CBC makes of them without an initial value, the last block of it."""
    cbc = Cipher(algorithms.AES(key), modes.CBC(bytes(16))).encryptor()
    return cbc.update(row)[16:]


@given(
    key=KEYS,
    rows=st.lists(st.binary(min_size=50, max_size=50), max_size=12),
    at=st.integers(0, 18),
    start=st.integers(0, 32),
)
def test_rows_are_authenticated_as_cryptography_does_it(
    new_macs: "type[Macs]", key: bytes, rows: list[bytes], at: int, start: int
) -> None:
    made = b"".join(row[start : at + 32] + mac(key, row[at : at + 32])[:12] for row in rows)
    macs = new_macs(key)
    assert macs.with_macs(b"".join(rows), 50, at, start) == made
    assert macs.with_macs(b"".join(rows), 50, at, start) == made, "nothing is left over from the time before"


def test_rows_without_two_blocks_are_refused(new_macs: "type[Macs]") -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        new_macs(bytes(16))
    macs = new_macs(bytes(32))
    wrong: list[tuple[Any, ...]] = [(32, 1, 0), (31, 0, 0), (0, 0, 0), (32, 0, -1), (32, -1, -1), (32, 0, 33), (32, 0)]
    for numbers in wrong:
        with pytest.raises(TypeError):
            macs.with_macs(bytes(32), *numbers)
    for rows in (bytes(33), "", None):
        with pytest.raises(TypeError):
            macs.with_macs(rows, 32, 0, 0)  # type: ignore[arg-type]
