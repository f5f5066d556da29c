"""From an exchange to commands: decode, find the queue, submit. One method per action on messages; actions on queues
are in queues.py.

Nothing here waits: an answer comes back through a Call (forward.py).
"""

from collections.abc import Callable
from typing import Any, Final, cast

from holdfast.core import limits
from holdfast.core.errors import HoldfastError, InvalidParameterValue, MissingParameter, QueueDoesNotExist
from holdfast.core.queue import receipt
from holdfast.core.queue.columns import DeleteAll, SendAll
from holdfast.core.queue.command import ChangeVisibility, Command, Delete
from holdfast.core.types import Kind, Receipts
from holdfast.frontend import dialect
from holdfast.frontend.admit import Gate
from holdfast.frontend.exchange import Exchange
from holdfast.frontend.forward import (
    BatchCall,
    PlainCall,
    ReceiveCall,
    SendBatchCall,
    SendCall,
    fail,
    refuse,
)
from holdfast.frontend.locate import Directory, Queue
from holdfast.frontend.trail import AuditedTally, Trail
from holdfast.protocol import actions, batches, dead_letters, decoding, messages, receives
from holdfast.protocol.actions import UnknownOperation, required
from holdfast.protocol.json import Failure
from holdfast.runtime.metrics import UNKNOWN, Meter
from holdfast.runtime.rpc import Backend, Call

Handler = Callable[[Any, Exchange], None]
MakeMissing = Callable[[Any, Exchange, Callable[[], None]], bool]  # True: the last is called when the queue is there
_TRACE: Final = b"x-amzn-trace-id"
_REASON: Final = b"x-holdfast-reason"
_BACKSLASH: Final = 92  # as a number: bytes in bytes are found by way of an exception


class Service:
    """`others` handles the actions that this class does not."""

    def __init__(
        self,
        directory: Directory,
        backend: Backend,
        gate: Gate,
        *,
        receipt_key: receipt.ReceiptKey,
        others: dict[type[actions.Request], Handler],
        meter: Meter | None = None,
        trail: Trail | None = None,
    ) -> None:
        self._directory = directory
        self._backend = backend
        self._receipt_key = receipt_key
        self._gate = gate
        self._handlers: dict[type[actions.Request], Handler] = {
            actions.SendMessage: self._send,
            actions.SendMessageBatch: self._send_batch,
            actions.ReceiveMessage: self._receive,
            actions.DeleteMessage: self._delete,
            actions.DeleteMessageBatch: self._delete_batch,
            actions.ChangeMessageVisibility: self._change,
            actions.ChangeMessageVisibilityBatch: self._change_batch,
            **others,
        }
        counted = meter or Meter()
        self.make_missing: MakeMissing | None = None  # set where queues may be made when they are first used
        self._unknown = counted.tally(UNKNOWN)
        if trail is not None:
            for name in filter(trail.covers, (action.__name__ for action in self._handlers)):
                counted.watch(AuditedTally(name, trail))
        self._tallies = {action: counted.tally(action.__name__) for action in self._handlers}

    def serve(self, exchange: Exchange) -> None:
        """The root of a request: whatever goes wrong becomes its answer."""
        try:
            if exchange.refusal is not None:
                raise exchange.refusal
            request = exchange.request or self._admit(exchange)
            try:
                self._gate.authorize(request, exchange)
                self._handlers[type(request)](request, exchange)
                exchange.forget_request()
            except QueueDoesNotExist:
                if self.make_missing is None or not self.make_missing(
                    request, exchange, lambda: self._again(request, exchange)
                ):
                    raise
        except HoldfastError as error:
            refuse(exchange, error)
        except Exception:  # noqa: BLE001 - a mistake of ours in one request must not end the others
            fail(exchange)

    def prepare(self, exchange: Exchange) -> None:
        """The first half of `serve`, for several exchanges one after the other before those are served: a processor
        that does the same many times in a row finds its code in its caches."""
        try:
            exchange.request = self._admit(exchange)
        except HoldfastError as error:
            exchange.refusal = error
        except Exception:  # noqa: BLE001 - happens again in `serve`, which says so
            pass

    def _admit(self, exchange: Exchange) -> Any:
        """The request, whose signature is verified."""
        exchange.tally = self._unknown
        target = exchange.headers.get(b"x-amz-target")
        if target is None:
            dialect.begin(exchange)
        elif exchange.method != b"POST":
            raise UnknownOperation("Send requests with the method POST.")
        exchange.caller = self._gate.admit(exchange)
        request = dialect.decode(exchange) if target is None else decoding.decode(target, exchange.body)
        exchange.tally = self._tallies.get(type(request), self._unknown)
        return request

    def _again(self, request: Any, exchange: Exchange) -> None:
        """The queue that was missing has been made."""
        try:
            self._gate.authorize(request, exchange)
            self._handlers[type(request)](request, exchange)
        except HoldfastError as error:
            refuse(exchange, error)
        except Exception:  # noqa: BLE001 - as in `serve`
            fail(exchange)

    def _queue(self, reference: str | None, exchange: Exchange) -> Queue:
        """Named by the request, else by the path it was sent to."""
        queue = self._directory.find(
            exchange.path_reference() if reference is None else reference, exchange.caller.account
        )
        exchange.queue = queue.name
        return queue

    # sending

    def _send(self, request: actions.SendMessage, exchange: Exchange) -> None:
        queue = self._queue(request.queue_url, exchange)
        if _TRACE in exchange.headers:
            request = messages.traced(request, exchange.headers[_TRACE])
        command, slip = messages.parcel(
            request,
            queue.lane,
            queue.config,
            sender=exchange.caller.sender,
            is_plain=exchange.wording is None and _BACKSLASH not in exchange.body,
        )
        self._backend.submit(queue.shard, command, SendCall(exchange, slip, queue))

    def _send_batch(self, request: actions.SendMessageBatch, exchange: Exchange) -> None:
        queue = self._queue(request.queue_url, exchange)
        names, entries = batches.check(request.entries, "SendMessageBatch")
        if _TRACE in exchange.headers:
            entries = [messages.traced(entry, exchange.headers[_TRACE]) for entry in entries]
        if queue.config.kind is Kind.FIFO:
            for entry in entries:
                messages.check_fifo(entry, queue.config, is_batch=True)
        is_plain = exchange.wording is None and _BACKSLASH not in exchange.body
        sends, slips, refused = messages.parcels(
            names, entries, queue.lane, queue.config, sender=exchange.caller.sender, is_plain=is_plain
        )
        batches.check_bytes(slips.sizes)
        call = SendBatchCall(exchange, slips, refused, queue=queue)
        if type(sends) is SendAll:
            self._backend.submit_plain(queue.shard, sends, call)
        else:
            self._submit_all(queue, cast(list[Command], sends), call)

    def _submit_all(self, queue: Queue, commands: list[Command], call: Call) -> None:
        if commands:
            self._backend.submit_all(queue.shard, commands, call)
        else:  # all of them were refused
            call.answered([], ())

    # receiving

    def _receive(self, request: actions.ReceiveMessage, exchange: Exchange) -> None:
        queue = self._queue(request.queue_url, exchange)
        command = receives.command(request, queue.lane, queue.config)
        wait_s = receives.wait_s(request, queue.wait_s)
        call = ReceiveCall(exchange, queue, receives.view(request), self._backend)
        if wait_s:
            exchange.on_gone = call.client_gone
        self._backend.submit(queue.shard, command, call, wait_s)

    # deleting and changing

    def _deletion(self, request: actions.DeleteMessage | actions.DeleteEntry, queue: Queue) -> Command:
        handle = required(request.receipt_handle, "ReceiptHandle")
        return Delete(queue.lane, receipt.decode(handle, self._receipt_key, lane=queue.lane))

    def _change_of(
        self, request: actions.ChangeMessageVisibility | actions.ChangeEntry, queue: Queue, said: tuple[str, str]
    ) -> Command:
        handle, timeout_s = required(request.receipt_handle, "ReceiptHandle"), request.visibility_timeout
        if timeout_s is None:
            raise MissingParameter("The request must contain the parameter VisibilityTimeout.")
        if not 0 <= timeout_s <= limits.VISIBILITY_MAX_S:
            raise InvalidParameterValue(
                f"Value {timeout_s} for parameter VisibilityTimeout is invalid. Reason: VisibilityTimeout must be "
                "an integer between 0 and 43200."
            )
        given = receipt.decode(handle, self._receipt_key, lane=queue.lane)
        reason, consumer = said
        return ChangeVisibility(queue.lane, given, timeout_s, reason=reason, consumer=consumer)

    def _delete(self, request: actions.DeleteMessage, exchange: Exchange) -> None:
        queue = self._queue(request.queue_url, exchange)
        self._backend.submit(queue.shard, self._deletion(request, queue), PlainCall(exchange))

    def _change(self, request: actions.ChangeMessageVisibility, exchange: Exchange) -> None:
        queue = self._queue(request.queue_url, exchange)
        self._backend.submit(queue.shard, self._change_of(request, queue, _reason(exchange)), PlainCall(exchange))

    def _delete_batch(self, request: actions.DeleteMessageBatch, exchange: Exchange) -> None:
        queue = self._queue(request.queue_url, exchange)
        names, entries = batches.check(request.entries, "DeleteMessageBatch")
        handles = [entry.receipt_handle for entry in entries]
        given: Receipts | None = None
        if all(handles):
            given = receipt.decode_all(handles, self._receipt_key, lane=queue.lane)  # type: ignore[arg-type]
        if given is not None:
            self._backend.submit_plain(queue.shard, DeleteAll(queue.lane, given), BatchCall(exchange, names, ()))
        else:
            pairs = list(zip(names, entries, strict=True))
            self._submit_batch(exchange, queue, pairs, self._deletion)  # which refuses those that are none

    def _change_batch(self, request: actions.ChangeMessageVisibilityBatch, exchange: Exchange) -> None:
        queue = self._queue(request.queue_url, exchange)
        names, entries = batches.check(request.entries, "ChangeMessageVisibilityBatch")
        said, pairs = _reason(exchange), list(zip(names, entries, strict=True))
        self._submit_batch(exchange, queue, pairs, lambda entry, queue: self._change_of(entry, queue, said))

    def _submit_batch(
        self,
        exchange: Exchange,
        queue: Queue,
        entries: list[tuple[str, Any]],
        command_of: Callable[[Any, Queue], Command],
    ) -> None:
        names: list[str] = []
        commands: list[Command] = []
        refused: list[Failure] = []
        for name, entry in entries:
            try:
                commands.append(command_of(entry, queue))
            except HoldfastError as error:
                refused.append((name, error))
            else:
                names.append(name)
        self._submit_all(queue, commands, BatchCall(exchange, names, refused))


def _reason(exchange: Exchange) -> tuple[str, str]:
    """Why the consumer gives messages back, if it says so, and who it is."""
    header = exchange.headers.get(_REASON)
    return (dead_letters.failure_reason(header), exchange.caller.arn) if header else ("", "")
