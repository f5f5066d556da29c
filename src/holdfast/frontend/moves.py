"""Move tasks, and the question whose dead letters a queue takes. The tasks themselves run in the core."""

import uuid
from collections.abc import Callable

from holdfast.core.errors import InvalidParameterValue, QueueDoesNotExist
from holdfast.core.queue.command import Answer, CancelMove, ListMoves, MovesReply, MoveStatus, StartMove
from holdfast.core.types import Address, QueueName, pack_address
from holdfast.frontend.changes import Changes, Handler
from holdfast.frontend.exchange import Exchange
from holdfast.frontend.forward import ShownCall
from holdfast.frontend.locate import Queue
from holdfast.frontend.pages import page_of
from holdfast.protocol import actions, json, moves
from holdfast.runtime.rpc import Backend


class Moves:
    """`url_of`: a queue's URL as the client of an exchange reaches it."""

    def __init__(self, changes: Changes, backend: Backend, *, url_of: Callable[[Exchange, QueueName], str]) -> None:
        self._changes = changes
        self._directory = changes.directory
        self._backend = backend
        self._url_of = url_of
        self.handlers: dict[type[actions.Request], Handler] = {
            actions.ListDeadLetterSourceQueues: self._list_sources,
            actions.StartMessageMoveTask: self._start,
            actions.CancelMessageMoveTask: self._cancel,
            actions.ListMessageMoveTasks: self._list,
        }

    def _list_sources(self, request: actions.ListDeadLetterSourceQueues, exchange: Exchange) -> None:
        self._changes.follow.catch_up()
        queue = self._changes.queue(request, exchange)
        sources = {each.name: each for each in self._directory.sources_of(queue.name)}  # all of its account
        found, token = page_of(list(sources), request.next_token, request.max_results)
        reply: dict[str, object] = {"queueUrls": [self._url_of(exchange, sources[name]) for name in found]}
        if token:
            reply["NextToken"] = token
        exchange.answer(json.encode(reply))

    def _start(self, request: actions.StartMessageMoveTask, exchange: Exchange) -> None:
        source = self._source(request.source_arn, exchange)
        source_arn = self._directory.arn_of(source.name)
        if not self._directory.sources_of(source.name):
            raise InvalidParameterValue("Source queue must be configured as a Dead Letter Queue.")
        target = None
        if request.destination_arn is not None:
            destination = self._found(request.destination_arn, "DestinationArn")
            if destination.name.account != source.name.account:
                raise moves.no_resource("DestinationArn")  # messages do not leave their account
            moves.check_ends(
                source_arn,
                self._directory.arn_of(destination.name),
                is_same_kind=source.is_fifo == destination.is_fifo,
            )
            target = Address(destination.shard, destination.lane)
        rate = moves.check_rate(request.max_number_of_messages_per_second)

        def show(answer: Answer) -> bytes:
            assert isinstance(answer, MoveStatus)
            return json.encode({"TaskHandle": moves.encode_handle(answer.task, source_arn)})

        command = StartMove(source.lane, str(uuid.uuid4()), target, rate)
        self._backend.submit(source.shard, command, ShownCall(exchange, show))

    def _cancel(self, request: actions.CancelMessageMoveTask, exchange: Exchange) -> None:
        handle = moves.decode_handle(request.task_handle)
        source = self._source(handle.source_arn, exchange)

        def show(answer: Answer) -> bytes:
            assert isinstance(answer, MoveStatus)
            return json.encode({"ApproximateNumberOfMessagesMoved": answer.moved})

        self._backend.submit(source.shard, CancelMove(source.lane, handle.task_id), ShownCall(exchange, show))

    def _list(self, request: actions.ListMessageMoveTasks, exchange: Exchange) -> None:
        source = self._source(request.source_arn, exchange)
        count_max = moves.check_results(request.max_results)

        def show(answer: Answer) -> bytes:
            assert isinstance(answer, MovesReply)
            return json.encode({"Results": [self._shown(each, source) for each in answer.tasks[:count_max]]})

        self._backend.submit(source.shard, ListMoves(source.lane), ShownCall(exchange, show))

    def _shown(self, status: MoveStatus, source: Queue) -> dict[str, object]:
        to = self._directory.arn_of_lane(pack_address(status.target)) if status.target is not None else ""
        return moves.show(status, source_arn=self._directory.arn_of(source.name), destination_arn=to)

    def _source(self, arn: str | None, exchange: Exchange) -> Queue:
        source = self._found(arn, "SourceArn")
        exchange.queue = source.name
        return source

    def _found(self, arn: str | None, name: str) -> Queue:
        try:
            return self._directory.find(moves.check_arn(arn, name), "")
        except QueueDoesNotExist:
            raise moves.no_resource(name) from None
