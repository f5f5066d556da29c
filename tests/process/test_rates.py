"""Rates on a real server: what is too fast is refused with a hint, and boto3 comes back when the hint says so."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.process.guarded import Guarded, guarded, new_key, run
from tests.process.server import running


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def repeat(call: Callable[[], Any]) -> None:
    for _ in range(100):
        call()


def throttled(call: Callable[[], Any]) -> dict[str, Any]:
    """The refusal of a call that is repeated as fast as it goes."""
    with pytest.raises(ClientError) as caught:
        repeat(call)
    response: dict[str, Any] = caught.value.response
    assert response["Error"]["Code"] == "RequestThrottled"
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 403
    return response


def patient(server: Guarded) -> Any:
    """boto3's standard way to retry."""
    return boto3.client(
        "sqs",
        endpoint_url=server.endpoint,
        region_name="us-east-1",
        aws_access_key_id=server.root[0],
        aws_secret_access_key=server.root[1],
        config=Config(retries={"mode": "standard", "total_max_attempts": 6}),
    )


def test_a_queue_has_its_own_rate_and_the_refusal_says_when_to_retry(data: Path) -> None:
    with guarded(data, "--limit", "queue=1:3") as server, server.client(keys=server.root) as sqs:
        one, two = (sqs.create_queue(QueueName=name)["QueueUrl"] for name in ("one", "two"))
        headers = throttled(lambda: sqs.send_message(QueueUrl=one, MessageBody="x"))["ResponseMetadata"]["HTTPHeaders"]
        assert headers["retry-after"] == "1"
        assert 0 < int(headers["x-amz-retry-after"]) <= 1000
        throttled(lambda: sqs.set_queue_attributes(QueueUrl=one, Attributes={"DelaySeconds": "1"}))
        sqs.send_message(QueueUrl=two, MessageBody="x")
        sqs.list_queues()


def test_boto3_recovers_by_itself(data: Path) -> None:
    with guarded(data, "--limit", "queue=2:2") as server:
        sqs = patient(server)
        url = sqs.create_queue(QueueName="q")["QueueUrl"]
        replies = [sqs.send_message(QueueUrl=url, MessageBody=str(number)) for number in range(6)]
        sqs.close()
        assert any(reply["ResponseMetadata"]["RetryAttempts"] for reply in replies)
        assert len({reply["MessageId"] for reply in replies}) == 6


def test_accounts_are_limited_apart_from_each_other(data: Path) -> None:
    with guarded(data, "--limit", "account=1:2") as server:
        run(server.data, "account", "create", "111111111111")
        other = new_key(server.data, "--account", "111111111111")
        with server.client(keys=server.root) as sqs, server.client(keys=other) as guest:
            url = sqs.create_queue(QueueName="q")["QueueUrl"]
            sqs.add_permission(QueueUrl=url, Label="l", AWSAccountIds=["111111111111"], Actions=["SendMessage"])
            throttled(sqs.list_queues)
            guest.send_message(QueueUrl=url, MessageBody="x")


def test_actions_are_limited_apart_from_each_other(data: Path) -> None:
    with guarded(data, "--limit", "action=1:1") as server, server.client(keys=server.root) as sqs:
        url = sqs.create_queue(QueueName="q")["QueueUrl"]
        throttled(lambda: sqs.send_message(QueueUrl=url, MessageBody="x"))
        sqs.receive_message(QueueUrl=url)


def test_the_query_dialect_has_the_hint_too_and_without_keys_rates_count_as_well(data: Path) -> None:
    with running(data, "--limit", "action=1:1") as server:
        request = urllib.request.Request(
            server.endpoint + "/?Action=ListQueues", headers={"Accept": "application/json"}
        )
        with pytest.raises(urllib.error.HTTPError) as caught:
            repeat(lambda: urllib.request.urlopen(request).close())
        with caught.value as answer:
            assert answer.headers["Retry-After"] == "1"
            assert json.load(answer)["Error"]["Code"] == "RequestThrottled"
