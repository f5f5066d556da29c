"""The open loop charges what it must, and connections put replies together."""

import socket
from collections.abc import Iterator

import pytest

from bench.dialects.redis import RespFraming
from bench.load import Connection, PeerError, Schedule

MS = 1_000_000


@pytest.fixture
def pair() -> Iterator[tuple[Connection, socket.socket]]:
    """A connection, and the server's end of it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        connection = Connection(listening.getsockname(), RespFraming())
        server, _ = listening.accept()
    yield connection, server
    connection.close()
    server.close()


def reply(connection: Connection, at_ms: int) -> bytes | None:
    return connection.on_reply(b"", at_ms * MS)


def test_a_reply_is_charged_from_when_its_request_was_due(pair: tuple[Connection, socket.socket]) -> None:
    connection, _ = pair
    schedule = Schedule(1000, lambda number: b"%d;" % number, len, start=0)
    schedule.employ(connection)
    schedule.tick(0)
    schedule.tick(10 * MS)  # the server stalls: ten more are due meanwhile
    assert reply(connection, 10) == b"1;"  # was due after 1 ms, and waited
    assert reply(connection, 11) == b"2;"
    assert reply(connection, 11) == b"3;"
    assert schedule.histogram.count == 3
    assert schedule.histogram.percentile(1) // MS == 9
    assert schedule.histogram.highest == 10 * MS


def test_an_idle_connection_waits_for_the_next_instant(pair: tuple[Connection, socket.socket]) -> None:
    connection, server = pair
    schedule = Schedule(100, lambda number: b"%d;" % number, len, start=0)
    schedule.employ(connection)
    schedule.tick(0)
    assert reply(connection, 1) is None
    schedule.tick(9 * MS)
    assert server.recv(100) == b"0;"
    schedule.tick(10 * MS)
    assert server.recv(100) == b"1;"


def test_a_reply_in_pieces_is_one_and_two_at_once_are_two(pair: tuple[Connection, socket.socket]) -> None:
    connection, server = pair
    server.sendall(b"$5\r\nhe")
    assert connection.read() == []
    server.sendall(b"llo\r\n+OK\r\n:1")
    assert connection.read() == [b"$5\r\nhello\r\n", b"+OK\r\n"]
    server.sendall(b"\r\n")
    assert connection.read() == [b":1\r\n"]


def test_a_server_that_hangs_up_is_noticed(pair: tuple[Connection, socket.socket]) -> None:
    connection, server = pair
    server.close()
    with pytest.raises(PeerError, match="closed the connection"):
        connection.read()
