"""Requests read at a glance against the parser: those of a few clients, right ones and damaged ones, to a server that
has learned their forms and to one that sees them byte by byte, so that it has to parse them all.

Law: both serve and refuse the same, down to the last header.
"""

import random
from typing import NamedTuple

from holdfast.frontend.exchange import Exchange
from holdfast.frontend.glance import Glance, Usual
from tests.protocol.http_peer import Peer

Chance = random.Random
HEX = b"0123456789abcdef"
CLIENTS = [
    b"POST / HTTP/1.1\r\nHost: queue\r\nX-Amz-Target: AmazonSQS.SendMessage\r\n[date][key][length]",
    b"POST / HTTP/1.1\r\nHost: queue\r\nUser-Agent: Boto3/1.43 md/x#2.0\r\n[date][key][try]Accept: */*\r\n[length]",
    b"POST /q HTTP/1.1\r\n[length]host: queue\r\nconnection: keep-alive\r\n[key]x-amz-date: 20250615T150641Z\r\n",
    b"POST / HTTP/1.1\r\nHost: queue\r\nExpect: 100-continue\r\n[date][length]",
    b"POST / HTTP/1.1\r\nHost: queue\r\nCookie: a=b; Content-Length: 3\r\n[length]",
    b"POST / HTTP/1.1\r\nHost: queue\r\nConnection: close\r\n[date][key][length]",
]
PIECES = (
    b"",
    b"0",
    b"7",
    b"-",
    b" ",
    b"\r",
    b"\n",
    b"\r\n",
    b"\0",
    b"\xff",
    b":",
    b"g",
    b"Z",
    b"\r\nX: y",
    b"\r\n\r\n",
)


class Outcome(NamedTuple):
    served: list[tuple[Usual, bool]]  # and whether it is the connection's last
    statuses: list[int]


class Counting(Glance):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def read(self, piece: bytes) -> Usual | None:
        usual = super().read(piece)
        self.count += usual is not None
        return usual


def request(chance: Chance) -> bytes:
    body = chance.randbytes(chance.choice((0, 1, 9, 10, 200)))
    signature = bytes(chance.choices(HEX, k=64))
    head = chance.choice(CLIENTS)
    for gap, line in (
        (b"[date]", b"X-Amz-Date: 2025%02d15T150640Z" % chance.randint(1, 12)),
        (
            b"[key]",
            b"Authorization: AWS4-HMAC-SHA256 Credential=A/20250615/r/sqs, SignedHeaders=h, Signature=" + signature,
        ),
        (b"[try]", b"amz-sdk-invocation-id: " + bytes(chance.choices(HEX + b"-", k=36))),
        (b"[length]", b"Content-Length: %d" % len(body)),
    ):
        head = head.replace(gap, line + b"\r\n")
    return head + b"\r\n" + body


def damaged(stream: bytes, chance: Chance) -> bytes:
    """Mostly in its head."""
    head = stream.find(b"\r\n\r\n") + 4
    at = chance.randrange(head if chance.random() < 0.9 else len(stream) + 1)
    return stream[:at] + chance.choice(PIECES) + stream[at + chance.randint(0, 2) :]


def serve(pieces: list[bytes], glance: Glance) -> Outcome:
    peer = Peer()
    peer.server.glance = glance
    for piece in pieces:
        peer.send(piece)
    return Outcome([(_usual(each), each.is_last) for each in peer.seen], peer.statuses())


def _usual(exchange: Exchange) -> Usual:
    return exchange.method, exchange.target, exchange.headers, exchange.body


def run(count: int, *, seed: str) -> int:
    """So many requests; how many of them were read at a glance."""
    chance, learned = random.Random(seed), Counting()
    for _ in range(count):
        stream = request(chance)
        if chance.random() < 0.6:
            stream = damaged(stream, chance)
        pieces = [stream] if chance.random() < 0.8 else [stream[:30], stream[30:]]
        if chance.random() < 0.3:
            pieces.append(request(chance))
        parsed = serve([stream[at : at + 1] for stream in pieces for at in range(len(stream))], Glance())
        assert serve(pieces, learned) == parsed, pieces
    return learned.count
