"""beanstalkd's text protocol. A tube stands for a queue."""

from bench.dialects.dialect import Tally, body
from bench.load import Connection, Conversation, Framing, PeerError


class BeanstalkFraming(Framing):
    def end(self, data: bytes) -> int:
        line_end = data.find(b"\r\n")
        if line_end < 0:
            return 0
        end = line_end + 2
        if data.startswith(b"RESERVED"):
            end += int(data[:line_end].rsplit(b" ", 1)[1]) + 2
        return end if end <= len(data) else 0


class Beanstalk:
    modes: tuple[str, ...] = ("send", "cycle")
    framing: Framing = BeanstalkFraming()

    def __init__(self, port: int) -> None:
        self.address = ("127.0.0.1", port)

    def create(self, connection: Connection, queue: str) -> None:
        """A tube is made by its first use."""

    def remove(self, connection: Connection, queue: str) -> None:
        """A tube is gone when it is empty and unused. What a run left stays: there is no command to drop it."""

    def conversation(self, mode: str, queue: str, *, tally: Tally, number: int) -> Conversation:
        content = body(number)
        put = b"put 0 0 600 %d\r\n%b\r\n" % (len(content), content)
        tube = queue.encode()
        expect((yield b"use %b\r\n" % tube), b"USING")
        expect((yield b"watch %b\r\n" % tube), b"WATCHING")
        while True:
            expect((yield put), b"INSERTED")
            if mode == "cycle":
                job = expect((yield b"reserve-with-timeout 0\r\n"), b"RESERVED").split(b" ", 2)[1]
                expect((yield b"delete %b\r\n" % job), b"DELETED")
            tally.messages += 1


def expect(reply: bytes, word: bytes) -> bytes:
    if not reply.startswith(word):
        raise PeerError(f"{word.decode()} was expected, and it said {reply[:200]!r}")
    return reply
