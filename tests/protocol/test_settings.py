"""Attributes that are set later, tags, move tasks and peeks: what is accepted and what is said when it is not."""

import base64
import json

import pytest

from holdfast.core import limits
from holdfast.core.errors import (
    HoldfastError,
    InvalidAttributeName,
    InvalidAttributeValue,
    InvalidParameterValue,
    MissingParameter,
    ResourceNotFoundException,
)
from holdfast.core.queue.command import MoveStatus, Peek
from holdfast.core.types import Address, Counts, LaneId, Seq, ShardId, WallMs
from holdfast.frontend.rights import DEMANDS
from holdfast.protocol import actions, attributes, moves, peeks, tags

ARN = "arn:aws:sqs:us-east-1:000000000000:jobs"
POLICY = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "sqs:*", "Resource": ARN}],
}
SSE = "SqsManagedSseEnabled"


def refused(error: type[HoldfastError], text: str, call: object, *arguments: object, **options: object) -> None:
    assert callable(call)
    with pytest.raises(error) as caught:
        call(*arguments, **options)
    assert (type(caught.value), caught.value.message) == (error, text)


def test_every_action_is_asked_for_rights_to_some_queue() -> None:
    for action in (*actions.ACTIONS, *actions.EXTENSIONS):
        assert "QueueUrl" in action.__struct_encode_fields__ or action.__name__ in DEMANDS


# attributes

WRONG: list[tuple[str, str, bool, type[HoldfastError], str]] = [
    # name, value, is_fifo, error, text
    ("FifoQueue", "false", True, InvalidAttributeValue, "Reason: Modifying queue type is not supported."),
    ("FifoQueue", "true", False, InvalidAttributeName, "Unknown Attribute FifoQueue."),
    ("FifoThroughputLimit", "perQueue", False, InvalidAttributeName, "only when FifoQueue is set to true."),
    ("Holdfast.RequestDeduplication", "true", True, InvalidAttributeName, "only for standard queues."),
    ("ApproximateNumberOfMessages", "0", False, InvalidAttributeName, "Unknown Attribute ApproximateNumberOfMessages."),
    ("CreatedTimestamp", "0", False, InvalidAttributeName, "Unknown Attribute CreatedTimestamp."),
    ("Policy", "{", False, InvalidAttributeValue, "The policy is not a JSON document."),
    *(
        (name, value, True, InvalidAttributeValue, f"Invalid value for the parameter {name}.")
        for name, value in [
            ("VisibilityTimeout", ""),
            ("VisibilityTimeout", "1.0"),
            ("VisibilityTimeout", " 1"),
            ("KmsDataKeyReusePeriodSeconds", "59"),
            ("KmsDataKeyReusePeriodSeconds", "86401"),
            ("KmsMasterKeyId", "x" * 2049),
            (SSE, "maybe"),
            ("FifoThroughputLimit", "perPlanet"),
        ]
    ),
    *(  # ours say what is allowed
        (
            name,
            value,
            False,
            InvalidAttributeValue,
            f"Invalid value for the parameter {name}. Reason: Must be {allowed}.",
        )
        for name, value, allowed in [
            ("Holdfast.DeliveryGuarantee", "ExactlyOnce", "one of AtLeastOnce, AtMostOnce"),
            ("Holdfast.Overflow", "Drop", "one of Refuse, DeadLetter"),
            ("Holdfast.ReplicationMode", "asynchronous", "one of sync, async"),
            ("Holdfast.MaxMessages", "0", "a whole number from 1 to 1000000000000"),
            ("Holdfast.MaxMessages", "1000000000001", "a whole number from 1 to 1000000000000"),
            ("Holdfast.MaxBytes", "-1", "a whole number from 1 to 1000000000000000"),
            ("Holdfast.TimeToLiveSeconds", "1209601", "a whole number from 1 to 1209600"),
            ("Holdfast.RequestDeduplication", "2", "true or false"),
        ]
    ),
]


@pytest.mark.parametrize(("name", "value", "is_fifo", "error", "text"), WRONG)
def test_an_attribute_that_cannot_be_set(
    name: str, value: str, is_fifo: bool, error: type[HoldfastError], text: str
) -> None:
    with pytest.raises(error) as caught:
        attributes.check({name: value}, is_fifo=is_fifo, is_new=False)
    assert type(caught.value) is error
    assert caught.value.message.endswith(text)


def test_a_fifo_queue_may_be_told_again_that_it_is_one() -> None:
    assert attributes.check({"FifoQueue": "True"}, is_fifo=True, is_new=False) == {"FifoQueue": "true"}


def test_one_kind_of_encryption_at_a_time() -> None:
    refused(
        InvalidAttributeName,
        "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE or SQS SSE.",
        attributes.check,
        {"KmsMasterKeyId": "key", SSE: "True"},
        is_fifo=False,
    )
    with_key = attributes.merge({}, attributes.check({"KmsMasterKeyId": "key"}, is_fifo=False))
    assert with_key == {"KmsMasterKeyId": "key", SSE: "false"}
    assert attributes.merge(with_key, {"KmsMasterKeyId": ""}) == {SSE: "false"}
    assert attributes.merge(with_key, {SSE: "true"}) == {SSE: "true"}
    assert attributes.merge({}, {"KmsMasterKeyId": ""}) == {}


def test_the_usual_reuse_of_a_data_key_is_not_listed() -> None:
    def shown(value: str) -> dict[str, str]:
        kept = {"KmsDataKeyReusePeriodSeconds": value}
        return attributes.show(attributes.effective(kept, is_fifo=False), Counts(0, 0, 0, 0), ["All"])

    assert "KmsDataKeyReusePeriodSeconds" not in shown("300")
    assert shown("301")["KmsDataKeyReusePeriodSeconds"] == "301"


def test_a_short_retention_needs_relaxed_rules() -> None:
    refused(
        InvalidAttributeValue,
        "Invalid value for the parameter MessageRetentionPeriod.",
        attributes.check,
        {"MessageRetentionPeriod": "1"},
        is_fifo=False,
    )
    assert attributes.check({"MessageRetentionPeriod": "1"}, is_fifo=False, is_strict=False)
    with pytest.raises(InvalidAttributeValue):
        attributes.check({"MessageRetentionPeriod": "0"}, is_fifo=False, is_strict=False)


def redrive(count: object) -> str:
    return json.dumps({"deadLetterTargetArn": ARN, "maxReceiveCount": count})


@pytest.mark.parametrize(
    ("given", "current", "is_same"),
    [
        ({"Policy": json.dumps(POLICY)}, {"Policy": json.dumps(POLICY, indent=2)}, True),
        ({"Policy": json.dumps(POLICY)}, {}, False),
        ({"Policy": ""}, {"Policy": json.dumps(POLICY)}, False),
        ({"RedrivePolicy": redrive("3")}, {"RedrivePolicy": redrive(3)}, True),
        ({"RedrivePolicy": redrive(4)}, {"RedrivePolicy": redrive(3)}, False),
        ({"RedrivePolicy": ""}, {}, True),
        ({"KmsDataKeyReusePeriodSeconds": "300"}, {}, True),
        ({SSE: "true"}, {}, True),
        ({SSE: "true"}, {SSE: "false"}, False),
        ({"Holdfast.MaxMessages": "5"}, {}, False),
    ],
)
def test_creating_again_compares_meanings(given: dict[str, str], current: dict[str, str], is_same: bool) -> None:
    assert (attributes.first_difference(given, current, is_fifo=False) == "") is is_same


def test_extensions_reach_the_lane() -> None:
    given = {
        "Holdfast.DeliveryGuarantee": "AtMostOnce",
        "Holdfast.RequestDeduplication": "TRUE",
        "Holdfast.MaxMessages": "10",
        "Holdfast.MaxBytes": "1000",
        "Holdfast.Overflow": "DeadLetter",
        "Holdfast.TimeToLiveSeconds": "60",
        "Holdfast.ReplicationMode": "async",
    }
    kept = attributes.merge({}, attributes.check(given, is_fifo=False))
    config = attributes.lane_config(kept, is_fifo=False, version=1, redrive_to=None, is_strict=True)
    assert (config.at_most_once, config.request_deduplication, config.overflow_to_dead_letter) == (True, True, True)
    assert (config.messages_max, config.bytes_max, config.time_to_live_s) == (10, 1000, 60)
    assert config.is_async
    plain = attributes.lane_config({}, is_fifo=False, version=1, redrive_to=None, is_strict=True)
    assert (plain.at_most_once, plain.request_deduplication, plain.overflow_to_dead_letter) == (False, False, False)
    assert (plain.messages_max, plain.bytes_max, plain.time_to_live_s) == (0, 0, 0)
    assert not plain.is_async
    assert attributes.merge(kept, attributes.check(dict.fromkeys(given, ""), is_fifo=False)) == {}


# tags


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        (None, MissingParameter, "The request must contain the parameter Tags."),
        ({}, MissingParameter, "The request must contain the parameter Tags."),
        ({"": "x"}, InvalidParameterValue, "Tag keys must be between 1 and 128 characters in length."),
        ({"x" * 129: ""}, InvalidParameterValue, "Tag keys must be between 1 and 128 characters in length."),
        ({"x": "x" * 257}, InvalidParameterValue, "Tag values must be between 0 and 256 characters in length."),
        ({"AWS:x": ""}, InvalidParameterValue, "Tag keys cannot start with aws:, which is reserved."),
        ({str(number): "" for number in range(50)}, InvalidParameterValue, "Too many tags added for queue jobs."),
    ],
)
def test_tags_that_are_refused(given: dict[str, str] | None, error: type[HoldfastError], text: str) -> None:
    refused(error, text, tags.add, {"held": ""}, given, name="jobs")


def test_tags_with_strange_characters_are_refused() -> None:
    for given in ({"a<b": ""}, {"a": "?"}):
        with pytest.raises(InvalidParameterValue):
            tags.add({}, given, name="jobs")
    good = {"Größe": "groß: 1/2 a=b+c-d@e_f."}
    assert tags.add({"size": "1"}, good, name="jobs") == {"size": "1", **good}


def test_tags_are_removed_by_their_exact_key() -> None:
    assert tags.remove({"a": "", "A": ""}, ["a", "b"]) == {"A": ""}
    refused(MissingParameter, "The request must contain the parameter TagKeys.", tags.remove, {}, [])


# move tasks


def test_a_task_handle_says_task_and_source() -> None:
    handle = moves.encode_handle("task", ARN)
    assert json.loads(base64.b64decode(handle)) == {"taskId": "task", "sourceArn": ARN}
    assert moves.decode_handle(handle) == moves.Handle("task", ARN)


@pytest.mark.parametrize(
    "handle",
    [
        "",
        "garbage",
        "ü",
        base64.b64encode(b"{}").decode(),
        base64.b64encode(b"\xff").decode(),
        base64.b64encode(b'{"taskId": "", "sourceArn": "arn:aws:sqs:us-east-1:000000000000:jobs"}').decode(),
        base64.b64encode(b'{"taskId": "task", "sourceArn": "jobs"}').decode(),
    ],
)
def test_a_task_handle_that_nobody_gave_out(handle: str) -> None:
    refused(InvalidParameterValue, "Value for parameter TaskHandle is invalid.", moves.decode_handle, handle)


def test_move_tasks_that_are_refused() -> None:
    refused(MissingParameter, "The request must contain the parameter TaskHandle.", moves.decode_handle, None)
    refused(MissingParameter, "The request must contain the parameter SourceArn.", moves.check_arn, None, "SourceArn")
    for arn in ("", "jobs", "arn:aws:sns:us-east-1:000000000000:jobs", "arn:aws:sqs:us-east-1:000000000000:"):
        refused(
            InvalidParameterValue,
            "You must use this format to specify the SourceArn: "
            "arn:<partition>:<service>:<region>:<account-id>:<resource-id>",
            moves.check_arn,
            arn,
            "SourceArn",
        )
    for rate in (0, 501):
        refused(
            InvalidParameterValue,
            "Value for parameter MaxNumberOfMessagesPerSecond is invalid. "
            "Reason: You must enter a number that's between 1 and 500.",
            moves.check_rate,
            rate,
        )
    for count in (0, 11):
        with pytest.raises(InvalidParameterValue):
            moves.check_results(count)
    assert (moves.check_rate(None), moves.check_rate(500), moves.check_results(None)) == (0, 500, 1)
    gone = moves.no_resource("DestinationArn")
    assert type(gone) is ResourceNotFoundException
    assert gone.message == "The resource that you specified for the DestinationArn parameter doesn't exist."


def status(state: str, **options: object) -> MoveStatus:
    target = Address(ShardId(1), LaneId(2))
    return MoveStatus(
        "task", state, target, int(str(options.get("rate", 0))), 1, 5, str(options.get("failure", "")), WallMs(7)
    )


def test_a_running_task_is_shown_with_its_handle() -> None:
    assert moves.show(status("RUNNING", rate=9), source_arn=ARN, destination_arn="there") == {
        "TaskHandle": moves.encode_handle("task", ARN),
        "Status": "RUNNING",
        "SourceArn": ARN,
        "DestinationArn": "there",
        "MaxNumberOfMessagesPerSecond": 9,
        "ApproximateNumberOfMessagesMoved": 1,
        "ApproximateNumberOfMessagesToMove": 5,
        "StartedTimestamp": 7,
    }


def test_a_task_that_ended_is_shown_without() -> None:
    assert moves.show(status("FAILED", failure="why"), source_arn=ARN, destination_arn="") == {
        "Status": "FAILED",
        "SourceArn": ARN,
        "ApproximateNumberOfMessagesMoved": 1,
        "ApproximateNumberOfMessagesToMove": 5,
        "FailureReason": "why",
        "StartedTimestamp": 7,
    }


# peeks


def test_what_a_peek_asks_for() -> None:
    lane = LaneId(3)
    assert peeks.command(actions.PeekMessages(), lane) == Peek(lane, Seq(0), 10)
    after = str(limits.SEQUENCE_BASE + 7)
    assert peeks.command(actions.PeekMessages(max_number_of_messages=100, after=after), lane) == Peek(lane, Seq(7), 100)
    for wrong in (
        actions.PeekMessages(max_number_of_messages=0),
        actions.PeekMessages(max_number_of_messages=101),
        actions.PeekMessages(after="x"),
        actions.PeekMessages(after="-1"),
        actions.PeekMessages(after="9" * 21),
    ):
        with pytest.raises(InvalidParameterValue):
            peeks.command(wrong, lane)
