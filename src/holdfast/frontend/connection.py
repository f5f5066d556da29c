"""One connection to the SQS port: our own small asyncio protocol on httptools.

    bytes ──▶ glance or parser ──▶ complete requests ──▶ its turn ──▶ one exchange at a time ──▶ answer ──▶ …

Laws
- Answers leave in the order of requests: a connection serves one exchange at a time, and stops reading while
  another one waits behind it. So pipelining cannot reorder the effects of two sends.
- Everything is bounded (bounds.py): head, body, the time they take, what a connection may have buffered unread.
- A request has one length. What could be read in two ways is refused: two lengths, a coding besides chunked, trailers,
  chunks in HTTP/1.0, a target that names another host than the header does. The parser refuses the rest of that kind.
- No task, future or timer per request or connection.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING, cast

import httptools

from holdfast.core.types import QueueName
from holdfast.frontend import bounds, head, refusals
from holdfast.frontend.exchange import Exchange
from holdfast.frontend.glance import Usual

if TYPE_CHECKING:
    from holdfast.frontend.server import Server


class Connection:  # an asyncio.Protocol by what it does; that base would keep mypyc from compiling it whole
    __slots__ = tuple(
        "_body _body_more _current _head_bytes _headers _is_advancing _is_between _is_clogged _is_closing _is_paused "
        "_is_split _is_waiting _owes_continue _pairs _parser _peer _phase _queue _received _refusal _server _since "
        "_subject _target _transport heads".split()
    )

    def __init__(self, server: "Server") -> None:
        self._server = server
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport
        self._peer = ""
        self.heads = server.heads
        self._is_between = True  # nothing of a request has been shown to the parser since the last one
        # the request being read
        self._phase = bounds.IDLE
        self._since = server.second
        self._target = b""
        self._pairs: list[tuple[bytes, bytes]] = []
        self._headers: dict[bytes, bytes] = {}
        self._is_split = False  # its head may have come in more than one piece
        self._head_bytes = 0  # counted only then
        self._body = b""
        self._body_more: bytearray | None = None  # when the body comes in more than one piece
        self._received = 0  # bytes on the wire, beginning with the piece that ended the head
        self._owes_continue = False
        self._refusal: refusals.Refusal | None = None
        # requests that are complete
        self._current: Exchange | None = None
        self._queue: deque[Exchange] = deque()
        self._is_clogged = False  # the client does not read its answers
        self._is_paused = False  # we do not read its requests
        self._is_closing = False
        self._is_advancing = False
        self._is_waiting = False  # for its turn
        self._subject: QueueName | None = None  # the queue of its last request, if any

    # the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._server.is_draining or len(self._server.connections) >= bounds.CONNECTIONS_MAX:
            self._transport.abort()
            return
        address = transport.get_extra_info("peername")
        peer = str(address[0]) if address else ""
        if not self._server.crowd.enter(peer):
            crowded = refusals.CROWDED
            self._transport.write(self.heads.build(crowded[0], refusals.body(crowded), is_last=True, is_head=False))
            self._close()
            return
        self._peer = peer
        self._transport.set_write_buffer_limits(high=bounds.UNSENT_BYTES_MAX)
        self._server.connections.add(self)

    def connection_lost(self, _: Exception | None) -> None:
        if self in self._server.connections:
            self._server.connections.discard(self)
            self._server.crowd.leave(self._peer)
        self._is_closing = True
        self._queue.clear()
        self._forget_body()
        exchange, self._current = self._current, None
        if exchange is not None:
            exchange.is_gone = True
            if exchange.on_gone is not None:
                exchange.on_gone()
        self._server.note_closed()

    def data_received(self, data: bytes) -> None:
        if self._is_deaf():
            return
        is_new, waiting = self._is_between, len(self._queue)
        usual = self._server.glance.read(data) if is_new else None
        if usual is not None:
            self._take_usual(usual)
            return
        if len(data) > bounds.HEAD_BYTES_MAX:
            self._is_split = True  # so that the head is measured
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # refused when its head was complete
        except httptools.HttpParserError as problem:
            self._refuse((400, f"The request is not HTTP/1.1: {problem}"))
        if self._phase == bounds.HEAD:
            self._split_head(len(data))
        elif self._phase == bounds.BODY:
            self._split_body(len(data))
        if self._refusal is not None:
            self._queue_refusal()
        if is_new and self._is_between and len(self._queue) == waiting + 1:
            self._learn(data, self._queue[-1])
        if self._queue:
            self._await_turn()

    def _learn(self, piece: bytes, exchange: Exchange) -> None:
        """One request was in this piece, and nothing else."""
        if not exchange.is_last and exchange.method:
            self._server.glance.learn(piece, (exchange.method, exchange.target, exchange.headers, exchange.body))

    def _take_usual(self, usual: Usual) -> None:
        method, target, headers, body = usual
        self._since = self._server.second
        self._queue.append(Exchange(self, method, target, headers, body, is_last=self._server.is_draining))
        self._await_turn()

    def _await_turn(self) -> None:
        """Reads no further while something is being served, or waits already."""
        if self._is_waiting or self._current is not None:
            self._pause()
        else:
            self._is_waiting = True
            self._server.await_turn(self, self._subject)

    def prepare(self) -> int:
        """Before its turn, if nothing stands before what it will serve first. Answers the bytes of that."""
        if not self._queue or self._current is not None or self._is_clogged or self._is_closing:
            return 0
        exchange = self._queue[0]
        if exchange.method and self._server.prepare is not None:
            self._server.prepare(exchange)
        return len(exchange.body)

    def take_turn(self) -> None:
        self._is_waiting = False
        self._advance()

    def _is_deaf(self) -> bool:
        return self._is_closing or self._refusal is not None

    def _split_head(self, length: int) -> None:
        """A head that is not complete yet. Its first piece may be the end of a long read, so it is not counted."""
        if self._is_split:
            self._head_bytes += length
        self._is_split = True
        if self._head_bytes > bounds.HEAD_BYTES_MAX:
            self._refuse(refusals.LONG_HEAD)

    def _split_body(self, length: int) -> None:
        """A body that is not complete yet. The marks of its chunks count as well."""
        if self._pairs:
            self._refuse(refusals.TRAILERS)
        if not self._received and self._parser.get_http_version() == "0.9":
            self._refuse(refusals.VERSION)
        self._received += length
        if self._received > bounds.WIRE_BYTES_MAX:
            self._refuse(refusals.LONG_BODY)

    def pause_writing(self) -> None:
        self._is_clogged = True
        self._since = self._server.second

    def resume_writing(self) -> None:
        self._is_clogged = False
        self._since = self._server.second
        self._advance()

    def check_stall(self) -> None:
        """Cuts a client that does not read; closes one that does not finish its request, or is idle."""
        waited = self._server.second - self._since
        if self._is_clogged:
            if waited > bounds.UNREAD_TIMEOUT_S:
                self.abort()
        elif self._current is None and waited > bounds.patience_s(self._phase, self._received):
            if self._phase in (bounds.IDLE, bounds.LINGER):
                self.abort()
            else:
                self._refuse(refusals.LATE)
                self._queue_refusal()
                self._advance()

    def drain(self) -> None:
        if self._current is not None:
            self._current.is_last = True
        elif self._phase in (bounds.IDLE, bounds.LINGER):
            self._close()

    def abort(self) -> None:
        self._is_closing = True
        self._transport.abort()

    def _close(self) -> None:
        self._is_closing = True
        self._transport.close()

    # the parser

    def on_message_begin(self) -> None:
        self._is_between = False

    def on_url(self, url: bytes) -> None:
        """The first sign of a request. A target may come in pieces."""
        if self._phase != bounds.HEAD:
            self._phase = bounds.HEAD
            self._since = self._server.second
        self._target += url
        if len(self._target) > bounds.HEAD_BYTES_MAX:
            self._refuse(refusals.LONG_HEAD)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._pairs.append((name, value.strip(head.BLANKS)))

    def on_headers_complete(self) -> None:
        self._phase = bounds.BODY
        pairs, self._pairs = self._pairs, []
        self._headers = headers = self._server.names.small(pairs)
        if len(headers) != len(pairs) or len(pairs) > bounds.HEADERS_MAX or self._is_split:
            self._check_head(pairs)
        length = headers.get(b"content-length", b"")
        if len(length) > 6 and int(length) > bounds.BODY_BYTES_MAX:
            self._refuse(refusals.LONG_BODY)
        if not self._target.startswith(b"/"):
            self._read_url()
        if b"transfer-encoding" in headers and not head.is_chunked(self._headers, self._parser.get_http_version()):
            self._refuse(refusals.CODING)
        if b"upgrade" in headers and self._parser.should_upgrade():
            self._refuse(refusals.UPGRADE)
        if b"expect" in headers and self._refusal is None:
            self._expect(self._headers[b"expect"])

    def _check_head(self, pairs: head.Pairs) -> None:
        """What a usual head need not be asked: its length, and headers that come twice."""
        if head.is_long(pairs):
            self._refuse(refusals.LONG_HEAD)
        if head.names_two_hosts(pairs):
            self._refuse(refusals.TWO_HOSTS)
        self._headers = head.join(pairs)
        self._is_split, self._head_bytes = False, 0

    def _read_url(self) -> None:
        self._target = head.path_of(self._target, self._headers.get(b"host"))
        if not self._target:
            self._refuse(refusals.TARGET)

    def _expect(self, expectation: bytes) -> None:
        if expectation.lower() != b"100-continue":
            self._refuse(refusals.EXPECTATION)
        else:
            self._owes_continue = True
            self._advance()

    def on_body(self, body: bytes) -> None:
        if self._body:
            self._grow_body(body)
        else:
            self._body = body

    def _grow_body(self, body: bytes) -> None:
        if self._refusal is not None:
            return
        if self._body_more is None:
            self._body_more = bytearray(self._body)
            self._server.crowd.hold(len(self._body))
        self._body_more += body
        if not self._server.crowd.hold(len(body)):
            self._refuse(refusals.FULL)
        if len(self._body_more) > bounds.BODY_BYTES_MAX:
            self._refuse(refusals.LONG_BODY)

    def _forget_body(self) -> None:
        if self._body_more is not None:
            self._server.crowd.release(len(self._body_more))
            self._body_more = None

    def on_message_complete(self) -> None:
        if self._pairs:
            self._refuse(refusals.TRAILERS)
        if self._refusal is not None:
            return
        parser = self._parser
        body = self._body if self._body_more is None else bytes(self._body_more)
        method = parser.get_method()
        is_last = not parser.should_keep_alive() or self._server.is_draining or method == b"HEAD"
        if (is_last or b"connection" in self._headers) and parser.get_http_version() == "0.9":
            self._refuse(refusals.VERSION)  # which others would keep no connection for
            return
        self._queue.append(Exchange(self, method, self._target, self._headers, body, is_last=is_last))
        self._phase = bounds.IDLE
        self._is_between = True
        self._target = self._body = b""
        self._received = 0
        if self._body_more is not None:
            self._forget_body()
        self._owes_continue = False

    def _refuse(self, refusal: refusals.Refusal) -> None:
        """Nothing after this is read; the refusal itself waits its turn."""
        self._refusal = self._refusal or refusal

    # exchanges

    def _queue_refusal(self) -> None:
        """An exchange without a method stands for the refusal. It is the last thing that this client is told."""
        self._forget_body()
        self._owes_continue = False
        self._queue.append(Exchange(self, b"", b"", {}, b"", is_last=True))
        self._pause()

    def _advance(self) -> None:
        """Starts the next exchange if nothing stands before it. Reads on when none waits."""
        if self._is_advancing:
            return
        self._is_advancing = True
        while self._queue and self._current is None and not (self._is_clogged or self._is_closing):
            exchange = self._current = self._queue.popleft()
            if exchange.method:
                self._server.serve(exchange)
                if exchange.queue is not None:
                    self._subject = exchange.queue
            else:
                self._answer_refusal(exchange)
        self._is_advancing = False
        if self._is_closing:
            return
        if self._queue:
            self._pause()
        elif self._is_paused and self._refusal is None:
            self._resume()
        if self._owes_continue and self._current is None and not self._queue:
            self._owes_continue = False
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _pause(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        self._is_paused = False
        self._transport.resume_reading()

    def _answer_refusal(self, exchange: Exchange) -> None:
        assert self._refusal is not None
        exchange.answer_with(self._refusal[0], refusals.body(self._refusal))

    def deliver(self, exchange: Exchange, answer: bytes) -> None:
        if exchange is not self._current:
            assert exchange.is_gone, "an exchange was answered twice"
            return
        self._current = exchange.on_gone = None
        self._since = self._server.second
        self._transport.write(answer)
        if exchange.is_last:
            self._finish()
        elif self._queue or self._is_paused or self._owes_continue:
            self._advance()

    def peer(self) -> str:
        return self._peer

    def _finish(self) -> None:
        """The last answer is written. After a refusal the client may still be sending."""
        self._queue.clear()
        if self._refusal is None:
            self._close()
            return
        self._phase = bounds.LINGER
        if self._transport.can_write_eof():  # not on TLS
            self._transport.write_eof()
        if self._is_paused:
            self._resume()
