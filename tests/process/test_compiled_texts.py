"""What is written in one go (src/holdfast/protocol/_texts.c) is what texts.py writes without it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.protocol import content, texts
from tests.process.built_c import built

SUM = bytes(range(240, 256))
BODIES = st.binary(max_size=300)
SUMS = st.binary(min_size=16, max_size=16)
ENDS = st.binary(max_size=50)
NAMES = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=80)
SENDERS = st.binary(max_size=255)


@pytest.fixture(scope="module")
def c(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return built("holdfast/protocol/_texts.c", tmp_path_factory.mktemp("texts"))


@given(pairs=st.lists(st.tuples(BODIES, SUMS), min_size=1, max_size=100), sender=SENDERS)
def test_contents_are_the_same(c: Any, pairs: list[tuple[bytes, bytes]], sender: bytes) -> None:
    bodies, sums = [body for body, _ in pairs], [body_md5 for _, body_md5 in pairs]
    made = c.packed(bodies, sums, sender)
    assert made == texts.pack_each(bodies, sums, sender)
    assert made == [content.pack(body, body_md5, sender=sender) for body, body_md5 in pairs]


@pytest.mark.parametrize("length", [255, 256, 65_535, 65_536, 1_048_576])
def test_contents_of_any_length_are_the_same(c: Any, length: int) -> None:
    bodies = [b"x" * length]
    (made,) = c.packed(bodies, [SUM], b"000000000000")
    assert [made] == texts.pack_each(bodies, [SUM], b"000000000000")
    assert c.shown(b"", b"", b"", b"", [made]) == texts.show_each(b"", b"", b"", b"", [made])


@given(entries=st.lists(st.tuples(NAMES, NAMES, SUMS), min_size=1, max_size=100))
def test_answers_to_sends_are_the_same(c: Any, entries: list[tuple[str, str, bytes]]) -> None:
    names, ids, sums = (
        [entry[0] for entry in entries],
        [entry[1] for entry in entries],
        [entry[2] for entry in entries],
    )
    assert c.accepted(names, ids, sums) == texts.accept_each(names, ids, sums)


@given(
    messages=st.lists(st.tuples(BODIES, SUMS), min_size=1, max_size=100),
    starts=st.tuples(ENDS, ENDS),
    widths=st.tuples(st.integers(0, 50), st.integers(0, 50)),
    rest=st.tuples(SENDERS, st.binary(max_size=20)),
)
def test_answers_to_receives_are_the_same(
    c: Any,
    messages: list[tuple[bytes, bytes]],
    starts: tuple[bytes, bytes],
    widths: tuple[int, int],
    rest: tuple[bytes, bytes],
) -> None:
    sender, extras = rest
    ids, handles = (bytes(range(width)) * len(messages) for width in widths)
    contents = [content.pack(body, body_md5, sender=sender) + extras for body, body_md5 in messages]
    given = (starts[0], ids, starts[1], handles, contents)
    assert c.shown(*given) == texts.show_each(*given)


@given(start=st.binary(max_size=40), version=st.integers(0, 255))
def test_what_cannot_be_a_content_of_this_version_is_left_alone(c: Any, start: bytes, version: int) -> None:
    """Nothing is read behind its end."""
    stored = bytes([version]) + start
    length = int.from_bytes(stored[2:6], "little") if len(stored) >= 22 else -1
    is_one = version == content.VERSION and 0 <= length <= len(stored) - 22 - stored[1]
    assert (c.shown(b"", b"i", b"", b"h", [stored]) is not None) == is_one


@given(text=st.text("[{}]a", max_size=100).map(str.encode), most=st.integers(0, 40))
def test_brackets_are_counted_alike(c: Any, text: bytes, most: int) -> None:
    expected = min(text.count(b"[") + text.count(b"{"), most + 1)
    assert c.brackets(text, most) == texts.count_each(text, most) == expected


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("packed", ([], [], b"me"), ValueError),
        ("packed", ((b"a",), [SUM], b"me"), ValueError),
        ("packed", ([b"a"], [SUM, SUM], b"me"), ValueError),
        ("packed", ([b"a"], [SUM[1:]], b"me"), ValueError),
        ("packed", ([b"a"], [SUM], b"m" * 256), OverflowError),
        ("packed", ([bytearray(b"a")], [SUM], b"me"), TypeError),
        ("packed", ([b"a"], [SUM], None), TypeError),
        ("packed", ([b"a"], [SUM]), TypeError),
        ("accepted", (["a"], ["é"], [SUM]), TypeError),
        ("accepted", (["a"], ["b"], [SUM + b"1"]), ValueError),
        ("accepted", (["a"], [], [SUM]), ValueError),
        ("accepted", (["a"], ["b"], None), ValueError),
        ("shown", (b"", b"a", b"", b"b", []), ValueError),
        ("shown", (b"", b"abc", b"", b"bb", [b"c", b"c"]), ValueError),
        ("shown", (b"", b"aa", b"", b"b", [b"c", b"c"]), ValueError),
        ("shown", (b"", b"a", None, b"b", [b"c"]), TypeError),
        ("shown", (b"", b"a", b"", 1, [b"c"]), TypeError),
        ("shown", (b"", b"a", b"", b"b", [1]), TypeError),
        ("shown", (b"", b"a", b"", b"b", [b"c"], b""), TypeError),
        ("brackets", (b"", None), TypeError),
        ("brackets", (None, 1), TypeError),
        ("brackets", (b"", 1 << 70), OverflowError),
    ],
)
def test_what_cannot_be_written_is_refused(c: Any, name: str, arguments: tuple[Any, ...], error: type) -> None:
    with pytest.raises(error):
        getattr(c, name)(*arguments)


def test_who_asks_for_them_gets_the_same_with_and_without_it(c: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    old = b"\1\2\1\0\0\0" + b"0" * 32 + b"meb"  # of version 1, which only Python reads
    for module in (c, None):
        monkeypatch.setattr(texts, "_c", module)
        contents = texts.packed([b"a"], [SUM], b"me")
        assert contents == texts.pack_each([b"a"], [SUM], b"me")
        assert texts.accepted(["a"], ["b"], [SUM]) == texts.accept_each(["a"], ["b"], [SUM])
        given = (b"i", b"12", b"h", b"34", [*contents, old])
        assert texts.shown(*given) == texts.show_each(*given)
        assert b'"MessageId":"i2","ReceiptHandle":"h4"' in texts.shown(*given)
        assert texts.shown(b"i", b"1", b"h", b"3", contents).endswith(b'"Body":"a"}]}')
        assert texts.brackets(b"{[{", 1) == 2
