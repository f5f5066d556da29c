"""Backups taken while clients send, receive and delete; what a server that is started from one has."""

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.cli import env
from holdfast.client.signer import Credentials
from holdfast.client.sqs import Sqs
from tests.process.guarded import Guarded, guarded
from tests.process.typed import Typed, typed

QUEUE = "load"
BODY_BYTES = 200_000  # so a segment is full after 330 messages
MESSAGES = 390  # two segments; test_copies.py has logs that turn over more often
SENDERS = 3
BACKUPS = 2


def client(data: Path) -> Sqs:
    values = env.variables(data)
    credentials = Credentials(values["AWS_ACCESS_KEY_ID"], values["AWS_SECRET_ACCESS_KEY"])
    return Sqs(values["AWS_ENDPOINT_URL_SQS"], credentials, region="us-east-1")


class Load:
    """Clients, and when each message was acknowledged, and when its deletion was asked for and acknowledged."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.sent: dict[str, float] = {}
        self.deleting: dict[str, float] = {}
        self.deleted: dict[str, float] = {}
        self.is_over = False
        self.threads = [threading.Thread(target=self.send, args=(number,)) for number in range(SENDERS)]
        self.consumer = threading.Thread(target=self.consume)

    def send(self, sender: int) -> None:
        filler = random.Random(sender).randbytes(BODY_BYTES // 2).hex()
        with client(self.data) as sqs:
            for number in range(MESSAGES // SENDERS):
                name = f"{sender}.{number}"
                sqs.call("SendMessage", QueueUrl=sqs.url(QUEUE), MessageBody=f"{name} {filler}")
                self.sent[name] = time.monotonic()

    def consume(self) -> None:
        """Deletes nine of ten."""
        with client(self.data) as sqs:
            while not self.is_over:
                reply = sqs.call(
                    "ReceiveMessage",
                    QueueUrl=sqs.url(QUEUE),
                    MaxNumberOfMessages=10,
                    WaitTimeSeconds=1,
                    VisibilityTimeout=1000,
                )
                for message in reply.get("Messages", []):
                    name = message["Body"].split()[0]
                    if not name.endswith("7"):
                        self.deleting[name] = time.monotonic()
                        handle = message["ReceiptHandle"]
                        sqs.call("DeleteMessage", QueueUrl=sqs.url(QUEUE), ReceiptHandle=handle)
                        self.deleted[name] = time.monotonic()

    def __enter__(self) -> "Load":
        for thread in (*self.threads, self.consumer):
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for thread in self.threads:
            thread.join()
        self.is_over = True
        self.consumer.join()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded(tmp_path_factory.mktemp("backups") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def cli(server: Guarded) -> Typed:
    return typed(server)


def found_in(data: Path) -> set[str]:
    with guarded(data), client(data) as sqs:
        found: set[str] = set()
        after = ""
        while page := sqs.peek(QUEUE, after=after)["Messages"]:
            found |= {each["Body"].split()[0] for each in page}
            after = page[-1]["SequenceNumber"]
        return found


def test_backups_under_load_have_everything_that_was_acknowledged(cli: Typed, server: Guarded) -> None:
    cli.run("queue", "create", QUEUE)
    taken: list[tuple[float, float]] = []
    with Load(server.data) as load:
        for number in range(BACKUPS):
            while len(load.sent) < MESSAGES * (number + 1) // (BACKUPS + 1):
                assert any(thread.is_alive() for thread in load.threads)
                time.sleep(0.05)
            begun = time.monotonic()
            assert "verified and replayed" in cli.run("backup", f"b{number}")
            taken.append((begun, time.monotonic()))
    assert len(load.sent) == MESSAGES // SENDERS * SENDERS, "every message was acknowledged"
    assert cli.json("scrub")["damaged"] == []
    for number, (begun, ended) in enumerate(taken):
        data = server.data.with_name(f"restored{number}")
        cli.run("restore", f"b{number}", "--data", data.name)
        found = found_in(data)
        before = {name for name, at in load.sent.items() if at < begun}
        gone = {name for name, at in load.deleting.items() if at < ended}
        assert before, "the backup was taken under load"
        assert before - gone - found == set(), "what was acknowledged before is missing"
        assert found & {name for name, at in load.deleted.items() if at < begun} == set(), "what was deleted came back"


def test_a_damaged_backup_is_refused(cli: Typed, server: Guarded) -> None:
    cli.run("queue", "create", "small")
    cli.run("msg", "send", "small", "hello")
    cli.run("backup", "flipped")
    backup = server.data.with_name("flipped")
    segment = sorted((backup / "shards" / "0001" / "segments").iterdir())[-1]
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 1
    segment.write_bytes(content)
    assert "is damaged" in cli.run("restore", "flipped", "--data", "never", status=2)
    assert not server.data.with_name("never").exists()
    (backup / "backup.json").unlink()
    assert "no backup" in cli.run("restore", "flipped", "--data", "never", status=2)


def test_nothing_is_overwritten(cli: Typed) -> None:
    assert "not empty" in cli.run("restore", "b0", "--data", "data", status=2)
    assert "exists already" in cli.run("backup", "data", status=2)
    assert "no data folder" in cli.run("backup", "x", "--data", "nowhere", status=2)


def test_a_backup_is_for_its_owner_only(cli: Typed, server: Guarded) -> None:
    cli.run("backup", "own")
    backup = server.data.with_name("own")
    assert {each.stat().st_mode & 0o077 for each in [backup, *backup.rglob("*")] if each.is_file()} == {0}
    assert backup.stat().st_mode & 0o077 == 0
