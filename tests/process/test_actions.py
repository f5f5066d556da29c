"""What queues are set to, dead letters and their way back, peeking: boto3 against a real server."""

import hashlib
import itertools
import json
import sqlite3
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from botocore.exceptions import BotoCoreError, ClientError

from holdfast.core.coordination.catalogue import QUEUES, row_of, update
from holdfast.stores.sqlite import SqliteStore
from tests.compatibility.claims import proves
from tests.process.server import Running, running

ARN = "arn:aws:sqs:us-east-1:000000000000:"
PATIENCE_S = 10.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("actions") / "data", "--shards", "2") as server:
        yield server


@pytest.fixture(scope="module")
def sqs(server: Running) -> Iterator[Any]:
    with server.client() as client:
        yield client


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:40]


@pytest.fixture
def url(sqs: Any, name: str) -> str:
    return make(sqs, name)


def make(sqs: Any, name: str, **attributes: str) -> str:
    url: str = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    return url


def redrive(target: str, count: int = 1) -> str:
    return json.dumps({"deadLetterTargetArn": ARN + target, "maxReceiveCount": count})


def attributes(sqs: Any, url: str, *names: str) -> dict[str, str]:
    found: dict[str, str] = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=list(names) or ["All"]).get(
        "Attributes", {}
    )
    return found


def refusal(call: Any, **arguments: Any) -> tuple[str, int, str]:
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    error, meta = caught.value.response["Error"], caught.value.response["ResponseMetadata"]
    return error["Code"], meta["HTTPStatusCode"], error["Message"]


def receive(sqs: Any, url: str, **options: Any) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = sqs.receive_message(
        QueueUrl=url, **{"MaxNumberOfMessages": 10, "AttributeNames": ["All"], **options}
    ).get("Messages", [])
    return messages


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def peek(server: Running, url: str, **members: Any) -> list[dict[str, Any]]:
    body = json.dumps({"QueueUrl": url, **members}).encode()
    headers = {"X-Amz-Target": "Holdfast.PeekMessages", "Content-Type": "application/x-amz-json-1.0"}
    with urllib.request.urlopen(urllib.request.Request(server.endpoint, body, headers)) as reply:
        messages: list[dict[str, Any]] = json.load(reply)["Messages"]
        return messages


# attributes


def test_attributes_are_set_and_read_at_once(sqs: Any, url: str) -> None:
    before = attributes(sqs, url)
    time.sleep(1.1)
    changes = {"VisibilityTimeout": "7", "DelaySeconds": "1", "ReceiveMessageWaitTimeSeconds": "3"}
    sqs.set_queue_attributes(QueueUrl=url, Attributes=changes)
    after = attributes(sqs, url)
    assert after == {**before, **changes, "LastModifiedTimestamp": after["LastModifiedTimestamp"]}
    assert int(after["LastModifiedTimestamp"]) > int(before["LastModifiedTimestamp"])


def test_a_changed_attribute_is_in_force(sqs: Any, url: str) -> None:
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "0", "MaximumMessageSize": "1024"})
    sqs.send_message(QueueUrl=url, MessageBody="x" * 1024)
    assert refusal(sqs.send_message, QueueUrl=url, MessageBody="x" * 1025)[0] == "InvalidParameterValue"
    assert len(receive(sqs, url)) == len(receive(sqs, url)) == 1


def test_nothing_is_set_when_one_attribute_is_wrong(sqs: Any, url: str) -> None:
    before = attributes(sqs, url)
    changes = {"VisibilityTimeout": "7", "DelaySeconds": "901"}
    code, status, text = refusal(sqs.set_queue_attributes, QueueUrl=url, Attributes=changes)
    assert (code, status, text) == ("InvalidAttributeValue", 400, "Invalid value for the parameter DelaySeconds.")
    assert attributes(sqs, url) == before


def test_creating_again_compares_with_what_was_set_since(sqs: Any, name: str, url: str) -> None:
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "7"})
    assert make(sqs, name, VisibilityTimeout="7") == url
    code, _, text = refusal(sqs.create_queue, QueueName=name, Attributes={"VisibilityTimeout": "30"})
    assert code == "QueueAlreadyExists"
    assert text == "A queue already exists with the same name and a different value for attribute VisibilityTimeout"


@proves("Attribute.KmsMasterKeyId", "Attribute.SqsManagedSseEnabled")
def test_a_key_takes_the_place_of_the_servers_own_encryption(sqs: Any, url: str) -> None:
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"KmsMasterKeyId": "alias/mine"})
    wanted = ("KmsMasterKeyId", "SqsManagedSseEnabled", "KmsDataKeyReusePeriodSeconds")
    assert attributes(sqs, url, *wanted) == {"KmsMasterKeyId": "alias/mine", "SqsManagedSseEnabled": "false"}
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"KmsMasterKeyId": ""})
    assert attributes(sqs, url, *wanted) == {"SqsManagedSseEnabled": "false"}


def test_attributes_survive_a_crash(tmp_path: Path) -> None:
    with running(tmp_path / "data") as server:
        with server.client() as sqs:
            dead, url = make(sqs, "dead"), make(sqs, "jobs", RedrivePolicy=redrive("dead", 3))
            changes = {"VisibilityTimeout": "0", "RedrivePolicy": redrive("dead", 1)}
            sqs.set_queue_attributes(QueueUrl=url, Attributes=changes)
            sqs.tag_queue(QueueUrl=url, Tags={"team": "blue"})
            before = attributes(sqs, url)
        server.kill()
    with running(tmp_path / "data") as server, server.client() as sqs:
        url, dead = (sqs.get_queue_url(QueueName=each)["QueueUrl"] for each in ("jobs", "dead"))
        assert attributes(sqs, url) == before
        assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"team": "blue"}
        sqs.send_message(QueueUrl=url, MessageBody="x")
        assert len(receive(sqs, url)) == 1
        assert receive(sqs, url) == []
        assert len(receive(sqs, dead, WaitTimeSeconds=5)) == 1


def test_a_start_gives_lanes_what_the_catalogue_says(tmp_path: Path) -> None:
    """As after a crash between the two: the lane had learned of a change that nobody was promised."""
    with running(tmp_path / "data") as server:
        with server.client() as sqs:
            sqs.send_message(QueueUrl=make(sqs, "jobs"), MessageBody="x")
        server.stop()
    store = SqliteStore(tmp_path / "data" / "metadata.db")
    (record,) = store.range(QUEUES).records
    row = msgspec.structs.replace(row_of(record), attributes={"VisibilityTimeout": "0"})
    store.transact(update(row))
    store.close()
    with running(tmp_path / "data") as server, server.client() as sqs:
        assert len(receive(sqs, "jobs")) == len(receive(sqs, "jobs")) == 1


def test_a_change_that_the_catalogue_does_not_take_is_taken_back(tmp_path: Path) -> None:
    with running(tmp_path / "data") as server, server.client() as sqs:
        url = make(sqs, "jobs")
        connection = sqlite3.connect(tmp_path / "data" / "metadata.db", isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        changes = {"QueueUrl": url, "Attributes": {"VisibilityTimeout": "0"}}
        with pytest.raises(ClientError) as caught:
            sqs.set_queue_attributes(**changes)
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500
        connection.execute("ROLLBACK")
        connection.close()
        assert attributes(sqs, url, "VisibilityTimeout") == {"VisibilityTimeout": "30"}
        sqs.send_message(QueueUrl=url, MessageBody="x")
        assert (len(receive(sqs, url)), len(receive(sqs, url))) == (1, 0)
        sqs.set_queue_attributes(**changes)
        assert attributes(sqs, url, "VisibilityTimeout") == {"VisibilityTimeout": "0"}


def test_a_crash_between_lane_and_catalogue_leaves_one_configuration(tmp_path: Path) -> None:
    """Killed while the attribute changes back and forth: what is shown is what is in force."""
    for moment_s in (0.1, 0.15, 0.2):
        with running(tmp_path / "data") as server, server.client() as sqs:
            url = make(sqs, "jobs")
            threading.Timer(moment_s, server.kill).start()
            with pytest.raises(BotoCoreError):
                _change_for_ever(sqs, url)
        with running(tmp_path / "data", "--relaxed") as server, server.client() as sqs:
            url = make(sqs, "jobs")
            sqs.purge_queue(QueueUrl=url)
            sqs.send_message(QueueUrl=url, MessageBody="x")
            shown = attributes(sqs, url, "VisibilityTimeout")["VisibilityTimeout"]
            again = 1 if shown == "0" else 0
            assert (len(receive(sqs, url)), len(receive(sqs, url))) == (1, again)


def _change_for_ever(sqs: Any, url: str) -> None:
    for timeout in itertools.cycle(("0", "900")):
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": timeout})


# tags and permissions


def test_tags(sqs: Any, name: str) -> None:
    url = sqs.create_queue(QueueName=name, tags={"team": "blue", "Team": ""})["QueueUrl"]
    sqs.tag_queue(QueueUrl=url, Tags={"team": "red"})
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"team": "red", "Team": ""}
    sqs.untag_queue(QueueUrl=url, TagKeys=["team", "never set"])
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"Team": ""}
    sqs.untag_queue(QueueUrl=url, TagKeys=["Team"])
    assert "Tags" not in sqs.list_queue_tags(QueueUrl=url)
    many = {str(number): "" for number in range(51)}
    assert refusal(sqs.tag_queue, QueueUrl=url, Tags=many)[2] == f"Too many tags added for queue {name}."
    assert "Tags" not in sqs.list_queue_tags(QueueUrl=url)


def test_permissions_are_statements_of_the_policy(sqs: Any, name: str, url: str) -> None:
    sqs.add_permission(QueueUrl=url, Label="one", AWSAccountIds=["123456789012"], Actions=["SendMessage"])
    assert json.loads(attributes(sqs, url, "Policy")["Policy"]) == {
        "Version": "2008-10-17",
        "Id": f"{ARN}{name}/SQSDefaultPolicy",
        "Statement": [
            {
                "Sid": "one",
                "Effect": "Allow",
                "Principal": {"AWS": "arn:aws:iam::123456789012:root"},
                "Action": "SQS:SendMessage",
                "Resource": ARN + name,
            }
        ],
    }
    again = {"QueueUrl": url, "Label": "one", "AWSAccountIds": ["123456789012"], "Actions": ["SendMessage"]}
    assert refusal(sqs.add_permission, **again)[2].endswith("Reason: Already exists.")
    many = {**again, "Label": "two", "Actions": ["SendMessage"] * 8}
    assert refusal(sqs.add_permission, **many)[:2] == ("OverLimit", 403)
    assert refusal(sqs.remove_permission, QueueUrl=url, Label="two")[2].endswith("Reason: can't find label.")
    sqs.remove_permission(QueueUrl=url, Label="one")
    assert "Policy" not in attributes(sqs, url)


def test_a_policy_is_read_before_it_is_kept(sqs: Any, name: str, url: str) -> None:
    statement = {"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Resource": ARN + name}
    policy = json.dumps({"Version": "2012-10-17", "Statement": statement}, indent=1)
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
    assert attributes(sqs, url, "Policy") == {"Policy": policy}
    nonsense = {
        "QueueUrl": url,
        "Attributes": {"Policy": '{"Version":"2012-10-17","Statement":[{"Effect":"Perhaps"}]}'},
    }
    assert refusal(sqs.set_queue_attributes, **nonsense)[0] == "InvalidAttributeValue"
    assert attributes(sqs, url, "Policy") == {"Policy": policy}


# dead letters


def test_sources_of_a_dead_letter_queue_are_listed_in_pages(sqs: Any, name: str, url: str) -> None:
    sources = [make(sqs, f"{name}-{number}", RedrivePolicy=redrive(name)) for number in range(3)]
    assert sqs.list_dead_letter_source_queues(QueueUrl=url)["queueUrls"] == sources
    first = sqs.list_dead_letter_source_queues(QueueUrl=url, MaxResults=2)
    second = sqs.list_dead_letter_source_queues(QueueUrl=url, MaxResults=2, NextToken=first["NextToken"])
    assert first["queueUrls"] + second["queueUrls"] == sources
    assert "NextToken" not in second
    sqs.set_queue_attributes(QueueUrl=sources[0], Attributes={"RedrivePolicy": ""})
    assert "RedrivePolicy" not in attributes(sqs, sources[0])
    sqs.delete_queue(QueueUrl=sources[1])
    assert sqs.list_dead_letter_source_queues(QueueUrl=url)["queueUrls"] == sources[2:]
    assert sqs.list_dead_letter_source_queues(QueueUrl=sources[0]).get("queueUrls", []) == []


@proves("Attribute.RedriveAllowPolicy", "dead-letter-policies")
def test_a_dead_letter_queue_may_refuse_its_sources(sqs: Any, name: str) -> None:
    dead, url = make(sqs, name + "-dead"), make(sqs, name)
    arguments = {"QueueUrl": url, "Attributes": {"RedrivePolicy": redrive(name + "-dead")}}
    for policy, is_allowed in [
        ({"redrivePermission": "denyAll"}, False),
        ({"redrivePermission": "byQueue", "sourceQueueArns": [ARN + "other"]}, False),
        ({"redrivePermission": "byQueue", "sourceQueueArns": [ARN + name]}, True),
        ({"redrivePermission": "allowAll"}, True),
    ]:
        sqs.set_queue_attributes(QueueUrl=dead, Attributes={"RedriveAllowPolicy": json.dumps(policy)})
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": ""})
        if is_allowed:
            sqs.set_queue_attributes(**arguments)
        else:
            assert refusal(sqs.set_queue_attributes, **arguments)[0] == "InvalidParameterValue"


def test_a_queue_may_take_its_own_dead_letters(sqs: Any, name: str) -> None:
    url = make(sqs, name, RedrivePolicy=redrive(name))
    sent = sqs.send_message(QueueUrl=url, MessageBody="round and round")
    assert len(receive(sqs, url, VisibilityTimeout=0)) == 1
    assert receive(sqs, url, VisibilityTimeout=0) == []
    (message,) = receive(sqs, url, WaitTimeSeconds=5)
    assert message["MessageId"] == sent["MessageId"]
    assert message["Attributes"]["DeadLetterQueueSourceArn"] == ARN + name


def test_a_source_works_on_when_its_dead_letter_queue_is_gone(tmp_path: Path) -> None:
    with running(tmp_path / "data", "--relaxed") as server, server.client() as sqs:
        dead = make(sqs, "dead")
        url = make(sqs, "jobs", RedrivePolicy=redrive("dead"), VisibilityTimeout="0")
        sqs.delete_queue(QueueUrl=dead)
        sqs.send_message(QueueUrl=url, MessageBody="x")
        for count in (1, 2, 3):
            (message,) = receive(sqs, url)
            assert message["Attributes"]["ApproximateReceiveCount"] == str(count)
        assert attributes(sqs, url, "RedrivePolicy") == {"RedrivePolicy": redrive("dead")}
        dead = make(sqs, "dead")  # the policy speaks of a name: a new queue of that name takes the letters
        assert receive(sqs, url) == []
        assert len(receive(sqs, dead, WaitTimeSeconds=5)) == 1


def test_a_dead_letter_remembers_a_queue_that_is_gone(tmp_path: Path) -> None:
    with running(tmp_path / "data") as server:
        with server.client() as sqs:
            dead, url = make(sqs, "dead"), make(sqs, "jobs", RedrivePolicy=redrive("dead"))
            bury(sqs, url, dead, 1)
            sqs.delete_queue(QueueUrl=url)
            (message,) = receive(sqs, dead, VisibilityTimeout=0)
            assert message["Attributes"]["DeadLetterQueueSourceArn"] == ARN + "jobs"
        server.stop()
    with running(tmp_path / "data") as server, server.client() as sqs:
        (message,) = receive(sqs, "dead")
        assert message["Attributes"]["DeadLetterQueueSourceArn"] == ARN + "jobs"


@proves("relaxed-rules")
def test_relaxed_rules_have_no_waiting_times(tmp_path: Path) -> None:
    with running(tmp_path / "data", "--relaxed") as server, server.client() as sqs:
        for _ in range(2):
            url = make(sqs, "jobs", MessageRetentionPeriod="1")
            sqs.purge_queue(QueueUrl=url)
            sqs.purge_queue(QueueUrl=url)
            sqs.delete_queue(QueueUrl=url)
        server.stop()
    with running(tmp_path / "data") as server, server.client() as sqs:
        arguments = {"QueueName": "jobs", "Attributes": {"MessageRetentionPeriod": "1"}}
        assert refusal(sqs.create_queue, **arguments)[0] == "InvalidAttributeValue"


# move tasks


def bury(sqs: Any, url: str, dead: str, count: int) -> None:
    """Sends messages and lets them become dead letters."""
    for number in range(count):
        sqs.send_message(QueueUrl=url, MessageBody=str(number))
    until(lambda: receive(sqs, url, VisibilityTimeout=0) == [] and _visible(sqs, dead) == count)


def _visible(sqs: Any, url: str) -> int:
    return int(attributes(sqs, url, "ApproximateNumberOfMessages")["ApproximateNumberOfMessages"])


def tasks(sqs: Any, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = sqs.list_message_move_tasks(SourceArn=ARN + name, MaxResults=10)["Results"]
    return found


def test_dead_letters_go_back_to_where_they_came_from(sqs: Any, name: str) -> None:
    dead, url = make(sqs, name + "-dead"), make(sqs, name, RedrivePolicy=redrive(name + "-dead"))
    bury(sqs, url, dead, 3)
    assert "TaskHandle" in sqs.start_message_move_task(SourceArn=ARN + name + "-dead")
    until(lambda: tasks(sqs, name + "-dead")[0]["Status"] == "COMPLETED")
    (task,) = tasks(sqs, name + "-dead")
    assert task.keys().isdisjoint(["TaskHandle", "DestinationArn", "MaxNumberOfMessagesPerSecond", "FailureReason"])
    assert (task["ApproximateNumberOfMessagesMoved"], task["ApproximateNumberOfMessagesToMove"]) == (3, 3)
    assert task["SourceArn"] == ARN + name + "-dead"
    messages = receive(sqs, url)
    assert sorted(each["Body"] for each in messages) == ["0", "1", "2"]
    assert all(each["Attributes"]["ApproximateReceiveCount"] == "1" for each in messages)


def test_dead_letters_of_a_fifo_queue_and_their_way_back(sqs: Any, name: str) -> None:
    dead = make(sqs, name + "-dead.fifo", FifoQueue="true")
    url = make(sqs, name + ".fifo", FifoQueue="true", RedrivePolicy=redrive(name + "-dead.fifo"))
    sent = [
        sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId="g", MessageDeduplicationId=body)
        for body in ("a", "b")
    ]
    assert [each["Body"] for each in receive(sqs, url, VisibilityTimeout=0)] == ["a", "b"]
    assert receive(sqs, url, VisibilityTimeout=0) == []
    until(lambda: _visible(sqs, dead) == 2)
    messages = receive(sqs, dead, VisibilityTimeout=0)
    assert [each["MessageId"] for each in messages] == [each["MessageId"] for each in sent]
    for message in messages:
        assert message["Attributes"]["MessageGroupId"] == "g"
        assert message["Attributes"]["MessageDeduplicationId"] == message["MessageId"]
        assert message["Attributes"]["DeadLetterQueueSourceArn"] == ARN + name + ".fifo"
    sqs.start_message_move_task(SourceArn=ARN + name + "-dead.fifo")
    until(lambda: tasks(sqs, name + "-dead.fifo")[0]["Status"] == "COMPLETED")
    messages = receive(sqs, url)
    assert [each["Body"] for each in messages] == ["a", "b"]
    assert [each["Attributes"]["MessageDeduplicationId"] for each in messages] == ["a", "b"]
    assert not {each["MessageId"] for each in messages} & {each["MessageId"] for each in sent}


def test_a_move_task_is_cancelled(sqs: Any, name: str) -> None:
    dead, url = make(sqs, name + "-dead"), make(sqs, name, RedrivePolicy=redrive(name + "-dead"))
    other = make(sqs, name + "-other")
    bury(sqs, url, dead, 5)
    source = ARN + name + "-dead"
    started = sqs.start_message_move_task(
        SourceArn=source, DestinationArn=ARN + name + "-other", MaxNumberOfMessagesPerSecond=1
    )
    code, _, text = refusal(sqs.start_message_move_task, SourceArn=source)
    assert (code, text[:37]) == ("InvalidParameterValue", "There is already a task running. Only")
    (task,) = tasks(sqs, name + "-dead")
    assert task["TaskHandle"] == started["TaskHandle"]
    assert (task["Status"], task["MaxNumberOfMessagesPerSecond"]) == ("RUNNING", 1)
    assert task["DestinationArn"] == ARN + name + "-other"
    assert sqs.cancel_message_move_task(TaskHandle=task["TaskHandle"])["ApproximateNumberOfMessagesMoved"] < 5
    until(lambda: tasks(sqs, name + "-dead")[0]["Status"] == "CANCELLED")
    assert "TaskHandle" not in tasks(sqs, name + "-dead")[0]
    assert _visible(sqs, dead) + _visible(sqs, other) == 5
    assert refusal(sqs.cancel_message_move_task, TaskHandle=started["TaskHandle"]) == (
        "ResourceNotFoundException",
        404,
        "Task does not exist.",
    )


def test_a_move_task_fails_when_its_destination_is_deleted(sqs: Any, name: str) -> None:
    dead, url = make(sqs, name + "-dead"), make(sqs, name, RedrivePolicy=redrive(name + "-dead"))
    other = make(sqs, name + "-other")
    bury(sqs, url, dead, 3)
    sqs.start_message_move_task(
        SourceArn=ARN + name + "-dead", DestinationArn=ARN + name + "-other", MaxNumberOfMessagesPerSecond=1
    )
    sqs.delete_queue(QueueUrl=other)
    until(lambda: tasks(sqs, name + "-dead")[0]["Status"] == "FAILED")
    (task,) = tasks(sqs, name + "-dead")
    assert task["FailureReason"] == "AWS.SimpleQueueService.NonExistentQueue"
    assert task["DestinationArn"] == ARN + name + "-other"


def test_move_tasks_that_cannot_be_started_or_found(sqs: Any, name: str) -> None:
    make(sqs, name)
    gone = (
        "ResourceNotFoundException",
        404,
        "The resource that you specified for the SourceArn parameter doesn't exist.",
    )
    assert refusal(sqs.start_message_move_task, SourceArn=ARN + "nowhere") == gone
    assert refusal(sqs.list_message_move_tasks, SourceArn=ARN + "nowhere") == gone
    assert refusal(sqs.start_message_move_task, SourceArn=ARN + name) == (
        "InvalidParameterValue",
        400,
        "Source queue must be configured as a Dead Letter Queue.",
    )
    make(sqs, name + "-source", RedrivePolicy=redrive(name))
    make(sqs, name + ".fifo", FifoQueue="true")
    for destination, text in [
        ("nowhere", "The resource that you specified for the DestinationArn parameter doesn't exist."),
        (name, "Source queue arn and destination queue arn cannot be the same."),
        (name + ".fifo", "The source queue and destination queue must be of the same queue type."),
    ]:
        arguments = {"SourceArn": ARN + name, "DestinationArn": ARN + destination}
        assert refusal(sqs.start_message_move_task, **arguments)[2] == text
    assert tasks(sqs, name) == []
    assert refusal(sqs.cancel_message_move_task, TaskHandle="garbage") == (
        "InvalidParameterValue",
        400,
        "Value for parameter TaskHandle is invalid.",
    )


# extensions


def test_a_peek_shows_everything_and_changes_nothing(sqs: Any, server: Running, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody='in "flight"')
    (received,) = receive(sqs, url)
    sqs.send_message(
        QueueUrl=url,
        MessageBody="waiting",
        MessageAttributes={"colour": {"DataType": "String", "StringValue": "red"}},
    )
    sqs.send_message(QueueUrl=url, MessageBody="later", DelaySeconds=900)
    counts = attributes(sqs, url)
    first, second, third = peek(server, url)
    assert [(each["Body"], each["State"], each["ReceiveCount"]) for each in (first, second, third)] == [
        ('in "flight"', "in flight", 1),
        ("waiting", "visible", 0),
        ("later", "delayed", 0),
    ]
    assert first["MessageId"] == received["MessageId"]
    assert second["MessageAttributes"] == {"colour": {"DataType": "String", "StringValue": "red"}}
    assert second["Attributes"]["ApproximateReceiveCount"] == "0"
    assert peek(server, url, MaxNumberOfMessages=1, After=first["SequenceNumber"]) == [second]
    assert peek(server, url, After=third["SequenceNumber"]) == []
    assert attributes(sqs, url) == counts
    with pytest.raises(urllib.error.HTTPError) as caught:
        peek(server, url, MaxNumberOfMessages=101)
    assert caught.value.code == 400
    caught.value.close()


def test_why_a_message_is_a_dead_letter_is_told_when_asked(sqs: Any, server: Running, name: str) -> None:
    dead, url = make(sqs, name + "-dead"), make(sqs, name, RedrivePolicy=redrive(name + "-dead"))
    bury(sqs, url, dead, 1)
    assert peek(server, dead)[0]["Cause"] == "MaxReceiveCount"
    (message,) = receive(sqs, dead, VisibilityTimeout=0)
    assert "Holdfast.DeadLetterCause" not in message["Attributes"]
    (message,) = receive(sqs, dead, AttributeNames=["Holdfast.DeadLetterCause"])
    assert message["Attributes"] == {"Holdfast.DeadLetterCause": "MaxReceiveCount"}


def test_extension_attributes_are_listed_only_when_set(sqs: Any, url: str) -> None:
    changes = {"Holdfast.MaxMessages": "1", "Holdfast.Overflow": "Refuse", "Holdfast.TimeToLiveSeconds": "60"}
    sqs.set_queue_attributes(QueueUrl=url, Attributes=changes)
    assert {each: text for each, text in attributes(sqs, url).items() if each.startswith("Holdfast.")} == changes
    sqs.send_message(QueueUrl=url, MessageBody="fits")
    assert refusal(sqs.send_message, QueueUrl=url, MessageBody="does not")[:2] == ("OverLimit", 403)
    sqs.set_queue_attributes(QueueUrl=url, Attributes=dict.fromkeys(changes, ""))
    assert not [each for each in attributes(sqs, url) if each.startswith("Holdfast.")]
    sqs.send_message(QueueUrl=url, MessageBody="does now")


def test_what_does_not_fit_becomes_a_dead_letter(sqs: Any, name: str) -> None:
    dead = make(sqs, name + "-dead")
    limits = {"Holdfast.MaxMessages": "1", "Holdfast.Overflow": "DeadLetter"}
    url = make(sqs, name, RedrivePolicy=redrive(name + "-dead"), **limits)
    for body in ("fits", "does not"):
        sqs.send_message(QueueUrl=url, MessageBody=body)
    (message,) = receive(sqs, dead, WaitTimeSeconds=5, AttributeNames=["Holdfast.DeadLetterCause"])
    assert (message["Body"], message["Attributes"]) == ("does not", {"Holdfast.DeadLetterCause": "QueueFull"})


def test_at_most_once_is_gone_when_handed_out(sqs: Any, name: str) -> None:
    url = make(sqs, name, **{"Holdfast.DeliveryGuarantee": "AtMostOnce"})
    sqs.send_message(QueueUrl=url, MessageBody="x")
    assert len(receive(sqs, url, VisibilityTimeout=0)) == 1
    assert receive(sqs, url) == []


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_on_one_host_the_replication_mode_is_kept_and_changes_nothing(sqs: Any, name: str, mode: str) -> None:
    url = make(sqs, name, **{"Holdfast.ReplicationMode": mode})
    assert attributes(sqs, url)["Holdfast.ReplicationMode"] == mode
    sqs.send_message(QueueUrl=url, MessageBody="x")
    assert [message["Body"] for message in receive(sqs, url)] == ["x"]
    with pytest.raises(ClientError, match=r"InvalidAttributeValue.*Holdfast\.ReplicationMode"):
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"Holdfast.ReplicationMode": "both"})
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Holdfast.ReplicationMode": ""})
    assert "Holdfast.ReplicationMode" not in attributes(sqs, url)


def test_identical_requests_are_queued_once(sqs: Any, name: str) -> None:
    url = make(sqs, name, **{"Holdfast.RequestDeduplication": "true"})
    first, second = (sqs.send_message(QueueUrl=url, MessageBody="same") for _ in range(2))
    assert first["MessageId"] == second["MessageId"]
    assert _visible(sqs, url) == 1


def test_a_message_has_its_own_time_to_live(sqs: Any, url: str) -> None:
    lives = {"Holdfast.TimeToLiveSeconds": {"DataType": "Number", "StringValue": "1"}}
    sqs.send_message(QueueUrl=url, MessageBody="short", MessageAttributes=lives)
    (message,) = receive(sqs, url, VisibilityTimeout=0, MessageAttributeNames=["All"])
    assert message["MessageAttributes"] == lives
    until(lambda: receive(sqs, url, VisibilityTimeout=0) == [])
    wrong = {"Holdfast.TimeToLiveSeconds": {"DataType": "Number", "StringValue": "1.5"}}
    arguments = {"QueueUrl": url, "MessageBody": "x", "MessageAttributes": wrong}
    assert refusal(sqs.send_message, **arguments)[0] == "InvalidParameterValue"


def test_a_name_rests_after_deletion_also_across_a_restart(tmp_path: Path) -> None:
    with running(tmp_path / "data") as server, server.client() as sqs:
        sqs.delete_queue(QueueUrl=make(sqs, "jobs"))
        server.kill()
    with running(tmp_path / "data") as server, server.client() as sqs:
        with pytest.raises(ClientError) as caught:
            make(sqs, "jobs")
        assert caught.value.response["Error"]["Code"] == "AWS.SimpleQueueService.QueueDeletedRecently"
        server.kill()
    with running(tmp_path / "data", "--relaxed") as server, server.client() as sqs:
        assert make(sqs, "jobs")


def test_creating_a_queue_again_with_other_tags_leaves_its_tags_alone(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="tagged-once", tags={"team": "a"})["QueueUrl"]
    assert sqs.create_queue(QueueName="tagged-once", tags={"team": "b", "more": "x"})["QueueUrl"] == url
    assert sqs.create_queue(QueueName="tagged-once")["QueueUrl"] == url
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"team": "a"}


def test_what_another_process_changes_is_read_exactly_and_not_overwritten(tmp_path: Path) -> None:
    with running(tmp_path / "data") as server, server.client() as sqs:
        url = make(sqs, "jobs")
        store = SqliteStore(tmp_path / "data" / "metadata.db")  # as another process has it
        for number in range(5):
            (record,) = store.range(QUEUES).records
            row = msgspec.structs.replace(row_of(record), tags={"number": f"{number}"})
            assert store.transact(update(row))
            assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"number": f"{number}"}
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"DelaySeconds": "9"})
        held = row_of(store.range(QUEUES).records[0])
        assert (held.tags, held.attributes) == ({"number": "4"}, {"DelaySeconds": "9"})
        changed = msgspec.structs.replace(held, attributes={"DelaySeconds": "8", "VisibilityTimeout": "7"})
        assert store.transact(update(changed))
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"DelaySeconds": "3"})
        assert attributes(sqs, url, "DelaySeconds", "VisibilityTimeout") == {
            "DelaySeconds": "3",
            "VisibilityTimeout": "7",
        }
        store.close()
