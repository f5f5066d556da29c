"""boto3, unchanged, against a real server."""

import hashlib
import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.process.server import Running, drain, running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("holdfast") / "data") as server:
        yield server


@pytest.fixture(scope="module")
def sqs(server: Running) -> Iterator[Any]:
    with server.client() as client:
        yield client


@pytest.fixture
def url(sqs: Any, request: pytest.FixtureRequest) -> str:
    """A queue of the test's own."""
    return make(sqs, name_for(request))


def name_for(request: pytest.FixtureRequest) -> str:
    return hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:40]


def make(sqs: Any, name: str, **attributes: str) -> str:
    url: str = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    return url


def fifo(sqs: Any, request: pytest.FixtureRequest, **attributes: str) -> str:
    return make(sqs, name_for(request) + ".fifo", FifoQueue="true", **attributes)


def receive(sqs: Any, url: str, **options: Any) -> list[dict[str, Any]]:
    options = {"MaxNumberOfMessages": 10, **options}
    messages: list[dict[str, Any]] = sqs.receive_message(QueueUrl=url, **options).get("Messages", [])
    return messages


def bodies(messages: list[dict[str, Any]]) -> list[str]:
    return [message["Body"] for message in messages]


def refusal(call: Any, **arguments: Any) -> tuple[str, str, int]:
    """Code, shape and HTTP status of the error that a call must raise."""
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    error, meta = caught.value.response["Error"], caught.value.response["ResponseMetadata"]
    return error["Code"], error["QueryErrorCode"], meta["HTTPStatusCode"]


# queues


def test_a_queue_is_created_found_listed_and_deleted(sqs: Any, server: Running) -> None:
    url = make(sqs, "life-of-a-queue")
    assert url == f"{server.endpoint}/000000000000/life-of-a-queue"
    assert sqs.get_queue_url(QueueName="life-of-a-queue")["QueueUrl"] == url
    assert sqs.list_queues(QueueNamePrefix="life-")["QueueUrls"] == [url]
    sqs.delete_queue(QueueUrl=url)
    assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix="life-")
    assert refusal(sqs.get_queue_url, QueueName="life-of-a-queue") == (
        "AWS.SimpleQueueService.NonExistentQueue",
        "QueueDoesNotExist",
        400,
    )
    assert refusal(sqs.create_queue, QueueName="life-of-a-queue")[1] == "QueueDeletedRecently"


def test_queues_are_listed_in_pages(sqs: Any) -> None:
    urls = [make(sqs, f"page-{number}") for number in range(5)]
    first = sqs.list_queues(QueueNamePrefix="page-", MaxResults=2)
    second = sqs.list_queues(QueueNamePrefix="page-", MaxResults=2, NextToken=first["NextToken"])
    third = sqs.list_queues(QueueNamePrefix="page-", MaxResults=2, NextToken=second["NextToken"])
    assert first["QueueUrls"] + second["QueueUrls"] + third["QueueUrls"] == urls
    assert "NextToken" not in third


def test_creating_a_queue_again_is_fine_unless_it_would_be_another(sqs: Any) -> None:
    url = make(sqs, "again", VisibilityTimeout="7")
    assert make(sqs, "again") == make(sqs, "again", VisibilityTimeout="7", DelaySeconds="0") == url
    arguments = {"QueueName": "again", "Attributes": {"VisibilityTimeout": "8"}}
    assert refusal(sqs.create_queue, **arguments) == ("QueueAlreadyExists", "QueueNameExists", 400)


def test_attributes_are_shown(sqs: Any) -> None:
    url = make(sqs, "shown", VisibilityTimeout="7")
    sqs.send_message(QueueUrl=url, MessageBody="now")
    sqs.send_message(QueueUrl=url, MessageBody="later", DelaySeconds=900)
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert attributes["VisibilityTimeout"] == "7"
    assert attributes["QueueArn"] == "arn:aws:sqs:us-east-1:000000000000:shown"
    assert attributes["ApproximateNumberOfMessages"] == "1"
    assert attributes["ApproximateNumberOfMessagesDelayed"] == "1"
    receive(sqs, url)
    asked = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    counts = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=asked)["Attributes"]
    assert counts == {"ApproximateNumberOfMessages": "0", "ApproximateNumberOfMessagesNotVisible": "1"}
    assert "Attributes" not in sqs.get_queue_attributes(QueueUrl=url)


@pytest.mark.parametrize("form", ["http://elsewhere:1/000000000000/{}", "arn:aws:sqs:us-east-1:000000000000:{}", "{}"])
def test_a_queue_is_found_by_path_arn_or_name(sqs: Any, server: Running, form: str) -> None:
    make(sqs, "forms")
    body = json.dumps({"QueueUrl": form.format("forms"), "MessageBody": "x"}).encode()
    headers = {"X-Amz-Target": "AmazonSQS.SendMessage", "Content-Type": "application/x-amz-json-1.0"}
    request = urllib.request.Request(server.endpoint, body, headers)
    with urllib.request.urlopen(request) as reply:
        assert reply.status == 200
        assert len(reply.headers["x-amzn-RequestId"]) == 36


# messages


def test_a_message_is_sent_received_and_deleted(sqs: Any, url: str) -> None:
    body = 'a "quoted" line\n\tand grüße 🎉'
    sent = sqs.send_message(
        QueueUrl=url,
        MessageBody=body,
        MessageAttributes={
            "text": {"DataType": "String", "StringValue": "x"},
            "bytes": {"DataType": "Binary", "BinaryValue": b"\x00\x01"},
        },
    )
    assert sent["MD5OfMessageBody"] == hashlib.md5(body.encode()).hexdigest()
    (message,) = receive(sqs, url, AttributeNames=["All"], MessageAttributeNames=["All"])
    assert (message["Body"], message["MessageId"]) == (body, sent["MessageId"])
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    assert message["MessageAttributes"]["bytes"]["BinaryValue"] == b"\x00\x01"
    assert message["Attributes"]["ApproximateReceiveCount"] == "1"
    assert abs(int(message["Attributes"]["SentTimestamp"]) / 1000 - time.time()) < 60
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    counts = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert counts["ApproximateNumberOfMessagesNotVisible"] == "0"


def test_batches(sqs: Any, url: str) -> None:
    entries = [{"Id": str(number), "MessageBody": f"body {number}"} for number in range(10)]
    entries[3]["MessageBody"] = "bad \x01 character"
    sent = sqs.send_message_batch(QueueUrl=url, Entries=entries)
    assert [each["Id"] for each in sent["Successful"]] == list("012456789")
    (failed,) = sent["Failed"]
    assert (failed["Id"], failed["Code"], failed["SenderFault"]) == ("3", "InvalidMessageContents", True)
    messages = receive(sqs, url)
    assert sorted(bodies(messages)) == sorted(f"body {number}" for number in range(10) if number != 3)
    handles = [{"Id": str(n), "ReceiptHandle": each["ReceiptHandle"]} for n, each in enumerate(messages)]
    hidden = [{**each, "VisibilityTimeout": 100} for each in handles]
    assert len(sqs.change_message_visibility_batch(QueueUrl=url, Entries=hidden)["Successful"]) == 9
    handles[0]["ReceiptHandle"] = "garbage"
    gone = sqs.delete_message_batch(QueueUrl=url, Entries=handles)
    assert len(gone["Successful"]) == 8
    assert gone["Failed"][0]["Code"] == "ReceiptHandleIsInvalid"


def test_a_message_comes_back_after_its_visibility_timeout(sqs: Any, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="x")
    (first,) = receive(sqs, url, VisibilityTimeout=1)
    assert receive(sqs, url) == []
    (second,) = receive(sqs, url, WaitTimeSeconds=5, AttributeNames=["ApproximateReceiveCount"])
    assert second["Attributes"]["ApproximateReceiveCount"] == "2"
    assert second["ReceiptHandle"] != first["ReceiptHandle"]
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=second["ReceiptHandle"], VisibilityTimeout=0)
    assert len(receive(sqs, url)) == 1


def test_a_delayed_message_is_not_seen_before_its_time(sqs: Any, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="later", DelaySeconds=1)
    assert receive(sqs, url) == []
    assert bodies(receive(sqs, url, WaitTimeSeconds=5)) == ["later"]


def test_a_long_poll_is_woken_by_a_send(sqs: Any, server: Running, url: str) -> None:
    def send() -> None:
        time.sleep(0.5)
        with server.client() as other:
            other.send_message(QueueUrl=url, MessageBody="wake up")

    sender, started = threading.Thread(target=send), time.monotonic()
    sender.start()
    messages = receive(sqs, url, WaitTimeSeconds=20)
    sender.join()
    assert bodies(messages) == ["wake up"]
    assert 0.4 < time.monotonic() - started < 5


def test_a_long_poll_ends_empty_when_its_time_is_over(sqs: Any, url: str) -> None:
    started = time.monotonic()
    assert receive(sqs, url, WaitTimeSeconds=1) == []
    assert 0.9 < time.monotonic() - started < 5


def test_a_client_that_left_its_long_poll_gets_no_message(sqs: Any, server: Running, url: str) -> None:
    with server.client() as impatient:
        poll = threading.Thread(target=_ignore_errors, args=(impatient, url))
        poll.start()
        time.sleep(0.5)
        impatient.close()
        poll.join()
    sqs.send_message(QueueUrl=url, MessageBody="for somebody who is there")
    assert len(receive(sqs, url, WaitTimeSeconds=2)) == 1


def _ignore_errors(client: Any, url: str) -> None:
    client.meta.config.read_timeout = 1
    try:
        client.receive_message(QueueUrl=url, WaitTimeSeconds=1)
    except ClientError:
        pass


def test_purge_removes_everything(sqs: Any, url: str) -> None:
    for number in range(3):
        sqs.send_message(QueueUrl=url, MessageBody=str(number))
    receive(sqs, url, MaxNumberOfMessages=1)
    sqs.purge_queue(QueueUrl=url)
    counts = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert [counts["ApproximateNumberOfMessages"], counts["ApproximateNumberOfMessagesNotVisible"]] == ["0", "0"]
    assert refusal(sqs.purge_queue, QueueUrl=url) == (
        "AWS.SimpleQueueService.PurgeQueueInProgress",
        "PurgeQueueInProgress",
        403,
    )


def test_a_large_message_makes_it_through(sqs: Any, url: str) -> None:
    body = "ü" * 524_288
    sqs.send_message(QueueUrl=url, MessageBody=body)
    assert bodies(receive(sqs, url)) == [body]


def test_a_dead_letter_queue_takes_what_is_received_too_often(sqs: Any, request: pytest.FixtureRequest) -> None:
    name = name_for(request)
    dead = make(sqs, name + "-dead")
    arn = f"arn:aws:sqs:us-east-1:000000000000:{name}-dead"
    url = make(sqs, name, RedrivePolicy=json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1}))
    sent = sqs.send_message(QueueUrl=url, MessageBody="poison")
    assert len(receive(sqs, url, VisibilityTimeout=0)) == 1
    assert receive(sqs, url) == []
    (message,) = receive(sqs, dead, WaitTimeSeconds=5, AttributeNames=["All"])
    assert message["MessageId"] == sent["MessageId"]
    assert message["Attributes"]["DeadLetterQueueSourceArn"].endswith(f":{name}")
    assert message["Attributes"]["ApproximateReceiveCount"] == "2"


# FIFO


def test_a_fifo_queue_keeps_the_order_of_a_group(sqs: Any, request: pytest.FixtureRequest) -> None:
    url = fifo(sqs, request)
    sequence = []
    for number in range(5):
        sent = sqs.send_message(
            QueueUrl=url, MessageBody=str(number), MessageGroupId="g", MessageDeduplicationId=str(number)
        )
        sequence.append(sent["SequenceNumber"])
    assert sequence == sorted(sequence)
    assert {len(each) for each in sequence} == {20}
    messages = receive(sqs, url, MaxNumberOfMessages=3, AttributeNames=["All"])
    assert bodies(messages) == ["0", "1", "2"]
    assert messages[0]["Attributes"]["SequenceNumber"] == sequence[0]
    assert messages[0]["Attributes"]["MessageGroupId"] == "g"
    assert receive(sqs, url) == []
    for message in messages:
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert bodies(receive(sqs, url)) == ["3", "4"]


def test_a_repeated_send_is_queued_once(sqs: Any, request: pytest.FixtureRequest) -> None:
    url = fifo(sqs, request, ContentBasedDeduplication="true")
    first = sqs.send_message(QueueUrl=url, MessageBody="same", MessageGroupId="g")
    second = sqs.send_message(QueueUrl=url, MessageBody="same", MessageGroupId="g")
    assert first["MessageId"] == second["MessageId"]
    assert bodies(receive(sqs, url)) == ["same"]


def test_fifo_errors(sqs: Any, request: pytest.FixtureRequest) -> None:
    url = fifo(sqs, request)
    assert refusal(sqs.send_message, QueueUrl=url, MessageBody="x")[0] == "MissingParameter"
    assert refusal(sqs.send_message, QueueUrl=url, MessageBody="x", MessageGroupId="g")[0] == "InvalidParameterValue"
    entries = [
        {"Id": "1", "MessageBody": "x", "MessageGroupId": "g", "MessageDeduplicationId": "1"},
        {"Id": "2", "MessageBody": "x", "MessageDeduplicationId": "2"},
    ]
    assert refusal(sqs.send_message_batch, QueueUrl=url, Entries=entries)[0] == "InvalidParameterValue"
    assert receive(sqs, url) == []


# errors


def test_a_queue_that_does_not_exist(sqs: Any, server: Running) -> None:
    missing = f"{server.endpoint}/000000000000/nowhere"
    expected = ("AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist", 400)
    assert refusal(sqs.send_message, QueueUrl=missing, MessageBody="x") == expected
    assert refusal(sqs.receive_message, QueueUrl=missing) == expected
    assert refusal(sqs.delete_queue, QueueUrl=missing) == expected
    with pytest.raises(sqs.exceptions.QueueDoesNotExist):
        sqs.purge_queue(QueueUrl=missing)


def test_bad_batches_fail_as_a_whole(sqs: Any, url: str) -> None:
    def code(*ids: str) -> str:
        entries = [{"Id": each, "MessageBody": "x"} for each in ids]
        return refusal(sqs.send_message_batch, QueueUrl=url, Entries=entries)[0]

    prefix = "AWS.SimpleQueueService."
    assert code() == prefix + "EmptyBatchRequest"
    assert code(*map(str, range(11))) == prefix + "TooManyEntriesInBatchRequest"
    assert code("a", "a") == prefix + "BatchEntryIdsNotDistinct"
    assert code("not allowed") == prefix + "InvalidBatchEntryId"
    large = [{"Id": str(number), "MessageBody": "x" * 600_000} for number in range(2)]
    assert refusal(sqs.send_message_batch, QueueUrl=url, Entries=large)[0] == prefix + "BatchRequestTooLong"
    assert receive(sqs, url) == []


def test_bad_receipts(sqs: Any, url: str) -> None:
    expected = ("ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid", 404)
    assert refusal(sqs.delete_message, QueueUrl=url, ReceiptHandle="garbage") == expected
    other = make(sqs, "other-queue-of-the-receipt")
    sqs.send_message(QueueUrl=other, MessageBody="x")
    (message,) = receive(sqs, other)
    assert refusal(sqs.delete_message, QueueUrl=url, ReceiptHandle=message["ReceiptHandle"]) == expected
    arguments = {"QueueUrl": url, "ReceiptHandle": "garbage", "VisibilityTimeout": 3}
    assert refusal(sqs.change_message_visibility, **arguments) == expected


def test_bad_parameters(sqs: Any, url: str) -> None:
    value = "InvalidParameterValue"
    assert refusal(sqs.receive_message, QueueUrl=url, MaxNumberOfMessages=11)[0] == value
    assert refusal(sqs.receive_message, QueueUrl=url, WaitTimeSeconds=21)[0] == value
    assert refusal(sqs.send_message, QueueUrl=url, MessageBody="x", DelaySeconds=901)[0] == value
    assert refusal(sqs.send_message, QueueUrl=url, MessageBody="\x02")[0] == "InvalidMessageContents"
    assert refusal(sqs.create_queue, QueueName="no spaces")[0] == value
    unknown = {"QueueName": "x", "Attributes": {"Colour": "red"}}
    assert refusal(sqs.create_queue, **unknown)[0] == "InvalidAttributeName"
    assert refusal(sqs.tag_queue, QueueUrl=url, Tags={})[0] == "MissingParameter"


def test_unknown_actions(server: Running) -> None:
    for target, status in (("AmazonSQS.Fly", 400), ("", 404)):
        request = urllib.request.Request(server.endpoint, b"{}", {"X-Amz-Target": target})
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request)
        with caught.value as reply:
            assert reply.status == status
            assert "__type" in json.load(reply)


def test_two_shards_hand_dead_letters_to_each_other(tmp_path: Path) -> None:
    with running(tmp_path / "data", "--shards", "2") as server, server.client() as sqs:
        make(sqs, "dead")
        arn = "arn:aws:sqs:us-east-1:000000000000:dead"
        url = make(sqs, "source", RedrivePolicy=json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1}))
        for number in range(50):
            sqs.send_message(QueueUrl=url, MessageBody=str(number))
        while receive(sqs, url, VisibilityTimeout=0):
            pass
        found = drain(sqs, "dead", patience_s=3)
        assert sorted(map(int, bodies(found))) == list(range(50))
