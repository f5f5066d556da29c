"""What an action needs, when that is not one right to the queue that its QueueUrl names.

Source and destination are both asked for: whoever makes a queue's messages go elsewhere sends there.
"""

from collections.abc import Callable, Iterator
from typing import Any

from holdfast.core.errors import HoldfastError, QueueDoesNotExist, UnsupportedOperation
from holdfast.frontend.caller import Caller
from holdfast.frontend.exchange import Exchange
from holdfast.frontend.locate import Directory
from holdfast.protocol import actions, attributes, moves, names

Demand = tuple[str, str]  # action, name of the queue
Rule = Callable[[Any, Exchange, Directory], Iterator[Demand]]


def _own(caller: Caller, directory: Directory) -> None:
    """Queues belong to one account."""
    if caller.account != directory.site.account:
        raise UnsupportedOperation(
            f"This Holdfast keeps the queues of account {directory.site.account}. Account {caller.account} may use "
            "those whose policies invite it, and has none of its own."
        )


def _create(request: Any, exchange: Exchange, directory: Directory) -> Iterator[Demand]:
    _own(exchange.caller, directory)
    name = actions.required(request.queue_name, "QueueName")
    yield "CreateQueue", name
    if request.tags:
        yield "TagQueue", name
    yield from _redrive_target(request.attributes, directory)


def _set_attributes(request: Any, exchange: Exchange, directory: Directory) -> Iterator[Demand]:
    yield "SetQueueAttributes", named(request.queue_url or exchange.path_reference(), directory)
    yield from _redrive_target(request.attributes, directory)


def _redrive_target(given: dict[str, str] | None, directory: Directory) -> Iterator[Demand]:
    """A target that cannot be read or found is refused by whoever sets it."""
    text = (given or {}).get("RedrivePolicy")
    if not text:
        return
    try:
        name = named(attributes.redrive_policy(text).target_arn, directory)
    except HoldfastError:
        return
    yield "SendMessage", name


def _url(request: Any, _: Exchange, __: Directory) -> Iterator[Demand]:
    yield "GetQueueUrl", actions.required(request.queue_name, "QueueName")


def _list(_: Any, exchange: Exchange, directory: Directory) -> Iterator[Demand]:
    _own(exchange.caller, directory)
    yield "ListQueues", ""


def _start_move(request: Any, _: Exchange, directory: Directory) -> Iterator[Demand]:
    """What the task does to the messages, its caller must be allowed to do: without a destination they go back to every
    queue whose dead letters these are."""
    source = _at(request.source_arn, "SourceArn", directory)
    for right in ("StartMessageMoveTask", "ReceiveMessage", "DeleteMessage", "GetQueueAttributes"):
        yield right, source
    if request.destination_arn is None:
        targets = directory.sources_of(source)
    else:
        targets = (_at(request.destination_arn, "DestinationArn", directory),)
    for target in targets:
        yield "SendMessage", target


def _cancel_move(request: Any, _: Exchange, directory: Directory) -> Iterator[Demand]:
    yield "CancelMessageMoveTask", _at(moves.decode_handle(request.task_handle).source_arn, "SourceArn", directory)


def _list_moves(request: Any, _: Exchange, directory: Directory) -> Iterator[Demand]:
    yield "ListMessageMoveTasks", _at(request.source_arn, "SourceArn", directory)


def _at(arn: str | None, parameter: str, directory: Directory) -> str:
    try:
        return directory.name_of(moves.check_arn(arn, parameter))
    except QueueDoesNotExist:
        raise moves.no_resource(parameter) from None


def named(reference: str | None, directory: Directory) -> str:
    return names.queue_name(actions.required(reference, "QueueUrl"), directory.site)


DEMANDS: dict[str, Rule] = {
    "CreateQueue": _create,
    "SetQueueAttributes": _set_attributes,
    "GetQueueUrl": _url,
    "ListQueues": _list,
    "StartMessageMoveTask": _start_move,
    "CancelMessageMoveTask": _cancel_move,
    "ListMessageMoveTasks": _list_moves,
}
