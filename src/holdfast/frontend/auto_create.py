"""Queues that are made when they are first used, where the operator allows it.

A request that meets no queue is held back, the queue is made from the template, and the request is done as if nothing
had happened. Clients ask for the URL first, so it is not only sends that do this.

Laws
- Only in the caller's own account, only for names that the operator listed, and only if the caller may CreateQueue.
- Whoever may not, or whose queue cannot be made, is told what everybody is told: the queue does not exist.
- Once per request: a queue that is deleted meanwhile is not made again.
"""

from collections.abc import Callable
from typing import Any

from holdfast.core.admission.wildcard import Patterns
from holdfast.core.errors import HoldfastError, QueueDoesNotExist, SqsError
from holdfast.core.types import QueueName
from holdfast.frontend.admit import Gate
from holdfast.frontend.exchange import Exchange
from holdfast.frontend.queues import Queues
from holdfast.protocol import actions, names

MAKING = (
    actions.SendMessage,
    actions.SendMessageBatch,
    actions.ReceiveMessage,
    actions.GetQueueUrl,
    actions.GetQueueAttributes,
)


class AutoCreate:
    def __init__(
        self,
        queues: Queues,
        gate: Gate,
        allowed: Patterns,
        *,
        attributes: dict[str, str],
        fifo_attributes: dict[str, str],
    ) -> None:
        self._queues = queues
        self._gate = gate
        self._allowed = allowed
        self._attributes = attributes
        self._fifo_attributes = fifo_attributes

    def take(self, request: Any, exchange: Exchange, go_on: Callable[[], None]) -> bool:
        """False: this request makes no queue. True: it is taken care of; `go_on` is called when the queue is there."""
        if not isinstance(request, MAKING):
            return False
        try:
            queue = _queue_of(request, exchange)
            is_ours = queue.account == exchange.caller.account and self._allowed.match(queue.name)
            names.check_name(queue.name, is_fifo=queue.name.endswith(".fifo"))
            if not is_ours:
                return False
            given = self.template(queue.name)
            self._gate.authorize(actions.CreateQueue(queue.name, given), exchange)
        except HoldfastError:
            return False

        async def make() -> bytes:
            try:
                await self._queues.create(queue, given, {})
            except SqsError:
                raise QueueDoesNotExist from None
            return b""

        self._queues.run(make, exchange, lambda _: go_on())
        return True

    def template(self, name: str) -> dict[str, str]:
        if not name.endswith(".fifo"):
            return self._attributes
        return {"FifoQueue": "true", **self._attributes, **self._fifo_attributes}


def _queue_of(request: Any, exchange: Exchange) -> QueueName:
    account = exchange.caller.account
    if isinstance(request, actions.GetQueueUrl):
        return QueueName(request.queue_owner_account or account, actions.required(request.queue_name, "QueueName"))
    reference = exchange.path_reference() if request.queue_url is None else request.queue_url
    return names.queue_name(actions.required(reference, "QueueUrl"), account)
