"""Actions on queues: creating, deleting, finding, listing. What they are set to: settings.py; how changes happen:
changes.py.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.core.coordination.catalogue import Outdated, QueueRow
from holdfast.core.errors import InvalidParameterValue, QueueDeletedRecently, QueueDoesNotExist, QueueNameExists
from holdfast.core.queue.command import Answer, Configure, Count, Drop, Purge
from holdfast.core.types import Counts, LaneId, QueueName, ShardId
from holdfast.frontend.changes import Changes, Handler
from holdfast.frontend.exchange import Exchange
from holdfast.frontend.follow import Follow
from holdfast.frontend.forward import PlainCall, ShownCall
from holdfast.frontend.locate import Directory, Queue
from holdfast.frontend.moves import Moves
from holdfast.frontend.pages import count_max_of, decode_token, encode_token
from holdfast.frontend.peeks import Peeks
from holdfast.frontend.reach import Reach
from holdfast.frontend.settings import Settings
from holdfast.protocol import actions, attributes, json, names, tags
from holdfast.protocol.actions import required
from holdfast.runtime import clock
from holdfast.runtime.failpoint import failpoint
from holdfast.runtime.metrics import Meter
from holdfast.runtime.rpc import Backend, Catalogue


class Queues:
    def __init__(
        self,
        directory: Directory,
        follow: Follow,
        catalogue: Catalogue,
        *,
        backend: Backend,
        shards: Sequence[ShardId],
        is_strict: bool,
        in_thread: Callable[[Callable[[], Any]], "asyncio.Future[Any]"],
        reach: Reach,
        meter: Meter | None = None,
    ) -> None:
        self._directory = directory
        self._follow = follow
        self._catalogue = catalogue
        self._backend = backend
        self._shards = shards
        self._reach = reach
        self._meter = meter or Meter()
        self._changes = Changes(directory, follow, catalogue, backend=backend, is_strict=is_strict, in_thread=in_thread)
        self._settings = Settings(self._changes)
        self.run = self._changes.run
        self.handlers: dict[type[actions.Request], Handler] = {
            actions.CreateQueue: self._changes.task(self._create),
            actions.DeleteQueue: self._changes.task(self._delete),
            actions.GetQueueUrl: self._get_url,
            actions.ListQueues: self._list,
            actions.GetQueueAttributes: self._get_attributes,
            actions.PurgeQueue: self._purge,
            **self._settings.handlers,
            **Moves(self._changes, backend, url_of=self._url).handlers,
            **Peeks(self._changes, backend).handlers,
        }

    async def start(self, leads: Callable[[ShardId], bool], *, is_alone: bool = True) -> None:
        """Before the first request: what a crash left half done in the shards that are led here is finished or taken
        back. When others serve already, a lane without a queue may be one that they are just making: it stays until
        the next start of all."""
        for lane, shard in self._catalogue.loose_lanes() if is_alone else ():
            if leads(shard):
                await self.drop(lane, shard)
        await self._changes.reconcile([row for row in self._directory.rows() if leads(row.shard)])

    def _url(self, exchange: Exchange, name: QueueName) -> str:
        return names.queue_url(self._reach.base(exchange), name)

    def _show_url(self, exchange: Exchange, name: QueueName) -> bytes:
        return json.encode({"QueueUrl": self._url(exchange, name)})

    # creating and deleting

    async def _create(self, request: actions.CreateQueue, exchange: Exchange) -> bytes:
        name = required(request.queue_name, "QueueName")
        given = request.attributes or {}
        if name.endswith(".fifo") and "FifoQueue" not in given:
            raise InvalidParameterValue(
                "The name of a queue can only end with .fifo when the attribute FifoQueue is true."
            )
        kept = self._settings.check(given, name=name, is_new=True)
        names.check_name(name, is_fifo="FifoQueue" in given)
        queue = QueueName(exchange.caller.account, name)
        existing = self._directory.get(queue)
        if existing is None:
            await self.create(queue, given, request.tags or {})
        else:
            _check_same(existing, kept)  # as AWS does: tags are neither compared nor set
            await self._changes.retarget(queue)
        exchange.queue = queue
        return self._show_url(exchange, queue)

    async def create(
        self, queue: QueueName, given: dict[str, str], held: dict[str, str], *, is_declared: bool = False
    ) -> None:
        """Does nothing when it is there. Declared ones do not wait for their name: nobody could."""
        kept = self._settings.check(given, name=queue.name, is_new=True)
        if self._directory.get(queue) is not None:
            return
        if self._changes.is_strict and not is_declared and self._follow.is_resting(queue):
            raise QueueDeletedRecently
        self._settings.check_target(kept, name=queue)
        await self._make(queue, attributes.merge({}, kept), tags.add({}, held, name=queue.name) if held else {})
        await self._changes.retarget(queue)

    async def declare(self, queue: QueueName, given: dict[str, str], held: dict[str, str], *, may_update: bool) -> str:
        """What had to be done: made, changed, or nothing. Raises QueueNameExists if it would have to be changed."""

        async def work() -> bytes:
            existing = self._directory.get(queue)
            if existing is None:
                await self.create(queue, given, held, is_declared=True)
                return b"made"
            is_changed = await self._settings.align(existing, given, held, may_update=may_update)
            return b"changed" if is_changed else b""

        return (await self._changes.alone(work)).decode()

    async def _make(self, name: QueueName, kept: dict[str, str], held: dict[str, str]) -> None:
        shard = self._shards[len(self._directory) % len(self._shards)]
        lane = await self._changes.in_thread(lambda: self._catalogue.new_lane(shard))
        now = clock.wall_ms()
        row = QueueRow(name, lane, shard, kept, held, now, now)
        await self._changes.command(shard, Configure(lane, self._changes.lane_config(row)))
        failpoint("lane made, no queue")
        try:
            await self._changes.write(lambda: self._catalogue.add(row))
        except Outdated:  # another process made it
            await self.drop(lane, shard)
            raise

    async def _delete(self, request: actions.DeleteQueue, exchange: Exchange) -> bytes:
        queue = self._changes.queue(request, exchange)
        await self._changes.write(lambda: self._catalogue.remove(queue.row))
        failpoint("queue gone, lane there")
        self._meter.forget(queue.name)
        await self.drop(queue.lane, queue.shard)
        await self._changes.retarget(queue.name)
        return json.NOTHING

    async def drop(self, lane: LaneId, shard: ShardId) -> None:
        """A loose lane goes. It may never have been configured."""
        try:
            await self._changes.command(shard, Drop(lane))
        except QueueDoesNotExist:
            pass
        await self._changes.in_thread(lambda: self._catalogue.dropped(lane))

    # asking: exact, also when another process has just changed something

    def _get_url(self, request: actions.GetQueueUrl, exchange: Exchange) -> None:
        name = required(request.queue_name, "QueueName")
        queue = QueueName(request.queue_owner_account or exchange.caller.account, name)
        self._follow.catch_up()
        if self._directory.get(queue) is None:
            raise QueueDoesNotExist
        exchange.queue = queue
        exchange.answer(self._show_url(exchange, queue))

    def _list(self, request: actions.ListQueues, exchange: Exchange) -> None:
        count_max = count_max_of(request.max_results)
        after = decode_token(request.next_token) if request.next_token else ""
        prefix = QueueName(exchange.caller.account, request.queue_name_prefix or "")
        self._follow.catch_up()
        found, has_more = self._directory.page(prefix, after=after, count_max=count_max)
        reply: dict[str, object] = {}
        if found:
            reply["QueueUrls"] = [self._url(exchange, name) for name in found]
        if has_more and request.max_results is not None:
            reply["NextToken"] = encode_token(found[-1].name)
        exchange.answer(json.encode(reply))

    def _get_attributes(self, request: actions.GetQueueAttributes, exchange: Exchange) -> None:
        self._follow.catch_up()
        queue = self._changes.queue(request, exchange)
        wanted = request.attribute_names or []
        attributes.check_names(wanted)
        if not wanted:
            exchange.answer(json.NOTHING)
            return

        def show(answer: Answer) -> bytes:
            assert isinstance(answer, Counts)
            shown = self._attributes(queue, answer, wanted)
            return json.encode({"Attributes": shown}) if shown else json.NOTHING

        self._backend.submit(queue.shard, Count(queue.lane), ShownCall(exchange, show))

    def _attributes(self, queue: Queue, counts: Counts, wanted: list[str]) -> dict[str, str]:
        row = queue.row
        return attributes.show(
            attributes.effective(row.attributes, is_fifo=queue.is_fifo),
            counts,
            wanted,
            CreatedTimestamp=str(row.created // 1000),
            LastModifiedTimestamp=str(row.modified // 1000),
            QueueArn=self._directory.arn_of(queue.name),
        )

    def _purge(self, request: actions.PurgeQueue, exchange: Exchange) -> None:
        queue = self._changes.queue(request, exchange)
        self._backend.submit(queue.shard, Purge(queue.lane, queue.name.name), PlainCall(exchange))


def _check_same(queue: Queue, given: dict[str, str]) -> None:
    """A queue may be created again as it is."""
    different = attributes.first_difference(given, queue.row.attributes, is_fifo=queue.is_fifo)
    if different:
        raise QueueNameExists(
            f"A queue already exists with the same name and a different value for attribute {different}"
        )
