"""Queues that nobody has to create: declared in the configuration, or made when they are first used."""

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.process.guarded import Guarded, guarded
from tests.process.server import command, environment, running

DECLARED = """
[queues.orders]
dead_letter_queue = "orders-dead"
max_receive_count = 5
attributes = { VisibilityTimeout = 60 }
tags = { team = "shop" }

[queues.orders-dead]
attributes = { MessageRetentionPeriod = 1209600 }

[queues."jobs.fifo"]
attributes = { ContentBasedDeduplication = true }
"""


def configured(folder: Path, text: str) -> tuple[str, ...]:
    file = folder / "holdfast.toml"
    file.write_text(text, encoding="utf-8")
    return ("--config", str(file))


def attributes_of(client: Any, name: str) -> dict[str, str]:
    shown: dict[str, str] = client.get_queue_attributes(QueueUrl=name, AttributeNames=["All"])["Attributes"]
    return shown


def refusal(folder: Path, *options: str) -> str:
    arguments = command("serve", "--data", str(folder / "data"), "--listen", "127.0.0.1:0", "--no-auth", *options)
    done = subprocess.run(arguments, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stdout
    return done.stderr


def test_declared_queues_are_there_at_the_first_request_and_declaring_again_changes_nothing(tmp_path: Path) -> None:
    options = configured(tmp_path, DECLARED)
    with running(tmp_path / "data", *options) as server, server.client() as client:
        orders = attributes_of(client, "orders")
        assert (orders["VisibilityTimeout"], json.loads(orders["RedrivePolicy"])) == (
            "60",
            {"deadLetterTargetArn": attributes_of(client, "orders-dead")["QueueArn"], "maxReceiveCount": 5},
        )
        assert client.list_queue_tags(QueueUrl="orders")["Tags"] == {"team": "shop"}
        assert attributes_of(client, "jobs.fifo")["ContentBasedDeduplication"] == "true"
        client.send_message(QueueUrl="orders", MessageBody="kept")
        server.stop()
    with running(tmp_path / "data", *options) as server, server.client() as client:
        assert attributes_of(client, "orders") == {**orders, "ApproximateNumberOfMessages": "1"}
        assert server.output().count("a declared queue was made") == 3
        assert "was changed" not in server.output()


def test_several_workers_declare_and_make_queues_once(tmp_path: Path) -> None:
    options = configured(tmp_path, DECLARED + '[auto_create]\nqueues = ["new-*"]\n')
    with running(tmp_path / "data", *options, "--workers", "2") as server:
        assert server.output().count("a declared queue was made") == 3
        for number in range(4):
            with server.client() as client:
                url = client.get_queue_url(QueueName="orders")["QueueUrl"]
                client.send_message(QueueUrl=url, MessageBody=str(number))
                client.send_message(QueueUrl=client.get_queue_url(QueueName="new-one")["QueueUrl"], MessageBody="x")
        with server.client() as client:
            assert attributes_of(client, "orders")["ApproximateNumberOfMessages"] == "4"
            assert attributes_of(client, "new-one")["ApproximateNumberOfMessages"] == "4"


def test_drift_is_an_error_that_names_the_attribute_unless_it_may_be_updated(tmp_path: Path) -> None:
    options = configured(tmp_path, DECLARED)
    with running(tmp_path / "data", *options) as server, server.client() as client:
        client.set_queue_attributes(QueueUrl="orders", Attributes={"VisibilityTimeout": "61", "DelaySeconds": "3"})
        server.stop()
    said = refusal(tmp_path, *options)
    assert "queues.orders: its attribute VisibilityTimeout is 61, and 60 is declared. Change one of them, or" in said
    updating = configured(
        tmp_path, DECLARED.replace('tags = { team = "shop" }', 'tags = { team = "tools" }\napply = "update"')
    )
    with running(tmp_path / "data", *updating) as server, server.client() as client:
        shown = attributes_of(client, "orders")
        assert (shown["VisibilityTimeout"], shown["DelaySeconds"]) == ("60", "3")
        assert client.list_queue_tags(QueueUrl="orders")["Tags"] == {"team": "tools"}
        server.stop()
    assert "its tag team is tools, and shop is declared" in refusal(tmp_path, *configured(tmp_path, DECLARED))


def test_a_wrong_declaration_is_found_by_config_check_and_by_serve(tmp_path: Path) -> None:
    options = configured(tmp_path, "[queues.q]\nattributes = { VisibilityTimeot = 1 }")
    checked = subprocess.run(
        command("config", "check", options[1]), env=environment(), capture_output=True, text=True, check=False
    )
    assert checked.returncode == 2
    assert "queues.q: Unknown Attribute VisibilityTimeot." in checked.stderr
    assert "queues.q: Unknown Attribute VisibilityTimeot." in refusal(tmp_path, *options)


def test_a_dead_letter_queue_that_is_nowhere_is_named(tmp_path: Path) -> None:
    text = '[queues.q]\ndead_letter_queue = "nowhere"\nmax_receive_count = 3'
    assert "nowhere" in refusal(tmp_path, *configured(tmp_path, text))


TEMPLATE = """
[auto_create]
queues = ["orders-*", "*.fifo"]
attributes = { VisibilityTimeout = 77 }
fifo_attributes = { ContentBasedDeduplication = true }
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("auto")
    with guarded(folder / "data", *configured(folder, TEMPLATE)) as made:
        yield made


def test_the_first_use_of_a_queue_makes_it(server: Guarded) -> None:
    with server.client(keys=server.root) as client:
        client.send_message(QueueUrl="orders-send", MessageBody="first")
        assert client.receive_message(QueueUrl="orders-send")["Messages"][0]["Body"] == "first"
        entries = [{"Id": "1", "MessageBody": "in a batch"}]
        assert client.send_message_batch(QueueUrl="orders-batch", Entries=entries)["Successful"]
        assert "Messages" not in client.receive_message(QueueUrl="orders-receive")
        url = client.get_queue_url(QueueName="orders-url")["QueueUrl"]
        assert url == f"{server.endpoint}/000000000000/orders-url"
        assert attributes_of(client, f"{server.endpoint}/000000000000/orders-attributes")["VisibilityTimeout"] == "77"
        names = [each.rpartition("/")[2] for each in client.list_queues()["QueueUrls"]]
        assert [name for name in names if not name.endswith(".fifo")] == [
            f"orders-{each}" for each in ("attributes", "batch", "receive", "send", "url")
        ]


def test_a_name_that_ends_in_fifo_becomes_a_fifo_queue(server: Guarded) -> None:
    with server.client(keys=server.root) as client:
        client.send_message(QueueUrl="any.fifo", MessageBody="x", MessageGroupId="g")
        shown = attributes_of(client, "any.fifo")
        assert (shown["FifoQueue"], shown["ContentBasedDeduplication"]) == ("true", "true")


def test_what_the_operator_did_not_list_is_not_made(server: Guarded) -> None:
    with server.client(keys=server.root) as client:
        for name in ("other", "my-orders-1"):
            with pytest.raises(client.exceptions.QueueDoesNotExist):
                client.send_message(QueueUrl=name, MessageBody="x")
        with pytest.raises(client.exceptions.QueueDoesNotExist):
            client.purge_queue(QueueUrl="orders-purge")
        with pytest.raises(client.exceptions.QueueDoesNotExist, match="you do not have access"):
            client.get_queue_url(QueueName="orders-theirs", QueueOwnerAWSAccountId="111111111111")


def test_it_takes_the_right_to_create_and_the_right_to_use(server: Guarded) -> None:
    producer = server.user("producer", allow=["sqs:SendMessage"])
    maker = server.user("maker", allow=["sqs:SendMessage", "sqs:CreateQueue"])
    creator = server.user("creator", allow=["sqs:CreateQueue"])
    with server.client(keys=producer) as client, pytest.raises(client.exceptions.QueueDoesNotExist):
        client.send_message(QueueUrl="orders-rights", MessageBody="x")
    with server.client(keys=creator) as client, pytest.raises(client.exceptions.ClientError, match="AccessDenied"):
        client.send_message(QueueUrl="orders-rights", MessageBody="x")
    with server.client(keys=server.root) as client:
        assert "QueueUrls" not in client.list_queues(QueueNamePrefix="orders-rights")
    with server.client(keys=maker) as client:
        client.send_message(QueueUrl="orders-rights", MessageBody="x")


def test_a_deleted_queue_rests_before_it_is_made_again(server: Guarded) -> None:
    with server.client(keys=server.root) as client:
        client.send_message(QueueUrl="orders-deleted", MessageBody="x")
        client.delete_queue(QueueUrl="orders-deleted")
        with pytest.raises(client.exceptions.QueueDoesNotExist):
            client.send_message(QueueUrl="orders-deleted", MessageBody="x")


def test_it_works_in_the_query_dialect_and_for_many_at_once(tmp_path: Path) -> None:
    with running(tmp_path / "data", "--auto-create", "*") as open_server, open_server.client() as client:
        form = urllib.parse.urlencode({"Action": "SendMessage", "MessageBody": "x"}).encode()
        for _ in range(2):
            with urllib.request.urlopen(f"{open_server.endpoint}/000000000000/plain", form) as answer:
                assert b"<SendMessageResponse" in answer.read()
        assert attributes_of(client, "plain")["ApproximateNumberOfMessages"] == "2"
