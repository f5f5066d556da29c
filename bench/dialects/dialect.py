"""What the runs ask of every server, whatever it speaks."""

from typing import Protocol

from bench.load import Connection, Conversation, Framing

MODES = ("send", "send ×10", "cycle", "cycle ×10", "drain")
BODY_BYTES = 1024
_ALPHABET = b"abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ.-"


class Tally:
    """Messages that went the whole way of a mode: acknowledged, or deleted."""

    __slots__ = ("messages",)

    def __init__(self) -> None:
        self.messages = 0


class Dialect(Protocol):
    framing: Framing
    address: tuple[str, int]
    modes: tuple[str, ...]

    def create(self, connection: Connection, queue: str) -> None:
        """Makes a queue, or whatever corresponds to one. The connection is fresh."""

    def remove(self, connection: Connection, queue: str) -> None:
        """Removes it with its messages, so that they do not weigh on the next run. The connection is fresh."""

    def conversation(self, mode: str, queue: str, *, tally: Tally, number: int) -> Conversation:
        """What connection `number` says. It may end, when there is nothing left to drain."""


def body(number: int) -> bytes:
    """1 KB of text, different for each number."""
    return (b"%012d." % number + _ALPHABET * (BODY_BYTES // len(_ALPHABET) + 1))[:BODY_BYTES]


def connect(dialect: Dialect) -> Connection:
    return Connection(dialect.address, dialect.framing)
