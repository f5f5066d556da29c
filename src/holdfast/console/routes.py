"""The table of routes: every one with the right it needs. A test walks it.

/livez        the process answers
/readyz       it serves SQS; 503 while a worker is being replaced, whose queues wait for that
/in-service   load balancers should send work here; 503 while draining
"""

import os
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from holdfast import __version__
from holdfast.console import exposition, facts
from holdfast.console.sources import Sources
from holdfast.core.errors import InvalidParameterValue
from holdfast.runtime import metrics
from holdfast.runtime.config import example

PAGE_MAX = 1000  # queues in one answer

READ, CHANGE = "AdminRead", "AdminChange"  # as policies name them: holdfast:AdminRead
OPEN = ""  # for everybody

Handle = Callable[[Request], Awaitable[Any]]


class Row(NamedTuple):
    method: str
    path: str
    right: str
    summary: str
    answer: Any  # a struct, or None for text
    handle: Handle
    is_metrics: bool = False  # may be read with the token for metrics, too


class Routes:
    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._began = metrics.now()

    def rows(self) -> list[Row]:
        return [
            Row("GET", "/livez", OPEN, "Does the process answer?", None, self._live),
            Row("GET", "/readyz", OPEN, "Is SQS served, by all workers?", None, self._ready),
            Row("GET", "/in-service", OPEN, "Should it get work? 503 while draining.", None, self._in_service),
            Row("GET", "/metrics", READ, "Totals for Prometheus.", None, self._metrics, is_metrics=True),
            Row("GET", "/metrics/queues", READ, "The same per queue.", None, self._queue_metrics, is_metrics=True),
            Row("GET", "/api/server", READ, "What runs here.", facts.Server, self._server),
            Row("GET", "/api/settings", READ, "The configuration in force.", list[facts.Setting], self._settings),
            Row("GET", "/api/queues", READ, "Statistics of queues, by account and name.", facts.Queues, self._queues),
            Row("GET", "/api/accounts", READ, "All accounts.", list[facts.Account], self._accounts),
            Row("GET", "/api/users", READ, "All users.", list[facts.User], self._users),
            Row("GET", "/api/keys", READ, "All access keys, without secrets.", list[facts.Key], self._keys),
            Row("PUT", "/api/drain", CHANGE, "Ask load balancers to stay away.", facts.Drain, self._drain),
            Row("DELETE", "/api/drain", CHANGE, "Ask them to come back.", facts.Drain, self._undrain),
            Row("PUT", "/api/scrub", CHANGE, "Start to read all that has a checksum.", facts.Scrub, self._start_scrub),
            Row("GET", "/api/scrub", READ, "How far that is, and what is damaged.", facts.Scrub, self._scrub),
            Row("PUT", "/api/backup", CHANGE, "Start to copy the data folder.", facts.Backup, self._start_backup),
            Row("GET", "/api/backup", READ, "How far that is, and where the copy is.", facts.Backup, self._backup),
        ]

    # health and metrics

    async def _live(self, _: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def _ready(self, _: Request) -> Response:
        is_ready = self._sources.is_complete()
        return PlainTextResponse("ok\n" if is_ready else "a worker is being replaced\n", 200 if is_ready else 503)

    async def _in_service(self, _: Request) -> Response:
        is_draining = self._sources.duty.is_draining
        return PlainTextResponse("draining\n" if is_draining else "ok\n", 503 if is_draining else 200)

    async def _metrics(self, _: Request) -> Response:
        text = exposition.of_server(self._sources, await self._sources.whole())
        return Response(text, media_type=exposition.CONTENT_TYPE)

    async def _queue_metrics(self, _: Request) -> Response:
        whole = await self._sources.whole()
        return Response(exposition.of_queues(whole.queues()), media_type=exposition.CONTENT_TYPE)

    # the API

    async def _server(self, _: Request) -> facts.Server:
        sources = self._sources
        server, whole = sources.loaded.config.server, await sources.whole()
        return facts.Server(
            version=__version__,
            pid=os.getpid(),
            uptime_seconds=int(metrics.now() - self._began),
            data=str(sources.data),
            account=server.account,
            region=server.region,
            is_draining=sources.duty.is_draining,
            queues=sources.queue_count(),
            connections=whole.connections,
            long_polls=whole.long_polls,
        )

    async def _settings(self, _: Request) -> list[facts.Setting]:
        return [facts.Setting(*row) for row in example.rows(self._sources.loaded)]

    async def _queues(self, request: Request) -> facts.Queues:
        """?account= and ?prefix= choose; ?limit= and ?after= page."""
        asked = request.query_params
        limit = asked.get("limit", str(PAGE_MAX))
        if not limit.isascii() or not limit.isdigit() or not 1 <= int(limit) <= PAGE_MAX:
            raise InvalidParameterValue(f"limit must be a number from 1 to {PAGE_MAX}.")
        whole = await self._sources.whole()
        chosen = [each for each in whole.queues() if _is_chosen(each, asked)]
        chosen.sort(key=_place)
        page = chosen[: int(limit)]
        return facts.Queues(page, _place(page[-1]) if len(chosen) > len(page) else "")

    async def _accounts(self, _: Request) -> list[facts.Account]:
        return self._sources.accounts()

    async def _users(self, _: Request) -> list[facts.User]:
        return self._sources.users()

    async def _keys(self, _: Request) -> list[facts.Key]:
        return self._sources.keys()

    async def _drain(self, _: Request) -> facts.Drain:
        self._sources.duty.set(is_draining=True)
        return facts.Drain(is_draining=True)

    async def _undrain(self, _: Request) -> facts.Drain:
        self._sources.duty.set(is_draining=False)
        return facts.Drain(is_draining=False)

    async def _start_scrub(self, request: Request) -> facts.Scrub:
        await self._sources.chores.scrub.start()
        return await self._scrub(request)

    async def _scrub(self, _: Request) -> facts.Scrub:
        told: facts.Scrub = self._sources.chores.scrub.told
        return told

    async def _start_backup(self, request: Request) -> facts.Backup:
        await self._sources.chores.start_backup()
        return await self._backup(request)

    async def _backup(self, _: Request) -> facts.Backup:
        told: facts.Backup = self._sources.chores.backup.told
        return told


def _place(queue: facts.Queue) -> str:
    return f"{queue.account}/{queue.name}"


def _is_chosen(queue: facts.Queue, asked: Any) -> bool:
    return (
        queue.account == asked.get("account", queue.account)
        and queue.name.startswith(asked.get("prefix", ""))
        and _place(queue) > asked.get("after", "")
    )
