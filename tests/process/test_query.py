"""The Query dialect on a real server: requests as one types them. tests/compat has an SDK that speaks it."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree

import pytest

from tests.compatibility.claims import proves
from tests.process.server import Running, running

SPACE = "{http://queue.amazonaws.com/doc/2012-11-05/}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("holdfast") / "data") as server:
        yield server


@pytest.fixture(scope="module")
def url(server: Running) -> str:
    """A queue that was made by hand."""
    status, reply = ask(server.endpoint, Action="CreateQueue", QueueName="by-hand", Version="2012-11-05")
    assert status == 200
    found = ElementTree.fromstring(reply).findtext(f"{SPACE}CreateQueueResult/{SPACE}QueueUrl")
    assert found == f"{server.endpoint}/000000000000/by-hand"
    return found


def ask(url: str, *, method: str = "GET", accept: str = "*/*", **parameters: str) -> tuple[int, bytes]:
    text = urlencode(parameters)
    form = text.encode() if method == "POST" else None
    target = url if method == "POST" or not text else f"{url}?{text}"
    request = urllib.request.Request(target, form, {"Accept": accept}, method=method)
    try:
        with urllib.request.urlopen(request) as reply:
            return reply.status, reply.read()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read()


def code(reply: tuple[int, bytes]) -> tuple[int, str | None]:
    return reply[0], ElementTree.fromstring(reply[1]).findtext(f"{SPACE}Error/{SPACE}Code")


@proves("dialects-and-paths")
def test_a_queue_url_answers_get_and_post(url: str) -> None:
    body = "1 + 1 = 2\r\n\u00e9"
    status, _ = ask(url, Action="SendMessage", MessageBody=body)
    assert status == 200
    status, reply = ask(url + "/", method="POST", Action="ReceiveMessage", **{"AttributeName.1": "All"})
    assert status == 200
    root = ElementTree.fromstring(reply)
    assert root.tag == SPACE + "ReceiveMessageResponse"
    assert root.findtext(f"{SPACE}ReceiveMessageResult/{SPACE}Message/{SPACE}Body") == body
    handle = root.findtext(f"{SPACE}ReceiveMessageResult/{SPACE}Message/{SPACE}ReceiptHandle") or ""
    assert b"Result>" not in ask(url, Action="DeleteMessage", ReceiptHandle=handle)[1]
    assert b"<ReceiveMessageResult/>" in ask(url, Action="ReceiveMessage")[1]


def test_the_request_id_is_in_head_and_body(server: Running) -> None:
    for parameters in ("Action=ListQueues", "Action=Fly"):
        try:
            reply: Any = urllib.request.urlopen(f"{server.endpoint}/?{parameters}")
        except urllib.error.HTTPError as refusal:
            reply = refusal
        with reply:
            assert reply.headers["Content-Type"] == "text/xml"
            assert f"<RequestId>{reply.headers['x-amzn-RequestId']}</RequestId>".encode() in reply.read()


@proves("queue-urls")
def test_a_parameter_names_another_queue_than_the_path(server: Running, url: str) -> None:
    missing = f"{server.endpoint}/000000000000/missing"
    assert code(ask(missing, Action="PurgeQueue")) == (400, "AWS.SimpleQueueService.NonExistentQueue")
    assert ask(missing, Action="GetQueueAttributes", QueueUrl=url, AttributeName="All")[0] == 200


def test_what_a_queue_url_does_not_answer(server: Running, url: str) -> None:
    for action in ("CreateQueue", "ListQueues", "Fly"):
        assert code(ask(url, Action=action, QueueName="x")) == (400, "InvalidAction")
    assert ask(url, Action="GetQueueUrl", QueueName="by-hand")[0] == 200
    for accept in ("*/*", "application/json"):
        for where in (url, server.endpoint):
            assert ask(where, accept=accept) == (404, b"<UnknownOperationException/>")
    assert ask(url, method="PUT", Action="PurgeQueue")[0] == 404


def test_bad_parameters(url: str) -> None:
    expected = (400, "InvalidParameterValue")
    assert code(ask(url, Action="ReceiveMessage", MaxNumberOfMessages="ten")) == expected
    assert code(ask(url, Action="ReceiveMessage", WaitTimeSeconds="21")) == expected
    assert code(ask(url, Action="SendMessage")) == (400, "MissingParameter")
    assert code(ask(url, Action="SendMessage", MessageBody="\x02")) == (400, "InvalidMessageContents")
    assert code(ask(url + "?Action=SendMessage&MessageBody=%ff")) == (400, "MalformedInput")


def test_json_for_those_who_accept_it(server: Running, url: str) -> None:
    status, reply = ask(server.endpoint, accept="application/json", Action="ListQueues", QueueNamePrefix="by-hand")
    assert status == 200
    assert json.loads(reply)["ListQueuesResponse"]["ListQueuesResult"]["queueUrls"] == [url]


@proves("trace-header", "SystemAttribute.AWSTraceHeader")
@pytest.mark.parametrize("action", ["SendMessage", "SendMessageBatch"])
def test_the_trace_header_of_a_request_goes_with_its_message(server: Running, url: str, action: str) -> None:
    trace = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
    form = {"MessageBody": "x", "SendMessageBatchRequestEntry.1.Id": "1"}
    form |= {"SendMessageBatchRequestEntry.1.MessageBody": "x", "Action": action}
    request = urllib.request.Request(url, urlencode(form).encode(), {"X-Amzn-Trace-Id": trace})
    with urllib.request.urlopen(request) as reply:
        assert reply.status == 200
    with server.client() as sqs:
        (message,) = sqs.receive_message(QueueUrl=url, MessageSystemAttributeNames=["AWSTraceHeader"])["Messages"]
        assert message["Attributes"] == {"AWSTraceHeader": trace}
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


def test_quotes_sent_in_a_form_come_back_in_json(server: Running, url: str) -> None:
    """What one dialect sends, the other receives: a form has no backslashes, its text still needs escaping."""
    body = 'a "quoted" \\ text\r\n'
    assert ask(url, method="POST", Action="SendMessage", MessageBody=body)[0] == 200
    with server.client() as sqs:
        (message,) = sqs.receive_message(QueueUrl=url)["Messages"]
        assert message["Body"] == body
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
