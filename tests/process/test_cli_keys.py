"""Keys and users on the command line, with the server stopped, running, and not there."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.process.guarded import guarded, new_key, run
from tests.process.server import command, environment


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a server that ran once."""
    folder = tmp_path_factory.mktemp("keys") / "data"
    with guarded(folder) as server:
        server.stop()
    return folder


def test_env_is_for_shells_files_and_programs(data: Path) -> None:
    values = json.loads(run(data, "env", "--json"))
    names = "AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_REGION AWS_DEFAULT_REGION AWS_ENDPOINT_URL_SQS".split()
    assert list(values) == names
    assert (len(values[names[0]]), len(values[names[1]])) == (20, 40)
    assert run(data, "env", "--dotenv").splitlines() == [f"{name}={value}" for name, value in values.items()]
    script = (
        'eval "$HOLDFAST_ENV"; echo "$AWS_ACCESS_KEY_ID $AWS_REGION ${AWS_PROFILE-unset} ${AWS_SESSION_TOKEN-unset}"'
    )
    shell = {**os.environ, "HOLDFAST_ENV": run(data, "env"), "AWS_PROFILE": "x", "AWS_SESSION_TOKEN": "y"}
    shown = subprocess.run(["sh", "-c", script], env=shell, capture_output=True, text=True, check=True).stdout
    assert shown.split() == [values[names[0]], "us-east-1", "unset", "unset"]


def test_env_is_all_that_boto3_needs(tmp_path: Path) -> None:
    program = "import boto3; print(boto3.client('sqs').create_queue(QueueName='q')['QueueUrl'])"
    with guarded(tmp_path / "data") as server:
        values = json.loads(run(server.data, "env", "--json"))
        done = subprocess.run(
            [*command()[:1], "-c", program], env={**environment(), **values}, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == f"{server.endpoint}/000000000000/q"


def test_keys_are_made_listed_rotated_and_disabled(data: Path) -> None:
    key_id, secret = new_key(data)
    assert secret not in run(data, "key", "ls")
    rotated = json.loads(run(data, "key", "rotate", key_id, "--json"))["AccessKeyId"]
    assert json.loads(run(data, "key", "disable", rotated, "--json")) == {"id": rotated, "state": "disabled"}
    states = {each["id"]: each["state"] for each in json.loads(run(data, "key", "ls", "--json"))}
    assert (states[key_id], states[rotated]) == ("disabled", "disabled")
    assert "active" in states.values()


def test_users_have_policies(data: Path) -> None:
    document = '{"Statement": {"Effect": "Allow", "Action": "sqs:*", "Resource": "*"}}'
    assert run(data, "user", "create", "ann").strip() == "arn:aws:iam::000000000000:user/ann"
    assert document in run(data, "user", "policy", "ann", "--file", "-", given=document)
    assert json.loads(run(data, "user", "policy", "ann", "--json")) == {"default": json.loads(document)}
    assert "user/ann  default" in run(data, "user", "ls")
    assert run(data, "user", "policy", "ann", "--remove") == ""


@pytest.mark.parametrize(
    ("arguments", "fix"),
    [
        (("key", "create", "--user", "nobody"), "holdfast user create nobody"),
        (("key", "disable", "AKIANOBODY"), "holdfast key ls"),
        (("key", "create", "--account", "12"), "12 digits"),
        (("key", "create", "--account", "123456789012"), "holdfast account create 123456789012"),
        (("user", "create", "x", "--account", "123456789012"), "holdfast account create 123456789012"),
        (("account", "create", "twelve"), "12 digits"),
        (("account", "create", "000000000000"), "holdfast key create --account 000000000000"),
        (("user", "create", "a/b"), "letters, digits"),
        (("user", "policy", "root", "--file", "-"), "needs no policy"),
        (("user", "policy", "nobody"), "holdfast user ls"),
    ],
)
def test_errors_name_the_fix(data: Path, arguments: tuple[str, ...], fix: str) -> None:
    assert fix in run(data, *arguments, status=2)


def test_a_policy_that_is_not_understood_is_refused(data: Path) -> None:
    run(data, "user", "create", "bob")
    document = '{"Statement": {"Effect": "Allow", "Action": "sqs:*", "Resource": "*", "NotPrincipal": "*"}}'
    assert "NotPrincipal" in run(data, "user", "policy", "bob", "--file", "-", given=document, status=2)


def test_a_folder_without_a_server_is_named(tmp_path: Path) -> None:
    assert "holdfast serve --data" in run(tmp_path / "nothing", "env", status=2)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    os.chown(tmp_path, 65534, -1)
    assert "belongs to" in run(tmp_path, "env", status=2)


def test_the_first_key_can_be_given_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "secret"
    file.write_text("a-secret-from-a-file\n", encoding="utf-8")
    monkeypatch.setenv("HOLDFAST_ACCESS_KEY_ID", "ci-key")
    monkeypatch.setenv("HOLDFAST_SECRET_ACCESS_KEY_FILE", str(file))
    with guarded(tmp_path / "data") as server:
        assert server.root == ("ci-key", "a-secret-from-a-file")
        assert "a-secret" not in server.output()
        server.stop()
    monkeypatch.setenv("HOLDFAST_ACCESS_KEY_ID", "other-key")
    with guarded(tmp_path / "data") as server:
        assert server.root[0] == "ci-key"


def test_half_a_key_in_the_environment_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_ACCESS_KEY_ID", "ci-key")
    assert "set both" in run(tmp_path / "data", "serve", "--listen", "127.0.0.1:0", status=2)


@pytest.mark.parametrize(
    ("options", "fix"),
    [
        (("--no-auth", "--listen", "0.0.0.0:0"), "--no-auth-anywhere"),
        (("--limit", "queue=fast"), "for example 5000 or 100:500"),
        (("--limit", "everything=1"), "queue=100:500"),
    ],
)
def test_a_dangerous_or_wrong_option_is_refused(tmp_path: Path, options: tuple[str, ...], fix: str) -> None:
    assert fix in run(tmp_path / "data", "serve", *options, status=2)
