"""AMQP 0-9-1, as much of it as RabbitMQ's quorum queues need: publish with confirms, consume with a prefetch of one.

A frame, and the methods that are spoken (class, method):

    type(8) channel(16) size(32) payload 0xCE            types: 1 method, 2 header, 3 body
    connection  10: start 10, start-ok 11, tune 30, tune-ok 31, open 40, open-ok 41
    channel     20: open 10, open-ok 11
    queue       50: declare 10, declare-ok 11, delete 40, delete-ok 41
    basic       60: qos 10, qos-ok 11, consume 20, consume-ok 21, publish 40, deliver 60, ack 80
    confirm     85: select 10, select-ok 11
"""

import struct

from bench.dialects.dialect import Tally, body
from bench.load import Connection, Conversation, Framing, PeerError

METHOD, HEADER, BODY = 1, 2, 3
FRAME_MAX = 131_072
CONFIRMED, DELIVERED = (60, 80), (60, 60)
_ON_DISK = 2  # delivery mode


class AmqpFraming(Framing):
    def end(self, data: bytes) -> int:
        if len(data) < 7:
            return 0
        end = 8 + int.from_bytes(data[3:7], "big")
        return end if end <= len(data) else 0


def frame(payload: bytes, *, kind: int = METHOD, channel: int = 1) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def method(family: int, number: int, arguments: bytes = b"", *, channel: int = 1) -> bytes:
    return frame(struct.pack(">HH", family, number) + arguments, channel=channel)


def short(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def long(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


def publish(queue: bytes, content: bytes) -> bytes:
    properties = struct.pack(">HHQHB", 60, 0, len(content), 0x1000, _ON_DISK)
    return (
        method(60, 40, b"\0\0" + short(b"") + short(queue) + b"\0")
        + frame(properties, kind=HEADER)
        + frame(content, kind=BODY)
    )


def name_of(reply: bytes) -> tuple[int, int] | None:
    """Class and method, if it is a method."""
    return struct.unpack(">HH", reply[7:11]) if reply[0] == METHOD else None


def expect(reply: bytes, name: tuple[int, int]) -> bytes:
    if name_of(reply) != name:
        raise PeerError(f"method {name} was expected, and it said {reply[:300]!r}")
    return reply


def greet() -> Conversation:
    """The handshake, up to an open channel."""
    expect((yield b"AMQP\0\0\x09\x01"), (10, 10))
    login = long(b"") + short(b"PLAIN") + long(b"\0guest\0guest") + short(b"en_US")
    expect((yield method(10, 11, login, channel=0)), (10, 30))
    tune = method(10, 31, struct.pack(">HIH", 16, FRAME_MAX, 0), channel=0)
    expect((yield tune + method(10, 40, short(b"/") + short(b"") + b"\0", channel=0)), (10, 41))
    expect((yield method(20, 10, short(b""))), (20, 11))


class Amqp:
    modes: tuple[str, ...] = ("send", "cycle")
    framing: Framing = AmqpFraming()

    def __init__(self, port: int) -> None:
        self.address = ("127.0.0.1", port)

    def create(self, connection: Connection, queue: str) -> None:
        arguments = long(short(b"x-queue-type") + b"S" + long(b"quorum"))
        declare = b"\0\0" + short(queue.encode()) + b"\2" + arguments
        _hold(connection, _manage(method(50, 10, declare), (50, 11)))

    def remove(self, connection: Connection, queue: str) -> None:
        _hold(connection, _manage(method(50, 40, b"\0\0" + short(queue.encode()) + b"\0"), (50, 41)))

    def conversation(self, mode: str, queue: str, *, tally: Tally, number: int) -> Conversation:
        yield from greet()
        expect((yield method(85, 10, b"\0")), (85, 11))
        send = publish(queue.encode(), body(number))
        yield from self._cycles(queue, send, tally=tally) if mode == "cycle" else self._sends(send, tally)

    def _sends(self, send: bytes, tally: Tally) -> Conversation:
        while True:
            expect((yield send), CONFIRMED)
            tally.messages += 1

    def _cycles(self, queue: str, send: bytes, *, tally: Tally) -> Conversation:
        """A message is confirmed and one, perhaps another, is delivered, in any order; its ack goes with the next
        send, since it has no answer."""
        expect((yield method(60, 10, b"\0\0\0\0\0\1\0")), (60, 11))
        consume = method(60, 20, b"\0\0" + short(queue.encode()) + short(b"") + b"\0" + long(b""))
        reply, acks, tag, delivered = (yield consume + send), b"", b"", 0
        expect(reply, (60, 21))
        while True:
            is_confirmed = False
            while not (is_confirmed and delivered):
                reply = yield acks
                acks = b""
                name = name_of(reply)
                is_confirmed = is_confirmed or name == CONFIRMED
                if name == DELIVERED:
                    tag = reply[12 + reply[11] :][:8]  # behind the consumer's name
                delivered += reply[0] == BODY
            delivered -= 1
            tally.messages += 1
            acks = method(60, 80, tag + b"\0") + send


def _manage(request: bytes, answer: tuple[int, int]) -> Conversation:
    yield from greet()
    expect((yield request), answer)


def _hold(connection: Connection, conversation: Conversation) -> None:
    request = next(conversation, None)
    try:
        while request is not None:
            request = conversation.send(connection.ask(request))
    except StopIteration:
        return
