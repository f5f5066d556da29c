"""A client of the HTTP protocol class, without a socket between them."""

import asyncio
import re
from collections.abc import Iterator

from holdfast.frontend.connection import Connection
from holdfast.frontend.exchange import Exchange
from holdfast.frontend.server import Server

ANSWER = re.compile(rb"HTTP/1\.1 (\d+) [^\r]+\r\n((?:[^\r]+\r\n)*)\r\n")


class Wire(asyncio.Transport):
    """A transport that remembers what was written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_closed = self.is_aborted = self.is_half_closed = False
        self.reading = ""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.is_half_closed
        self.written += data

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.is_half_closed = True

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_aborted = True

    def pause_reading(self) -> None:
        assert self.reading != "paused"
        self.reading = "paused"

    def resume_reading(self) -> None:
        assert self.reading == "paused"
        self.reading = "resumed"

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass


class Peer:
    """A client's end: sends bytes, reads answers. Requests are echoed at once, or kept for later."""

    def __init__(self, *, keeps: bool = False, of: Server | None = None) -> None:
        self.kept: list[Exchange] = []
        self.seen: list[Exchange] = []
        self.server = of or Server(self._serve, boot="boot-", soon=lambda work: work())
        self.wire = Wire()
        self.connection = Connection(self.server)
        self.connection.connection_made(self.wire)
        self._keeps = keeps

    def _serve(self, exchange: Exchange) -> None:
        self.seen.append(exchange)
        if self._keeps:
            self.kept.append(exchange)
        else:
            exchange.answer(exchange.method + b" " + exchange.target + b" " + exchange.body)

    def send(self, data: bytes) -> None:
        self.connection.data_received(data)

    def answers(self) -> list[tuple[int, bytes]]:
        return list(self._answers())

    def _answers(self) -> Iterator[tuple[int, bytes]]:
        rest = self.wire.written
        while rest:
            head = ANSWER.match(rest)
            assert head, rest
            if head[1] == b"100":
                rest = rest[head.end() :]
                continue
            length = int(re.search(rb"Content-Length: (\d+)", head[2])[1])  # type: ignore[index]
            yield int(head[1]), rest[head.end() : head.end() + length]
            rest = rest[head.end() + length :]

    def statuses(self) -> list[int]:
        return [status for status, _ in self.answers()]


def post(body: bytes, *headers: str, target: str = "/") -> bytes:
    lines = [f"POST {target} HTTP/1.1", "Host: queue", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def chunked(*parts: bytes) -> bytes:
    head = b"POST / HTTP/1.1\r\nHost: queue\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (*parts, b""))
