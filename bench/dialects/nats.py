"""NATS JetStream over its text protocol. A stream with one durable pull consumer stands for a queue.

A send waits for the stream's acknowledgement. A delete is an acknowledgement by the consumer that is itself answered,
on a stream with work-queue retention, which then removes the message.
"""

import json
from collections.abc import Generator, Mapping

from bench.dialects.dialect import Tally, body
from bench.load import Connection, Conversation, Framing, PeerError

_HELLO = b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\nSUB %b 1\r\nPING\r\n'


class NatsFraming(Framing):
    """A reply is a line, and for MSG and HMSG the payload that follows it."""

    def end(self, data: bytes) -> int:
        line_end = data.find(b"\r\n")
        if line_end < 0:
            return 0
        end = line_end + 2
        if data.startswith((b"MSG", b"HMSG")):
            end += int(data[:line_end].rsplit(b" ", 1)[1]) + 2
        return end if end <= len(data) else 0


class Nats:
    modes: tuple[str, ...] = ("send", "cycle")
    framing: Framing = NatsFraming()

    def __init__(self, port: int) -> None:
        self.address = ("127.0.0.1", port)

    def create(self, connection: Connection, queue: str) -> None:
        stream = {"name": queue, "subjects": [f"s.{queue}"], "storage": "file", "retention": "workqueue"}
        _manage(connection, f"STREAM.CREATE.{queue}", stream)
        consumer = {"durable_name": "c", "ack_policy": "explicit", "max_ack_pending": 100_000}
        _manage(connection, f"CONSUMER.CREATE.{queue}.c", {"stream_name": queue, "config": consumer})

    def remove(self, connection: Connection, queue: str) -> None:
        _manage(connection, f"STREAM.DELETE.{queue}", {})

    def conversation(self, mode: str, queue: str, *, tally: Tally, number: int) -> Conversation:
        inbox = b"_I.%b.%d" % (queue.encode(), number)
        content = body(number)
        send = b"PUB s.%b %b %d\r\n%b\r\n" % (queue.encode(), inbox, len(content), content)
        pull = b'{"batch":1,"no_wait":true}'
        receive = b"PUB $JS.API.CONSUMER.MSG.NEXT.%b.c %b %d\r\n%b\r\n" % (queue.encode(), inbox, len(pull), pull)
        greeted = yield _HELLO % inbox
        while not greeted.startswith(b"PONG"):  # INFO comes unasked, once or twice
            greeted = yield b""
        while True:
            acknowledged = accepted((yield from _ask(send)))
            if b'"seq"' not in acknowledged:
                raise PeerError(f"not an acknowledgement: {acknowledged[:200]!r}")
            if mode == "cycle":
                delivery = accepted((yield from _ask(receive)))
                if delivery.startswith(b"HMSG"):  # a status: there is nothing now
                    continue
                answer_to = delivery.split(b" ", 4)[3]
                accepted((yield from _ask(b"PUB %b %b 4\r\n+ACK\r\n" % (answer_to, inbox))))
            tally.messages += 1


def _ask(request: bytes) -> Generator[bytes, bytes, bytes]:
    """The reply to it. The server also asks, some seconds after the greeting, whether anybody is there."""
    reply = yield request
    while reply.startswith(b"PING"):
        reply = yield b"PONG\r\n"
    return reply


def _manage(connection: Connection, subject: str, request: Mapping[str, object]) -> None:
    """Each use greets; all but the first greeting are harmless."""
    content = json.dumps(request).encode()
    replies: list[bytes] = []
    publish = b"PUB $JS.API.%b _M %d\r\n%b\r\n" % (subject.encode(), len(content), content)
    connection.socket.sendall(_HELLO % b"_M" + publish)
    while not any(reply.startswith(b"MSG") for reply in replies):
        replies += connection.read()
    for reply in replies:
        accepted(reply)


def accepted(reply: bytes) -> bytes:
    if reply.startswith(b"-ERR") or b'"error":' in reply[:400]:
        raise PeerError(reply[:600].decode(errors="replace"))
    return reply
