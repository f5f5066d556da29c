"""PeekMessages: a look that changes nothing."""

from collections.abc import Sequence

from holdfast.core.errors import HoldfastError
from holdfast.core.queue.command import Outcome, PeekReply
from holdfast.frontend.changes import Changes, Handler
from holdfast.frontend.exchange import Exchange
from holdfast.frontend.forward import refuse
from holdfast.frontend.locate import Queue
from holdfast.protocol import actions, json, peeks
from holdfast.runtime.letter import Letter
from holdfast.runtime.rpc import Backend, Receiver


class Peeks:
    def __init__(self, changes: Changes, backend: Backend) -> None:
        self._changes = changes
        self._backend = backend
        self.handlers: dict[type[actions.Request], Handler] = {actions.PeekMessages: self._peek}

    def _peek(self, request: actions.PeekMessages, exchange: Exchange) -> None:
        queue = self._changes.queue(request, exchange)
        self._backend.submit(queue.shard, peeks.command(request, queue.lane), _PeekCall(exchange, queue))


class _PeekCall(Receiver):
    __slots__ = ("_exchange", "_queue")

    def __init__(self, exchange: Exchange, queue: Queue) -> None:
        super().__init__(queue.lane)
        self._exchange = exchange
        self._queue = queue

    def answered(self, answer: Outcome, letters: Sequence[Letter], /) -> None:
        if isinstance(answer, HoldfastError):
            refuse(self._exchange, answer)
            return
        assert isinstance(answer, PeekReply)
        found = [
            peeks.seen(
                peeked, stored=letter.content, wall=letter.wall, message_id=letter.message_id, cause=letter.cause
            )
            for peeked, letter in zip(answer.messages, letters, strict=True)
        ]
        self._exchange.answer(json.encode(peeks.reply(found, self._queue.origin, last=answer.last)))
