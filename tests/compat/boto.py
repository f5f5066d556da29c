"""Short forms for tests that talk through boto3."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

ARN = "arn:aws:sqs:us-east-1:000000000000:"
PATIENCE_S = 10.0


def make(sqs: Any, name: str, **attributes: str) -> str:
    url: str = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    return url


def attributes(sqs: Any, url: str, *names: str) -> dict[str, str]:
    reply = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=list(names) or ["All"])
    found: dict[str, str] = reply.get("Attributes", {})
    return found


def receive(sqs: Any, url: str, **options: Any) -> list[dict[str, Any]]:
    reply = sqs.receive_message(QueueUrl=url, **{"MaxNumberOfMessages": 10, **options})
    messages: list[dict[str, Any]] = reply.get("Messages", [])
    return messages


def bodies(messages: list[dict[str, Any]]) -> list[str]:
    return [each["Body"] for each in messages]


def refusal(call: Any, **arguments: Any) -> tuple[str, str, int]:
    """Code, name and HTTP status of the error that a call must raise."""
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    error, meta = caught.value.response["Error"], caught.value.response["ResponseMetadata"]
    assert error["Message"]
    return error["Code"], error.get("QueryErrorCode", ""), meta["HTTPStatusCode"]


def redrive(target: str, count: int = 1) -> str:
    return json.dumps({"deadLetterTargetArn": ARN + target, "maxReceiveCount": count})


def until(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not (value := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return value
