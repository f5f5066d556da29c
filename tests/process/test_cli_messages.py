"""Streams and files of messages, dead letters, the doctor and the bench, as users type them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.cli import transfer
from tests.process.guarded import Guarded, guarded
from tests.process.server import command, environment
from tests.process.typed import Typed, typed


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded(tmp_path_factory.mktemp("cli") / "data", "--relaxed") as running:
        yield running


@pytest.fixture(scope="module")
def cli(server: Guarded) -> Typed:
    return typed(server)


@pytest.fixture(scope="module")
def sqs(server: Guarded) -> Iterator[Any]:
    with server.client(keys=server.root) as client:
        yield client


def fill(sqs: Any, queue: str, count: int) -> str:
    url: str = sqs.create_queue(QueueName=queue)["QueueUrl"]
    for first in range(0, count, 10):
        numbers = range(first, min(count, first + 10))
        sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": str(n), "MessageBody": f"m{n}"} for n in numbers])
    return url


# export and import


def test_what_is_exported_can_be_imported_and_nothing_is_consumed(cli: Typed, sqs: Any) -> None:
    url = sqs.create_queue(QueueName="origin")["QueueUrl"]
    odd = 'line\nbreak, "quotes", a separator \u2028 and \U0001f4e6'
    attributes = {
        "colour": {"DataType": "String", "StringValue": "red"},
        "raw": {"DataType": "Binary", "BinaryValue": b"\0\xff"},
    }
    sqs.send_message(QueueUrl=url, MessageBody=odd, MessageAttributes=attributes)
    sqs.send_message(QueueUrl=url, MessageBody="later", DelaySeconds=900)
    sqs.send_message(QueueUrl=url, MessageBody="taken")
    sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=1)
    before = cli.json("msg", "peek", "origin")
    cli.run("msg", "export", "origin", "origin.jsonl")
    assert cli.json("msg", "peek", "origin") == before
    cli.run("queue", "create", "copy")
    assert "3 of 3" in cli.run("msg", "import", "copy", "origin.jsonl")
    copied = cli.json("msg", "peek", "copy")
    assert [each["Body"] for each in copied] == [odd, "later", "taken"]
    assert copied[0]["MessageAttributes"] == before[0]["MessageAttributes"]


def test_a_queue_longer_than_any_page_is_exported_whole(cli: Typed, sqs: Any) -> None:
    fill(sqs, "long", 250)
    lines = cli.run("msg", "export", "long").splitlines()
    assert [json.loads(line)["MessageBody"] for line in lines] == [f"m{n}" for n in range(250)]


def test_groups_and_deduplication_ids_travel_along(cli: Typed) -> None:
    cli.run("queue", "create", "from.fifo")
    cli.run("queue", "create", "to.fifo")
    for number in range(3):
        cli.run("msg", "send", "from.fifo", f"m{number}", "--group", "g", "--dedup", f"d{number}")
    exported = cli.run("msg", "export", "from.fifo")
    for _ in range(2):  # the second time all of them are duplicates
        cli.run("msg", "import", "to.fifo", "-", given=exported)
    system = [each["Attributes"] for each in cli.json("msg", "peek", "to.fifo")]
    assert [(each["MessageGroupId"], each["MessageDeduplicationId"]) for each in system] == [
        ("g", f"d{number}") for number in range(3)
    ]


def test_an_import_that_stops_says_where_to_go_on(cli: Typed) -> None:
    cli.run("queue", "create", "careful", "--set", "MaximumMessageSize=1024")
    bodies = [f"m{n}" if n != 14 else "x" * 2000 for n in range(25)]
    lines = "".join(json.dumps({"MessageBody": body}) + "\n" for body in bodies)
    done = cli.start("msg", "import", "careful", "-", given=lines)
    assert done.returncode == 1
    assert "19 of 25" in done.stdout
    assert "line 15" in done.stderr
    assert "--skip 20" in done.stderr
    cli.run("msg", "import", "careful", "-", "--skip", "20", given=lines)
    assert len(cli.json("msg", "peek", "careful", "-n", "100")) == 24


def test_a_wrong_line_is_named_before_anything_is_sent(cli: Typed) -> None:
    cli.run("queue", "create", "clean")
    lines = '{"MessageBody": "fine"}\nnot json\n'
    assert "line 2" in cli.run("msg", "import", "clean", "-", given=lines, status=2)
    assert "line 1 has no MessageBody" in cli.run("msg", "import", "clean", "-", given='{"Body": "x"}', status=2)
    assert cli.json("msg", "peek", "clean") == []


# tail


def test_tail_shows_what_comes_and_takes_nothing(cli: Typed, sqs: Any) -> None:
    url = fill(sqs, "river", 3)
    with subprocess.Popen(
        command("msg", "tail", "river", "--last", "1", "--interval", "0.1", "--json"),
        cwd=cli.data.parent,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["Body"] == "m2"
            sqs.send_message(QueueUrl=url, MessageBody="new")
            assert json.loads(process.stdout.readline())["Body"] == "new"
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=20) == 0
        finally:
            process.kill()
    assert [each["ReceiveCount"] for each in cli.json("msg", "peek", "river")] == [0, 0, 0, 0]


def test_an_interrupt_that_python_drops_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    class Reply:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0)  # the handler has run by now, and what it raised goes no further than this

    dropped: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda each: dropped.append(each.exc_type))
    before = signal.getsignal(signal.SIGINT)
    with transfer.until_interrupted() as is_interrupted:
        Reply()
        assert dropped == [KeyboardInterrupt]
        assert is_interrupted.is_set()
    assert signal.getsignal(signal.SIGINT) is before


# dead letters


def bury(cli: Typed, sqs: Any, queue: str, bodies: list[str]) -> None:
    """Dead letters of `queue` in `queue`-dead."""
    cli.run("queue", "create", queue, "--dlq", f"{queue}-dead", "--max-receives", "1")
    url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
    for body in bodies:
        colour = {"colour": {"DataType": "String", "StringValue": body.split()[0]}}
        sqs.send_message(QueueUrl=url, MessageBody=body, MessageAttributes=colour)
    for _ in range(2):
        sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=0)


def bodies_of(cli: Typed, queue: str) -> list[str]:
    return sorted(each["Body"] for each in cli.json("msg", "peek", queue, "-n", "100"))


def test_dead_letters_are_listed_and_all_sent_back(cli: Typed, sqs: Any) -> None:
    bury(cli, sqs, "mail", ["red 1", "blue 2"])
    (row,) = [each for each in cli.json("dlq", "ls") if each["name"] == "mail-dead"]
    assert (row["letters"], row["sources"], row["move_task"]) == (2, ["mail"], None)
    assert cli.json("dlq", "redrive", "mail-dead", "--dry-run") == {"would_move": {"mail": 2}}
    assert "2 of 2 messages moved" in cli.run("dlq", "redrive", "mail-dead", "--rate", "100")
    assert (bodies_of(cli, "mail"), bodies_of(cli, "mail-dead")) == (["blue 2", "red 1"], [])


def test_only_some_dead_letters_are_sent_back_and_the_others_stay_visible(cli: Typed, sqs: Any) -> None:
    bury(cli, sqs, "post", ["red 1", "blue 2", "red 3", "green 4"])
    chosen = ("--filter", "body=*[13]", "--filter", "attr.colour=red", "--filter", "cause=MaxReceiveCount")
    assert cli.json("dlq", "redrive", "post-dead", *chosen, "--dry-run") == {"would_move": {"post": 2}}
    assert cli.json("dlq", "redrive", "post-dead", *chosen) == {"moved": 2, "of": 2, "trouble": []}
    assert bodies_of(cli, "post") == ["red 1", "red 3"]
    left = cli.json("msg", "peek", "post-dead")
    assert [(each["Body"], each["State"]) for each in left] == [("blue 2", "visible"), ("green 4", "visible")]
    cli.run("queue", "create", "aside")
    cli.run("dlq", "redrive", "post-dead", "--filter", "source=post", "--filter", "body=blue*", "--to", "aside")
    assert bodies_of(cli, "aside") == ["blue 2"]


def test_a_letter_that_cannot_be_sent_stays_where_it_is(cli: Typed, sqs: Any) -> None:
    bury(cli, sqs, "big", ["red " + "x" * 2000])
    cli.run("queue", "create", "narrow", "--set", "MaximumMessageSize=1024")
    done = cli.start("dlq", "redrive", "big-dead", "--filter", "body=red*", "--to", "narrow")
    assert (done.returncode, "0 of 1" in done.stdout, "stays in big-dead" in done.stderr) == (1, True, True)
    assert [each["State"] for each in cli.json("msg", "peek", "big-dead")] == ["visible"]


def test_redrive_names_what_is_wrong(cli: Typed, sqs: Any) -> None:
    bury(cli, sqs, "wrong", ["red 1"])
    assert "attr.NAME" in cli.run("dlq", "redrive", "wrong-dead", "--filter", "colour=red", status=2)
    assert "Dead Letter Queue" in cli.run("dlq", "redrive", "wrong", status=4)


# the machine


def test_the_doctor_finds_nothing_wrong_with_a_server_that_runs(cli: Typed, server: Guarded) -> None:
    findings = {each["check"]: each for each in cli.json("doctor")}
    assert [each for each in findings.values() if each["state"] == "problem"] == []
    assert server.endpoint in findings["server"]["seen"]


def test_the_doctor_names_the_fix(cli: Typed, server: Guarded) -> None:
    key = server.data / "master.key"
    key.chmod(0o644)
    done = cli.start("doctor")
    key.chmod(0o600)
    assert done.returncode == 1
    assert "chmod 600" in done.stdout
    taken = server.endpoint.removeprefix("http://")
    done = cli.start("doctor", "--data", "not-yet", "--listen", taken)
    assert done.returncode == 1
    assert "--listen" in done.stdout


def test_the_bench_measures_and_cleans_up(cli: Typed) -> None:
    rows = cli.json("bench", "--seconds", "0.3", "-c", "2", "--batch", "5")
    assert [row["work"] for row in rows] == ["send", "receive and delete"]
    assert rows[0]["messages"] >= rows[1]["messages"] > 0  # a busy machine may not empty the queue in time
    assert rows[0]["p50_ms"] > 0
    assert "holdfast-bench" not in cli.run("queue", "ls", "--names")


def test_shells_can_complete_commands(cli: Typed) -> None:
    asked = {"_HOLDFAST_COMPLETE": "complete_bash", "COMP_WORDS": "holdfast queue pu", "COMP_CWORD": "2"}
    assert cli.run(variables=asked).split() == ["purge"]
