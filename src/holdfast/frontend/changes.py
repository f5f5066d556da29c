"""Changes of queues. They are rare, so they are tasks, one after the other.

    create   lane id ─▶ lane configured, committed ─▶ row in the catalogue ─▶ reply
    change   lane configured, committed ─▶ row in the catalogue ─▶ reply
    delete   row gone ─▶ lane dropped, committed ─▶ reply

A crash in between leaves a loose lane, which the next start drops, or a lane that knows more than the catalogue, which
the next start sets back: `reconcile`. The catalogue is the truth, and who was not answered was promised nothing.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

from holdfast.core.coordination.catalogue import Outdated, QueueRow
from holdfast.core.errors import HoldfastError, QueueDoesNotExist, ServiceUnavailable
from holdfast.core.queue.command import Answer, Command, Configure, Outcome
from holdfast.core.types import Address, LaneConfig, QueueName, ShardId
from holdfast.frontend.exchange import Exchange
from holdfast.frontend.follow import Follow
from holdfast.frontend.forward import fail, refuse
from holdfast.frontend.locate import Directory, Queue, name_of
from holdfast.protocol import actions, attributes
from holdfast.runtime.failpoint import failpoint
from holdfast.runtime.letter import Letter
from holdfast.runtime.logs import log
from holdfast.runtime.rpc import Backend, Call, Catalogue

RECONCILED_AT_ONCE: Final = 1000  # commands under way when a start compares lanes with the catalogue

TRIES_MAX: Final = 3  # of a change that other processes keep coming before

Handler = Callable[[Any, Exchange], None]
Work = Callable[[], Coroutine[Any, Any, bytes]]


class _Waiting(Call):
    """Turns an answer into a future, for tasks."""

    __slots__ = ("_future",)

    def __init__(self, future: "asyncio.Future[Answer]") -> None:
        self._future = future

    def answered(self, answer: Outcome, _: Sequence[Letter], /) -> None:
        if self._future.cancelled():
            return
        if isinstance(answer, HoldfastError):
            self._future.set_exception(answer)
        else:
            self._future.set_result(answer)


class Changes:
    def __init__(
        self,
        directory: Directory,
        follow: Follow,
        catalogue: Catalogue,
        *,
        backend: Backend,
        is_strict: bool,
        in_thread: Callable[[Callable[[], Any]], "asyncio.Future[Any]"],
    ) -> None:
        self.directory = directory
        self.follow = follow
        self.catalogue = catalogue
        self.is_strict = is_strict  # keep AWS's waiting rules and bounds; asked here and nowhere else
        self.in_thread = in_thread
        self._backend = backend
        self._one_change = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    # running

    def task(self, work: Callable[[Any, Exchange], Coroutine[Any, Any, bytes]]) -> Handler:
        """A handler that runs alone among the tasks and answers with the bytes it returns."""

        def handle(request: actions.Request, exchange: Exchange) -> None:
            self.run(lambda: work(request, exchange), exchange, exchange.answer)

        return handle

    def run(self, work: Work, exchange: Exchange, then: Callable[[bytes], None]) -> None:
        """A task that runs alone among the tasks. `then` gets what it returns; what it raises becomes the answer."""
        task = asyncio.get_running_loop().create_task(self._run(work, exchange, then))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, work: Work, exchange: Exchange, then: Callable[[bytes], None]) -> None:
        try:
            async with self._one_change:
                body = await self._work(work)
        except HoldfastError as error:
            refuse(exchange, error)
        except Exception:  # noqa: BLE001 - the root of a task
            fail(exchange)
        else:
            then(body)

    async def alone(self, work: Work) -> bytes:
        """Without a request behind it."""
        async with self._one_change:
            return await self._work(work)

    async def _work(self, work: Work) -> bytes:
        """Based on what is true now; done again when another process was faster."""
        for _ in range(TRIES_MAX):
            self.follow.catch_up()
            try:
                return await work()
            except Outdated:
                continue
        raise ServiceUnavailable("The queue is being changed by others; try again.")

    async def write(self, change: Callable[[], Any]) -> Any:
        """A change of the catalogue, and all that has changed: what it answers is known here when it returns."""
        done = await self.in_thread(change)
        self.follow.catch_up()
        return done

    async def command(self, shard: ShardId, command: Command) -> Answer:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._backend.submit(shard, command, _Waiting(future))
        return await future

    def queue(self, request: actions.OfQueue, exchange: Exchange) -> Queue:
        """Named by the request, else by the path it was sent to."""
        reference = exchange.path_reference() if request.queue_url is None else request.queue_url
        queue = self.directory.find(reference, exchange.caller.account)
        exchange.queue = queue.name
        return queue

    # configurations

    def lane_config(self, row: QueueRow) -> LaneConfig:
        """What the row means to its lane now. A dead-letter queue that is gone is none."""
        return attributes.lane_config(
            row.attributes,
            is_fifo=row.queue.name.endswith(".fifo"),
            version=row.version,
            redrive_to=self._redrive_to(row),
            is_strict=self.is_strict,
        )

    def _redrive_to(self, row: QueueRow) -> Address | None:
        policy = row.attributes.get("RedrivePolicy")
        if not policy:
            return None
        try:
            name = name_of(attributes.redrive_policy(policy).target_arn)
        except QueueDoesNotExist:
            return None
        if name == row.queue:
            return Address(row.shard, row.lane)
        target = self.directory.get(name)
        return Address(target.shard, target.lane) if target is not None else None

    async def configure(self, row: QueueRow, *, is_known: bool = True) -> None:
        """Writes nothing when the lane is as the row says. `is_known`: another process may have deleted the queue just
        now, and its lane must not be made anew, where nobody would find what is redriven to it."""
        await self.command(row.shard, Configure(row.lane, self.lane_config(row), is_known=is_known))

    async def update(self, queue: Queue, row: QueueRow) -> None:
        """Gives a queue another row."""
        await self.configure(row)
        failpoint("lane changed, not the queue")
        try:
            await self.write(lambda: self.catalogue.update(row))
        except Exception:
            self.follow.catch_up()
            present = self.directory.get(queue.name)
            if present is not None:
                await self.configure(present.row)
            raise

    async def retarget(self, name: QueueName) -> None:
        """The queue `name` came or went: those whose dead letters are for it are told."""
        for source in self.directory.sources_of(name):
            queue = self.directory.get(source)
            if queue is not None:
                with suppress(QueueDoesNotExist):  # it went as well
                    await self.configure(queue.row)

    async def reconcile(self, rows: Iterable[QueueRow]) -> None:
        """At the start: lanes become what the catalogue says. O(queues), and a record only where they differ."""
        rows = list(rows)
        try:
            for first in range(0, len(rows), RECONCILED_AT_ONCE):
                some = rows[first : first + RECONCILED_AT_ONCE]
                await asyncio.gather(*(self.configure(row, is_known=False) for row in some))
        except ServiceUnavailable as problem:  # a full disk must not keep consumers from their messages
            log.warning("queues were not compared with the catalogue", reason=problem.message)
