"""The actions that Holdfast answers, and their requests as the JSON dialect writes them.

Every member may be absent or null, so every field has None for "not given"; what is required is checked where it is
used. Members that are not named here are ignored.
"""

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


def required(value: str | None, name: str) -> str:
    """A parameter that must be there and must not be empty."""
    if not value:
        raise MissingParameter(f"The request must contain the parameter {name}.")
    return value
