"""Names, attributes and requests: what is accepted and what is said when it is not."""

import json

import pytest
from botocore.loaders import Loader

from holdfast.core.errors import (
    BatchEntryIdsNotDistinct,
    BatchRequestTooLong,
    EmptyBatchRequest,
    HoldfastError,
    InvalidAttributeName,
    InvalidAttributeValue,
    InvalidBatchEntryId,
    InvalidParameterValue,
    QueueDoesNotExist,
    ReceiptHandleIsInvalid,
    TooManyEntriesInBatchRequest,
)
from holdfast.core.queue.command import Accepted
from holdfast.core.types import Address, Counts, Epoch, Kind, LaneId, Lsn, QueueName, Seq, ShardId
from holdfast.protocol import actions, attributes, batches, decoding, names
from holdfast.protocol import json as wire
from holdfast.protocol.messages import Slip

HOME = "000000000000"
ARN = "arn:aws:sqs:us-east-1:000000000000:dead"


def operations() -> dict[str, list[str]]:
    model = Loader().load_service_model("sqs", "service-2")
    return {
        name: sorted(model["shapes"][operation["input"]["shape"]]["members"])
        for name, operation in model["operations"].items()
    }


def test_every_operation_of_sqs_is_answered() -> None:
    assert sorted(operations()) == sorted(action.__name__ for action in actions.ACTIONS)


@pytest.mark.parametrize("action", actions.ACTIONS, ids=lambda action: action.__name__)
def test_a_request_has_the_members_that_botocore_sends(action: type[actions.Request]) -> None:
    assert sorted(action.__struct_encode_fields__) == operations()[action.__name__]


def test_null_and_unknown_members_are_ignored() -> None:
    request = decoding.decode(b"AmazonSQS.SendMessage", b'{"QueueUrl": null, "Colour": 1, "MessageBody": "x"}')
    assert (request.queue_url, request.message_body) == (None, "x")


@pytest.mark.parametrize("body", [b"[]", b"{", b'{"MessageBody": 1}', b'{"MessageBody": "\xff"}', b'"x"'])
def test_a_body_that_cannot_be_read_is_the_clients_fault(body: bytes) -> None:
    with pytest.raises(actions.MalformedRequest):
        decoding.decode(b"AmazonSQS.SendMessage", body)


@pytest.mark.parametrize("text", [b"[%b]", b'{"a": %b}', b'[{}, {"a": "]"}, %b]'])
def test_json_may_be_nested_so_deep_and_no_deeper(text: bytes) -> None:
    level = b'{"Colour": %b}'
    body = level % (b"[" * (decoding.DEPTH_MAX - 1) + b"]" * (decoding.DEPTH_MAX - 1))
    assert decoding.decode(b"AmazonSQS.ListQueues", body) == actions.ListQueues()
    value = b"0"
    for _ in range(decoding.DEPTH_MAX):
        value = text % value
    for deep in (value, text % value, b"[" * 100_000 + b"]" * 100_000):
        with pytest.raises(actions.MalformedRequest, match="nested deeper than 32 levels"):
            decoding.decode(b"AmazonSQS.ListQueues", level % deep)


def test_brackets_in_strings_are_no_levels() -> None:
    body = json.dumps({"MessageBody": '[{\\"' * 1000 + "\\", "Colour": "[" * 50}).encode()
    assert decoding.decode(b"AmazonSQS.SendMessage", body).message_body == '[{\\"' * 1000 + "\\"


def test_unknown_actions() -> None:
    with pytest.raises(actions.InvalidAction, match="The action Fly is not valid for this endpoint"):
        decoding.decode(b"AmazonSQS.Fly", b"{}")
    for target in (b"AmazonSQS.PeekMessages", b"Holdfast.SendMessage", b"Holdfast."):
        with pytest.raises(actions.InvalidAction):
            decoding.decode(target, b"{}")
    for target in (b"", b"DynamoDB.GetItem"):
        with pytest.raises(actions.UnknownOperation):
            decoding.decode(target, b"{}")


def test_an_error_as_clients_expect_it() -> None:
    assert json.loads(wire.error_body(QueueDoesNotExist())) == {
        "__type": "com.amazonaws.sqs#QueueDoesNotExist",
        "message": "The specified queue does not exist.",
    }
    assert wire.error_header(QueueDoesNotExist()) == b"AWS.SimpleQueueService.NonExistentQueue;Sender"


def test_the_reply_to_a_send() -> None:
    slip = Slip(0, "b" * 32, "a" * 32, "c" * 32)
    members = wire.sent(Accepted(Epoch(1), Lsn(2), Seq(3)), slip, message_id="id", is_fifo=True)
    assert json.loads(f"{{{members}}}") == {
        "MessageId": "id",
        "MD5OfMessageBody": "b" * 32,
        "MD5OfMessageAttributes": "a" * 32,
        "MD5OfMessageSystemAttributes": "c" * 32,
        "SequenceNumber": "10000000000000000003",
    }


def test_the_reply_to_a_batch_has_no_empty_lists() -> None:
    error = ReceiptHandleIsInvalid('the handle "x"')
    reply = wire.batch(['{"Id":"1","MessageId":"m"}', '{"Id":"3"}'], [("2", error)])
    assert json.loads(reply) == {
        "Successful": [{"Id": "1", "MessageId": "m"}, {"Id": "3"}],
        "Failed": [{"Id": "2", "SenderFault": True, "Code": "ReceiptHandleIsInvalid", "Message": 'the handle "x"'}],
    }
    assert json.loads(wire.batch(['{"Id":"1"}'], [])) == {"Successful": [{"Id": "1"}]}


# batches


def entries(*ids: str | None) -> list[actions.DeleteEntry]:
    return [actions.DeleteEntry(name, "handle") for name in ids]


BAD_BATCHES: list[tuple[list[actions.DeleteEntry], type[HoldfastError], str]] = [
    ([], EmptyBatchRequest, "There should be at least one DeleteMessageBatchRequestEntry in the request."),
    (
        entries(*map(str, range(20))),
        TooManyEntriesInBatchRequest,
        "Maximum number of entries per request are 10. You have sent 20.",
    ),
    (entries("a", "b", "a"), BatchEntryIdsNotDistinct, "Id a repeated."),
    (entries("a b"), InvalidBatchEntryId, InvalidBatchEntryId.text),
    (entries("a" * 81), InvalidBatchEntryId, InvalidBatchEntryId.text),
]


@pytest.mark.parametrize(("batch", "error", "text"), BAD_BATCHES)
def test_a_bad_envelope_fails_the_whole_batch(
    batch: list[actions.DeleteEntry], error: type[HoldfastError], text: str
) -> None:
    with pytest.raises(error) as caught:
        batches.check(batch, "DeleteMessageBatch")
    assert caught.value.message == text


def test_a_batch_may_have_a_mebibyte_and_no_more() -> None:
    batches.check_bytes([1_048_576])
    with pytest.raises(BatchRequestTooLong) as caught:
        batches.check_bytes([1_048_576, 1])
    assert caught.value.message == ("Batch requests cannot be longer than 1048576 bytes. You have sent 1048577 bytes.")


# names


@pytest.mark.parametrize(
    "reference",
    [
        "http://localhost:9324/000000000000/jobs",
        "https://sqs.eu-west-1.amazonaws.com/000000000000/jobs",
        "http://localhost/000000000000/jobs/",
        "/000000000000/jobs",
        "arn:aws:sqs:us-east-1:000000000000:jobs",
        "jobs",
    ],
)
def test_a_queue_is_found_by_path_arn_or_name(reference: str) -> None:
    assert names.queue_name(reference, HOME) == QueueName(HOME, "jobs")


@pytest.mark.parametrize("reference", ["http://localhost/123456789012/jobs", "arn:aws:sqs:x:123456789012:jobs"])
def test_an_account_that_is_named_counts_whoever_asks(reference: str) -> None:
    assert names.queue_name(reference, HOME) == QueueName("123456789012", "jobs")


@pytest.mark.parametrize("reference", ["http://localhost/jobs", "/1/jobs", "arn:aws:sqs:x:me:jobs", "arn:jobs", "/"])
def test_what_names_no_account_names_no_queue(reference: str) -> None:
    with pytest.raises(QueueDoesNotExist):
        names.queue_name(reference, HOME)


def test_url_and_arn_of_a_queue() -> None:
    queue = QueueName(HOME, "jobs")
    assert names.queue_url("http://h:1", queue) == "http://h:1/000000000000/jobs"
    assert names.queue_arn("us-east-1", queue) == "arn:aws:sqs:us-east-1:000000000000:jobs"


@pytest.mark.parametrize(
    ("name", "is_fifo"),
    [("", False), ("a b", False), ("a" * 81, False), ("a.fifo", False), ("a", True), ("a" * 76 + ".fifo", True)],
)
def test_a_bad_name_is_refused(name: str, is_fifo: bool) -> None:
    with pytest.raises(InvalidParameterValue):
        names.check_name(name, is_fifo=is_fifo)


@pytest.mark.parametrize(("name", "is_fifo"), [("A-b_9", False), ("a" * 80, False), ("a" * 75 + ".fifo", True)])
def test_a_good_name_is_accepted(name: str, is_fifo: bool) -> None:
    names.check_name(name, is_fifo=is_fifo)


# attributes


def test_attributes_are_kept_as_they_are_shown() -> None:
    given = {"FifoQueue": "True", "ContentBasedDeduplication": "TRUE", "VisibilityTimeout": "007"}
    assert attributes.check(given, is_fifo=True) == {
        "FifoQueue": "true",
        "ContentBasedDeduplication": "true",
        "VisibilityTimeout": "7",
    }


BAD_NAMES = {
    ("Colour", "red"): "Unknown Attribute Colour.",
    ("FifoQueue", "true"): "Unknown Attribute FifoQueue.",
    ("ContentBasedDeduplication", "true"): "Unknown Attribute ContentBasedDeduplication.",
    ("DeduplicationScope", "queue"): "You can specify the DeduplicationScope only when FifoQueue is set to true.",
    ("QueueArn", "arn"): "Unknown Attribute QueueArn.",
    ("All", "x"): "Unknown Attribute All.",
    ("Holdfast.Colour", "red"): "Unknown Attribute Holdfast.Colour.",
}


@pytest.mark.parametrize(("given", "text"), BAD_NAMES.items())
def test_an_attribute_that_a_standard_queue_cannot_have(given: tuple[str, str], text: str) -> None:
    with pytest.raises(InvalidAttributeName) as caught:
        attributes.check(dict([given]), is_fifo=False)
    assert caught.value.message == text


def test_a_fifo_queue_cannot_be_told_not_to_be_one() -> None:
    with pytest.raises(InvalidAttributeName, match=r"Unknown Attribute FifoQueue\."):
        attributes.check({"FifoQueue": "false"}, is_fifo=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("VisibilityTimeout", "43201"),
        ("VisibilityTimeout", "-1"),
        ("VisibilityTimeout", "x"),
        ("VisibilityTimeout", "٣"),
        ("DelaySeconds", "901"),
        ("MessageRetentionPeriod", "59"),
        ("MaximumMessageSize", "1023"),
        ("MaximumMessageSize", "1048577"),
        ("ReceiveMessageWaitTimeSeconds", "21"),
        ("DeduplicationScope", "planet"),
        ("ContentBasedDeduplication", "perhaps"),
    ],
)
def test_a_value_out_of_range_is_refused(name: str, value: str) -> None:
    with pytest.raises(InvalidAttributeValue) as caught:
        attributes.check({name: value}, is_fifo=True)
    assert caught.value.message == f"Invalid value for the parameter {name}."


def test_what_attributes_mean_to_a_lane() -> None:
    kept = {
        "FifoQueue": "true",
        "VisibilityTimeout": "5",
        "DeduplicationScope": "messageGroup",
        "RedrivePolicy": f'{{"deadLetterTargetArn": "{ARN}", "maxReceiveCount": 3}}',
    }
    target = Address(ShardId(1), LaneId(2))
    config = attributes.lane_config(kept, is_fifo=True, version=4, redrive_to=target, is_strict=False)
    assert (config.version, config.kind, config.is_strict) == (4, Kind.FIFO, False)
    assert (config.visibility_timeout_s, config.retention_s) == (5, 345_600)
    assert (config.content_deduplication, config.deduplication_per_group) == (False, True)
    assert config.redrive is not None
    assert (config.redrive.target, config.redrive.receives_max) == (target, 3)


def test_all_attributes_of_a_plain_queue_are_those_that_aws_lists() -> None:
    shown = attributes.show(
        attributes.effective({}, is_fifo=False),
        Counts(1, 2, 3, 4),
        ["All"],
        CreatedTimestamp="1",
        LastModifiedTimestamp="1",
        QueueArn="arn",
    )
    assert sorted(shown) == [
        "ApproximateNumberOfMessages",
        "ApproximateNumberOfMessagesDelayed",
        "ApproximateNumberOfMessagesNotVisible",
        "CreatedTimestamp",
        "DelaySeconds",
        "LastModifiedTimestamp",
        "MaximumMessageSize",
        "MessageRetentionPeriod",
        "QueueArn",
        "ReceiveMessageWaitTimeSeconds",
        "SqsManagedSseEnabled",
        "VisibilityTimeout",
    ]
    assert shown["ApproximateNumberOfMessagesNotVisible"] == "2"
    assert shown["MaximumMessageSize"] == "1048576"


def test_a_fifo_queue_lists_four_more() -> None:
    extra = attributes.effective({}, is_fifo=True).keys() - attributes.effective({}, is_fifo=False).keys()
    assert extra == {"FifoQueue", "ContentBasedDeduplication", "DeduplicationScope", "FifoThroughputLimit"}


def test_creating_again_compares_what_is_given_with_what_is_in_force() -> None:
    current = {"VisibilityTimeout": "5"}
    assert attributes.first_difference({}, current, is_fifo=False) == ""
    assert attributes.first_difference({"DelaySeconds": "0"}, current, is_fifo=False) == ""
    assert attributes.first_difference({"VisibilityTimeout": "6"}, current, is_fifo=False) == "VisibilityTimeout"


def test_asking_for_an_unknown_attribute_is_refused() -> None:
    attributes.check_names(["All", "Policy", "QueueArn"])
    with pytest.raises(InvalidAttributeName, match=r"Unknown Attribute Colour\."):
        attributes.check_names(["Colour"])
