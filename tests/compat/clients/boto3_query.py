"""The last boto3 that spoke Query, with the environment variables that `holdfast env` prints."""

import hashlib
import json
from typing import Any

import boto3
import botocore
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.compat.clients import checks

ODD = "a+b & c=d%41 <x>]]>\r\n\r\t\"quoted\" 'and' \\ \u00e9\u2028\U0001f41f"
ATTRIBUTES = {
    "Colour": {"DataType": "String", "StringValue": "r\u00f6d & <blau>"},
    "Size": {"DataType": "Number.float", "StringValue": "4563.32543234"},
    "Seal": {"DataType": "Binary", "BinaryValue": bytes(range(256))},
}


def code(call: Any, **arguments: Any) -> tuple[str, int]:
    try:
        response = call(**arguments)
    except ClientError as error:
        response = error.response
    assert response["Error"]["Type"] == "Sender", response
    assert response["ResponseMetadata"]["RequestId"], response
    return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]


def a_queue_is_created_found_and_listed(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="query-life", Attributes={"VisibilityTimeout": "7"})["QueueUrl"]
    assert sqs.get_queue_url(QueueName="query-life")["QueueUrl"] == url
    assert sqs.list_queues(QueueNamePrefix="query-life")["QueueUrls"] == [url]
    assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix="nothing-like-it")
    shown = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert shown["VisibilityTimeout"] == "7", shown
    assert shown["QueueArn"].endswith(":query-life"), shown
    assert "Attributes" not in sqs.get_queue_attributes(QueueUrl=url)
    sqs.delete_queue(QueueUrl=url)


def a_message_comes_back_as_it_was_sent(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="query-round")["QueueUrl"]
    sent = sqs.send_message(QueueUrl=url, MessageBody=ODD, MessageAttributes=ATTRIBUTES)
    assert sent["MD5OfMessageBody"] == hashlib.md5(ODD.encode()).hexdigest(), sent
    (message,) = sqs.receive_message(QueueUrl=url, AttributeNames=["All"], MessageAttributeNames=["All"])["Messages"]
    assert message["Body"] == ODD, message
    assert message["MD5OfBody"] == hashlib.md5(message["Body"].encode()).hexdigest(), message
    assert message["MessageId"] == sent["MessageId"]
    assert message["MessageAttributes"] == ATTRIBUTES, message
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    assert message["Attributes"]["ApproximateReceiveCount"] == "1", message
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)
    (again,) = sqs.receive_message(
        QueueUrl=url, AttributeNames=["SentTimestamp"], MessageAttributeNames=["Col.*", "Size"], WaitTimeSeconds=2
    )["Messages"]
    assert list(again["Attributes"]) == ["SentTimestamp"], again
    assert list(again["MessageAttributes"]) == ["Size"], again
    sqs.delete_message(QueueUrl=url, ReceiptHandle=again["ReceiptHandle"])
    assert "Messages" not in sqs.receive_message(QueueUrl=url)


def batches_succeed_and_fail_by_entry(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="query-batch")["QueueUrl"]
    entries: list[dict[str, Any]] = [{"Id": str(n), "MessageBody": f"body {n}"} for n in range(9)]
    entries[3]["MessageAttributes"] = ATTRIBUTES
    entries.append({"Id": "bad", "MessageBody": "\x02"})
    sent = sqs.send_message_batch(QueueUrl=url, Entries=entries)
    assert [each["Id"] for each in sent["Successful"]] == [str(n) for n in range(9)], sent
    assert [(each["Id"], each["SenderFault"]) for each in sent["Failed"]] == [("bad", True)], sent
    messages = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert sorted(each["Body"] for each in messages) == [f"body {n}" for n in range(9)]
    handles = [{"Id": str(n), "ReceiptHandle": each["ReceiptHandle"]} for n, each in enumerate(messages)]
    changed = sqs.change_message_visibility_batch(
        QueueUrl=url, Entries=[{**each, "VisibilityTimeout": 60} for each in handles]
    )
    assert len(changed["Successful"]) == 9, changed
    handles.append({"Id": "bad", "ReceiptHandle": "garbage"})
    deleted = sqs.delete_message_batch(QueueUrl=url, Entries=handles)
    assert len(deleted["Successful"]) == 9, deleted
    assert [each["Code"] for each in deleted["Failed"]] == ["ReceiptHandleIsInvalid"], deleted


def a_fifo_queue_numbers_its_messages(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="query.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    arguments = {"QueueUrl": url, "MessageBody": "x", "MessageGroupId": "g"}
    first = sqs.send_message(**arguments, MessageDeduplicationId="1")
    second = sqs.send_message(**arguments, MessageDeduplicationId="2")
    assert int(second["SequenceNumber"]) > int(first["SequenceNumber"])


def tags_and_attributes_are_set_and_taken_away(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="query-set", tags={"team": "r\u00f6d + 1=a@b", "cost": ""})["QueueUrl"]
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"team": "r\u00f6d + 1=a@b", "cost": ""}
    sqs.tag_queue(QueueUrl=url, Tags={"Team": "other"})
    sqs.untag_queue(QueueUrl=url, TagKeys=["team", "cost"])
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"Team": "other"}
    sqs.untag_queue(QueueUrl=url, TagKeys=["Team"])
    assert "Tags" not in sqs.list_queue_tags(QueueUrl=url)
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"DelaySeconds": "5", "VisibilityTimeout": "6"})
    asked = ["DelaySeconds", "VisibilityTimeout"]
    shown = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=asked)["Attributes"]
    assert shown == {"DelaySeconds": "5", "VisibilityTimeout": "6"}, shown
    sqs.add_permission(QueueUrl=url, Label="one", AWSAccountIds=["111122223333"], Actions=["SendMessage", "PurgeQueue"])
    policy = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"])["Attributes"]["Policy"]
    assert "111122223333" in policy, policy
    assert "PurgeQueue" in policy, policy
    sqs.remove_permission(QueueUrl=url, Label="one")
    assert "Attributes" not in sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"])


def dead_letters_are_moved_back(sqs: Any) -> None:
    dead = sqs.create_queue(QueueName="query-dead")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 3})
    source = sqs.create_queue(QueueName="query-source", Attributes={"RedrivePolicy": policy})["QueueUrl"]
    assert sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == [source]
    shown = sqs.get_queue_attributes(QueueUrl=source, AttributeNames=["QueueArn"])["Attributes"]
    task = sqs.start_message_move_task(SourceArn=arn, DestinationArn=shown["QueueArn"], MaxNumberOfMessagesPerSecond=5)
    assert task["TaskHandle"], task
    (found,) = sqs.list_message_move_tasks(SourceArn=arn)["Results"]
    assert found["SourceArn"] == arn, found
    assert isinstance(found["StartedTimestamp"], int), found
    assert found["MaxNumberOfMessagesPerSecond"] == 5, found


def refusals_have_their_codes(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="query-errors")["QueueUrl"]
    missing = url.replace("query-errors", "nowhere")
    prefix = "AWS.SimpleQueueService."
    assert code(sqs.send_message, QueueUrl=missing, MessageBody="x") == (prefix + "NonExistentQueue", 400)
    assert code(sqs.send_message_batch, QueueUrl=url, Entries=[]) == (prefix + "EmptyBatchRequest", 400)
    assert code(sqs.delete_message, QueueUrl=url, ReceiptHandle="garbage") == ("ReceiptHandleIsInvalid", 404)
    assert code(sqs.receive_message, QueueUrl=url, MaxNumberOfMessages=11) == ("InvalidParameterValue", 400)
    assert code(sqs.send_message, QueueUrl=url, MessageBody="\x02") == ("InvalidMessageContents", 400)
    text = ""
    try:
        sqs.purge_queue(QueueUrl=missing)
    except sqs.exceptions.QueueDoesNotExist as error:
        text = error.response["Error"]["Message"]
    assert text == "The specified queue does not exist for this wsdl version.", text


CHECKS = (
    a_queue_is_created_found_and_listed,
    a_message_comes_back_as_it_was_sent,
    batches_succeed_and_fail_by_entry,
    a_fifo_queue_numbers_its_messages,
    tags_and_attributes_are_set_and_taken_away,
    dead_letters_are_moved_back,
    refusals_have_their_codes,
)

if __name__ == "__main__":
    assert botocore.__version__ == "1.31.80", botocore.__version__
    client = boto3.client("sqs", config=Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=30))
    assert client.meta.service_model.metadata["protocol"] == "query"
    checks.run(CHECKS, client)
