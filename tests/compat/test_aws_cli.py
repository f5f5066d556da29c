"""Sessions with the AWS CLI: v1 from PyPI, which speaks JSON, and Debian's v2, which speaks Query.

Each command is a process of its own that takes a second to start, so a session is a story of few commands.
"""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli import env
from tests.compat import environments
from tests.compat.environments import Command
from tests.process.guarded import Guarded
from tests.process.server import environment


def _version_1() -> Command:
    python = environments.python("aws-cli-1")
    return Command((str(python), str(python.with_name("aws"))), {})


VERSIONS: dict[str, Callable[[], Command]] = {"aws-cli/1.46": _version_1, "aws-cli/2.": environments.aws_cli_2}


class Shell:
    """`aws sqs …` as the root of a server. Neither version reads the endpoint from the environment."""

    def __init__(self, command: Command, server: Guarded, *, name: str, home: Path) -> None:
        self.name = name  # for its queues
        usual = {name: value for name, value in environment().items() if not name.startswith(("AWS_", "PYTHONPATH"))}
        self._variables = usual | env.variables(server.data) | command.variables | {"HOME": str(home)}
        self._words, self._endpoint = command.words, server.endpoint

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        words = [*self._words, *arguments]
        return subprocess.run(words, env=self._variables, capture_output=True, text=True, check=False, timeout=60)

    def __call__(self, action: str, *arguments: str) -> Any:
        done = self.run("--endpoint-url", self._endpoint, "--output", "json", "sqs", action, *arguments)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if done.stdout else None

    def refusal(self, action: str, *arguments: str) -> str:
        done = self.run("--endpoint-url", self._endpoint, "sqs", action, *arguments)
        assert done.returncode != 0, done.stdout
        return done.stderr


@pytest.fixture(scope="module", params=VERSIONS, ids=lambda version: version.rstrip("."))
def aws(request: pytest.FixtureRequest, server: Guarded, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    name = f"cli-{list(VERSIONS).index(request.param) + 1}"
    try:
        shell = Shell(VERSIONS[request.param](), server, name=name, home=tmp_path_factory.mktemp(name))
    except environments.Missing as problem:
        pytest.skip(f"{request.param.upper()} IS NOT TESTED HERE: {problem}")
    shown = shell.run("--version").stdout
    if not shown.startswith(request.param):
        pytest.skip(
            f"{request.param.upper()} IS NOT TESTED HERE: this machine offers {shown or 'one that does not run'}"
        )
    return shell


def test_a_session_with_a_queue_and_its_messages(aws: Shell) -> None:
    made = aws("create-queue", "--queue-name", aws.name, "--attributes", "VisibilityTimeout=7", "--tags", "team=blue")
    url = made["QueueUrl"]
    sent = aws(
        *("send-message", "--queue-url", url, "--message-body", 'röd "x" & <y>'),
        *("--message-attributes", '{"Kind": {"DataType": "String", "StringValue": "plain"}}'),
    )
    received = aws(
        *("receive-message", "--queue-url", url, "--attribute-names", "All", "--message-attribute-names", "All"),
        *("--wait-time-seconds", "1"),
    )
    (message,) = received["Messages"]
    assert message["Body"] == 'röd "x" & <y>'
    assert message["MD5OfBody"] == sent["MD5OfMessageBody"]
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    assert message["MessageAttributes"]["Kind"]["StringValue"] == "plain"
    assert aws("delete-message", "--queue-url", url, "--receipt-handle", message["ReceiptHandle"]) is None
    shown = aws("get-queue-attributes", "--queue-url", url, "--attribute-names", "All")["Attributes"]
    assert (shown["VisibilityTimeout"], shown["ApproximateNumberOfMessages"]) == ("7", "0")
    assert aws("list-queue-tags", "--queue-url", url)["Tags"] == {"team": "blue"}
    assert url in aws("list-queues", "--queue-name-prefix", aws.name)["QueueUrls"]
    assert aws("purge-queue", "--queue-url", url) is None
    assert "PurgeQueueInProgress" in aws.refusal("purge-queue", "--queue-url", url)
    assert aws("delete-queue", "--queue-url", url) is None


def test_a_session_with_batches_on_a_fifo_queue(aws: Shell) -> None:
    queue = f"{aws.name}.fifo"
    attributes = "FifoQueue=true,ContentBasedDeduplication=true"
    url = aws("create-queue", "--queue-name", queue, "--attributes", attributes)["QueueUrl"]
    entries = [{"Id": str(n), "MessageBody": f"body {n}", "MessageGroupId": "g"} for n in range(3)]
    sent = aws("send-message-batch", "--queue-url", url, "--entries", json.dumps(entries))
    numbers = [int(each["SequenceNumber"]) for each in sent["Successful"]]
    assert numbers == sorted(set(numbers))
    messages = aws("receive-message", "--queue-url", url, "--max-number-of-messages", "10")["Messages"]
    assert [each["Body"] for each in messages] == ["body 0", "body 1", "body 2"]
    handles = [{"Id": str(n), "ReceiptHandle": each["ReceiptHandle"]} for n, each in enumerate(messages)]
    handles.append({"Id": "bad", "ReceiptHandle": "garbage"})
    deleted = aws("delete-message-batch", "--queue-url", url, "--entries", json.dumps(handles))
    assert [each["Id"] for each in deleted["Successful"]] == ["0", "1", "2"]
    assert [(each["Id"], each["Code"]) for each in deleted["Failed"]] == [("bad", "ReceiptHandleIsInvalid")]


def test_refusals_are_shown_with_their_code(aws: Shell) -> None:
    shown = aws.refusal("get-queue-url", "--queue-name", f"{aws.name}-nowhere")
    assert "AWS.SimpleQueueService.NonExistentQueue" in shown
    assert "The specified queue does not exist" in shown
