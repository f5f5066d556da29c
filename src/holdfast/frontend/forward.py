"""The way back: who waits for a command's answer, and how it becomes the answer of an exchange.

A Call is the token that travels with a command. It is no task and no future: the host calls it once.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any, cast

from holdfast.core.errors import HoldfastError
from holdfast.core.queue import receipt
from holdfast.core.queue.columns import AcceptedAll, DeletedAll
from holdfast.core.queue.command import DONE, Accepted, Answer, ChangeVisibility, Delivery, Outcome
from holdfast.core.types import Receipt
from holdfast.frontend.exchange import Exchange
from holdfast.frontend.locate import Queue
from holdfast.protocol import json, receives, texts
from holdfast.protocol.messages import Slip, Slips
from holdfast.protocol.receives import PLAIN, Handed, View
from holdfast.runtime.letter import Letter, PlainLetters
from holdfast.runtime.logs import log
from holdfast.runtime.rpc import Backend, Call, Receiver


class InternalFailure(HoldfastError):
    text = "Holdfast failed to answer this request; its own log says why."


def fail(exchange: Exchange) -> None:
    """The answer to a mistake of ours, which is being handled: one request must not end the others."""
    log.error("a request failed, by a mistake in Holdfast", problem=sys.exception())
    exchange.is_last = True
    refuse(exchange, InternalFailure())


def refuse(exchange: Exchange, error: HoldfastError) -> None:
    exchange.refuse(error)


class SendCall(Call):
    __slots__ = ("_exchange", "_queue", "_slip")

    def __init__(self, exchange: Exchange, slip: Slip, queue: Queue) -> None:
        self._exchange = exchange
        self._slip = slip
        self._queue = queue

    def answered(self, answer: Outcome, _: Sequence[Letter], /) -> None:
        if type(answer) is Accepted:
            queue = self._queue
            name = receipt.message_id(answer.shard or queue.shard, answer.epoch, answer.lsn)
            members = json.sent(answer, self._slip, message_id=name, is_fifo=queue.is_fifo)
            self._exchange.size = self._slip.size
            self._exchange.answer(f"{{{members}}}".encode())
        else:
            assert isinstance(answer, HoldfastError)
            refuse(self._exchange, answer)


class PlainCall(Call):
    """For actions whose success says nothing: delete, change visibility, purge."""

    __slots__ = ("_exchange",)

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def answered(self, answer: Outcome, _: Sequence[Letter], /) -> None:
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

    def answered(self, answer: Outcome, _: Sequence[Letter], /) -> None:
        if isinstance(answer, HoldfastError):
            refuse(self._exchange, answer)
        else:
            self._exchange.answer(self._show(answer))


class IgnoredCall(Call):
    __slots__ = ()

    def answered(self, answer: Outcome, _: Sequence[Letter], /) -> None:
        pass


class ReceiveCall(Receiver):
    __slots__ = ("_backend", "_exchange", "_queue", "_view")

    def __init__(self, exchange: Exchange, queue: Queue, view: View, backend: Backend) -> None:
        super().__init__(queue.lane)
        self._exchange = exchange
        self._queue = queue
        self._view = view
        self._backend = backend

    def answered(self, answer: Outcome, letters: Sequence[Letter], /) -> None:
        if type(answer) is not Delivery:
            assert isinstance(answer, HoldfastError)
            refuse(self._exchange, answer)
        elif self._exchange.is_gone:
            self._give_back(answer)
        else:
            self._exchange.messages = len(letters)
            messages: list[Any] = list(answer.messages)
            self._exchange.size = sum([each.header.size for each in messages])
            self._exchange.answer(self._reply(answer, letters))

    def _reply(self, delivery: Delivery, letters: Sequence[Letter]) -> bytes:
        messages, origin = delivery.messages, self._queue.origin
        if self._view is PLAIN:
            if type(letters) is PlainLetters:
                return receives.plain_reply(messages, letters.contents, (), origin)
            found = list(letters)
            contents = [letter.content for letter in found]
            return receives.plain_reply(messages, contents, [letter.message_id for letter in found], origin)
        handed = [
            Handed(delivered, letter.content, letter.wall, letter.message_id, letter.cause)
            for delivered, letter in zip(messages, letters, strict=True)
        ]
        return receives.reply(handed, origin, self._view)

    def client_gone(self) -> None:
        self._backend.cancel(self._queue.shard, self)

    def _give_back(self, delivery: Delivery) -> None:
        """Nobody is there to take the messages: they become visible again at once."""
        lane = self._queue.lane
        for each in delivery.messages:
            header = each.header
            handed = Receipt(lane, header.seq, header.epoch, header.lsn, each.number)
            self._backend.submit(self._queue.shard, ChangeVisibility(lane, handed, 0), IgnoredCall())


class BatchCall(Call):
    """For a batch whose entries' successes say nothing but their ids."""

    __slots__ = ("_exchange", "_names", "_refused")

    def __init__(self, exchange: Exchange, names: Sequence[str], refused: Sequence[json.Failure]) -> None:
        self._exchange = exchange
        self._names = names  # of the entries that were submitted
        self._refused = refused

    def answered(self, answer: DeletedAll | list[Outcome], _: Sequence[Letter], /) -> None:
        failed = list(self._refused)
        successful: Sequence[str] = self._names
        if isinstance(answer, list) and answer.count(DONE) != len(answer):
            outcomes = list(zip(self._names, answer, strict=True))
            failed += [(name, outcome) for name, outcome in outcomes if isinstance(outcome, HoldfastError)]
            successful = [name for name, outcome in outcomes if not isinstance(outcome, HoldfastError)]
        self._exchange.messages = len(successful)
        self._exchange.answer(json.batch_of_names(successful, failed))


class SendBatchCall(Call):
    __slots__ = ("_exchange", "_queue", "_refused", "_slips")

    def __init__(self, exchange: Exchange, slips: Slips, refused: Sequence[json.Failure], *, queue: Queue) -> None:
        self._exchange = exchange
        self._slips = slips  # of messages that were submitted
        self._refused = refused
        self._queue = queue

    def answered(self, answer: AcceptedAll | list[Outcome], _: Sequence[Letter], /) -> None:
        if type(answer) is AcceptedAll:
            slips, exchange = self._slips, self._exchange
            assert slips.others is None, "what is accepted at once is plain"
            exchange.messages, exchange.size = answer.count, sum(slips.sizes)
            ids = receipt.message_ids(self._queue.shard, answer)
            exchange.answer(texts.accepted(slips.names, ids, slips.sums))
        else:
            self._answer_each(cast(list[Outcome], answer))

    def _answer_each(self, outcomes: list[Outcome]) -> None:
        shard, is_fifo, size = self._queue.shard, self._queue.is_fifo, 0
        successful: list[str] = []
        failed = list(self._refused)
        for index, (name, outcome) in enumerate(zip(self._slips.names, outcomes, strict=True)):
            if type(outcome) is Accepted:
                slip = self._slips.at(index)
                message_id = receipt.message_id(outcome.shard or shard, outcome.epoch, outcome.lsn)
                members = json.sent(outcome, slip, message_id=message_id, is_fifo=is_fifo)
                successful.append(f'{{"Id":"{name}",{members}}}')
                size += slip.size
            else:
                assert isinstance(outcome, HoldfastError)
                failed.append((name, outcome))
        self._exchange.messages, self._exchange.size = len(successful), size
        self._exchange.answer(json.batch(successful, failed))
