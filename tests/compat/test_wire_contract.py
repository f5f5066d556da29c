"""What real clients need on the wire, beyond what boto3 sends: Terraform, KEDA, curl, older and odder SDKs."""

import json
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.compat.boto import ARN, bodies, make, receive
from tests.compat.wire import Wire
from tests.compatibility.claims import proves
from tests.process.guarded import Guarded


@pytest.fixture(scope="module")
def wire(server: Guarded) -> Wire:
    return Wire(server)


@proves("dialects-and-paths")
def test_json_and_query_are_answered_at_the_root_and_at_the_queue(wire: Wire, name: str, sqs: Any, url: str) -> None:
    path = f"/000000000000/{name}"
    assert wire.json("SendMessage", QueueUrl=url, MessageBody="1").status == 200
    assert wire.json("SendMessage", path, QueueUrl=url, MessageBody="2").status == 200
    assert wire.form(Action="SendMessage", QueueUrl=url, MessageBody="3").status == 200
    assert wire.form(path, Action="SendMessage", MessageBody="4").status == 200
    assert wire.get("/", Action="SendMessage", QueueUrl=url, MessageBody="5").status == 200
    assert wire.get(path, Action="SendMessage", MessageBody="6").status == 200
    assert wire.presigned(path, Action="SendMessage", MessageBody="7").status == 200
    assert sorted(bodies(receive(sqs, url))) == list("1234567")


@proves("url-of-three-parts")
def test_a_queue_url_is_split_as_terraform_and_keda_do(name: str, url: str) -> None:
    assert urlsplit(url).path.split("/") == ["", "000000000000", name]
    assert re.fullmatch(r"https?://[^/]+/(\d{12})/([A-Za-z0-9_-]{1,80}(\.fifo)?)", url)


@proves("host-of-the-request", "queue-urls")
def test_a_queue_url_has_the_host_that_was_asked(wire: Wire, name: str, url: str) -> None:
    asked = {"Host": "queues.internal:8080", "X-Forwarded-Host": "evil.example"}
    shown = wire.json("GetQueueUrl", headers=asked, QueueName=name).json()["QueueUrl"]
    assert shown == f"http://queues.internal:8080/000000000000/{name}"
    for reference in (
        shown,
        url + "/",
        name,
        ARN + name,
        f"/000000000000/{name}",
        "https://sqs.aws.example/000000000000/" + name,
    ):
        assert wire.json("GetQueueAttributes", QueueUrl=reference).status == 200


@proves("any-region")
def test_a_request_may_be_signed_for_any_region_but_for_no_other_service(wire: Wire, name: str, url: str) -> None:
    assert url
    head = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": "AmazonSQS.GetQueueUrl"}
    body = json.dumps({"QueueName": name})
    for region in ("us-east-1", "eu-central-1", "localhost"):
        assert wire.send("POST", "/", body, head, region=region).status == 200
    assert wire.send("POST", "/", body, head, to="s3").status == 403


@proves("empty-lists")
def test_empty_lists_mean_none_and_unknown_members_nothing(wire: Wire, sqs: Any, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="x")
    lists: dict[str, Any] = {"AttributeNames": [], "MessageSystemAttributeNames": [], "MessageAttributeNames": []}
    received = wire.json("ReceiveMessage", QueueUrl=url, VisibilityTimeout=43200, Later=None, **lists).json()
    assert sorted(received["Messages"][0]) == ["Body", "MD5OfBody", "MessageId", "ReceiptHandle"]
    assert wire.json("GetQueueAttributes", QueueUrl=url, AttributeNames=[]).json() == {}
    assert wire.json("CreateQueue", QueueName=url.rpartition("/")[2], Attributes={}, tags={}).json() == {
        "QueueUrl": url
    }


@proves("errors-in-both-dialects", "Error.QueueDoesNotExist", "Error.InvalidAction")
def test_an_error_in_both_dialects(wire: Wire) -> None:
    refused = wire.json("GetQueueUrl", QueueName="nowhere")
    assert refused.status == 400
    assert refused.json() == {
        "__type": "com.amazonaws.sqs#QueueDoesNotExist",
        "message": "The specified queue does not exist.",
    }
    assert refused.headers["x-amzn-query-error"] == "AWS.SimpleQueueService.NonExistentQueue;Sender"
    assert refused.headers["content-type"] == "application/x-amz-json-1.0"
    refused = wire.form(Action="GetQueueUrl", QueueName="nowhere")
    assert refused.status == 400
    for part in (
        "<Type>Sender</Type><Code>AWS.SimpleQueueService.NonExistentQueue</Code>",
        "<Message>The specified queue does not exist for this wsdl version.</Message><Detail/>",
        f"<RequestId>{refused.headers['x-amzn-requestid']}</RequestId>",
    ):
        assert part in refused.body.decode()
    assert b"<Code>InvalidAction</Code>" in wire.form(Action="Fly").body


@proves("listing")
def test_a_thousand_queues_are_listed_without_a_token(sqs: Any) -> None:
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda number: make(sqs, f"thousand-{number:04}"), range(1001)))
    listed = sqs.list_queues(QueueNamePrefix="thousand-")
    assert listed["QueueUrls"] == made[:1000]
    assert "NextToken" not in listed
    first = sqs.list_queues(QueueNamePrefix="thousand-", MaxResults=1000)
    second = sqs.list_queues(QueueNamePrefix="thousand-", MaxResults=1000, NextToken=first["NextToken"])
    assert first["QueueUrls"] + second["QueueUrls"] == made


@proves("http")
def test_one_connection_carries_pipelined_chunked_and_expecting_requests(server: Guarded) -> None:
    parts = urlsplit(server.endpoint)
    plain = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
    chunked = (
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-amz-json-1.0\r\n"
        b"X-Amz-Target: AmazonSQS.ListQueues\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n"
    )
    expecting = (
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-amz-json-1.0\r\nConnection: close\r\n"
        b"X-Amz-Target: AmazonSQS.ListQueues\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    )
    assert parts.hostname
    with socket.create_connection((parts.hostname, parts.port or 80), timeout=20) as connection:
        connection.sendall(plain * 3 + chunked + expecting)
        received = b""
        while b"100 Continue" not in received:
            received += connection.recv(65_536)
        connection.sendall(b"{}")
        while part := connection.recv(65_536):
            received += part
    statuses = [int(each) for each in re.findall(rb"HTTP/1.1 (\d+)", received)]
    assert statuses == [200, 200, 200, 403, 100, 403]  # the last two are not signed, and refused for that only
    assert received.count(b"MissingAuthenticationToken") >= 2
    assert len(set(re.findall(rb"(?i)x-amzn-requestid: ([0-9a-f-]{36})", received))) >= 2


def test_a_message_is_the_same_in_every_dialect(wire: Wire, sqs: Any, name: str) -> None:
    url = make(sqs, name + "-x")
    body = 'a+b & c=d%41 <x>]]>\r\n\t"quoted" \\ é\U0001f41f'
    assert wire.form(Action="SendMessage", QueueUrl=url, MessageBody=body).status == 200
    assert bodies(receive(sqs, url)) == [body]
