"""Queues and single messages on the command line, against a real server."""

import json
import shutil
from collections.abc import Iterator

import pytest

from tests.process.guarded import Guarded, guarded
from tests.process.typed import Typed, typed


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded(tmp_path_factory.mktemp("cli") / "data", "--relaxed") as running:
        yield running


@pytest.fixture(scope="module")
def cli(server: Guarded) -> Typed:
    return typed(server)


def test_a_queue_is_made_shown_changed_and_removed(cli: Typed) -> None:
    url = cli.run("queue", "create", "life", "--set", "VisibilityTimeout=5m", "--tag", "team=a").strip()
    assert url.endswith("/000000000000/life")
    changed = cli.json("queue", "set", "life", "DelaySeconds=1", "--tag", "colour=red", "--untag", "team")
    assert (changed["Attributes"], changed["RemovedTags"]) == ({"DelaySeconds": "1"}, ["team"])
    shown = cli.json("queue", "info", "life")
    assert (shown["Attributes"]["VisibilityTimeout"], shown["Attributes"]["DelaySeconds"]) == ("300", "1")
    assert shown["Tags"] == {"colour": "red"}
    assert "300 s (5 min)" in cli.run("queue", "info", "life")
    assert cli.json("queue", "rm", "life", "--yes", "life") == {"QueueUrl": url, "Messages": 0}
    assert "life" not in cli.run("queue", "ls", "--names").split()


def test_a_dead_letter_queue_is_made_along_and_keeps_letters_longest(cli: Typed) -> None:
    cli.run("queue", "create", "work.fifo", "--dlq", "work-dead.fifo", "--max-receives", "3")
    policy = json.loads(cli.json("queue", "info", "work.fifo")["Attributes"]["RedrivePolicy"])
    assert policy["maxReceiveCount"] == 3
    dead = cli.json("queue", "info", "work-dead.fifo")
    assert dead["DeadLetterSources"] == ["work.fifo"]
    assert dead["Attributes"]["MessageRetentionPeriod"] == "1209600"
    rows = {row["name"]: row for row in cli.json("queue", "ls", "work")}
    assert rows["work.fifo"]["dead_letters_to"] == "work-dead.fifo"
    assert "must end with .fifo" in cli.run("queue", "create", "x.fifo", "--dlq", "x-dead", status=2)


def test_a_message_is_sent_seen_received_and_deleted(cli: Typed) -> None:
    cli.run("queue", "create", "talk")
    sent = cli.run("msg", "send", "talk", "hello", "--attr", "shop=north", "--attr", "n:Number=5").strip()
    cli.run("msg", "send", "talk", "-", given="from a pipe")
    first, second = cli.json("msg", "peek", "talk")
    assert (first["MessageId"], first["Body"], first["State"]) == (sent, "hello", "visible")
    assert first["MessageAttributes"]["n"] == {"DataType": "Number", "StringValue": "5"}
    assert second["Body"] == "from a pipe"
    lines = cli.run("msg", "peek", "talk").splitlines()
    assert lines[0].split() == ["SEQUENCE", "STATE", "AGE", "RECEIVES", "BODY"]
    assert lines[1].endswith("hello")
    receipt = cli.json("msg", "receive", "talk")[0]["ReceiptHandle"]
    assert [each["State"] for each in cli.json("msg", "peek", "talk")] == ["in flight", "visible"]
    assert cli.json("msg", "rm", "talk", receipt) == {"Deleted": [receipt]}
    assert "from a pipe" in cli.run("msg", "receive", "talk", "--delete", "--wait", "5")
    assert cli.json("msg", "peek", "talk") == []


def test_messages_of_a_fifo_queue_have_groups(cli: Typed) -> None:
    cli.run("queue", "create", "steps.fifo")
    assert "MessageGroupId" in cli.run("msg", "send", "steps.fifo", "a", status=4)
    for body in ("a", "b"):
        cli.run("msg", "send", "steps.fifo", body, "--group", "g", "--dedup", body)
    shown = cli.run("msg", "receive", "steps.fifo", "-n", "10")
    assert shown.index("group: g\ndeduplication: a") < shown.index("deduplication: b")


def test_purge_asks_for_the_name_of_the_queue(cli: Typed) -> None:
    cli.run("queue", "create", "full")
    cli.run("msg", "send", "full", "x")
    assert "--yes full" in cli.run("queue", "purge", "full", status=2)
    assert "--yes full" in cli.run("queue", "purge", "full", "--yes", "fool", status=2)
    assert len(cli.json("msg", "peek", "full")) == 1
    assert cli.json("queue", "purge", "full", "--yes", "full")["Messages"] == 1
    assert cli.json("msg", "peek", "full") == []


@pytest.mark.parametrize(
    ("arguments", "fix", "status"),
    [
        (("queue", "info", "near-nam"), "Did you mean near-name?", 4),
        (("msg", "send", "nothing-like-it", "x"), "holdfast queue ls", 4),
        (("queue", "set", "near-name", "Visibility=5"), "VisibilityTimeout", 2),
        (("queue", "set", "near-name", "VisibilityTimeout"), "VisibilityTimeout=60", 2),
        (("queue", "set", "near-name"), "name what to change", 2),
        (("msg", "send", "near-name", "x", "--attr", "a:Colour=red"), "String, Number and Binary", 2),
        (("msg", "send", "near-name", "--file", "missing"), "missing", 2),
        (("msg", "send", "near-name", "x", "--delay", "901"), "DelaySeconds", 4),
        (("queue", "ls", "--endpoint", "http://127.0.0.1:1"), "holdfast serve", 3),
        (("queue", "ls", "--endpoint", "ftp://x"), "http://127.0.0.1:9324", 2),
        (("queue", "ls", "--data", "elsewhere"), "holdfast serve --data", 2),
    ],
)
def test_errors_name_the_fix(cli: Typed, arguments: tuple[str, ...], fix: str, status: int) -> None:
    cli.run("queue", "create", "near-name")
    assert fix in cli.run(*arguments, status=status)


def test_keys_of_the_environment_go_with_an_endpoint_only(cli: Typed, server: Guarded) -> None:
    wrong = {"AWS_ACCESS_KEY_ID": "AKIAWRONG", "AWS_SECRET_ACCESS_KEY": "wrong"}
    cli.run("queue", "ls", variables=wrong)  # the folder's own key
    refusal = cli.run("queue", "ls", status=4, variables={"AWS_ENDPOINT_URL": server.endpoint, **wrong})
    assert "AKIAWRONG" in refusal
    assert "holdfast env" in refusal
    right = {"AWS_ACCESS_KEY_ID": server.root[0], "AWS_SECRET_ACCESS_KEY": server.root[1]}
    cli.run("queue", "ls", variables={"AWS_ENDPOINT_URL_SQS": server.endpoint, **right})


def test_what_a_user_may_not_do_is_said(cli: Typed, server: Guarded) -> None:
    cli.run("queue", "create", "private")
    key, secret = server.user("reader", allow=["sqs:GetQueueUrl"])
    variables = {"AWS_ENDPOINT_URL": server.endpoint, "AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret}
    assert "holdfast user policy" in cli.run("msg", "send", "private", "x", status=4, variables=variables)


@pytest.mark.skipif(shutil.which("aws") is None, reason="the AWS CLI is not installed")
def test_the_aws_cli_is_run_with_everything_it_needs(cli: Typed) -> None:
    cli.run("queue", "create", "by-aws")
    shown = cli.run(
        "aws", "--", "sqs", "list-queues", "--queue-name-prefix", "by-aws", variables={"AWS_PROFILE": "nobody"}
    )
    assert [url.rpartition("/")[2] for url in json.loads(shown)["QueueUrls"]] == ["by-aws"]
