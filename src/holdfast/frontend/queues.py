"""Actions on queues. They are rare, so those that change the catalogue are tasks, one after the other.

    create   lane id ─▶ lane configured, committed ─▶ row in the catalogue ─▶ reply
    delete   row gone ─▶ lane dropped, committed ─▶ reply

A crash in between leaves a loose lane, which the next start drops (stores/sqlite.py).
"""

import asyncio
import base64
import binascii
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from holdfast.core import limits
from holdfast.core.command import Answer, Command, Configure, Count, Drop, Purge
from holdfast.core.errors import (
    HoldfastError,
    InvalidParameterValue,
    QueueDeletedRecently,
    QueueDoesNotExist,
    QueueNameExists,
)
from holdfast.core.types import Address, Counts, LaneId, ShardId
from holdfast.frontend.exchange import Exchange
from holdfast.frontend.forward import PlainCall, ShownCall, fail, refuse
from holdfast.frontend.locate import Directory, Queue
from holdfast.protocol import actions, attributes, json, names
from holdfast.protocol.actions import required
from holdfast.runtime import clock
from holdfast.runtime.rpc import Backend, Call, Letter
from holdfast.stores.sqlite import Catalogue, QueueRow

PAGE_MAX = 1000  # names in one answer of ListQueues
NAME_REST_S = 60  # after a deletion, before the name may be used again

Result = TypeVar("Result")


class _Waiting(Call):
    """Turns an answer into a future, for tasks."""

    __slots__ = ("_future",)

    def __init__(self, future: "asyncio.Future[Answer]") -> None:
        self._future = future

    def answered(self, answer: Answer | HoldfastError, _: Sequence[Letter], /) -> None:
        if self._future.cancelled():
            return
        if isinstance(answer, HoldfastError):
            self._future.set_exception(answer)
        else:
            self._future.set_result(answer)


class Queues:
    def __init__(
        self,
        directory: Directory,
        catalogue: Catalogue,
        backend: Backend,
        *,
        shards: Sequence[ShardId],
        is_strict: bool,
        in_thread: Callable[[Callable[[], Any]], "asyncio.Future[Any]"],
        endpoint: str,
    ) -> None:
        self._directory = directory
        self._catalogue = catalogue
        self._backend = backend
        self._shards = shards
        self._is_strict = is_strict  # keep AWS's waiting rules
        self._in_thread = in_thread
        self._endpoint = endpoint  # for clients that send no Host
        self._one_change = asyncio.Lock()
        self._deleted: dict[str, int] = {}  # name -> when, microseconds of elapsed time
        self._tasks: set[asyncio.Task[None]] = set()
        self.handlers: dict[type[actions.Request], Callable[[Any, Exchange], None]] = {
            actions.CreateQueue: self._task(self._create),
            actions.DeleteQueue: self._task(self._delete),
            actions.GetQueueUrl: self._get_url,
            actions.ListQueues: self._list,
            actions.GetQueueAttributes: self._get_attributes,
            actions.PurgeQueue: self._purge,
        }

    def _task(self, work: Callable[[Any, Exchange], Coroutine[Any, Any, bytes]]) -> Callable[[Any, Exchange], None]:
        def handle(request: actions.Request, exchange: Exchange) -> None:
            task = asyncio.get_running_loop().create_task(self._answer(work(request, exchange), exchange))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        return handle

    async def _answer(self, work: Coroutine[Any, Any, bytes], exchange: Exchange) -> None:
        try:
            async with self._one_change:
                body = await work
        except HoldfastError as error:
            refuse(exchange, error)
        except Exception:  # noqa: BLE001 - the root of a task
            fail(exchange)
        else:
            exchange.answer(body)

    async def _command(self, shard: ShardId, command: Command) -> Answer:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._backend.submit(shard, command, _Waiting(future))
        return await future

    def _base(self, exchange: Exchange) -> str:
        host = exchange.headers.get(b"host", b"").decode("latin-1")
        return f"http://{host}" if host else self._endpoint

    def _url(self, exchange: Exchange, name: str) -> bytes:
        url = names.queue_url(self._base(exchange), self._directory.site, name)
        return json.encode({"QueueUrl": url})

    # creating and deleting

    async def _create(self, request: actions.CreateQueue, exchange: Exchange) -> bytes:
        name = required(request.queue_name, "QueueName")
        given = request.attributes or {}
        is_fifo = "FifoQueue" in given or name.endswith(".fifo")
        if name.endswith(".fifo") and "FifoQueue" not in given:
            raise InvalidParameterValue(
                "The name of a queue can only end with .fifo when the attribute FifoQueue is true."
            )
        kept = attributes.check(given, is_fifo=is_fifo)
        names.check_name(name, is_fifo=is_fifo)
        existing = self._directory.get(name)
        if existing is not None:
            return self._create_again(existing, kept, exchange)
        self._check_rest(name)
        redrive_to = self._dead_letter_lane(kept.get("RedrivePolicy", ""), name, is_fifo=is_fifo)
        row = await self._make(name, kept, tags=request.tags or {}, redrive_to=redrive_to)
        self._directory.add(row)
        return self._url(exchange, name)

    def _create_again(self, queue: Queue, given: dict[str, str], exchange: Exchange) -> bytes:
        different = attributes.first_difference(given, queue.row.attributes, is_fifo=queue.is_fifo)
        if different:
            raise QueueNameExists(
                "A queue already exists with the same name and a different value for attribute " + different
            )
        return self._url(exchange, queue.row.name)

    def _check_rest(self, name: str) -> None:
        deleted = self._deleted.get(name)
        if deleted is not None and clock.elapsed_us() < deleted + NAME_REST_S * limits.SECOND:
            raise QueueDeletedRecently

    def _dead_letter_lane(self, policy: str, own_name: str, *, is_fifo: bool) -> Address | None:
        """Where dead letters go. A queue that names itself is told apart, since its lane does not exist yet."""
        if not policy:
            return None
        try:
            target_name = names.queue_name(attributes.redrive_policy(policy).target_arn, self._directory.site)
        except QueueDoesNotExist:
            target_name = ""
        if target_name == own_name:
            return Address(ShardId(0), LaneId(0))
        target = self._directory.get(target_name)
        attributes.check_target(policy, is_fifo=is_fifo, target=target.config if target else None)
        assert target is not None, "check_target refuses what does not exist"
        return Address(target.shard, target.lane)

    async def _make(
        self, name: str, kept: dict[str, str], *, tags: dict[str, str], redrive_to: Address | None
    ) -> QueueRow:
        shard = self._shards[len(self._directory) % len(self._shards)]
        lane = await self._in_thread(lambda: self._catalogue.new_lane(shard))
        if redrive_to is not None and not redrive_to.lane:
            redrive_to = Address(shard, lane)
        config = attributes.lane_config(
            kept,
            is_fifo=name.endswith(".fifo"),
            version=1,
            redrive_to=redrive_to,
            is_strict=self._is_strict,
        )
        await self._command(shard, Configure(lane, config))
        now = clock.wall_ms()
        row = QueueRow(name, lane, shard, kept, tags, now, now)
        await self._in_thread(lambda: self._catalogue.add(row))
        return row

    async def _delete(self, request: actions.DeleteQueue, _: Exchange) -> bytes:
        queue = self._directory.find(request.queue_url)
        await self._in_thread(lambda: self._catalogue.remove(queue.row))
        self._directory.remove(queue.row)
        self._note_deleted(queue.row.name)
        await self.drop(queue.lane, queue.shard)
        return json.NOTHING

    def _note_deleted(self, name: str) -> None:
        if not self._is_strict:
            return
        now = clock.elapsed_us()
        for old in [each for each, at in self._deleted.items() if now >= at + NAME_REST_S * limits.SECOND]:
            del self._deleted[old]
        self._deleted[name] = now

    async def drop(self, lane: LaneId, shard: ShardId) -> None:
        """A loose lane goes. It may never have been configured."""
        try:
            await self._command(shard, Drop(lane))
        except QueueDoesNotExist:
            pass
        await self._in_thread(lambda: self._catalogue.dropped(lane))

    # asking

    def _get_url(self, request: actions.GetQueueUrl, exchange: Exchange) -> None:
        name = required(request.queue_name, "QueueName")
        owner = request.queue_owner_account or self._directory.site.account
        if owner != self._directory.site.account or self._directory.get(name) is None:
            raise QueueDoesNotExist
        exchange.answer(self._url(exchange, name))

    def _list(self, request: actions.ListQueues, exchange: Exchange) -> None:
        count_max = PAGE_MAX if request.max_results is None else request.max_results
        if not 1 <= count_max <= PAGE_MAX:
            raise InvalidParameterValue(
                f"Value {count_max} for parameter MaxResults is invalid. "
                "Reason: Must be between 1 and 1000, if provided."
            )
        after = _decode_token(request.next_token) if request.next_token else ""
        found, has_more = self._directory.page(request.queue_name_prefix or "", after, count_max)
        reply: dict[str, object] = {}
        if found:
            base, site = self._base(exchange), self._directory.site
            reply["QueueUrls"] = [names.queue_url(base, site, name) for name in found]
        if has_more and request.max_results is not None:
            reply["NextToken"] = base64.urlsafe_b64encode(found[-1].encode()).decode()
        exchange.answer(json.encode(reply))

    def _get_attributes(self, request: actions.GetQueueAttributes, exchange: Exchange) -> None:
        queue = self._directory.find(request.queue_url)
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
            QueueArn=names.queue_arn(self._directory.site, row.name),
        )

    def _purge(self, request: actions.PurgeQueue, exchange: Exchange) -> None:
        queue = self._directory.find(request.queue_url)
        self._backend.submit(queue.shard, Purge(queue.lane, queue.row.name), PlainCall(exchange))


def _decode_token(token: str) -> str:
    try:
        return base64.urlsafe_b64decode(token).decode()
    except (binascii.Error, ValueError):
        raise InvalidParameterValue("Invalid or expired next token.") from None
