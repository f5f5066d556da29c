"""Dead letters and move tasks with every member of their requests and replies: boto3 1.44, signed."""

import json
from typing import Any

from tests.compat.boto import ARN, attributes, bodies, make, receive, redrive, refusal, until
from tests.compatibility.claims import proves


def bury(sqs: Any, name: str, count: int) -> tuple[str, str]:
    """Queue and dead-letter queue with dead letters."""
    dead, url = make(sqs, name + "-dead"), make(sqs, name, RedrivePolicy=redrive(name + "-dead"), VisibilityTimeout="0")
    for number in range(count):
        sqs.send_message(QueueUrl=url, MessageBody=str(number))
    until(lambda: receive(sqs, url) == [] and visible(sqs, dead) == count)
    return url, dead


def visible(sqs: Any, url: str) -> int:
    return int(attributes(sqs, url, "ApproximateNumberOfMessages")["ApproximateNumberOfMessages"])


def task(sqs: Any, source: str) -> dict[str, Any]:
    found: dict[str, Any] = sqs.list_message_move_tasks(SourceArn=source, MaxResults=10)["Results"][0]
    return found


@proves("ListDeadLetterSourceQueues", "ListDeadLetterSourceQueues.*", "ListDeadLetterSourceQueues:*")
def test_sources_are_listed_in_pages(sqs: Any, name: str, url: str) -> None:
    sources = [make(sqs, f"{name}-{number}", RedrivePolicy=redrive(name)) for number in range(3)]
    first = sqs.list_dead_letter_source_queues(QueueUrl=url, MaxResults=2)
    second = sqs.list_dead_letter_source_queues(QueueUrl=url, MaxResults=2, NextToken=first["NextToken"])
    assert first["queueUrls"] + second["queueUrls"] == sources
    assert "NextToken" not in second


@proves("StartMessageMoveTask", "StartMessageMoveTask.*", "StartMessageMoveTask:*", "move-tasks")
@proves("ListMessageMoveTasks", "ListMessageMoveTasks.*", "ListMessageMoveTasks:*")
@proves(
    "CancelMessageMoveTask", "CancelMessageMoveTask.*", "CancelMessageMoveTask:*", "Error.ResourceNotFoundException"
)
def test_dead_letters_are_moved_until_the_task_is_cancelled_or_fails(sqs: Any, name: str) -> None:
    _, dead = bury(sqs, name, 4)
    other, source = make(sqs, name + "-other"), ARN + name + "-dead"
    move = {"SourceArn": source, "DestinationArn": ARN + name + "-other", "MaxNumberOfMessagesPerSecond": 1}
    handle = sqs.start_message_move_task(**move)["TaskHandle"]
    running = task(sqs, source)
    assert running["TaskHandle"] == handle
    assert (running["Status"], running["MaxNumberOfMessagesPerSecond"]) == ("RUNNING", 1)
    assert (running["SourceArn"], running["DestinationArn"]) == (source, ARN + name + "-other")
    assert running["ApproximateNumberOfMessagesToMove"] == 4
    assert running["StartedTimestamp"] > 0
    assert refusal(sqs.start_message_move_task, **move)[0] == "InvalidParameterValue"
    assert sqs.cancel_message_move_task(TaskHandle=handle)["ApproximateNumberOfMessagesMoved"] < 4
    until(lambda: task(sqs, source)["Status"] == "CANCELLED")
    assert "TaskHandle" not in task(sqs, source)
    assert visible(sqs, dead) + visible(sqs, other) == 4
    assert refusal(sqs.cancel_message_move_task, TaskHandle=handle)[::2] == ("ResourceNotFoundException", 404)
    sqs.start_message_move_task(**move)
    sqs.delete_queue(QueueUrl=other)
    until(lambda: task(sqs, source)["Status"] == "FAILED")
    assert task(sqs, source)["FailureReason"] == "AWS.SimpleQueueService.NonExistentQueue"


@proves("move-tasks", "dead-letters")
def test_dead_letters_go_back_to_where_they_came_from(sqs: Any, name: str) -> None:
    url, _ = bury(sqs, name, 3)
    sqs.start_message_move_task(SourceArn=ARN + name + "-dead")
    until(lambda: task(sqs, ARN + name + "-dead")["Status"] == "COMPLETED")
    assert sorted(bodies(receive(sqs, url, VisibilityTimeout=30))) == ["0", "1", "2"]


@proves("dead-letter-policies", "Error.InvalidParameterValue")
def test_a_policy_that_cannot_work_is_refused(sqs: Any, name: str, url: str) -> None:
    make(sqs, name + "-dead.fifo", FifoQueue="true")
    make(sqs, name + "-closed", RedriveAllowPolicy=json.dumps({"redrivePermission": "denyAll"}))
    for policy in (
        redrive(name + "-dead.fifo"),
        redrive(name + "-nowhere"),
        redrive(name + "-closed"),
        redrive(name, 0),
        redrive(name, 1001),
    ):
        wrong = {"QueueUrl": url, "Attributes": {"RedrivePolicy": policy}}
        assert refusal(sqs.set_queue_attributes, **wrong)[::2] == ("InvalidParameterValue", 400)
    assert "RedrivePolicy" not in attributes(sqs, url)
