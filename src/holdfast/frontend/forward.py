"""The way back: who waits for a command's answer, and how it becomes the answer of an exchange.

A Call is the token that travels with a command. It is no task and no future: the host calls it once.
"""

import sys
from collections.abc import Callable, Sequence

from holdfast.core import receipt
from holdfast.core.command import Accepted, Answer, ChangeVisibility, Delivery
from holdfast.core.errors import HoldfastError
from holdfast.core.types import Receipt
from holdfast.frontend.exchange import Exchange
from holdfast.frontend.locate import Queue
from holdfast.protocol import json, receives
from holdfast.protocol.messages import Parcel
from holdfast.protocol.receives import Handed, View
from holdfast.runtime.logs import log
from holdfast.runtime.rpc import Backend, Call, Letter, Receiver


class InternalFailure(HoldfastError):
    text = "Holdfast failed to answer this request; its own log says why."


def fail(exchange: Exchange) -> None:
    """The answer to a mistake of ours, which is being handled: one request must not end the others."""
    log.error("a request failed, by a mistake in Holdfast", problem=sys.exception())
    exchange.is_last = True
    refuse(exchange, InternalFailure())


def refuse(exchange: Exchange, error: HoldfastError) -> None:
    exchange.refuse(error)


def _sent(accepted: Accepted, parcel: Parcel, queue: Queue) -> bytes:
    name = receipt.message_id(queue.shard, accepted.epoch, accepted.lsn)
    return json.sent(accepted, parcel, message_id=name, is_fifo=queue.is_fifo)


class SendCall(Call):
    __slots__ = ("_exchange", "_parcel", "_queue")

    def __init__(self, exchange: Exchange, parcel: Parcel, queue: Queue) -> None:
        self._exchange = exchange
        self._parcel = parcel
        self._queue = queue

    def answered(self, answer: Answer | HoldfastError, _: Sequence[Letter], /) -> None:
        if type(answer) is Accepted:
            self._exchange.answer(_sent(answer, self._parcel, self._queue))
        else:
            assert isinstance(answer, HoldfastError)
            refuse(self._exchange, answer)


class PlainCall(Call):
    """For actions whose success says nothing: delete, change visibility, purge."""

    __slots__ = ("_exchange",)

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def answered(self, answer: Answer | HoldfastError, _: Sequence[Letter], /) -> None:
        if isinstance(answer, HoldfastError):
            refuse(self._exchange, answer)
        else:
            self._exchange.answer(json.NOTHING)


class ShownCall(Call):
    """For answers that are made from the core's answer by a function."""

    __slots__ = ("_exchange", "_show")

    def __init__(self, exchange: Exchange, show: Callable[[Answer], bytes]) -> None:
        self._exchange = exchange
        self._show = show

    def answered(self, answer: Answer | HoldfastError, _: Sequence[Letter], /) -> None:
        if isinstance(answer, HoldfastError):
            refuse(self._exchange, answer)
        else:
            self._exchange.answer(self._show(answer))


class IgnoredCall(Call):
    __slots__ = ()

    def answered(self, answer: Answer | HoldfastError, _: Sequence[Letter], /) -> None:
        pass


class ReceiveCall(Receiver):
    __slots__ = ("_backend", "_exchange", "_queue", "_view")

    def __init__(self, exchange: Exchange, queue: Queue, view: View, backend: Backend) -> None:
        super().__init__(queue.lane)
        self._exchange = exchange
        self._queue = queue
        self._view = view
        self._backend = backend

    def answered(self, answer: Answer | HoldfastError, letters: Sequence[Letter], /) -> None:
        if type(answer) is not Delivery:
            assert isinstance(answer, HoldfastError)
            refuse(self._exchange, answer)
        elif self._exchange.is_gone:
            self._give_back(answer)
        else:
            handed = [
                Handed(delivered, letter.content, letter.wall, letter.message_id, letter.cause)
                for delivered, letter in zip(answer.messages, letters, strict=True)
            ]
            self._exchange.answer(receives.reply(handed, self._queue.origin, self._view))

    def client_gone(self) -> None:
        self._backend.cancel(self._queue.shard, self)

    def _give_back(self, delivery: Delivery) -> None:
        """Nobody is there to take the messages: they become visible again at once."""
        lane = self._queue.lane
        for each in delivery.messages:
            header = each.header
            handed = Receipt(lane, header.seq, header.epoch, header.lsn, each.number)
            self._backend.submit(self._queue.shard, ChangeVisibility(lane, handed, 0), IgnoredCall())


class Batch:
    """Collects the outcomes of a batch's entries, and answers when the last one is there."""

    __slots__ = ("_exchange", "_left", "_outcomes")

    def __init__(self, exchange: Exchange, names: Sequence[str]) -> None:
        self._exchange = exchange
        self._outcomes: list[json.Outcome] = [(name, json.NOTHING) for name in names]
        self._left = len(names)

    def put(self, index: int, outcome: bytes | HoldfastError) -> None:
        self._outcomes[index] = (self._outcomes[index][0], outcome)
        self._left -= 1
        if not self._left:
            self._exchange.answer(json.batch(self._outcomes))


class SendEntryCall(Call):
    __slots__ = ("_batch", "_index", "_parcel", "_queue")

    def __init__(self, batch: Batch, index: int, parcel: Parcel, queue: Queue) -> None:
        self._batch = batch
        self._index = index
        self._parcel = parcel
        self._queue = queue

    def answered(self, answer: Answer | HoldfastError, _: Sequence[Letter], /) -> None:
        if type(answer) is Accepted:
            self._batch.put(self._index, _sent(answer, self._parcel, self._queue))
        else:
            assert isinstance(answer, HoldfastError)
            self._batch.put(self._index, answer)


class PlainEntryCall(Call):
    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch = batch
        self._index = index

    def answered(self, answer: Answer | HoldfastError, _: Sequence[Letter], /) -> None:
        self._batch.put(self._index, answer if isinstance(answer, HoldfastError) else json.NOTHING)
