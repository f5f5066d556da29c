"""Secrets and bodies that were put into everything a server is given come out nowhere but in answers to their owner."""

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from tests.process.guarded import Guarded, guarded, run
from tests.process.server import command, environment

CANARY = "canary"
BODY, ATTRIBUTE, SECRET, WRONG = (f"{CANARY}-{part}" for part in ("body", "attribute", "secret-key", "wrong-secret"))


def provoke(server: Guarded) -> None:
    """Requests that succeed and requests that are refused at every stage."""
    with server.client(keys=server.root) as client:
        url = client.create_queue(QueueName="q")["QueueUrl"]
        attributes = {"a": {"DataType": "String", "StringValue": ATTRIBUTE}}
        client.send_message(QueueUrl=url, MessageBody=BODY, MessageAttributes=attributes)
        assert client.receive_message(QueueUrl=url)["Messages"][0]["Body"] == BODY
        for refused in ({"DelaySeconds": 10_000}, {"MessageGroupId": f"{CANARY} group"}):
            with pytest.raises(ClientError):
                client.send_message(QueueUrl=url, MessageBody=BODY, **refused)
        with pytest.raises(ClientError):
            client.delete_message(QueueUrl=url, ReceiptHandle=BODY)
    with server.client(keys=("ci-key", WRONG)) as client, pytest.raises(ClientError):
        client.send_message(QueueUrl=url, MessageBody=BODY)
    query = urllib.parse.urlencode({"Action": "SendMessage", "MessageBody": BODY})
    for target, data in ((f"/?{query}", None), (f"/{CANARY}", BODY.encode()), ("/", b"{" + BODY.encode())):
        with pytest.raises(urllib.error.HTTPError) as refused_plainly:
            urllib.request.urlopen(server.endpoint + target, data)
        refused_plainly.value.close()


def test_no_secret_and_no_body_comes_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret_file = tmp_path / "secret"
    secret_file.write_text(SECRET, encoding="utf-8")
    monkeypatch.setenv("HOLDFAST_ACCESS_KEY_ID", "ci-key")
    monkeypatch.setenv("HOLDFAST_SECRET_ACCESS_KEY_FILE", str(secret_file))
    with guarded(tmp_path / "data", "--log-level", "debug") as server:
        assert server.root == ("ci-key", SECRET)
        made = json.loads(run(server.data, "key", "create", "--json"))
        provoke(server)
        assert server.stop() == 0
    monkeypatch.setenv("HOLDFAST_SECRET_ACCESS_KEY", SECRET)
    shown = subprocess.run(command("config", "show"), env=environment(), capture_output=True, text=True, check=True)
    told = [server.output(), shown.stdout, run(server.data, "key", "ls"), run(server.data, "user", "ls")]
    kept = [each.read_bytes() for each in tmp_path.rglob("*") if each.is_file() and each != secret_file]
    assert all(CANARY not in each and made["SecretAccessKey"] not in each for each in told)
    assert all(CANARY.encode() not in each and made["SecretAccessKey"].encode() not in each for each in kept)
