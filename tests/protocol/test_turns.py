"""Connections are served when it is their turn, not when their bytes arrive."""

from collections.abc import Callable

import pytest

from holdfast.core.limits import LINE_MIN
from holdfast.core.types import QueueName
from holdfast.frontend import bounds
from holdfast.frontend.bounds import PREPARED_BYTES, PREPARED_MAX
from holdfast.frontend.exchange import Exchange
from holdfast.frontend.server import Server
from holdfast.runtime import metrics
from tests.protocol.http_peer import Peer, post


class Loop:
    """Keeps what is to be called soon, until the test says so."""

    def __init__(self, prepare: Callable[[Exchange], None] | None = None) -> None:
        self._due: list[Callable[[], None]] = []
        self.served: list[str] = []
        self.server = Server(self._serve, prepare, boot="boot-", soon=self._due.append)

    def _serve(self, exchange: Exchange) -> None:
        """The queue is the path."""
        exchange.queue = QueueName("000000000000", exchange.target.decode())
        self.served.append(exchange.body.decode())
        exchange.answer(b"{}")

    def round(self) -> None:
        due, self._due[:] = list(self._due), []
        for work in due:
            work()

    def peer(self, queue: str) -> Peer:
        """Whose last request was about this queue."""
        peer = Peer(of=self.server)
        peer.send(post(b"", target=queue))
        self.round()
        self.served.clear()
        return peer


def test_a_request_waits_until_all_that_has_arrived_is_read() -> None:
    loop = Loop()
    peer = loop.peer("/a")
    peer.send(post(b"one", target="/a"))
    assert loop.served == []
    loop.round()
    assert loop.served == ["one"]
    assert peer.statuses() == [200, 200]


def test_queues_take_turns() -> None:
    loop = Loop()
    busy, quiet = [loop.peer("/busy") for _ in range(3)], loop.peer("/quiet")
    for number, peer in enumerate(busy):
        peer.send(post(f"busy {number}".encode(), target="/busy"))
    quiet.send(post(b"quiet", target="/quiet"))
    loop.round()
    assert loop.served == ["busy 0", "quiet", "busy 1", "busy 2"]


def test_a_turn_ends_after_a_while_and_the_rest_is_served_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop()
    peers = [loop.peer("/a") for _ in range(3)]
    instants = iter(range(100))  # each look at the clock, a second later
    monkeypatch.setattr(metrics, "now", lambda: float(next(instants)))
    for number, peer in enumerate(peers):
        peer.send(post(str(number).encode(), target="/a"))
    loop.round()
    assert loop.served == ["0"]
    assert loop.server.expects_more()
    loop.round()
    loop.round()
    assert loop.served == ["0", "1", "2"]
    assert not loop.server.expects_more()


def test_nobody_waits_for_the_line_of_another_queue() -> None:
    """Served first, and what it wrote is not kept for company."""
    loop, hurries = Loop(), list[bool]()
    quiet, busy = loop.peer("/quiet"), [loop.peer("/busy") for _ in range(LINE_MIN)]
    loop.server.end_turn = hurries.append
    quiet.send(post(b"quiet", target="/quiet"))
    for peer in busy:
        peer.send(post(b"busy", target="/busy"))
    loop.round()
    assert loop.served == ["quiet"]
    assert not loop.server.expects_more()
    loop.round()
    assert loop.served == ["quiet", *["busy"] * LINE_MIN]
    assert hurries == [True, False]


def test_while_nobody_is_in_a_hurry_the_disk_is_heard_of_when_the_loop_comes_round() -> None:
    loop, heard = Loop(), list[int]()
    loop.server.hear = lambda: heard.append(len(loop.served))
    for peer in [loop.peer("/busy") for _ in range(LINE_MIN)]:
        peer.send(post(b"busy", target="/busy"))
    loop.round()
    assert len(loop.served) == LINE_MIN
    assert heard == []


def test_after_a_request_that_nobody_else_should_delay_the_disk_is_heard_of_between_two_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also behind the last, when its turn has ended."""
    monkeypatch.setattr(bounds, "BRISK_TURN_S", 60.0)
    monkeypatch.setattr(bounds, "BRISK_S", 60.0)
    loop, heard = Loop(), list[int]()
    loop.server.hear = lambda: heard.append(len(loop.served))
    quiet, busy = loop.peer("/quiet"), [loop.peer("/busy") for _ in range(LINE_MIN)]
    quiet.send(post(b"quiet", target="/quiet"))
    for peer in busy:
        peer.send(post(b"busy", target="/busy"))
    loop.round()
    assert (loop.served, heard) == (["quiet"], [])
    loop.round()
    assert heard == list(range(1, LINE_MIN + 2))


def test_a_connection_that_waits_for_its_turn_reads_no_further() -> None:
    loop = Loop()
    peer = loop.peer("/a")
    for body in (b"one", b"two", b"three"):
        peer.send(post(body, target="/a"))
    assert peer.wire.reading == "paused"
    loop.round()
    assert loop.served == ["one", "two", "three"]
    assert peer.wire.reading == "resumed"


def test_a_connection_that_is_being_served_reads_no_further() -> None:
    """However often the client asks again while its first request waits for messages."""
    peer = Peer(keeps=True)
    peer.send(post(b"one"))
    assert peer.wire.reading == ""
    peer.send(post(b"two"))
    assert peer.wire.reading == "paused"
    for exchange in peer.kept:  # which grows meanwhile
        exchange.answer(b"{}")
    assert peer.statuses() == [200, 200]
    assert peer.wire.reading == "resumed"


def test_a_client_that_leaves_before_its_turn_is_not_served() -> None:
    loop = Loop()
    peer = loop.peer("/a")
    peer.send(post(b"one", target="/a"))
    peer.connection.connection_lost(None)
    loop.round()
    assert loop.served == []


def test_a_request_that_waits_when_the_server_drains_is_served_first() -> None:
    loop = Loop()
    peer = loop.peer("/a")
    peer.send(post(b"one", target="/a"))
    loop.server.drain()
    assert loop.served == ["one"]
    assert peer.statuses() == [200, 200]
    assert peer.wire.is_closed
    loop.round()  # which was due before; there is nothing left for it
    assert loop.served == ["one"]


def test_several_are_prepared_before_they_are_served() -> None:
    seen: list[str] = []
    loop = Loop(lambda exchange: seen.append(f"{exchange.body.decode()} after {len(loop.served)}"))
    peers = [loop.peer("/a") for _ in range(PREPARED_MAX + 2)]
    seen.clear()
    for number, peer in enumerate(peers):
        peer.send(post(str(number).encode(), target="/a"))
    loop.round()
    assert loop.served == [str(number) for number in range(PREPARED_MAX + 2)]
    first = [f"{number} after 0" for number in range(PREPARED_MAX)]
    assert seen == [*first, *(f"{number} after {PREPARED_MAX}" for number in range(PREPARED_MAX, PREPARED_MAX + 2))]


def test_long_requests_are_not_prepared_in_great_number() -> None:
    seen: list[int] = []
    loop = Loop(lambda _: seen.append(len(loop.served)))
    peers = [loop.peer("/a") for _ in range(4)]
    seen.clear()
    for peer in peers:
        peer.send(post(b"x" * (PREPARED_BYTES // 2), target="/a"))
    loop.round()
    assert seen == [0, 0, 2, 2]


def test_who_is_alone_for_a_queue_beside_a_crowd_is_the_last_that_is_prepared_with_others() -> None:
    seen: list[str] = []
    loop = Loop(lambda exchange: seen.append(exchange.target.decode()))
    busy, quiet = [loop.peer("/busy") for _ in range(LINE_MIN + 4)], loop.peer("/quiet")
    seen.clear()
    for peer in (*busy, quiet):
        peer.send(post(b"x", target="/quiet" if peer is quiet else "/busy"))
    loop.round()
    assert seen == ["/busy", "/quiet"]
    assert len(loop.served) == 2
