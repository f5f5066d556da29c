"""Every action on queues with every member of its request and reply: boto3 1.44, signed."""

import json
import time
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.compat.boto import ARN, attributes, make, redrive, refusal
from tests.compatibility.claims import proves
from tests.process.guarded import Guarded

PLAIN = {
    "ApproximateNumberOfMessages": "0",
    "ApproximateNumberOfMessagesDelayed": "0",
    "ApproximateNumberOfMessagesNotVisible": "0",
    "DelaySeconds": "0",
    "MaximumMessageSize": "1048576",
    "MessageRetentionPeriod": "345600",
    "ReceiveMessageWaitTimeSeconds": "0",
    "SqsManagedSseEnabled": "true",
    "VisibilityTimeout": "30",
}
FIFO = {
    "FifoQueue": "true",
    "ContentBasedDeduplication": "false",
    "DeduplicationScope": "queue",
    "FifoThroughputLimit": "perQueue",
}


@proves(
    "CreateQueue", "CreateQueue.*", "CreateQueue:*", "GetQueueUrl", "GetQueueUrl.*", "GetQueueUrl:*", "create-again"
)
def test_a_queue_is_created_and_found(sqs: Any, server: Guarded, name: str) -> None:
    arguments = {"QueueName": name, "Attributes": {"VisibilityTimeout": "7"}, "tags": {"team": "blue"}}
    url = sqs.create_queue(**arguments)["QueueUrl"]
    assert url == f"{server.endpoint}/000000000000/{name}"
    assert sqs.create_queue(**arguments)["QueueUrl"] == url
    assert sqs.create_queue(QueueName=name)["QueueUrl"] == url
    assert sqs.get_queue_url(QueueName=name)["QueueUrl"] == url
    assert sqs.get_queue_url(QueueName=name, QueueOwnerAWSAccountId="000000000000")["QueueUrl"] == url
    with pytest.raises(ClientError):
        sqs.get_queue_url(QueueName=name, QueueOwnerAWSAccountId="123456789012")
    assert attributes(sqs, url, "VisibilityTimeout") == {"VisibilityTimeout": "7"}
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"team": "blue"}


@proves("ListQueues", "ListQueues.*", "ListQueues:*", "listing")
def test_queues_are_listed_in_pages(sqs: Any, name: str) -> None:
    made = [make(sqs, f"{name}-{number}") for number in range(3)]
    first = sqs.list_queues(QueueNamePrefix=name, MaxResults=2)
    second = sqs.list_queues(QueueNamePrefix=name, MaxResults=2, NextToken=first["NextToken"])
    assert first["QueueUrls"] + second["QueueUrls"] == made
    assert "NextToken" not in second
    everything = sqs.list_queues(QueueNamePrefix="")
    assert set(made) <= set(everything["QueueUrls"])
    assert "NextToken" not in everything
    assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix=name + "-none")


@proves(
    *("GetQueueAttributes", "GetQueueAttributes.*", "GetQueueAttributes:*", "attributes-of-a-queue", "Attribute.All"),
    *("Attribute.ApproximateNumberOfMessages", "Attribute.ApproximateNumberOfMessagesNotVisible"),
    *("Attribute.ApproximateNumberOfMessagesDelayed", "Attribute.CreatedTimestamp", "Attribute.LastModifiedTimestamp"),
    *("Attribute.QueueArn", "Attribute.SqsManagedSseEnabled"),
)
def test_attributes_of_a_new_queue_are_those_of_aws(sqs: Any, name: str, url: str) -> None:
    shown = attributes(sqs, url)
    times = [int(shown.pop(each)) for each in ("CreatedTimestamp", "LastModifiedTimestamp")]
    assert times[0] == times[1]
    assert abs(times[0] - time.time()) < 60
    assert shown == {**PLAIN, "QueueArn": ARN + name}
    assert "Attributes" not in sqs.get_queue_attributes(QueueUrl=url)
    assert attributes(sqs, url, "QueueArn") == {"QueueArn": ARN + name}
    fifo = attributes(sqs, make(sqs, name + ".fifo", FifoQueue="true"))
    assert {key: fifo[key] for key in {*PLAIN, *FIFO}} == PLAIN | FIFO
    sqs.send_message_batch(
        QueueUrl=url,
        Entries=[{"Id": str(n), "MessageBody": "x", "DelaySeconds": 900 * (n == 0)} for n in range(4)],
    )
    sqs.receive_message(QueueUrl=url)
    counts = ("", "NotVisible", "Delayed")
    shown = attributes(sqs, url)
    assert [shown[f"ApproximateNumberOfMessages{each}"] for each in counts] == ["2", "1", "1"]


@proves(
    *("SetQueueAttributes", "SetQueueAttributes.*", "attributes-round-trip", "Attribute.VisibilityTimeout"),
    *("Attribute.MaximumMessageSize", "Attribute.MessageRetentionPeriod", "Attribute.DelaySeconds"),
    *("Attribute.ReceiveMessageWaitTimeSeconds", "Attribute.Policy", "Attribute.RedrivePolicy"),
    *("Attribute.RedriveAllowPolicy", "Attribute.KmsMasterKeyId", "Attribute.KmsDataKeyReusePeriodSeconds"),
)
def test_attributes_that_are_set_are_read_at_once_as_terraform_does(sqs: Any, name: str, url: str) -> None:
    make(sqs, name + "-dead")
    statement = {"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Resource": ARN + name}
    allow = {"redrivePermission": "byQueue", "sourceQueueArns": [ARN + name]}
    wanted = {
        "VisibilityTimeout": "43200",
        "MaximumMessageSize": "1024",
        "MessageRetentionPeriod": "1209600",
        "DelaySeconds": "900",
        "ReceiveMessageWaitTimeSeconds": "20",
        "Policy": json.dumps({"Version": "2012-10-17", "Statement": [statement]}),
        "RedrivePolicy": redrive(name + "-dead", 1000),
        "RedriveAllowPolicy": json.dumps(allow),
        "KmsMasterKeyId": "alias/mine",
        "KmsDataKeyReusePeriodSeconds": "86400",
    }
    sqs.set_queue_attributes(QueueUrl=url, Attributes=wanted)
    for _ in range(3):
        assert read(wanted) == read({key: attributes(sqs, url)[key] for key in wanted})
    unset = dict.fromkeys(("Policy", "RedrivePolicy", "RedriveAllowPolicy", "KmsMasterKeyId"), "")
    sqs.set_queue_attributes(QueueUrl=url, Attributes=unset)
    assert attributes(sqs, url).keys().isdisjoint(unset)


def read(values: dict[str, str]) -> dict[str, Any]:
    """Documents by their meaning."""
    return {key: json.loads(value) if value.startswith("{") else value for key, value in values.items()}


@proves(
    *("Attribute.FifoQueue", "Attribute.ContentBasedDeduplication", "Attribute.DeduplicationScope"),
    *("Attribute.FifoThroughputLimit", "queue-names"),
)
def test_attributes_of_a_fifo_queue(sqs: Any, name: str) -> None:
    wanted = {
        "FifoQueue": "true",
        "ContentBasedDeduplication": "true",
        "DeduplicationScope": "messageGroup",
        "FifoThroughputLimit": "perMessageGroupId",
    }
    url = make(sqs, name + ".fifo", **wanted)
    assert attributes(sqs, url, *wanted) == wanted
    sqs.send_message(QueueUrl=url, MessageBody="x", MessageGroupId="a")
    sqs.send_message(QueueUrl=url, MessageBody="x", MessageGroupId="b")
    sqs.send_message(QueueUrl=url, MessageBody="x", MessageGroupId="a")
    assert attributes(sqs, url, "ApproximateNumberOfMessages") == {"ApproximateNumberOfMessages": "2"}
    for wrong in ({"QueueName": name + ".fifo2"}, {"QueueName": name, "Attributes": {"FifoQueue": "true"}}):
        assert refusal(sqs.create_queue, **wrong)[::2] == ("InvalidParameterValue", 400)


@proves(
    *("TagQueue", "TagQueue.*", "UntagQueue", "UntagQueue.*", "ListQueueTags", "ListQueueTags.*", "ListQueueTags:*"),
    "tags",
)
def test_tags_are_set_listed_and_taken_away(sqs: Any, url: str) -> None:
    assert "Tags" not in sqs.list_queue_tags(QueueUrl=url)
    sqs.tag_queue(QueueUrl=url, Tags={"team": "blue", "Team": "red", "empty": ""})
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"team": "blue", "Team": "red", "empty": ""}
    sqs.untag_queue(QueueUrl=url, TagKeys=["team", "never set"])
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"Team": "red", "empty": ""}
    sqs.untag_queue(QueueUrl=url, TagKeys=["Team", "empty"])
    assert "Tags" not in sqs.list_queue_tags(QueueUrl=url)


@proves("AddPermission", "AddPermission.*", "RemovePermission", "RemovePermission.*", "permissions")
def test_permissions_are_added_and_removed(sqs: Any, name: str, url: str) -> None:
    arguments = {"QueueUrl": url, "Label": "one", "AWSAccountIds": ["123456789012"], "Actions": ["SendMessage"]}
    sqs.add_permission(**arguments)
    policy = json.loads(attributes(sqs, url, "Policy")["Policy"])
    assert (policy["Version"], policy["Id"]) == ("2008-10-17", f"{ARN}{name}/SQSDefaultPolicy")
    assert policy["Statement"] == [
        {
            "Sid": "one",
            "Effect": "Allow",
            "Principal": {"AWS": "arn:aws:iam::123456789012:root"},
            "Action": "SQS:SendMessage",
            "Resource": ARN + name,
        }
    ]
    assert refusal(sqs.add_permission, **arguments)[0] == "InvalidParameterValue"
    sqs.remove_permission(QueueUrl=url, Label="one")
    assert "Policy" not in attributes(sqs, url)


@proves("DeleteQueue", "DeleteQueue.*", "PurgeQueue", "PurgeQueue.*", "purge", "name-reuse")
@proves("Error.PurgeQueueInProgress", "Error.QueueDeletedRecently", "Error.QueueDoesNotExist")
def test_a_queue_is_purged_and_deleted_with_the_sixty_second_rules(sqs: Any, name: str, url: str) -> None:
    for delay in (0, 0, 900):
        sqs.send_message(QueueUrl=url, MessageBody="x", DelaySeconds=delay)
    sqs.receive_message(QueueUrl=url)
    sqs.purge_queue(QueueUrl=url)
    shown = attributes(sqs, url)
    assert {shown[f"ApproximateNumberOfMessages{each}"] for each in ("", "NotVisible", "Delayed")} == {"0"}
    assert refusal(sqs.purge_queue, QueueUrl=url)[1:] == ("PurgeQueueInProgress", 403)
    sqs.delete_queue(QueueUrl=url)
    assert refusal(sqs.get_queue_attributes, QueueUrl=url)[1:] == ("QueueDoesNotExist", 400)
    assert refusal(sqs.create_queue, QueueName=name)[1:] == ("QueueDeletedRecently", 400)
