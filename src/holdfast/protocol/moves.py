"""Move tasks on the wire: which requests are accepted, the task handle, and how tasks are shown.

A task handle is base64 of {"taskId": …, "sourceArn": …}, so it says on which queue its task runs.
"""

import base64
import binascii
from typing import Any

import msgspec

from holdfast.core import limits
from holdfast.core.errors import HoldfastError, InvalidParameterValue, MissingParameter, ResourceNotFoundException
from holdfast.core.queue.command import MoveStatus
from holdfast.core.queue.task import RUNNING
from holdfast.protocol.dead_letters import is_queue_arn

SHOWN_MAX = limits.MOVE_TASKS_KEPT  # results of one ListMessageMoveTasks


class Handle(msgspec.Struct, frozen=True, rename="camel"):
    task_id: str
    source_arn: str


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Handle).decode


def encode_handle(task: str, source_arn: str) -> str:
    return base64.b64encode(_encode(Handle(task, source_arn))).decode()


def decode_handle(text: str | None) -> Handle:
    if text is None:
        raise MissingParameter("The request must contain the parameter TaskHandle.")
    try:
        handle = _decode(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, msgspec.DecodeError):
        raise InvalidParameterValue("Value for parameter TaskHandle is invalid.") from None
    if not handle.task_id or not is_queue_arn(handle.source_arn):
        raise InvalidParameterValue("Value for parameter TaskHandle is invalid.")
    return handle


def check_arn(arn: str | None, name: str) -> str:
    """The parameter `name`, which must be there and look like the ARN of a queue."""
    if arn is None:
        raise MissingParameter(f"The request must contain the parameter {name}.")
    if not is_queue_arn(arn):
        raise InvalidParameterValue(
            f"You must use this format to specify the {name}: "
            "arn:<partition>:<service>:<region>:<account-id>:<resource-id>"
        )
    return arn


def no_resource(name: str) -> HoldfastError:
    return ResourceNotFoundException(f"The resource that you specified for the {name} parameter doesn't exist.")


def check_ends(source_arn: str, destination_arn: str, *, is_same_kind: bool) -> None:
    if source_arn == destination_arn:
        raise InvalidParameterValue("Source queue arn and destination queue arn cannot be the same.")
    if not is_same_kind:
        raise InvalidParameterValue("The source queue and destination queue must be of the same queue type.")


def check_rate(rate: int | None) -> int:
    """0: not given."""
    if rate is None:
        return 0
    if not 1 <= rate <= limits.MOVE_RATE_MAX:
        raise InvalidParameterValue(
            "Value for parameter MaxNumberOfMessagesPerSecond is invalid. "
            f"Reason: You must enter a number that's between 1 and {limits.MOVE_RATE_MAX}."
        )
    return rate


def check_results(count_max: int | None) -> int:
    if count_max is None:
        return 1
    if not 1 <= count_max <= SHOWN_MAX:
        raise InvalidParameterValue(
            "Value for parameter MaxResults is invalid. "
            f"Reason: You must enter a number that's between 1 and {SHOWN_MAX}."
        )
    return count_max


def show(status: MoveStatus, *, source_arn: str, destination_arn: str) -> dict[str, Any]:
    """One of the results. `destination_arn` is empty when messages go back to their own sources."""
    shown: dict[str, Any] = {}
    if status.state == RUNNING:
        shown["TaskHandle"] = encode_handle(status.task, source_arn)
    shown["Status"] = status.state
    shown["SourceArn"] = source_arn
    if destination_arn:
        shown["DestinationArn"] = destination_arn
    if status.rate:
        shown["MaxNumberOfMessagesPerSecond"] = status.rate
    shown["ApproximateNumberOfMessagesMoved"] = status.moved
    shown["ApproximateNumberOfMessagesToMove"] = status.to_move
    if status.failure:
        shown["FailureReason"] = status.failure
    shown["StartedTimestamp"] = status.started_wall
    return shown
