"""No route without authorization: every action, in both dialects, at every path, for everybody who has no right to it.
And which rights an action needs: all of them, whatever else the caller may do.
"""

import base64
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from holdfast.cli import folder
from holdfast.core.coordination.identity import ROOT
from holdfast.metadata.identities import Credentials as Made
from holdfast.metadata.identities import Identities
from holdfast.protocol import actions
from tests.process.guarded import Guarded, Keys, guarded
from tests.process.wrong_requests import ARN, EXTENSIONS, flat

HOME, AWAY = "000000000000", "111111111111"
PATHS = ("/", f"/{HOME}/jobs")
ACTIONS = [each.__name__ for each in (*actions.ACTIONS, *actions.EXTENSIONS)]
ROUTES = [
    (dialect, action, path)
    for action in ACTIONS
    for path in PATHS
    for dialect in ("json", "query")
    if not (dialect == "query" and (action in EXTENSIONS or (path != "/" and action in ("CreateQueue", "ListQueues"))))
]
REDRIVE = json.dumps({"deadLetterTargetArn": ARN + "dead", "maxReceiveCount": 3})


class Said(NamedTuple):
    status: int
    code: str
    text: str


def meant(handle: str) -> dict[str, dict[str, Any]]:
    """Requests that would do something if they were admitted. The URL is that of the first account's queue."""
    url = f"http://localhost/{HOME}/jobs"
    entry = {"Id": "a", "MessageBody": "x", "ReceiptHandle": handle, "VisibilityTimeout": 0}
    return {
        "SendMessage": {"QueueUrl": url, "MessageBody": "x"},
        "SendMessageBatch": {"QueueUrl": url, "Entries": [entry]},
        "ReceiveMessage": {"QueueUrl": url, "VisibilityTimeout": 1},
        "DeleteMessage": {"QueueUrl": url, "ReceiptHandle": handle},
        "DeleteMessageBatch": {"QueueUrl": url, "Entries": [entry]},
        "ChangeMessageVisibility": {"QueueUrl": url, "ReceiptHandle": handle, "VisibilityTimeout": 0},
        "ChangeMessageVisibilityBatch": {"QueueUrl": url, "Entries": [entry]},
        "CreateQueue": {"QueueName": "new", "Attributes": {"RedrivePolicy": REDRIVE}, "tags": {"a": "b"}},
        "GetQueueUrl": {"QueueName": "jobs", "QueueOwnerAWSAccountId": HOME},
        "ListQueues": {},
        "GetQueueAttributes": {"QueueUrl": url, "AttributeNames": ["All"]},
        "SetQueueAttributes": {"QueueUrl": url, "Attributes": {"RedrivePolicy": REDRIVE}},
        "DeleteQueue": {"QueueUrl": url},
        "PurgeQueue": {"QueueUrl": url},
        "TagQueue": {"QueueUrl": url, "Tags": {"a": "b"}},
        "UntagQueue": {"QueueUrl": url, "TagKeys": ["team"]},
        "ListQueueTags": {"QueueUrl": url},
        "AddPermission": {"QueueUrl": url, "Label": "l", "AWSAccountIds": [AWAY], "Actions": ["*"]},
        "RemovePermission": {"QueueUrl": url, "Label": "l"},
        "ListDeadLetterSourceQueues": {"QueueUrl": url},
        "StartMessageMoveTask": {"SourceArn": ARN + "dead"},
        "CancelMessageMoveTask": {"TaskHandle": _task("dead")},
        "ListMessageMoveTasks": {"SourceArn": ARN + "dead"},
        "PeekMessages": {"QueueUrl": url},
    }


def _task(queue: str) -> str:
    return base64.b64encode(json.dumps({"taskId": "none", "sourceArn": ARN + queue}).encode()).decode()


# Action -> the rights that it needs, and on which queue, if that is not its own on the queue it names.
NEEDS: dict[str, list[tuple[str, str]]] = {
    "SendMessageBatch": [("sqs:SendMessage", "jobs")],
    "DeleteMessageBatch": [("sqs:DeleteMessage", "jobs")],
    "ChangeMessageVisibilityBatch": [("sqs:ChangeMessageVisibility", "jobs")],
    "CreateQueue": [("sqs:CreateQueue", "new"), ("sqs:TagQueue", "new"), ("sqs:SendMessage", "dead")],
    "ListQueues": [("sqs:ListQueues", "*")],
    "SetQueueAttributes": [("sqs:SetQueueAttributes", "jobs"), ("sqs:SendMessage", "dead")],
    "StartMessageMoveTask": [
        ("sqs:StartMessageMoveTask", "dead"),
        ("sqs:ReceiveMessage", "dead"),
        ("sqs:DeleteMessage", "dead"),
        ("sqs:GetQueueAttributes", "dead"),
        ("sqs:SendMessage", "source"),
    ],
    "CancelMessageMoveTask": [("sqs:CancelMessageMoveTask", "dead")],
    "ListMessageMoveTasks": [("sqs:ListMessageMoveTasks", "dead")],
    "PeekMessages": [("holdfast:PeekMessages", "jobs")],
}


def needs(action: str) -> list[tuple[str, str]]:
    return NEEDS.get(action) or [(f"sqs:{action}", "jobs")]


# --- a server with people ---------------------------------------------------------------------------------


class Town:
    """A server, its queues, and keys of all kinds of callers."""

    def __init__(self, server: Guarded) -> None:
        self.server = server
        self.handle = self._furnish()
        self.strangers: dict[str, Keys | None] = {
            "unsigned": None,
            "wrong secret": (server.root[0], "wrong"),
            "unknown key": ("AKIANOBODYNOBODY2222", server.root[1]),
        }
        self.without: dict[tuple[str, str, str], Keys] = {}  # who may do all but one thing: action, right, queue
        self.just: dict[str, Keys] = {}  # who may do just what an action needs
        with folder.identities(server.data) as identities:
            self._invite(identities)

    def _furnish(self) -> str:
        with self.server.client(keys=self.server.root) as sqs:
            sqs.create_queue(QueueName="dead")
            sqs.create_queue(QueueName="source", Attributes={"RedrivePolicy": REDRIVE})
            url = sqs.create_queue(QueueName="jobs", tags={"team": "blue"})["QueueUrl"]
            sqs.send_message(QueueUrl=url, MessageBody="in flight")
            (message,) = sqs.receive_message(QueueUrl=url, VisibilityTimeout=43_200)["Messages"]
            for _ in range(2):
                sqs.send_message(QueueUrl=url, MessageBody="waits")
            return str(message["ReceiptHandle"])

    def _invite(self, identities: Identities) -> None:
        identities.add_account(AWAY)
        self.strangers["nobody"] = _key(identities, "nobody")
        self.strangers["another account"] = _credentials(identities.add_key(identities.user(AWAY, ROOT)))
        for action in ACTIONS:
            self.just[action] = _key(identities, f"just-{action}", *(_allow(*each) for each in needs(action)))
            for number, (right, queue) in enumerate(needs(action)):
                deny = {**_allow(right, queue), "Effect": "Deny"}
                keys = _key(identities, f"not-{action}-{number}", _allow("*", "*"), deny)
                self.without[action, right, queue] = keys

    def say(self, dialect: str, action: str, path: str, keys: Keys | None) -> Said:
        parameters = meant(self.handle)[action]
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        body = urllib.parse.urlencode({"Action": action, **dict(flat(action, parameters))}).encode()
        if dialect == "json":
            prefix = "Holdfast" if action in EXTENSIONS else "AmazonSQS"
            headers = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": f"{prefix}.{action}"}
            body = json.dumps(parameters).encode()
        request = AWSRequest("POST", self.server.endpoint + path, headers=headers, data=body)
        if keys is not None:
            SigV4Auth(Credentials(*keys), "sqs", "us-east-1").add_auth(request)
        prepared = request.prepare()
        return ask(urllib.request.Request(prepared.url, body, dict(prepared.headers), method="POST"))

    def state(self) -> list[Any]:
        found: list[Any] = []
        with self.server.client(keys=self.server.root) as sqs:
            for url in sqs.list_queues()["QueueUrls"]:
                found.append(sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"])
                found.append(sqs.list_queue_tags(QueueUrl=url).get("Tags"))
                found.append(sqs.list_message_move_tasks(SourceArn=ARN + url.rpartition("/")[2])["Results"])
        return [*found, self.say("json", "PeekMessages", "/", self.server.root).text]


def ask(request: urllib.request.Request) -> Said:
    try:
        with urllib.request.urlopen(request) as answer:
            return Said(answer.status, "", answer.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            text = error.read().decode()
            code = error.headers.get("x-amzn-query-error", "").partition(";")[0]
            return Said(error.code, code or text.partition("<Code>")[2].partition("<")[0], text)


def _allow(action: str, queue: str) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, "Resource": queue if queue == "*" else ARN + queue}


def _key(identities: Identities, name: str, *statements: dict[str, Any]) -> Keys:
    user = identities.add_user(HOME, name)
    if statements:
        identities.put_policy(user, "own", document=json.dumps({"Version": "2012-10-17", "Statement": statements}))
    return _credentials(identities.add_key(user))


def _credentials(made: Made) -> Keys:
    return made.id, made.secret


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    with guarded(tmp_path_factory.mktemp("town") / "data", "--log-level", "debug") as server:
        yield Town(server)


# --- who is refused ---------------------------------------------------------------------------------------

REFUSED = {
    "unsigned": "MissingAuthenticationToken",
    "wrong secret": "SignatureDoesNotMatch",
    "unknown key": "InvalidClientTokenId",
    "nobody": "AccessDenied",
    "another account": "AccessDenied",
}
IN_THEIR_OWN_ACCOUNT = ("CreateQueue", "ListQueues")  # name no queue of another one


@pytest.mark.parametrize("who", REFUSED)
def test_no_action_is_done_for_strangers(town: Town, who: str) -> None:
    before = town.state()
    for dialect, action, path in ROUTES:
        if who == "another account" and action in IN_THEIR_OWN_ACCOUNT:
            continue
        said = town.say(dialect, action, path, town.strangers[who])
        is_hidden = who == "another account" and action == "GetQueueUrl"
        expected = (400, "AWS.SimpleQueueService.NonExistentQueue") if is_hidden else (403, REFUSED[who])
        assert (said.status, said.code) == expected, (dialect, action, path, said)
    assert town.state() == before


def test_another_account_makes_and_sees_only_its_own(town: Town) -> None:
    before = town.state()
    keys = town.strangers["another account"]
    said = town.say("json", "CreateQueue", "/", keys)
    assert said.status == 400  # its dead letters would go to an account that is not its own
    assert "owner should be same" in said.text
    assert HOME not in town.say("json", "ListQueues", "/", keys).text
    assert town.state() == before


@pytest.mark.parametrize("action", ACTIONS)
def test_every_right_that_an_action_needs_is_asked_for(town: Town, action: str) -> None:
    """Also those on other queues: both ends of a move, the target of dead letters."""
    before = town.state()
    for right, queue in needs(action):
        for dialect in ("json", "query") if action not in EXTENSIONS else ("json",):
            said = town.say(dialect, action, "/", town.without[action, right, queue])
            assert (said.status, said.code) == (403, "AccessDenied"), (right, queue, said)
            assert right.lower() in said.text
            assert "explicit deny" in said.text
    assert town.state() == before


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="arguments are read from /proc")
def test_refusals_tell_no_secrets_and_neither_do_logs_and_arguments(town: Town) -> None:
    """With a server that logs all it has to say, after everything above."""
    data, keys = town.server.data, [town.server.root, *town.just.values(), *town.without.values()]
    files = [(data / name).read_bytes() for name in ("master.key", "receipt.key")]
    secrets = [secret for _, secret in keys] + ["in flight", "waits", town.handle]
    for content in files:
        secrets += [content.hex(), content.decode("latin-1").strip(), base64.b64encode(content).decode()]
    told = [town.server.output(), *arguments(town.server.process.pid)]
    for dialect, action, path in ROUTES:
        told += [town.say(dialect, action, path, keys).text for keys in town.strangers.values()]
    for secret in secrets:
        assert not any(secret in each for each in told)


def arguments(process: int) -> Iterator[str]:
    """Of a process and its children, and theirs."""
    yield Path(f"/proc/{process}/cmdline").read_text("utf-8")
    for task in Path(f"/proc/{process}/task").iterdir():
        children = task / "children"
        for child in children.read_text("ascii").split() if children.exists() else ():
            yield from arguments(int(child))


def test_only_two_pages_answer_without_a_signature(town: Town) -> None:
    pages = ("/health", "/_localstack/health")
    paths = (*PATHS, *pages, "/metrics", "/admin", "/livez", "/queues", f"/{HOME}", "//health", "/health/", "/health?a")
    for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
        for path in paths:
            for query in ("", "?Action=ListQueues", "?Action=PurgeQueue&Version=2012-11-05"):
                url = town.server.endpoint + path + query
                said = ask(
                    urllib.request.Request(url, b"Action=ListQueues" if method == "POST" else None, method=method)
                )
                is_page = path in pages and not query and method in ("GET", "HEAD")
                assert (said.status == 200) is is_page, (method, path, query, said)
                assert said.status < 500


def test_what_an_action_needs_is_enough(town: Town) -> None:
    """Comes last, as all of it is done. A move first: later there are more queues for it to send to."""
    first, last = ["StartMessageMoveTask"], ["PurgeQueue", "DeleteQueue"]
    for action in [*first, *(each for each in ACTIONS if each not in first + last), *last]:
        said = town.say("json", action, "/", town.just[action])
        assert said.code != "AccessDenied", said
