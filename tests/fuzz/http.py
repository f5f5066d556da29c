"""The HTTP protocol class against the reference: streams of requests by grammar, damaged, cut anywhere, answered late.

Laws
- What is served is what the reference reads, from the first request on; nothing else, nothing twice, nothing in part.
- A stream that is right is served to its end. One that is not is served up to there, then refused, at most once.
- Answers are those of the requests, in their order.
- How a stream is cut into pieces, and when answers come, changes nothing of this.
"""

import itertools
import random
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from tests.fuzz import http_reference
from tests.fuzz.http_reference import Asked
from tests.protocol.http_peer import Peer

HOST = b"Host: queue"
METHODS = [b"POST", b"POST", b"POST", b"GET", b"GET", b"PUT", b"DELETE", b"OPTIONS", b"HEAD"]
TARGETS = [b"/", b"/", b"/000000000000/q", b"/a?b=c&d=%20", b"http://queue/x", b"HTTP://queue", b"//", b"/%zz"]
FIELDS = [
    *(b"X-Amz-Target: AmazonSQS.SendMessage", b"X: ", b"X:y", b"X:\t y \t", b"Accept: */*, a", b"x-y_z!: \xff\x80"),
    *(b"Connection: keep-alive", b"Connection: close", b"Expect: 100-continue", b"Trailer: X", b"Cookie: a=b; c=d"),
]
ODD_FIELDS = [
    *(b"Content-Length: 3", b"Content-Length: 03", b"Content-Length: +3", b"Content-Length: 3, 3", b"Content-Length:"),
    *(b"content-length: 99999999999999999999", b"Content-Length: 0x3", b"Content-Length : 3", b"Content-Length: 3 3"),
    *(b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding: chunked, identity"),
    *(b"Transfer-Encoding: xchunked", b"Transfer-Encoding:\tCHUNKED", b"Transfer-Encoding: chunked\0", b"TE: trailers"),
    *(b" folded", b"\tfolded", b"Host: queue", b"Host: other", b"Expect: miracles", b"no colon", b": empty", b"a b: c"),
    *(b"Connection: upgrade\r\nUpgrade: h2c", b"X: a\rb", b"X: a\nContent-Length: 3", b"X\0: y", b"Upgrade: h2c"),
]
ODD_LINES = [
    *(b"POST / HTTP/1.1\n", b"POST /  HTTP/1.1\r\n", b"POST\t/ HTTP/1.1\r\n", b"POST / HTTP/1.2\r\n", b"POST /\r\n"),
    *(b"PRI * HTTP/2.0\r\n", b"CONNECT a:1 HTTP/1.1\r\n", b"OPTIONS * HTTP/1.1\r\n", b"post / HTTP/1.1\r\n", b"\0"),
    *(b"POST http://other/ HTTP/1.1\r\n", b"POST / http/1.1\r\n", b" POST / HTTP/1.1\r\n", b"GET /#a HTTP/1.1\r\n"),
]
ODD_CHUNKS = [
    b"3\nabc\r\n",
    b"3 \r\nabc\r\n",
    b"-3\r\nabc\r\n",
    b"0x3\r\nabc\r\n",
    b"3\r\nabcd\r\n",
    b"3\r\nabc",
    b"g\r\n",
]
ODD_ENDS = [b"0\r\nX-Amz-Target: a\r\n\r\n", b"0\n\n", b"00\r\n\r\n", b"0\r\n \r\n", b"0;a=b\r\n\r\n", b"0\r\n"]
Chance = random.Random


class Seen(NamedTuple):
    """What a server made of a stream."""

    served: list[Asked]
    statuses: list[int]


# --- streams --------------------------------------------------------------------------------------------


def request(chance: Chance, *, is_odd: bool) -> bytes:
    """By the grammar; an odd one has one place where it need not be right."""
    place = chance.choice(("line", "field", "field", "field", "chunk", "end")) if is_odd else ""
    line = b"%b %b HTTP/1.%d\r\n" % (chance.choice(METHODS), chance.choice(TARGETS), chance.random() > 0.05)
    if place == "line":
        line = chance.choice(ODD_LINES)
    fields = [HOST, *chance.sample(FIELDS, chance.randrange(4))]
    if place == "field":
        fields.insert(chance.randrange(len(fields) + 1), chance.choice(ODD_FIELDS))
    body = bytes(chance.choices(b"abc\r\n POST/", k=chance.choice((0, 1, 3, 20))))
    if b"HTTP/1.1" in line and (place in ("chunk", "end") or chance.random() < 0.3):
        fields.append(b"Transfer-Encoding: chunked")
        body = chunks(body, chance, place=place)
    elif body or chance.random() < 0.5:
        fields.append(b"Content-Length: %d" % len(body))
    chance.shuffle(fields)
    return line + b"\r\n".join(fields) + b"\r\n\r\n" + body


def chunks(body: bytes, chance: Chance, *, place: str) -> bytes:
    parts = []
    while body:
        size = chance.randint(1, len(body))
        sign = chance.choice((b"%x", b"%X", b"0%x", b"%x;a", b'%x;a="b"')) % size
        parts.append(sign + b"\r\n" + body[:size] + b"\r\n")
        body = body[size:]
    if place == "chunk":
        parts.insert(chance.randrange(len(parts) + 1), chance.choice(ODD_CHUNKS))
    return b"".join(parts) + (chance.choice(ODD_ENDS) if place == "end" else b"0\r\n\r\n")


def right_stream(chance: Chance) -> bytes:
    return b"".join(request(chance, is_odd=False) for _ in range(chance.randint(1, 5)))


def odd_stream(chance: Chance) -> bytes:
    return b"".join(request(chance, is_odd=chance.random() < 0.4) for _ in range(chance.randint(1, 5)))


def damaged_stream(chance: Chance) -> bytes:
    stream = bytearray(odd_stream(chance))
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(stream))
        piece = chance.choice(
            (b"", b"\r", b"\n", b"\r\n", b"\0", b" ", b":", b"0", b"\xff", bytes([chance.randrange(256)]))
        )
        stream[at : at + chance.choice((0, 1, 1, 5))] = piece
    return bytes(stream) or b"x"


def noise(chance: Chance) -> bytes:
    return chance.randbytes(chance.randint(1, 200))


# --- servers --------------------------------------------------------------------------------------------


def serve(pieces: list[bytes]) -> Seen:
    peer = Peer()
    for piece in pieces:
        peer.send(piece)
    return _seen(peer)


def serve_late(pieces: list[bytes], chance: Chance) -> Seen:
    """Answers come when they come, between any two pieces; nothing is sent to a server that does not read."""
    peer, answered, waiting = Peer(keeps=True), 0, deque(pieces)
    while waiting or answered < len(peer.kept):
        is_paused = peer.wire.reading == "paused"
        if answered < len(peer.kept) and (is_paused or not waiting or chance.random() < 0.5):
            _answer(peer, answered)
            answered += 1
        elif is_paused:
            break
        else:
            peer.send(waiting.popleft())
    return _seen(peer)


def _answer(peer: Peer, which: int) -> None:
    exchange = peer.kept[which]
    exchange.answer(exchange.method + b" " + exchange.target + b" " + exchange.body)


def _seen(peer: Peer) -> Seen:
    served = [Asked(each.method, each.target, each.body) for each in peer.seen]
    statuses = [status for status, _ in peer.answers()]
    for asked, (status, body) in zip(served, peer.answers(), strict=False):
        assert status == 200
        assert asked.method == b"HEAD" or body == b" ".join(asked), "an answer that is not the request's"
    return Seen(served, statuses)


def cut(stream: bytes, chance: Chance) -> list[bytes]:
    edges = sorted({0, len(stream), *(chance.randrange(len(stream)) for _ in range(chance.randint(1, 6)))})
    return [stream[start:end] for start, end in itertools.pairwise(edges)]


# --- laws -----------------------------------------------------------------------------------------------


def check(stream: bytes, *, is_right: bool, chance: Chance) -> None:
    expected, seen = http_reference.read(stream), serve([stream])
    assert seen.served == expected.requests[: len(seen.served)], "something was served that was not asked"
    refusals = seen.statuses[len(seen.served) :]
    assert len(refusals) <= 1
    assert all(400 <= status < 500 for status in refusals)
    if is_right:
        assert not expected.is_refused, "the reference does not know its own grammar"
        assert seen.served == expected.requests
        assert refusals == []
    elif expected.is_refused or len(seen.served) < len(expected.requests):
        assert refusals, "neither served nor refused"
    for pieces in ([stream[at : at + 1] for at in range(len(stream))], cut(stream, chance)):
        again = serve(pieces)
        assert again.served == seen.served, "pieces change what is served"
        assert len(again.statuses) == len(seen.statuses), "pieces change what is refused"
    assert serve_late(cut(stream, chance), chance).served == seen.served, "late answers change what is served"


def run(make: Callable[[Chance], bytes], count: int, *, seed: str) -> None:
    """So many streams; the first that breaks a law is shown."""
    chance = random.Random(seed)
    for _ in range(count):
        stream = make(chance)
        try:
            check(stream, is_right=make is right_stream, chance=chance)
        except AssertionError as problem:
            raise AssertionError(f"{problem}: {stream!r}") from problem
