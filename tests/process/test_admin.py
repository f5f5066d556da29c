"""The admin port: who gets in where, what it says, and that it counts right."""

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast.cli import folder
from holdfast.cli.first_start import Stores
from holdfast.console import app
from holdfast.console.routes import Routes
from tests.process.guarded import Guarded, guarded, new_key, run
from tests.process.server import running
from tests.process.signed import ask, asked

HEALTH = {"/livez", "/readyz", "/in-service"}


def routes() -> list[tuple[str, str]]:
    """Of the real application: every method and path."""
    made = app.make(Routes(cast(Any, None)).rows(), guard=lambda _, __: None, metrics_token="")
    return [(method, cast(Any, each).path) for each in made.routes for method in sorted(cast(Any, each).methods)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded(tmp_path_factory.mktemp("admin") / "data") as made:
        yield made


def admin(data: Path) -> str:
    return folder.described(data).admin


@pytest.mark.parametrize(("method", "path"), routes())
def test_every_route_but_health_needs_a_signature(server: Guarded, method: str, path: str) -> None:
    status, body = ask(admin(server.data) + path, method=method)
    if path in HEALTH:
        assert status == 200
        return
    assert status == 403
    if method != "HEAD":
        assert json.loads(body)["code"] == "MissingAuthenticationToken"


def test_root_may_ask_everything(server: Guarded) -> None:
    base, keys = admin(server.data), server.root
    for path in ("/metrics", "/metrics/queues", "/openapi.json"):
        assert ask(base + path, keys=keys)[0] == 200
    told = asked(f"{base}/api/server", keys=keys)
    assert (told["account"], told["data"], told["is_draining"]) == ("000000000000", str(server.data), False)
    origins = {each["name"]: each["origin"] for each in asked(f"{base}/api/settings", keys=keys)}
    assert (origins["server.data"], origins["server.region"]) == ("--data", "default")
    assert {"account": "000000000000"} in asked(f"{base}/api/accounts", keys=keys)
    assert "root" in [each["name"] for each in asked(f"{base}/api/users", keys=keys)]
    assert keys[0] in [each["id"] for each in asked(f"{base}/api/keys", keys=keys)]
    assert keys[1].encode() not in ask(f"{base}/api/keys", keys=keys)[1]


def test_users_get_what_their_policies_allow(server: Guarded) -> None:
    base = admin(server.data)
    reader = server.user("reader", allow=["holdfast:AdminRead"])
    operator = server.user("operator", allow=["holdfast:AdminChange"])
    producer = server.user("producer", allow=["sqs:*"])
    assert ask(f"{base}/api/server", keys=reader)[0] == 200
    assert ask(f"{base}/api/drain", method="PUT", keys=reader)[0] == 403
    assert ask(f"{base}/api/drain", method="DELETE", keys=operator)[0] == 200
    assert ask(f"{base}/api/server", keys=operator)[0] == 403
    status, body = ask(f"{base}/api/server", keys=producer)
    assert (status, json.loads(body)["code"]) == (403, "AccessDenied")


def test_root_of_another_account_is_a_stranger_here(server: Guarded) -> None:
    run(server.data, "account", "create", "000000000002")
    stranger = new_key(server.data, "--account", "000000000002")
    assert ask(f"{admin(server.data)}/api/server", keys=stranger)[0] == 403


def test_a_signature_for_sqs_is_not_one_for_the_admin_port(server: Guarded) -> None:
    assert ask(f"{admin(server.data)}/api/server", keys=server.root, service="sqs")[0] == 403
    assert ask(f"{admin(server.data)}/api/server", keys=(server.root[0], "wrong-secret"))[0] == 403


def test_metrics_can_be_read_with_their_token_and_nothing_else_can(server: Guarded) -> None:
    base, file = admin(server.data), server.data / "metrics.token"
    token = file.read_text(encoding="ascii").strip()
    assert file.stat().st_mode & 0o777 == 0o600
    for path, status in {"/metrics": 200, "/metrics/queues": 200, "/api/server": 403, "/openapi.json": 403}.items():
        assert ask(base + path, token=token)[0] == status
    status, refusal = ask(f"{base}/metrics", token="wrong")
    assert status == 403
    assert b"metrics.token" in refusal
    assert b"Authorization: Bearer" in refusal
    assert b"metrics.token" not in ask(f"{base}/api/server", token=token)[1]


def test_the_token_of_metrics_is_there_before_any_worker_could_make_another(tmp_path: Path) -> None:
    """A worker that met the token of another one ended, and the server with it."""
    stores = Stores(tmp_path / "data", account="000000000000")
    token = (tmp_path / "data" / "metrics.token").read_text(encoding="ascii").strip()
    stores.close_databases()
    workers = [Stores(tmp_path / "data", account="000000000000", is_locked=True) for _ in range(2)]
    assert [each.metrics_token for each in (stores, *workers)] == [token] * 3
    assert len(token) > 30
    for each in (*workers, stores):
        each.close()


def test_an_empty_token_of_metrics_is_none(tmp_path: Path) -> None:
    """As a disk that was full left one; anybody could show it."""
    file = tmp_path / "data" / "metrics.token"
    file.parent.mkdir()
    file.touch(mode=0o644)
    stores = Stores(tmp_path / "data", account="000000000000")
    stores.close()
    assert len(stores.metrics_token) > 30
    assert file.read_text(encoding="ascii").strip() == stores.metrics_token
    assert file.stat().st_mode & 0o777 == 0o600


def test_the_description_has_every_route_and_what_it_needs(server: Guarded) -> None:
    document = asked(f"{admin(server.data)}/openapi.json", keys=server.root)
    described = {(method.upper(), path) for path, each in document["paths"].items() for method in each}
    assert described == {route for route in routes() if route[0] != "HEAD"} - {("GET", "/openapi.json")}
    assert {
        path for path, each in document["paths"].items() if not each.get("get", {"security": 1})["security"]
    } == HEALTH
    assert document["components"]["schemas"]["Queue"]["properties"]["visible"] == {"type": "integer"}


def test_a_body_that_no_request_needs_is_refused(server: Guarded) -> None:
    host, _, port = admin(server.data).removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(b"PUT /api/drain HTTP/1.1\r\nHost: h\r\nContent-Length: 70000\r\n\r\n" + b"x" * 70_000)
        assert connection.recv(64).startswith(b"HTTP/1.1 413 ")


def samples(text: bytes) -> dict[str, float]:
    lines = (line.rpartition(" ") for line in text.decode().splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def test_what_was_replied_is_counted_once(tmp_path: Path) -> None:
    with running(tmp_path / "data") as open_server, open_server.client() as client:
        url = client.create_queue(QueueName="q")["QueueUrl"]
        client.create_queue(QueueName="idle")
        client.send_message(QueueUrl=url, MessageBody="12345")
        entries = [{"Id": str(n), "MessageBody": "12345"} for n in range(3)] + [{"Id": "x", "MessageBody": "\0"}]
        assert len(client.send_message_batch(QueueUrl=url, Entries=entries)["Successful"]) == 3
        client.send_message(QueueUrl=url, MessageBody="late", DelaySeconds=900)
        taken = client.receive_message(QueueUrl=url, MaxNumberOfMessages=3)["Messages"]
        client.receive_message(QueueUrl="idle")
        client.delete_message(QueueUrl=url, ReceiptHandle=taken[0]["ReceiptHandle"])
        with pytest.raises(client.exceptions.QueueDoesNotExist):
            client.send_message(QueueUrl="none", MessageBody="x")
        base = admin(open_server.data)
        totals, queues = samples(ask(f"{base}/metrics")[1]), samples(ask(f"{base}/metrics/queues")[1])
        page = asked(f"{base}/api/queues?prefix=q")
        assert ask(f"{base}/api/queues?limit=0")[0] == 400
        first = asked(f"{base}/api/queues?limit=1")
        second = asked(f"{base}/api/queues?limit=1&after={first['next']}")
    expected = {
        "number_of_messages_sent_total": 5,
        "number_of_messages_received_total": 3,
        "number_of_messages_deleted_total": 1,
        "sent_message_size_bytes_total": 24,
        "approximate_number_of_messages_visible": 1,
        "approximate_number_of_messages_not_visible": 2,
        "approximate_number_of_messages_delayed": 1,
    }
    for name, value in expected.items():
        assert totals[f"holdfast_{name}"] == value, name
        assert queues[f'holdfast_queue_{name}{{account="000000000000",queue="q"}}'] == value, name
    assert totals["holdfast_number_of_empty_receives_total"] == 1
    assert totals['holdfast_requests_total{action="SendMessage",status="200"}'] == 2
    assert totals['holdfast_requests_total{action="SendMessage",status="400"}'] == 1
    assert totals['holdfast_requests_total{action="SendMessageBatch",status="200"}'] == 1
    assert totals['holdfast_request_duration_seconds_count{action="SendMessage"}'] == 3
    assert totals["holdfast_fsync_duration_seconds_count"] > 0
    assert totals["holdfast_queues"] == 2
    assert [each["name"] for each in page["queues"]] == ["q"]
    assert page["queues"][0]["sent"] == 5
    assert [each["queues"][0]["name"] for each in (first, second)] == ["idle", "q"]
    assert (first["next"], second["next"]) == ("000000000000/idle", "")


def test_draining_tells_load_balancers_and_nobody_else(tmp_path: Path) -> None:
    with running(tmp_path / "data") as open_server, open_server.client() as client:
        base = admin(open_server.data)
        assert asked(f"{base}/api/drain", method="PUT") == {"is_draining": True}
        assert ask(f"{base}/in-service") == (503, b"draining\n")
        assert (ask(f"{base}/livez")[0], ask(f"{base}/readyz")[0]) == (200, 200)
        client.create_queue(QueueName="q")
        assert asked(f"{base}/api/drain", method="DELETE") == {"is_draining": False}
        assert ask(f"{base}/in-service")[0] == 200


def test_a_backup_needs_a_folder_that_the_operator_has_named(server: Guarded) -> None:
    status, body = ask(f"{admin(server.data)}/api/backup", method="PUT", keys=server.root)
    assert (status, json.loads(body)["code"]) == (400, "AWS.SimpleQueueService.UnsupportedOperation")
    assert "--backups DIR" in json.loads(body)["message"]


def test_a_scrub_names_what_is_damaged(tmp_path: Path) -> None:
    with running(tmp_path / "data") as open_server, open_server.client() as client:
        url = f"{admin(open_server.data)}/api/scrub"
        client.create_queue(QueueName="q")
        (open_server.data / "shards" / "0001" / "snapshots" / "0000000000000001.snap").write_bytes(b"no snapshot")
        assert asked(url, method="PUT")["state"] == "running"
        deadline = time.monotonic() + 120
        while (told := asked(url))["state"] == "running":
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert told["state"] == "done"
    assert [each["path"] for each in told["damaged"]] == ["shards/0001/snapshots/0000000000000001.snap"]
