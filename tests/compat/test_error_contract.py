"""Errors as boto3 shows them: the code of the Query days, the name of today, and the HTTP status."""

from typing import Any

import pytest

from tests.compat.boto import make, refusal
from tests.compatibility.claims import proves
from tests.process.guarded import Guarded, guarded

AWS = "AWS.SimpleQueueService."


@proves("Error.EmptyBatchRequest", "Error.TooManyEntriesInBatchRequest", "Error.BatchEntryIdsNotDistinct", "batches")
@proves("Error.InvalidBatchEntryId", "Error.BatchRequestTooLong")
def test_errors_of_batches(sqs: Any, url: str) -> None:
    def error(*entries: dict[str, str]) -> tuple[str, str, int]:
        return refusal(sqs.send_message_batch, QueueUrl=url, Entries=list(entries))

    def entry(name: str, body: str = "x") -> dict[str, str]:
        return {"Id": name, "MessageBody": body}

    many = [entry(str(number)) for number in range(11)]
    for name, entries in {
        "EmptyBatchRequest": [],
        "TooManyEntriesInBatchRequest": many,
        "BatchEntryIdsNotDistinct": [entry("a"), entry("a")],
        "InvalidBatchEntryId": [entry("not valid")],
        "BatchRequestTooLong": [entry("a", "x" * 600_000), entry("b", "x" * 600_000)],
    }.items():
        assert error(*entries) == (AWS + name, name, 400)
    assert "Messages" not in sqs.receive_message(QueueUrl=url)


@proves("Error.InvalidAttributeName", "Error.InvalidAttributeValue", "Error.QueueNameExists", "Error.OverLimit")
def test_errors_of_queues(sqs: Any, name: str, url: str) -> None:
    unknown = {"QueueUrl": url, "AttributeNames": ["Colour"]}
    assert refusal(sqs.get_queue_attributes, **unknown) == ("InvalidAttributeName", "InvalidAttributeName", 400)
    wrong = {"QueueUrl": url, "Attributes": {"VisibilityTimeout": "43201"}}
    assert refusal(sqs.set_queue_attributes, **wrong) == ("InvalidAttributeValue", "InvalidAttributeValue", 400)
    other = {"QueueName": name, "Attributes": {"VisibilityTimeout": "31"}}
    assert refusal(sqs.create_queue, **other) == ("QueueAlreadyExists", "QueueNameExists", 400)
    many = {"Label": "l", "AWSAccountIds": ["123456789012"], "Actions": ["SendMessage"] * 8}
    assert refusal(sqs.add_permission, QueueUrl=url, **many) == ("OverLimit", "OverLimit", 403)


@proves("Error.SignatureDoesNotMatch", "Error.InvalidClientTokenId", "Error.AccessDenied")
def test_errors_of_those_who_may_not(server: Guarded, name: str) -> None:
    """Each with a client of its own, so the ledger of `sqs` does not see them."""
    with server.client(keys=(server.root[0], "wrong")) as sqs:
        assert refusal(sqs.list_queues)[::2] == ("SignatureDoesNotMatch", 403)
    with server.client(keys=("AKIANOBODY0000000000", "wrong")) as sqs:
        assert refusal(sqs.list_queues)[::2] == ("InvalidClientTokenId", 403)
    with server.client(keys=server.user(name, allow=["sqs:ListQueues"])) as sqs:
        assert refusal(sqs.create_queue, QueueName=name)[::2] == ("AccessDenied", 403)


@proves("Error.RequestThrottled")
def test_the_error_of_those_who_ask_too_often(tmp_path_factory: pytest.TempPathFactory) -> None:
    with (
        guarded(tmp_path_factory.mktemp("limited") / "data", "--limit", "account=2:2") as server,
        server.client(keys=server.root) as sqs,
    ):
        make(sqs, "one")
        make(sqs, "two")
        assert refusal(make, sqs=sqs, name="three") == ("RequestThrottled", "RequestThrottled", 403)
