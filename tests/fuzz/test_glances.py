"""Requests read at a glance for some seconds, and what this must be able to notice."""

from collections.abc import Callable

import pytest

from holdfast.frontend import glance
from holdfast.frontend.glance import Form, Usual
from tests.fuzz import glances

COUNT = 3000
Read = Callable[[Form, bytes], Usual | None]


def test_what_is_read_at_a_glance_is_what_the_parser_reads() -> None:
    assert glances.run(COUNT, seed="glance") > COUNT // 5


def anything_in_a_gap(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(glance, "_is_plain", lambda _: True)


def a_byte_more_does_not_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Form, "read", _reading_less(Form.read))


def _reading_less(read: Read) -> Read:
    return lambda self, piece: read(self, piece) or read(self, piece[:-1])


def between_is_always(patch: pytest.MonkeyPatch) -> None:
    """Also after half a request."""
    patch.setattr("holdfast.frontend.connection.Connection.on_message_begin", lambda _: None)


def forms_share_their_headers(patch: pytest.MonkeyPatch) -> None:
    """So that one request has those of another."""
    patch.setattr(Form, "read", _reading_with_shared_headers(Form.read))


def _reading_with_shared_headers(read: Read) -> Read:
    shared: dict[bytes, bytes] = {}

    def sharing(self: Form, piece: bytes) -> Usual | None:
        usual = read(self, piece)
        if usual is None:
            return None
        for name, value in usual[2].items():
            shared.setdefault(name, value)
        return usual[0], usual[1], {name: shared[name] for name in usual[2]}, usual[3]

    return sharing


@pytest.mark.parametrize(
    "weaken", [anything_in_a_gap, a_byte_more_does_not_count, between_is_always, forms_share_their_headers]
)
def test_a_mistake_is_noticed(weaken: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    weaken(monkeypatch)
    with pytest.raises(AssertionError):
        glances.run(COUNT, seed="glance")
