"""The fuzzer of HTTP for some seconds, and what it must be able to notice."""

import random
from collections.abc import Callable

import pytest

from holdfast.frontend import head
from holdfast.frontend.connection import Connection
from tests.fuzz import http

COUNT = 1500
STREAMS: dict[str, tuple[Callable[[random.Random], bytes], int]] = {
    "right": (http.right_stream, COUNT),
    "odd": (http.odd_stream, COUNT * 2),
    "damaged": (http.damaged_stream, COUNT * 2),
    "noise": (http.noise, COUNT // 3),
}


def fuzz(name: str) -> None:
    make, count = STREAMS[name]
    http.run(make, count, seed=name)


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_is_served_as_the_reference_reads_it(name: str) -> None:
    fuzz(name)


def ignore_trailers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Connection, "on_message_complete", _completing_with_trailers(Connection.on_message_complete))


def _completing_with_trailers(complete: Callable[[Connection], None]) -> Callable[[Connection], None]:
    def on_message_complete(self: Connection) -> None:
        self._pairs = []
        complete(self)

    return on_message_complete


def any_coding(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(head, "is_chunked", lambda *_: True)


def any_host(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(head, "names_two_hosts", lambda _: False)


def any_target(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(head, "path_of", lambda target, _: target)


def do_not_wait(patch: pytest.MonkeyPatch) -> None:
    """Serves a request while the one before it has no answer yet."""

    def advance(self: Connection) -> None:
        while self._queue:
            exchange = self._current = self._queue.popleft()
            if exchange.method:
                self._server.serve(exchange)
            else:
                self._answer_refusal(exchange)

    patch.setattr(Connection, "_advance", advance)


@pytest.mark.parametrize("weaken", [ignore_trailers, any_coding, any_host, any_target, do_not_wait])
def test_a_mistake_in_the_server_is_noticed(
    weaken: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    weaken(monkeypatch)
    with pytest.raises(AssertionError):
        fuzz("odd")
