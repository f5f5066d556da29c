"""The open loop charges what it must, and connections put replies together."""

import select
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from bench.dialects.redis import RespFraming
from bench.load import SLEEP_NS_MAX, Connection, Loop, PeerError, Schedule

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


def test_an_open_loop_sleeps_until_the_next_is_due_or_a_reply_is_there(
    pair: tuple[Connection, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    connection, server = pair
    real, slept, heard = select.select, list[float](), list[bytes]()

    def noted(*watched: Any) -> Any:
        slept.append(watched[-1])
        server.sendall(b"+OK\r\n")
        return real(*watched)

    def on_reply(reply: bytes, _: int) -> None:
        heard.append(reply)

    connection.on_reply = on_reply
    monkeypatch.setattr(select, "select", noted)
    loop = Loop()
    loop.add(connection)
    much_later = time.perf_counter_ns() + 3600 * 10**9
    loop.run(lambda _: len(heard) == 2, tick=lambda _: much_later)
    loop.close()
    assert len(slept) == 2  # once for each reply, and it did not look again meanwhile
    assert slept == [SLEEP_NS_MAX / 1e9] * 2


def test_what_is_due_at_once_is_not_slept_for(
    pair: tuple[Connection, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    connection, _ = pair
    slept, ticks = list[float](), list[int]()

    def tick(now: int) -> int:
        ticks.append(now)
        return now + 1000

    monkeypatch.setattr(select, "select", lambda *watched: slept.append(watched[-1]))
    loop = Loop()
    loop.add(connection)
    loop.run(lambda _: len(ticks) == 5, tick=tick)
    loop.close()
    assert not slept


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
