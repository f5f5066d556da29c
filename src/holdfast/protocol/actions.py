"""The actions that Holdfast answers, and their requests as the JSON dialect writes them.

Every member may be absent or null, so every field has None for "not given"; what is required is checked where it is
used. Members that are not named here are ignored.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.core.errors import MissingParameter, RequestError


class MalformedRequest(RequestError):
    """The body is no JSON object, or a member has the wrong type."""

    code = "SerializationException"
    query_code = "SerializationException"


class InvalidAction(RequestError):
    code = "InvalidAction"
    query_code = "InvalidAction"


class UnknownOperation(RequestError):
    """The request names no action of SQS at all."""

    code = "UnknownOperationException"
    query_code = "UnknownOperationException"
    status = 404


class Request(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    """One action's input."""


class OfQueue(Request, frozen=True, gc=False, rename="pascal"):
    queue_url: str | None = None


class AttributeValue(msgspec.Struct, frozen=True, gc=False, rename="pascal", omit_defaults=True):
    """One message attribute."""

    string_value: str | None = None
    binary_value: bytes | None = None
    data_type: str | None = None
    string_list_values: list[str] | None = None
    binary_list_values: list[bytes] | None = None


Attributes = dict[str, AttributeValue]


class Outgoing(Request, frozen=True, gc=False, rename="pascal"):
    """A message that a client sends, alone or in a batch."""

    message_body: str | None = None
    delay_seconds: int | None = None
    message_attributes: Attributes | None = None
    message_system_attributes: Attributes | None = None
    message_deduplication_id: str | None = None
    message_group_id: str | None = None


class SendMessage(Outgoing, frozen=True, gc=False, rename="pascal"):
    queue_url: str | None = None


class SendEntry(Outgoing, frozen=True, gc=False, rename="pascal"):
    id: str | None = None


class SendMessageBatch(OfQueue, frozen=True, gc=False, rename="pascal"):
    entries: list[SendEntry] | None = None


class ReceiveMessage(OfQueue, frozen=True, gc=False, rename="pascal"):
    attribute_names: list[str] | None = None
    message_system_attribute_names: list[str] | None = None
    message_attribute_names: list[str] | None = None
    max_number_of_messages: int | None = None
    visibility_timeout: int | None = None
    wait_time_seconds: int | None = None
    receive_request_attempt_id: str | None = None


class DeleteMessage(OfQueue, frozen=True, gc=False, rename="pascal"):
    receipt_handle: str | None = None


class DeleteEntry(Request, frozen=True, gc=False, rename="pascal"):
    id: str | None = None
    receipt_handle: str | None = None


class DeleteMessageBatch(OfQueue, frozen=True, gc=False, rename="pascal"):
    entries: list[DeleteEntry] | None = None


class ChangeMessageVisibility(OfQueue, frozen=True, gc=False, rename="pascal"):
    receipt_handle: str | None = None
    visibility_timeout: int | None = None


class ChangeEntry(Request, frozen=True, gc=False, rename="pascal"):
    id: str | None = None
    receipt_handle: str | None = None
    visibility_timeout: int | None = None


class ChangeMessageVisibilityBatch(OfQueue, frozen=True, gc=False, rename="pascal"):
    entries: list[ChangeEntry] | None = None


class CreateQueue(Request, frozen=True, gc=False, rename="pascal"):
    queue_name: str | None = None
    attributes: dict[str, str] | None = None
    tags: dict[str, str] | None = msgspec.field(default=None, name="tags")


class GetQueueUrl(Request, frozen=True, gc=False, rename="pascal"):
    queue_name: str | None = None
    queue_owner_account: str | None = msgspec.field(default=None, name="QueueOwnerAWSAccountId")


class ListQueues(Request, frozen=True, gc=False, rename="pascal"):
    queue_name_prefix: str | None = None
    next_token: str | None = None
    max_results: int | None = None


class GetQueueAttributes(OfQueue, frozen=True, gc=False, rename="pascal"):
    attribute_names: list[str] | None = None


class DeleteQueue(OfQueue, frozen=True, gc=False, rename="pascal"):
    pass


class PurgeQueue(OfQueue, frozen=True, gc=False, rename="pascal"):
    pass


class SetQueueAttributes(OfQueue, frozen=True, gc=False, rename="pascal"):
    attributes: dict[str, str] | None = None


class TagQueue(OfQueue, frozen=True, gc=False, rename="pascal"):
    tags: dict[str, str] | None = None


class UntagQueue(OfQueue, frozen=True, gc=False, rename="pascal"):
    tag_keys: list[str] | None = None


class ListQueueTags(OfQueue, frozen=True, gc=False, rename="pascal"):
    pass


class AddPermission(OfQueue, frozen=True, gc=False, rename="pascal"):
    label: str | None = None
    account_ids: list[str] | None = msgspec.field(default=None, name="AWSAccountIds")
    actions: list[str] | None = None


class RemovePermission(OfQueue, frozen=True, gc=False, rename="pascal"):
    label: str | None = None


class ListDeadLetterSourceQueues(OfQueue, frozen=True, gc=False, rename="pascal"):
    next_token: str | None = None
    max_results: int | None = None


class StartMessageMoveTask(Request, frozen=True, gc=False, rename="pascal"):
    source_arn: str | None = None
    destination_arn: str | None = None
    max_number_of_messages_per_second: int | None = None


class CancelMessageMoveTask(Request, frozen=True, gc=False, rename="pascal"):
    task_handle: str | None = None


class ListMessageMoveTasks(Request, frozen=True, gc=False, rename="pascal"):
    source_arn: str | None = None
    max_results: int | None = None


class PeekMessages(OfQueue, frozen=True, gc=False, rename="pascal"):
    """An extension: a look at messages that changes nothing."""

    max_number_of_messages: int | None = None
    after: str | None = None  # a sequence number


ACTIONS: tuple[type[Request], ...] = (
    SendMessage,
    SendMessageBatch,
    ReceiveMessage,
    DeleteMessage,
    DeleteMessageBatch,
    ChangeMessageVisibility,
    ChangeMessageVisibilityBatch,
    CreateQueue,
    GetQueueUrl,
    ListQueues,
    GetQueueAttributes,
    SetQueueAttributes,
    DeleteQueue,
    PurgeQueue,
    TagQueue,
    UntagQueue,
    ListQueueTags,
    AddPermission,
    RemovePermission,
    ListDeadLetterSourceQueues,
    StartMessageMoveTask,
    CancelMessageMoveTask,
    ListMessageMoveTasks,
)
EXTENSIONS: tuple[type[Request], ...] = (PeekMessages,)  # docs/EXTENSIONS.md

DEPTH_MAX = 32  # of JSON; the deepest request that means something has five levels
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(each for each in range(256) if each not in b"[]{}")
_PREFIX, _OWN_PREFIX = b"AmazonSQS.", b"Holdfast."
_DECODERS: dict[bytes, Callable[[bytes], Request]] = {
    prefix + action.__name__.encode(): msgspec.json.Decoder(action).decode
    for prefix, group in ((_PREFIX, ACTIONS), (_OWN_PREFIX, EXTENSIONS))
    for action in group
}


def decode(target: bytes, body: bytes) -> Any:
    """The request that a JSON body makes for the action named by the header X-Amz-Target."""
    decoder = _DECODERS.get(target)
    if decoder is None:
        raise _unknown(target)
    if (body.find(b"{", 1) > 0 or body.find(b"[") > 0) and _has_many_brackets(body):
        _check_depth(body)
    try:
        return decoder(body or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise MalformedRequest(str(problem)) from None


def _has_many_brackets(body: bytes) -> bool:
    """More than the depth that is allowed. Finding the few of a usual body is ten times as fast as counting them."""
    count = 0
    for bracket in (b"{", b"["):
        at = body.find(bracket)
        while at >= 0:
            count += 1
            if count > DEPTH_MAX:
                return True
            at = body.find(bracket, at + 1)
    return False


def _check_depth(body: bytes) -> None:
    """Members that are not known are skipped, however deep they are; so this is asked first. Brackets within strings do
    not count. O(length), all of it at the speed of C."""
    unescaped = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    brackets = b"".join(unescaped.split(b'"')[::2]).translate(_BRACKETS, _NO_BRACKETS)
    for _ in range(DEPTH_MAX):
        brackets = brackets.replace(b"[]", b"")  # the innermost ones
    if b"[" in brackets:
        raise MalformedRequest(f"The JSON is nested deeper than {DEPTH_MAX} levels, or does not end.")


def _unknown(target: bytes) -> Exception:
    if not target.startswith((_PREFIX, _OWN_PREFIX)):
        return UnknownOperation("Name an action in the header X-Amz-Target, for example AmazonSQS.SendMessage.")
    name = target.partition(b".")[2].decode("latin-1")
    return InvalidAction(f"The action {name} is not valid for this endpoint.")


def required(value: str | None, name: str) -> str:
    """A parameter that must be there and must not be empty."""
    if not value:
        raise MissingParameter(f"The request must contain the parameter {name}.")
    return value
