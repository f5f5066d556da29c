"""TLS on both ports, with a certificate of our own authority."""

import contextlib
import json
import signal
import socket
import ssl
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from holdfast.cli import folder
from tests.process.authority import Authority
from tests.process.guarded import Guarded, guarded, run
from tests.process.server import command, environment


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority(tmp_path_factory.mktemp("authority"))
    made.issue()
    return made


@pytest.fixture(scope="module")
def server(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded(tmp_path_factory.mktemp("tls") / "data", *authority.options()) as made:
        yield made


@contextlib.contextmanager
def client(server: Guarded, authority: Authority) -> Iterator[Any]:
    keys = server.root
    made = boto3.client(
        "sqs",
        endpoint_url=server.endpoint,
        region_name="us-east-1",
        aws_access_key_id=keys[0],
        aws_secret_access_key=keys[1],
        verify=str(authority.file),
        config=Config(retries={"total_max_attempts": 1}, read_timeout=40),
    )
    try:
        yield made
    finally:
        made.close()


def port_of(server: Guarded) -> tuple[str, int]:
    host, _, port = server.endpoint.removeprefix("https://").rpartition(":")
    return host, int(port)


def serial(server: Guarded, authority: Authority) -> int:
    """Of the certificate that a new connection is shown."""
    context = ssl.create_default_context(cafile=str(authority.file))
    with (
        socket.create_connection(port_of(server)) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as secure,
    ):
        shown = secure.getpeercert()
        assert shown is not None
        return int(str(shown["serialNumber"]), 16)


def test_boto3_talks_to_it_and_is_told_urls_that_it_can_use(server: Guarded, authority: Authority) -> None:
    with client(server, authority) as sqs:
        url = sqs.create_queue(QueueName="q")["QueueUrl"]
        assert url == f"{server.endpoint}/000000000000/q"
        assert url.startswith("https://127.0.0.1:")
        body = "x" * 200_000
        sqs.send_message(QueueUrl=url, MessageBody=body)
        assert sqs.receive_message(QueueUrl=url)["Messages"][0]["Body"] == body


def test_a_policy_that_enforces_tls_is_satisfied(server: Guarded, authority: Authority) -> None:
    with client(server, authority) as sqs:
        url = sqs.create_queue(QueueName="enforced")["QueueUrl"]
        statement = {
            "Effect": "Deny",
            "Principal": "*",
            "Action": "sqs:*",
            "Resource": "arn:aws:sqs:us-east-1:000000000000:enforced",
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        }
        policy = json.dumps({"Version": "2012-10-17", "Statement": statement})
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
        sqs.send_message(QueueUrl=url, MessageBody="x")
        statement["Condition"] = {"Bool": {"aws:SecureTransport": "true"}}
        statement["Action"] = "sqs:SendMessage"
        policy = json.dumps({"Version": "2012-10-17", "Statement": statement})
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
        with pytest.raises(sqs.exceptions.ClientError, match="explicit deny"):
            sqs.send_message(QueueUrl=url, MessageBody="x")


def test_the_admin_port_and_our_own_commands_use_it_too(server: Guarded, authority: Authority) -> None:
    admin = folder.described(server.data).admin
    context = ssl.create_default_context(cafile=str(authority.file))
    with urllib.request.urlopen(f"{admin}/livez", context=context) as answer:
        assert answer.read() == b"ok\n"
    assert json.loads(run(server.data, "env", "--json"))["AWS_CA_BUNDLE"] == str(authority.file)
    assert json.loads(run(server.data, "queue", "ls", "--json")) is not None


def test_whoever_does_not_speak_tls_disturbs_nobody(server: Guarded, authority: Authority) -> None:
    for said in (b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", b"\x16\x03\x01garbage" * 100, b""):
        with socket.create_connection(port_of(server), timeout=10) as connection, contextlib.suppress(OSError):
            connection.sendall(said)
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1024)
    with client(server, authority) as sqs:
        sqs.list_queues()


def test_a_refused_request_is_answered_before_the_connection_closes(server: Guarded, authority: Authority) -> None:
    context = ssl.create_default_context(cafile=str(authority.file))
    with (
        socket.create_connection(port_of(server), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as secure,
    ):
        secure.sendall(b"GET /" + b"x" * 20_000)
        assert secure.recv(1024).startswith(b"HTTP/1.1 431 ")


def test_a_new_certificate_is_used_without_dropping_connections(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    first = authority.issue()
    with guarded(tmp_path / "data", *authority.options()) as server, client(server, authority) as sqs:
        url = sqs.create_queue(QueueName="q")["QueueUrl"]
        answers: list[Any] = []
        poll = threading.Thread(
            target=lambda: answers.append(sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20)), daemon=True
        )
        poll.start()
        assert serial(server, authority) == first
        (tmp_path / "server.pem").write_text("nonsense", encoding="ascii")
        hang_up(server, "the old one stays in force")
        assert serial(server, authority) == first
        second = authority.issue()
        hang_up(server, "was read again")
        assert serial(server, authority) == second
        assert not answers
        with client(server, authority) as other:
            other.send_message(QueueUrl=url, MessageBody="over a new connection")
        poll.join(timeout=20)
        assert [each["Body"] for each in answers[0]["Messages"]] == ["over a new connection"]
        assert server.stop() == 0


def hang_up(server: Guarded, said: str) -> None:
    server.process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + 20
    while said not in server.output():
        assert time.monotonic() < deadline, server.output()
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("options", "fix"),
    [
        (("--tls-certificate", "server.pem"), "set both or none"),
        (("--tls-certificate", "missing.pem", "--tls-key", "server.key"), "missing.pem is not there"),
        (("--tls-certificate", "ca.pem", "--tls-key", "server.key"), "belong together"),
    ],
)
def test_files_that_cannot_be_used_are_refused_with_the_fix(
    authority: Authority, tmp_path: Path, options: tuple[str, ...], fix: str
) -> None:
    arguments = command("serve", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", *options)
    refused = subprocess.run(
        arguments, env=environment(), cwd=authority.folder, capture_output=True, text=True, check=False
    )
    assert refused.returncode == 2
    assert fix in refused.stderr
    assert not (tmp_path / "data").exists()
