"""The load generator: connections that hold conversations, on one thread and one core.

It has to cost clearly less than any server that it measures, so it is an epoll loop around plain blocking sockets:
nothing is awaited, and a connection is read only when something is there. A conversation is a generator that yields
requests and is sent the replies; what a reply must contain is its business.

Closed loop: each connection asks again as soon as it is answered. Open loop: requests are due at fixed instants,
whatever the server does, and a reply is charged from the instant when its request was due. A request that finds all
connections busy waits for one and is charged that wait: nothing is omitted.
"""

import contextlib
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Generator
from pathlib import Path

from bench.histogram import Histogram

Conversation = Generator[bytes, bytes, None]
READ_BYTES = 1 << 16  # of four times as many the C library asks the system each time, which took 18 µs a reply
OTHERS_AT_ONCE = 2  # replies, then those who are measured are looked at again
SLEEP_NS_MIN = 20_000  # for less it is not worth to fall asleep
SLEEP_NS_MAX = 50_000_000
TIMER_SLACK = Path("/proc/self/timerslack_ns")  # the system's own would be 50 µs: so late what is due might be sent
STALLED_S = 60.0  # a server that says nothing for so long is broken, and its figures are worth nothing


class PeerError(Exception):
    """A server that did not do what it was asked."""


class Framing:
    """Where a reply ends. One of these for each protocol."""

    def end(self, data: bytes) -> int:
        """Bytes of the first whole reply in `data`; 0 when it is not all there."""
        raise NotImplementedError

    def is_last(self, reply: bytes) -> bool:
        """Whether the server closes the connection after this reply."""
        del reply
        return False


class Connection:
    """`on_reply` is given each reply and the time when it was seen, and returns the next request, if any."""

    __slots__ = ("_address", "_framing", "_rest", "on_reply", "socket")

    def __init__(self, address: tuple[str, int], framing: Framing) -> None:
        self._address = address
        self._framing = framing
        self._rest = b""
        self.on_reply: Callable[[bytes, int], bytes | None]
        self.socket = self._connect()

    def _connect(self) -> socket.socket:
        made = socket.create_connection(self._address, timeout=STALLED_S)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.settimeout(None)
        return made

    def ask(self, request: bytes) -> bytes:
        """Sends, and waits for the reply: for what is not measured."""
        self.socket.settimeout(STALLED_S)
        self.socket.sendall(request)
        while not (replies := self.read()):
            pass
        (reply,) = replies
        return reply

    def read(self) -> list[bytes]:
        """The replies that are there now; may be none. Reconnects where the server closes after each."""
        data = self.socket.recv(READ_BYTES)
        if not data:
            raise PeerError(f"{self._address} closed the connection, with {self._rest[:200]!r} unread")
        if self._rest:
            data = self._rest + data
        end = self._framing.end(data)
        if end == len(data):
            self._rest = b""
            return [data]
        return self._several(data, end)

    def _several(self, data: bytes, end: int) -> list[bytes]:
        replies = []
        while end:
            replies.append(data[:end])
            data = data[end:]
            end = self._framing.end(data)
        self._rest = data
        return replies

    def renew(self, reply: bytes) -> bool:
        if not self._framing.is_last(reply):
            return False
        self.socket.close()
        self.socket = self._connect()
        return True

    def close(self) -> None:
        self.socket.close()


class Loop:
    def __init__(self) -> None:
        self._poll = select.epoll()
        self._others = select.epoll()
        self._watched = (self._poll, self._others)
        self._connections: dict[int, Connection] = {}
        self._has_others = False
        self.received = 0  # bytes

    def add(self, connection: Connection) -> None:
        self._connections[connection.socket.fileno()] = connection
        self._poll.register(connection.socket, select.EPOLLIN)

    def add_other(self, connection: Connection) -> None:
        """Load that others are measured beside: its replies wait, for the generator must not be what delays them."""
        self._connections[connection.socket.fileno()] = connection
        self._others.register(connection.socket, select.EPOLLIN)
        self._has_others = True

    def run(self, until: Callable[[int], bool], *, tick: Callable[[int], int] | None = None) -> None:
        """Serves replies until `until(now)`. `tick` sends what is due and says when the next is: many replies come at
        once, when a frame is on the disk, and what is due meanwhile is sent between them.

        It sleeps when nothing is to be done. A generator that looks again and again takes its core whole, beside a
        server that may do so with the other: then a virtual machine whose time is bounded is stopped for the rest of a
        period, for up to 10 ms, and that is what would be measured.
        """
        if tick:
            with contextlib.suppress(OSError):  # then what is due is sent a little late
                TIMER_SLACK.write_text("1000", encoding="ascii")
        wait_s = 0.0 if tick else SLEEP_NS_MAX / 1e9
        heard = now = time.perf_counter_ns()
        due = now
        while not until(now):
            events = self._poll.poll(wait_s)
            now = time.perf_counter_ns()
            if tick:
                due = tick(now)
            for number, _ in events:
                self._serve(self._connections[number], now)
                if tick:
                    due = tick(time.perf_counter_ns())
            others = self._others.poll(0.0, OTHERS_AT_ONCE) if self._has_others else []
            for number, _ in others:
                self._serve(self._connections[number], now)
            heard = now if events else heard
            if now - heard > STALLED_S * 1e9:
                raise PeerError(f"nothing heard for {STALLED_S:.0f} s")
            if tick and not events and not others and due - now > SLEEP_NS_MIN:
                select.select(self._watched, (), (), min(due - now, SLEEP_NS_MAX) / 1e9)

    def _serve(self, connection: Connection, now: int) -> None:
        for reply in connection.read():
            self.received += len(reply)
            number = connection.socket.fileno()
            if connection.renew(reply):
                del self._connections[number]
                self.add(connection)
            request = connection.on_reply(reply, now)
            if request:  # some conversations listen for a second reply
                connection.socket.sendall(request)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._poll.close()
        self._others.close()


def converse(connection: Connection, conversation: Conversation) -> None:
    """Begins a conversation that goes on by itself, until it has nothing more to say."""
    send = conversation.send

    def on_reply(reply: bytes, _: int) -> bytes | None:
        try:
            return send(reply)
        except StopIteration:
            return None

    connection.on_reply = on_reply
    connection.socket.sendall(next(conversation))


class Schedule:
    """The open loop: `make(number)` gives the request that is due at `start + number * interval`."""

    def __init__(
        self, rate: float, make: Callable[[int], bytes], check: Callable[[bytes], object], *, start: int
    ) -> None:
        self.histogram = Histogram()
        self.start = start
        self.sent = 0
        self._interval = 1e9 / rate
        self._make = make
        self._check = check
        self._idle: deque[Connection] = deque()
        self._due: deque[int] = deque()

    def employ(self, connection: Connection) -> None:
        self._idle.append(connection)

    def due(self, number: int) -> int:
        return self.start + int(number * self._interval)

    def tick(self, now: int) -> int:
        """Sends what is due; when the next one will be."""
        while self.due(self.sent) <= now:
            self._due.append(self.sent)
            self.sent += 1
        while self._due and self._idle:
            connection = self._idle.popleft()
            connection.socket.sendall(self._begin(connection))
        return self.due(self.sent)

    def _begin(self, connection: Connection) -> bytes:
        number = self._due.popleft()
        due = self.due(number)

        def on_reply(reply: bytes, now: int) -> bytes | None:
            self._check(reply)
            self.histogram.add(now - due)
            if self._due:
                return self._begin(connection)
            self._idle.append(connection)
            return None

        connection.on_reply = on_reply
        return self._make(number)
