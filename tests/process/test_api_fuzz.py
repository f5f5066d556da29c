"""Requests of every action with parameters of the right kind and the wrong values, at a real server, in both dialects.
Whatever they are, they are answered, and never with a failure of ours."""

import json
import random
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from botocore.loaders import Loader

from holdfast.protocol.actions import EXTENSIONS
from tests.process.server import Running, running
from tests.process.wrong_requests import ARN, flat, furnish

COUNT = 3000
WORDS = [
    *(
        "jobs",
        "a.fifo",
        "dead",
        "source",
        "new",
        "nowhere",
        "",
        "All",
        "x",
        "a" * 300,
        "é\u2603\U0001f600",
        "\x00",
        "\ufffe",
    ),
    *(ARN + "dead", ARN + "jobs", ARN, "arn:", "http://x/000000000000/jobs", "http://x/", "/", "//", "true", "0", "-1"),
    *("99999999999999999999", "1e9", "{}", "[]", "null", '{"a":', "[" * 3000, "String", "Number", "Binary", "Policy"),
    *(
        "VisibilityTimeout",
        "RedrivePolicy",
        "RedriveAllowPolicy",
        "Holdfast.TimeToLiveSeconds",
        "AWSTraceHeader",
        "%zz",
    ),
    json.dumps({"deadLetterTargetArn": ARN + "dead", "maxReceiveCount": "5"}),
    json.dumps({"Statement": {"Effect": "Allow", "Principal": "*", "Action": "sqs:*", "Resource": "*"}}),
    "bm8=",
]
NUMBERS = [0, 1, -1, 2, 10, 11, 20, 30, 43_200, 2**31, 2**63, -(2**63), 2**64]
LIKELY: dict[str, list[Any]] = {  # so that some requests are right
    "QueueUrl": ["jobs", "jobs", "a.fifo", "dead", "source"],
    "QueueName": ["new", "other.fifo", "jobs", "x-1"],
    "MessageBody": ["hello", "é", "a" * 2000],
    "MessageGroupId": ["g", "h"],
    "MessageDeduplicationId": ["d", "e"],
    "SourceArn": [ARN + "dead"],
    "VisibilityTimeout": [0, 30],
    "DataType": ["String", "Number.int", "Binary"],
    "Label": ["l", "m"],
    "AWSAccountIds": [["123456789012"]],
    "Actions": [["SendMessage"], ["*"]],
    "Attributes": [{"VisibilityTimeout": "5"}, {"DelaySeconds": "0"}],
    "Tags": [{"a": "b"}],
    "Id": ["a", "b", "c", "d", "e"],
}
SLOW = ("WaitTimeSeconds",)  # not what is tested here

Chance = random.Random


def value(model: Any, shape: str, chance: Chance, handle: str) -> Any:
    described = model["shapes"][shape]
    match described["type"]:
        case "structure":
            members, needed = described["members"], described.get("required", ())
            names = [
                each for each in members if each not in SLOW and chance.random() < (0.95 if each in needed else 0.2)
            ]
            return {
                each: chance.choice(LIKELY[each])
                if each in LIKELY and chance.random() < 0.8
                else value(model, members[each]["shape"], chance, handle)
                for each in names
            }
        case "list":
            member = described["member"]["shape"]
            return [value(model, member, chance, handle) for _ in range(chance.choice((0, 1, 1, 2, 11)))]
        case "map":
            keys = {str(value(model, described["key"]["shape"], chance, handle)) for _ in range(chance.randint(0, 3))}
            return {each: value(model, described["value"]["shape"], chance, handle) for each in sorted(keys)}
        case "integer" | "long":
            return chance.choice(NUMBERS)
        case "blob":
            return chance.choice(("", "eA==", "no base64"))
    return chance.choice((handle, *WORDS)) if chance.random() < 0.9 else chance.choice((None, 5, [], {}, True))


def ask(server: Running, action: str, parameters: dict[str, Any], *, is_json: bool) -> int:
    prefix = "Holdfast" if action == "PeekMessages" else "AmazonSQS"
    headers = {"X-Amz-Target": f"{prefix}.{action}", "Content-Type": "application/x-amz-json-1.0"}
    body = json.dumps(parameters).encode()
    if not is_json:
        headers, body = {}, urllib.parse.urlencode({"Action": action, **dict(flat(action, parameters))}).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(server.endpoint, body, headers)) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_whatever_is_asked_is_answered_and_never_with_a_failure_of_ours(tmp_path: Path) -> None:
    model, chance, seen = Loader().load_service_model("sqs", "service-2"), random.Random("api"), set()
    inputs = {name: each["input"]["shape"] for name, each in model["operations"].items()}
    with running(tmp_path / "data", "--relaxed") as server:
        handle = furnish(server)["handle"]
        for number in range(COUNT):
            action = chance.choice([*inputs, *(each.__name__ for each in EXTENSIONS)])
            shape = inputs.get(action, "ListDeadLetterSourceQueuesRequest")
            parameters = value(model, shape, chance, handle)
            status = ask(server, action, parameters, is_json=number % 2 == 0)
            assert status in (200, 400, 403, 404), (action, parameters, server.output()[-2000:])
            seen.add((action, status == 200))
            if number % 100 == 0:
                make_again(server)
        assert "Traceback" not in server.output()
    assert len({action for action, is_fine in seen if is_fine}) > 18  # of 24; the others need what chance does not make


def make_again(server: Running) -> None:
    """Chance deletes queues, too."""
    for name in ("jobs", "dead", "source"):
        assert ask(server, "CreateQueue", {"QueueName": name}, is_json=True) == 200
    fifo = {"QueueName": "a.fifo", "Attributes": {"FifoQueue": "true"}}
    assert ask(server, "CreateQueue", fifo, is_json=True) == 200
