"""Redis Streams over RESP. One stream and one consumer group stand for a queue; a delete is XACK and XDEL together."""

from bench.dialects.dialect import Tally, body
from bench.load import Connection, Conversation, Framing, PeerError

GROUP = b"bench"


class RespFraming(Framing):
    def end(self, data: bytes) -> int:
        return max(0, _end_of_value(data, 0))


def _end_of_value(data: bytes, at: int) -> int:
    """-1 when it is not all there."""
    line_end = data.find(b"\r\n", at)
    if line_end < 0:
        return -1
    kind, after = data[at], line_end + 2
    if kind in b"+-:":
        return after
    size = int(data[at + 1 : line_end])
    if kind == ord("$"):
        end = after if size < 0 else after + size + 2
        return end if end <= len(data) else -1
    for _ in range(size):  # an array; -1 is the null array
        after = _end_of_value(data, after)
        if after < 0:
            return -1
    return after


def command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


class RedisStreams:
    modes: tuple[str, ...] = ("send", "cycle")
    framing: Framing = RespFraming()

    def __init__(self, port: int) -> None:
        self.address = ("127.0.0.1", port)

    def create(self, connection: Connection, queue: str) -> None:
        accepted(connection.ask(command(b"XGROUP", b"CREATE", queue.encode(), GROUP, b"0", b"MKSTREAM")))

    def remove(self, connection: Connection, queue: str) -> None:
        accepted(connection.ask(command(b"DEL", queue.encode())))

    def conversation(self, mode: str, queue: str, *, tally: Tally, number: int) -> Conversation:
        stream = queue.encode()
        add = command(b"XADD", stream, b"*", b"b", body(number))
        return self._sends(add, tally) if mode == "send" else self._cycles(stream, add, tally=tally, number=number)

    def _sends(self, add: bytes, tally: Tally) -> Conversation:
        while True:
            accepted((yield add))
            tally.messages += 1

    def _cycles(self, stream: bytes, add: bytes, *, tally: Tally, number: int) -> Conversation:
        read = command(b"XREADGROUP", b"GROUP", GROUP, b"c%d" % number, b"COUNT", b"1", b"STREAMS", stream, b">")
        while True:
            accepted((yield add))
            found = accepted((yield read))
            if found.startswith(b"*-1"):
                continue
            entry = found.split(b"\r\n", 8)[7]  # [[stream, [[id, fields]]]], and each length before its text
            accepted((yield command(b"XACK", stream, GROUP, entry) + command(b"XDEL", stream, entry)))
            if accepted((yield b"")) != b":1\r\n":
                raise PeerError(f"entry {entry!r} was not deleted")
            tally.messages += 1


def accepted(reply: bytes) -> bytes:
    if reply.startswith(b"-"):
        raise PeerError(reply.decode(errors="replace"))
    return reply
