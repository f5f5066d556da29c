"""HTTP/1.1 on the SQS port: all connections, and whose turn it is.

    connection ──▶ complete requests ──▶ turns, by queue ──▶ served for a millisecond ──▶ written, synced ──▶ answers

Laws
- Connections are bounded (bounds.py), all of them and those of one address.
- A connection is served when it is its turn (core/admission/turns.py), not when its bytes happen to arrive: a queue
  under full load costs the clients of another one the rest of a turn, not a place behind all that wait.
- No task, future or timer per request or connection; one sweep a second looks for those that stall.
"""

import asyncio
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

from holdfast.core.admission.turns import Turns
from holdfast.core.types import QueueName
from holdfast.frontend import bounds, head
from holdfast.frontend.bounds import Crowd
from holdfast.frontend.connection import Connection
from holdfast.frontend.exchange import Exchange, Heads
from holdfast.frontend.glance import Glance
from holdfast.runtime import metrics

Serve = Callable[[Exchange], None]
Soon = Callable[[Callable[[], None]], object]


class Server:
    """Owns all connections of one listening socket. `serve` is called for each request and must see to it that
    the exchange is answered. `soon` calls what it is given when everything that has arrived is read."""

    def __init__(
        self, serve: Serve, prepare: Serve | None = None, *, boot: str, soon: Soon, crowd: Crowd | None = None
    ) -> None:
        """`prepare`: what can be done for an exchange before its turn, for several in a row."""
        self.serve = serve
        self.prepare = prepare
        self._soon = soon
        self.crowd = crowd or Crowd()
        self.heads = Heads(boot, formatdate(usegmt=True))
        self.connections: set[Connection] = set()
        self.names = head.Names()
        self.glance = Glance()
        self.second = 0  # coarse clock, advanced by the sweep
        self.is_draining = False
        # Told when those whose turn it was have been served, and whether the last of them should not wait for others.
        self.end_turn: Callable[[bool], None] | None = None
        # Called between two requests while somebody is served who has nothing to do with the load: what they wrote may
        # be durable.
        self.hear: Callable[[], None] | None = None
        self._turns: Turns[Connection] = Turns()  # connections with a request that is not served yet
        self._is_turn_due = False
        self._is_patient = False
        self._brisk_until = 0.0  # somebody waits who has nothing to do with the load
        self._listener: Any = None  # an asyncio.Server or uvloop's, which differs from its type
        self._sweeper: asyncio.TimerHandle | None = None
        self._empty = asyncio.Event()

    async def listen(self, host: str, port: int, **options: Any) -> int:
        """Answers the port, which the system chooses for 0. `options`: of create_server, for TLS and a shared port."""
        loop = asyncio.get_running_loop()
        make: Any = Connection
        self._listener = await loop.create_server(lambda: make(self), host, port, backlog=1024, **options)
        self._sweep(loop)
        return int(self._listener.sockets[0].getsockname()[1])

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """O(connections), once a second."""
        self.second += 1
        self.heads.turn_to(formatdate(usegmt=True))
        for connection in list(self.connections):
            connection.check_stall()
        self._sweeper = loop.call_later(1, self._sweep, loop)

    def drain(self) -> None:
        """Accepts nothing new; connections close after the answer they owe. What has arrived is served now: the host
        ends those who wait for messages after this."""
        self.is_draining = True
        if self._listener:
            self._listener.close()
        while self._turns:
            self._turns.take().take_turn()
        for connection in list(self.connections):
            connection.drain()
        self.note_closed()

    def await_turn(self, connection: Connection, queue: QueueName | None) -> None:
        """It will be told to take its turn. `queue`: what its request is probably about."""
        self._turns.add(queue, connection)
        if not self._is_turn_due:
            self._is_turn_due = True
            self._soon(self._take_turns)

    def _take_turns(self) -> None:
        """For a bounded time; then the loop reads what has come meanwhile, and hears of the disk."""
        turns, now = self._turns, metrics.now()
        is_brisk = now < self._brisk_until
        hear = self.hear if is_brisk else None
        until = now + (bounds.BRISK_TURN_S if is_brisk else bounds.TURN_S)
        few = 1 if is_brisk or self.prepare is None else bounds.PREPARED_MAX
        is_over = False
        while turns and not is_over:
            if hear is not None:
                hear()
            for connection in self._next(few):
                connection.take_turn()
            now = metrics.now()
            is_over = turns.is_light or now >= until
        if turns.is_light:
            self._brisk_until = now + bounds.BRISK_S
        self._is_patient = bool(turns) and not turns.is_light
        if self.end_turn is not None:
            self.end_turn(turns.is_light)
        if hear is not None:
            hear()
        self._is_turn_due = bool(turns)
        if self._is_turn_due:
            self._soon(self._take_turns)

    def _next(self, count_max: int) -> list[Connection]:
        """Those who are served next, with what can be done for each of them beforehand done."""
        turns, size = self._turns, 0
        found: list[Connection] = []
        while turns and size < bounds.PREPARED_BYTES and len(found) < count_max:
            connection = turns.take()
            found.append(connection)
            size += connection.prepare()
            if turns.is_light:
                break
        return found

    def expects_more(self) -> bool:
        """Requests wait to be served soon, and none that was just served should wait for them."""
        return self._is_patient

    async def wait_empty(self) -> None:
        await self._empty.wait()

    def stop(self) -> None:
        """Cuts whatever is left."""
        if self._sweeper:
            self._sweeper.cancel()
        for connection in list(self.connections):
            connection.abort()

    def note_closed(self) -> None:
        if self.is_draining and not self.connections:
            self._empty.set()
