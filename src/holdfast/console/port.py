"""The admin port: uvicorn in the loop that is already running."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator
from typing import Any

import uvicorn

CONNECTIONS_MAX = 200  # beside them everybody gets 503
KEEP_ALIVE_S = 15


class _Embedded(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_open = asyncio.Event()
        self.is_over = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self.is_open.set()

    async def main_loop(self) -> None:
        """Without uvicorn's ten looks a second whether it should end: an idle server is mostly what those cost."""
        while not self.is_over.is_set():
            await self.on_tick(0)  # the date of answers
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.is_over.wait(), 1)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are for the process, which stops this server itself."""
        yield


class AdminPort:
    def __init__(self, application: Any, *, tls: ssl.SSLContext | None = None) -> None:
        config = uvicorn.Config(
            application,
            loop="none",
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=CONNECTIONS_MAX,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=1,
            ssl_context_factory=None if tls is None else lambda _, __: tls,
        )
        self._server = _Embedded(config)
        self._task: asyncio.Task[None] | None = None

    async def listen(self, host: str, port: int) -> int:
        """Answers the port, chosen by the system when 0 is asked for. Raises OSError."""
        listener = _bind(host, port)
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._server.serve(sockets=[listener]))
        opened = loop.create_task(self._server.is_open.wait())
        await asyncio.wait((self._task, opened), return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            opened.cancel()
            self._task.result()
        return int(listener.getsockname()[1])

    async def stop(self) -> None:
        self._server.should_exit = True
        self._server.is_over.set()
        if self._task is not None:
            await self._task


def _bind(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host or "0.0.0.0", port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    return listener
