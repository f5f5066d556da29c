"""What an operator sets, seen from outside: files, variables, flags, names behind proxies."""

import json
import signal
import subprocess
from pathlib import Path

import pytest

from tests.process.guarded import guarded
from tests.process.server import command, environment, running


def config(*arguments: str, status: int = 0) -> str:
    done = subprocess.run(command("config", *arguments), env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    return done.stderr if status else done.stdout


def test_a_file_is_checked_before_a_server_runs_with_it(tmp_path: Path) -> None:
    file = tmp_path / "holdfast.toml"
    file.write_text('[server]\nregion = "eu-north-1"\n', encoding="utf-8")
    assert config("check", str(file)) == f"{file} is right: 1 settings.\n"
    file.write_text('[server]\nregoin = "eu-north-1"\nlisten = 9324\n', encoding="utf-8")
    said = config("check", str(file), status=2)
    assert "Did you mean server.region?" in said
    assert "HOST:PORT" in said


def test_what_is_in_force_is_shown_with_its_origin_and_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "holdfast.toml"
    file.write_text('[server]\nregion = "eu-north-1"\n', encoding="utf-8")
    monkeypatch.setenv("HOLDFAST__SERVER__ACCOUNT", "000000000042")
    monkeypatch.setenv("HOLDFAST_SECRET_ACCESS_KEY", "canary-in-the-environment")
    rows = {row["name"]: row for row in json.loads(config("show", "--config", str(file), "--json"))}
    assert (rows["server.region"]["value"], rows["server.region"]["origin"]) == ('"eu-north-1"', str(file))
    assert rows["server.account"]["origin"] == "HOLDFAST__SERVER__ACCOUNT"
    shown = config("show", "--config", str(file), "--origin")
    assert "server.data" in shown
    assert "HOLDFAST_SECRET_ACCESS_KEY" in shown
    assert "canary" not in shown


def test_a_server_takes_account_and_region_from_its_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "holdfast.toml"
    file.write_text('[server]\nregion = "eu-north-1"\naccount = "000000000001"\n', encoding="utf-8")
    monkeypatch.setenv("HOLDFAST__SERVER__ACCOUNT", "000000000042")
    with guarded(tmp_path / "data", "--config", str(file)) as server, server.client(keys=server.root) as client:
        url = client.create_queue(QueueName="q")["QueueUrl"]
        assert url == f"{server.endpoint}/000000000042/q"
        shown = client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
        assert shown["QueueArn"] == "arn:aws:sqs:eu-north-1:000000000042:q"


def test_ephemeral_data_is_gone_afterwards(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    arguments = ("serve", "--ephemeral", "--listen", "127.0.0.1:0", "--no-auth", "--ready-file", str(ready))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    variables = {**environment(), "TMPDIR": str(scratch)}
    with subprocess.Popen(command(*arguments), env=variables, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        (data,) = scratch.glob("holdfast-*")
        assert str(data) in said
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0
    assert list(scratch.iterdir()) == []


def test_queue_urls_begin_with_the_advertised_url(tmp_path: Path) -> None:
    with running(tmp_path / "data", "--advertised-url", "https://queues.example") as server, server.client() as client:
        url = client.create_queue(QueueName="q")["QueueUrl"]
        assert url == "https://queues.example/000000000000/q"
        client.send_message(QueueUrl=url, MessageBody="found by its path")
