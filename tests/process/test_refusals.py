"""Wrong requests, for each action: the exact error, and nothing has changed. Sent as raw JSON, since boto3 would refuse
to send many of them.
"""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.compatibility.claims import proves
from tests.process.server import Running, running

ARN = "arn:aws:sqs:us-east-1:000000000000:"
MISSING = ("MissingRequiredParameterException", 400)
VALUE = ("InvalidParameterValueException", 400)
NAME = ("InvalidAttributeName", 400)
ATTRIBUTE = ("InvalidAttributeValue", 400)
GONE = ("QueueDoesNotExist", 400, "The specified queue does not exist.")
NO_RESOURCE = ("ResourceNotFoundException", 404)
Refusal = tuple[str, int, str]


def missing(name: str) -> Refusal:
    return (*MISSING, f"The request must contain the parameter {name}.")


def redrive(target: str, count: object = 3) -> str:
    return json.dumps({"deadLetterTargetArn": target, "maxReceiveCount": count})


def bad_redrive(policy: str, reason: str) -> Refusal:
    return (*VALUE, f"Value {policy} for parameter RedrivePolicy is invalid. Reason: {reason}")


ON_A_QUEUE = (
    "AddPermission ChangeMessageVisibility ChangeMessageVisibilityBatch DeleteMessage DeleteMessageBatch DeleteQueue "
    "GetQueueAttributes ListDeadLetterSourceQueues ListQueueTags PurgeQueue ReceiveMessage RemovePermission "
    "SendMessage SendMessageBatch SetQueueAttributes TagQueue UntagQueue"
).split()

PERMISSION = {"QueueUrl": "jobs", "Label": "l", "AWSAccountIds": ["123456789012"], "Actions": ["SendMessage"]}
ENTRY = {"Id": "a", "ReceiptHandle": "garbage", "MessageBody": "x", "VisibilityTimeout": 0}
BATCHES = "ChangeMessageVisibilityBatch DeleteMessageBatch SendMessageBatch".split()

WRONG: list[tuple[str, dict[str, Any], Refusal]] = [
    *((action, {}, missing("QueueUrl")) for action in ON_A_QUEUE),
    *((action, {"QueueUrl": "nowhere"}, GONE) for action in ON_A_QUEUE),
    *((action, {"QueueUrl": "http://x/123456789012/jobs"}, GONE) for action in ON_A_QUEUE),
    # queues
    ("CreateQueue", {}, missing("QueueName")),
    ("CreateQueue", {"QueueName": "new", "Attributes": {"Colour": "red"}}, (*NAME, "Unknown Attribute Colour.")),
    (
        "CreateQueue",
        {"QueueName": "new", "Attributes": {"DelaySeconds": "-1"}},
        (*ATTRIBUTE, "Invalid value for the parameter DelaySeconds."),
    ),
    (
        "CreateQueue",
        {"QueueName": "jobs", "Attributes": {"DelaySeconds": "5"}},
        (
            "QueueNameExists",
            400,
            "A queue already exists with the same name and a different value for attribute DelaySeconds",
        ),
    ),
    (
        "CreateQueue",
        {"QueueName": "new", "Attributes": {"RedrivePolicy": redrive(ARN + "nowhere")}},
        bad_redrive(redrive(ARN + "nowhere"), "Dead letter target does not exist."),
    ),
    (
        "CreateQueue",
        {"QueueName": "new", "Attributes": {"FifoQueue": "false"}},
        (*NAME, "Unknown Attribute FifoQueue."),
    ),
    (
        "CreateQueue",
        {"QueueName": "new", "tags": {"aws:x": ""}},
        (*VALUE, "Tag keys cannot start with aws:, which is reserved."),
    ),
    ("GetQueueUrl", {}, missing("QueueName")),
    ("GetQueueUrl", {"QueueName": "nowhere"}, GONE),
    ("GetQueueUrl", {"QueueName": "jobs", "QueueOwnerAWSAccountId": "123456789012"}, GONE),
    (
        "ListQueues",
        {"MaxResults": 0},
        (*VALUE, "Value 0 for parameter MaxResults is invalid. Reason: Must be between 1 and 1000, if provided."),
    ),
    ("ListQueues", {"NextToken": "ü", "MaxResults": 1}, (*VALUE, "Invalid or expired next token.")),
    ("GetQueueAttributes", {"QueueUrl": "jobs", "AttributeNames": ["Colour"]}, (*NAME, "Unknown Attribute Colour.")),
    # attributes
    ("SetQueueAttributes", {"QueueUrl": "jobs"}, missing("Attributes")),
    ("SetQueueAttributes", {"QueueUrl": "jobs", "Attributes": {}}, missing("Attributes")),
    (
        "SetQueueAttributes",
        {"QueueUrl": "jobs", "Attributes": {"VisibilityTimeout": "1", "QueueArn": "x"}},
        (*NAME, "Unknown Attribute QueueArn."),
    ),
    (
        "SetQueueAttributes",
        {"QueueUrl": "jobs", "Attributes": {"RedrivePolicy": redrive(ARN + "a.fifo")}},
        bad_redrive(redrive(ARN + "a.fifo"), "Dead-letter queue must be same type of queue as the source."),
    ),
    (
        "SetQueueAttributes",
        {"QueueUrl": "jobs", "Attributes": {"RedrivePolicy": redrive("arn:aws:sqs:us-east-1:123456789012:dead")}},
        bad_redrive(
            redrive("arn:aws:sqs:us-east-1:123456789012:dead"),
            "Dead-letter target owner should be same as the source.",
        ),
    ),
    (
        "SetQueueAttributes",
        {"QueueUrl": "a.fifo", "Attributes": {"FifoQueue": "false"}},
        (
            *ATTRIBUTE,
            "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported.",
        ),
    ),
    # tags and permissions
    ("TagQueue", {"QueueUrl": "jobs"}, missing("Tags")),
    ("UntagQueue", {"QueueUrl": "jobs", "TagKeys": []}, missing("TagKeys")),
    ("AddPermission", {**PERMISSION, "Label": None}, missing("Label")),
    ("AddPermission", {**PERMISSION, "Actions": []}, missing("Actions")),
    (
        "AddPermission",
        {**PERMISSION, "Actions": ["SendMessage"] * 8},
        ("OverLimit", 403, "8 Actions were found, maximum allowed is 7."),
    ),
    (
        "AddPermission",
        {**PERMISSION, "AWSAccountIds": ["me"]},
        (*VALUE, "Value [me] for parameter PrincipalId is invalid. Reason: Unable to verify."),
    ),
    ("RemovePermission", {"QueueUrl": "jobs"}, missing("Label")),
    (
        "RemovePermission",
        {"QueueUrl": "jobs", "Label": "l"},
        (*VALUE, "Value l for parameter Label is invalid. Reason: can't find label."),
    ),
    # dead letters
    (
        "ListDeadLetterSourceQueues",
        {"QueueUrl": "jobs", "MaxResults": 1001},
        (*VALUE, "Value 1001 for parameter MaxResults is invalid. Reason: Must be between 1 and 1000, if provided."),
    ),
    ("StartMessageMoveTask", {}, missing("SourceArn")),
    (
        "StartMessageMoveTask",
        {"SourceArn": ARN + "jobs"},
        (*VALUE, "Source queue must be configured as a Dead Letter Queue."),
    ),
    (
        "StartMessageMoveTask",
        {"SourceArn": ARN + "nowhere"},
        (*NO_RESOURCE, "The resource that you specified for the SourceArn parameter doesn't exist."),
    ),
    (
        "StartMessageMoveTask",
        {"SourceArn": ARN + "dead", "DestinationArn": ARN + "nowhere"},
        (*NO_RESOURCE, "The resource that you specified for the DestinationArn parameter doesn't exist."),
    ),
    (
        "StartMessageMoveTask",
        {"SourceArn": ARN + "dead", "MaxNumberOfMessagesPerSecond": 501},
        (
            *VALUE,
            "Value for parameter MaxNumberOfMessagesPerSecond is invalid. "
            "Reason: You must enter a number that's between 1 and 500.",
        ),
    ),
    ("CancelMessageMoveTask", {}, missing("TaskHandle")),
    ("CancelMessageMoveTask", {"TaskHandle": "x"}, (*VALUE, "Value for parameter TaskHandle is invalid.")),
    ("ListMessageMoveTasks", {}, missing("SourceArn")),
    (
        "ListMessageMoveTasks",
        {"SourceArn": ARN + "dead", "MaxResults": 11},
        (*VALUE, "Value for parameter MaxResults is invalid. Reason: You must enter a number that's between 1 and 10."),
    ),
    # messages
    ("SendMessage", {"QueueUrl": "jobs"}, missing("MessageBody")),
    ("SendMessage", {"QueueUrl": "a.fifo", "MessageBody": "x"}, missing("MessageGroupId")),
    (
        "ReceiveMessage",
        {"QueueUrl": "jobs", "MaxNumberOfMessages": 11},
        (
            *VALUE,
            "Value 11 for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10, if provided.",
        ),
    ),
    (
        "ReceiveMessage",
        {"QueueUrl": "jobs", "WaitTimeSeconds": 21},
        (*VALUE, "Value 21 for parameter WaitTimeSeconds is invalid. Reason: Must be >= 0 and <= 20, if provided."),
    ),
    ("DeleteMessage", {"QueueUrl": "jobs"}, missing("ReceiptHandle")),
    (
        "DeleteMessage",
        {"QueueUrl": "jobs", "ReceiptHandle": "garbage"},
        ("ReceiptHandleIsInvalid", 404, 'The input receipt handle "garbage" is not a valid receipt handle.'),
    ),
    ("ChangeMessageVisibility", {"QueueUrl": "jobs", "ReceiptHandle": "garbage"}, missing("VisibilityTimeout")),
    *(
        (
            action,
            {"QueueUrl": "jobs", "Entries": []},
            ("EmptyBatchRequest", 400, f"There should be at least one {action}RequestEntry in the request."),
        )
        for action in BATCHES
    ),
    *(
        (
            action,
            {"QueueUrl": "jobs", "Entries": [{**ENTRY, "Id": str(number)} for number in range(11)]},
            (
                "TooManyEntriesInBatchRequest",
                400,
                "Maximum number of entries per request are 10. You have sent 11.",
            ),
        )
        for action in BATCHES
    ),
    *(
        (action, {"QueueUrl": "jobs", "Entries": [ENTRY, ENTRY]}, ("BatchEntryIdsNotDistinct", 400, "Id a repeated."))
        for action in BATCHES
    ),
]


def call(server: Running, action: str, body: dict[str, Any]) -> Any:
    target = action if "." in action else "AmazonSQS." + action
    headers = {"X-Amz-Target": target, "Content-Type": "application/x-amz-json-1.0"}
    request = urllib.request.Request(server.endpoint, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)


def refusal(server: Running, action: str, body: dict[str, Any]) -> Refusal:
    with pytest.raises(urllib.error.HTTPError) as caught:
        call(server, action, body)
    with caught.value as error:
        said = json.load(error)
        return said["__type"].partition("#")[2], error.code, said["message"]


def state(server: Running) -> list[Any]:
    """Everything that an action could have changed."""
    urls = call(server, "ListQueues", {})["QueueUrls"]
    found: list[Any] = []
    for url in urls:
        found.append(call(server, "GetQueueAttributes", {"QueueUrl": url, "AttributeNames": ["All"]}))
        found.append(call(server, "ListQueueTags", {"QueueUrl": url}))
        found.append(call(server, "Holdfast.PeekMessages", {"QueueUrl": url}))
        found.append(call(server, "ListMessageMoveTasks", {"SourceArn": ARN + url.rpartition("/")[2]}))
    return found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("refusals") / "data") as server:
        call(server, "CreateQueue", {"QueueName": "dead"})
        call(server, "CreateQueue", {"QueueName": "jobs", "tags": {"team": "blue"}})
        call(server, "CreateQueue", {"QueueName": "a.fifo", "Attributes": {"FifoQueue": "true"}})
        attributes = {"RedrivePolicy": redrive(ARN + "dead")}
        call(server, "CreateQueue", {"QueueName": "source", "Attributes": attributes})
        call(server, "SendMessage", {"QueueUrl": "jobs", "MessageBody": "stays"})
        yield server


@proves("errors-in-both-dialects")
@pytest.mark.parametrize(("action", "body", "expected"), WRONG)
def test_a_wrong_request_is_refused(server: Running, action: str, body: dict[str, Any], expected: Refusal) -> None:
    assert refusal(server, action, body) == expected


def test_nothing_has_changed_after_all_of_them(server: Running) -> None:
    before = state(server)
    for action, body, _ in WRONG:
        refusal(server, action, body)
    assert state(server) == before
