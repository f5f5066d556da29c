"""What an action needs, when that is not one right to the queue that its QueueUrl names.

Source and destination are both asked for: whoever makes a queue's messages go elsewhere sends there.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from holdfast.core.errors import HoldfastError, QueueDoesNotExist
from holdfast.core.types import QueueName
from holdfast.frontend.exchange import Exchange
from holdfast.frontend.locate import Directory, name_of
from holdfast.protocol import actions, attributes, moves, names

Demand = tuple[str, QueueName]  # action, queue; an empty name stands for all queues of the account
Rule = Callable[[Any, Exchange, Directory], Iterator[Demand]]


def _create(request: Any, exchange: Exchange, _: Directory) -> Iterator[Demand]:
    name = QueueName(exchange.caller.account, actions.required(request.queue_name, "QueueName"))
    yield "CreateQueue", name
    if request.tags:
        yield "TagQueue", name
    yield from _redrive_target(request.attributes, name)


def _set_attributes(request: Any, exchange: Exchange, _: Directory) -> Iterator[Demand]:
    name = named(request.queue_url or exchange.path_reference(), exchange)
    yield "SetQueueAttributes", name
    yield from _redrive_target(request.attributes, name)


def _redrive_target(given: dict[str, str] | None, source: QueueName) -> Iterator[Demand]:
    """A target that cannot be read or found, or is another account's, is refused by whoever sets it."""
    text = (given or {}).get("RedrivePolicy")
    if not text:
        return
    try:
        name = name_of(attributes.redrive_policy(text).target_arn)
    except HoldfastError:
        return
    if name.account == source.account:
        yield "SendMessage", name


def _url(request: Any, exchange: Exchange, _: Directory) -> Iterator[Demand]:
    owner = request.queue_owner_account or exchange.caller.account
    if not names.is_account(owner):
        raise QueueDoesNotExist
    yield "GetQueueUrl", QueueName(owner, actions.required(request.queue_name, "QueueName"))


def _list(_: Any, exchange: Exchange, __: Directory) -> Iterator[Demand]:
    yield "ListQueues", QueueName(exchange.caller.account, "")


def _start_move(request: Any, _: Exchange, directory: Directory) -> Iterator[Demand]:
    """What the task does to the messages, its caller must be allowed to do: without a destination they go back to every
    queue whose dead letters these are."""
    source = _at(request.source_arn, "SourceArn")
    for right in ("StartMessageMoveTask", "ReceiveMessage", "DeleteMessage", "GetQueueAttributes"):
        yield right, source
    if request.destination_arn is None:
        targets = directory.sources_of(source)
    else:
        targets = (_at(request.destination_arn, "DestinationArn"),)
    for target in targets:
        if target.account == source.account:  # else it is refused: messages do not leave their account
            yield "SendMessage", target


def _cancel_move(request: Any, _: Exchange, __: Directory) -> Iterator[Demand]:
    yield "CancelMessageMoveTask", _at(moves.decode_handle(request.task_handle).source_arn, "SourceArn")


def _list_moves(request: Any, _: Exchange, __: Directory) -> Iterator[Demand]:
    yield "ListMessageMoveTasks", _at(request.source_arn, "SourceArn")


def _at(arn: str | None, parameter: str) -> QueueName:
    try:
        return name_of(moves.check_arn(arn, parameter))
    except QueueDoesNotExist:
        raise moves.no_resource(parameter) from None


def named(reference: str | None, exchange: Exchange) -> QueueName:
    """The queue that the caller means, which need not exist."""
    return names.queue_name(actions.required(reference, "QueueUrl"), exchange.caller.account)


DEMANDS: Final[dict[str, Rule]] = {
    "CreateQueue": _create,
    "SetQueueAttributes": _set_attributes,
    "GetQueueUrl": _url,
    "ListQueues": _list,
    "StartMessageMoveTask": _start_move,
    "CancelMessageMoveTask": _cancel_move,
    "ListMessageMoveTasks": _list_moves,
}
