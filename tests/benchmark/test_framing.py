"""Where replies end: whole, in pieces, and several at once."""

import pytest

from bench.dialects.amqp import AmqpFraming, frame, method
from bench.dialects.beanstalk import BeanstalkFraming
from bench.dialects.http import HttpFraming
from bench.dialects.nats import NatsFraming
from bench.dialects.redis import RespFraming, command
from bench.load import Framing, PeerError

REPLIES: list[tuple[Framing, bytes]] = [
    (HttpFraming(), b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
    (HttpFraming(), b"HTTP/1.1 200 OK\r\ncontent-length:0\r\nX: y\r\n\r\n"),
    (HttpFraming(), b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3;x=y\r\nyou\r\n0\r\n\r\n"),
    (RespFraming(), b"+OK\r\n"),
    (RespFraming(), b"*-1\r\n"),
    (RespFraming(), b"*2\r\n*1\r\n:1\r\n$-1\r\n"),
    (RespFraming(), command(b"XADD", b"a", b"*", b"b", b"\r\n")),
    (NatsFraming(), b"PONG\r\n"),
    (NatsFraming(), b"MSG inbox 1 reply 5\r\na\r\nbc\r\n"),
    (NatsFraming(), b"HMSG inbox 1 12 14\r\nNATS/1.0\r\n\r\nab\r\n"),
    (AmqpFraming(), method(20, 11, b"\0\0\0\0")),
    (AmqpFraming(), frame(b"body", kind=3)),
    (BeanstalkFraming(), b"INSERTED 7\r\n"),
    (BeanstalkFraming(), b"RESERVED 7 4\r\na\r\nb\r\n"),
]


@pytest.mark.parametrize(("framing", "reply"), REPLIES)
def test_a_reply_ends_where_it_ends_and_not_before(framing: Framing, reply: bytes) -> None:
    assert [framing.end(reply[:length]) for length in range(len(reply))] == [0] * len(reply)
    assert framing.end(reply) == framing.end(reply + reply) == len(reply)


def test_a_reply_of_unknown_length_is_refused() -> None:
    with pytest.raises(PeerError, match="without a length"):
        HttpFraming().end(b"HTTP/1.1 200 OK\r\n\r\nwhat now?")


def test_a_server_of_http_1_0_closes_after_its_reply() -> None:
    assert HttpFraming().is_last(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n")
    assert HttpFraming().is_last(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
    assert not HttpFraming().is_last(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
