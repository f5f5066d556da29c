"""`--workers 2`: one endpoint, two processes, and clients that cannot tell."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from holdfast.cli import folder
from tests.process.guarded import run
from tests.process.server import Running, drain, running
from tests.process.signed import ask, asked

WORKERS = ("--workers", "2", "--relaxed")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("workers") / "data", *WORKERS) as made:
        yield made


def workers_of(server: Running) -> list[int]:
    pid = server.process.pid
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(each) for each in text.split()]


def await_starts(server: Running, count: int) -> None:
    """So many workers have said that they serve."""
    deadline = time.monotonic() + 30
    while server.output().count('"event":"serving"') < count:
        assert time.monotonic() < deadline, server.output()
        time.sleep(0.05)


@pytest.fixture
def clients(server: Running) -> Iterator[list[Any]]:
    """Each has its own connection, so both processes are asked."""
    with ExitStack() as stack:
        yield [stack.enter_context(server.client()) for _ in range(8)]


def test_every_connection_serves_every_queue(clients: list[Any]) -> None:
    urls = [clients[0].create_queue(QueueName=f"every-{number}")["QueueUrl"] for number in range(4)]
    for url in urls:
        for number, client in enumerate(clients):
            client.send_message(QueueUrl=url, MessageBody=str(number))
        entries = [{"Id": str(number), "MessageBody": f"b{number}"} for number in range(10)]
        assert len(clients[1].send_message_batch(QueueUrl=url, Entries=entries)["Successful"]) == 10
        found = {message["Body"] for message in drain(clients[2], url)}
        assert found == {*map(str, range(8)), *(f"b{number}" for number in range(10))}


def test_what_one_connection_sets_the_others_see_at_once(clients: list[Any]) -> None:
    url = clients[0].create_queue(QueueName="settings")["QueueUrl"]
    for number, client in enumerate(clients):
        client.set_queue_attributes(QueueUrl=url, Attributes={"DelaySeconds": str(number)})
        for other in clients:
            values = other.get_queue_attributes(QueueUrl=url, AttributeNames=["DelaySeconds"])["Attributes"]
            assert values == {"DelaySeconds": str(number)}


def test_a_long_poll_is_answered_whichever_process_it_reaches(clients: list[Any]) -> None:
    urls = [clients[0].create_queue(QueueName=f"poll-{number}")["QueueUrl"] for number in range(2)]
    for url in urls:
        found: list[str] = []

        def poll(client: Any, url: str = url, found: list[str] = found) -> None:
            reply = client.receive_message(QueueUrl=url, WaitTimeSeconds=20)
            found.extend(message["Body"] for message in reply.get("Messages", ()))

        threads = [threading.Thread(target=poll, args=(client,)) for client in clients[:4]]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        for number in range(4):
            clients[5].send_message(QueueUrl=url, MessageBody=str(number))
        for thread in threads:
            thread.join(20)
        assert sorted(found) == ["0", "1", "2", "3"]


def test_fifo_order_holds_over_all_connections(clients: list[Any]) -> None:
    for name in ("order-a.fifo", "order-b.fifo"):
        attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
        url = clients[0].create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        for number in range(24):
            clients[number % 8].send_message(QueueUrl=url, MessageBody=str(number), MessageGroupId="g")
        assert [message["Body"] for message in drain(clients[3], url)] == list(map(str, range(24)))


def test_dead_letters_cross_from_one_process_to_the_other(clients: list[Any]) -> None:
    client = clients[0]
    urls = [client.create_queue(QueueName=f"dead-{number}")["QueueUrl"] for number in range(3)]
    arn = client.get_queue_attributes(QueueUrl=urls[1], AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    for url in (urls[0], urls[2]):  # one of the two lives in the other process than their dead-letter queue
        policy = f'{{"deadLetterTargetArn":"{arn}","maxReceiveCount":1}}'
        client.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": policy})
        client.send_message(QueueUrl=url, MessageBody=url[-1])
        client.receive_message(QueueUrl=url, VisibilityTimeout=0)
        assert "Messages" not in client.receive_message(QueueUrl=url, WaitTimeSeconds=1)
    assert {message["Body"] for message in drain(client, urls[1])} == {"0", "2"}


# --- one admin port ------------------------------------------------------------------------------------------


def samples(server: Running, path: str) -> dict[str, float]:
    status, text = ask(folder.described(server.data).admin + path)
    assert status == 200
    lines = (line.rpartition(" ") for line in text.decode().splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def test_metrics_are_those_of_all_workers(server: Running, clients: list[Any]) -> None:
    """Also of queues that one worker leads and the others are asked for."""
    names = [f"count-{number}" for number in range(4)]
    urls = [clients[0].create_queue(QueueName=name)["QueueUrl"] for name in names]
    before = samples(server, "/metrics")
    for client in clients:
        for url in urls:
            client.send_message(QueueUrl=url, MessageBody="12345")
    after, queues = samples(server, "/metrics"), samples(server, "/metrics/queues")
    grown = {name: value - before.get(name, 0) for name, value in after.items()}
    assert grown["holdfast_number_of_messages_sent_total"] == 32
    assert grown['holdfast_requests_total{action="SendMessage",status="200"}'] == 32
    assert grown['holdfast_request_duration_seconds_count{action="SendMessage"}'] == 32
    assert grown["holdfast_approximate_number_of_messages_visible"] == 32
    for name in names:
        labels = f'{{account="000000000000",queue="{name}"}}'
        assert queues[f"holdfast_queue_number_of_messages_sent_total{labels}"] == 8
        assert queues[f"holdfast_queue_approximate_number_of_messages_visible{labels}"] == 8
    shown = asked(f"{folder.described(server.data).admin}/api/queues?prefix=count-")["queues"]
    assert [(each["name"], each["sent"], each["visible"]) for each in shown] == [(name, 8, 8) for name in names]
    assert {each["shard"] for each in shown} == {1, 2}


def test_counts_do_not_fall_when_a_worker_is_replaced(tmp_path: Path) -> None:
    counted = ("holdfast_number_of_messages_sent_total", "holdfast_fsync_duration_seconds_count")
    with running(tmp_path / "data", *WORKERS) as server, ExitStack() as stack:
        clients = [stack.enter_context(server.client()) for _ in range(8)]
        urls = [clients[0].create_queue(QueueName=f"fall-{number}")["QueueUrl"] for number in range(2)]
        for client in clients:
            for url in urls:
                client.send_message(QueueUrl=url, MessageBody="x")
        base = folder.described(server.data).admin
        assert asked(f"{base}/api/drain", method="PUT") == {"is_draining": True}
        before = samples(server, "/metrics")
        for number, worker in enumerate(workers_of(server), start=3):
            os.kill(worker, signal.SIGKILL)
            await_starts(server, number)
            after = samples(server, "/metrics")
            assert {name: after[name] for name in counted if after[name] < before[name]} == {}
        assert ask(f"{base}/in-service") == (503, b"draining\n")
        with server.client() as client:
            client.send_message(QueueUrl=urls[0], MessageBody="x")
        assert samples(server, "/metrics")[counted[0]] == 17


def test_scrubs_and_backups_are_of_all_workers_shards(tmp_path: Path) -> None:
    with running(tmp_path / "data", *WORKERS, "--backups", str(tmp_path / "backups")) as server:
        with server.client() as client:
            urls = [client.create_queue(QueueName=f"copied-{number}")["QueueUrl"] for number in range(2)]
            for url in urls:
                client.send_message(QueueUrl=url, MessageBody=url[-1])
        scrubbed, copied = chore(server, "scrub"), chore(server, "backup")
    assert (scrubbed["state"], scrubbed["is_live"], scrubbed["damaged"]) == ("done", True, [])
    assert (copied["state"], Path(copied["destination"]).parent) == ("done", tmp_path / "backups")
    run(tmp_path / "restored", "restore", copied["destination"])
    with running(tmp_path / "restored") as server, server.client() as client:
        assert [each["Body"] for number in range(2) for each in drain(client, f"copied-{number}")] == ["0", "1"]


def chore(server: Running, name: str) -> dict[str, Any]:
    """What is told of it when it is over."""
    url = f"{folder.described(server.data).admin}/api/{name}"
    assert asked(url) == {**asked(url), "state": "never"}
    assert asked(url, method="PUT")["state"] == "running"
    deadline = time.monotonic() + 120
    while (told := asked(url))["state"] == "running":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    found: dict[str, Any] = told
    return found


def admitted(clients: list[Any]) -> int:
    """How many calls of these, one after the other, are answered before one is throttled."""
    for count, client in enumerate(clients):
        try:
            client.list_queues()
        except client.exceptions.RequestThrottled:
            return count
    raise AssertionError("none was throttled")


def test_a_client_with_one_connection_gets_the_whole_rate_and_all_together_no_more(tmp_path: Path) -> None:
    with running(tmp_path / "data", *WORKERS, "--limit", "action=1:20") as server, ExitStack() as stack:
        clients = [stack.enter_context(server.client()) for _ in range(8)]
        assert admitted(clients[:1] * 100) >= 20
        time.sleep(0.2)  # the other worker has been told by now
        assert admitted(clients * 3) < 20


def test_a_worker_that_is_killed_is_replaced_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    with running(tmp_path / "data", *WORKERS) as server:
        with server.client() as client:
            urls = [client.create_queue(QueueName=f"kill-{number}")["QueueUrl"] for number in range(2)]
        sent: list[str] = []
        is_over = threading.Event()

        def send(number: int) -> None:
            serial = 0
            while not is_over.is_set():
                body = f"{number}-{serial}"
                serial += 1
                try:
                    with server.client() as client:
                        client.send_message(QueueUrl=urls[number % 2], MessageBody=body)
                except (ClientError, BotoCoreError):
                    continue
                sent.append(body)

        threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for already in (2, 3):
            time.sleep(1)
            os.kill(workers_of(server)[0], signal.SIGKILL)
            await_starts(server, already + 1)
        is_over.set()
        for thread in threads:
            thread.join()
        assert len(workers_of(server)) == 2
        with server.client() as client:
            found = {message["Body"] for url in urls for message in drain(client, url)}
        assert len(sent) > 20
        assert set(sent) <= found


def test_readiness_is_that_of_all_workers(tmp_path: Path) -> None:
    with running(tmp_path / "data", *WORKERS) as server:
        url = f"{folder.described(server.data).admin}/readyz"
        assert ask(url)[0] == 200
        os.kill(workers_of(server)[1], signal.SIGKILL)  # the first has the admin port
        deadline = time.monotonic() + 30
        for wanted in (503, 200):
            while ask(url)[0] != wanted:
                assert time.monotonic() < deadline, server.output()
                time.sleep(0.005)
        assert len(workers_of(server)) == 2


def test_sigterm_ends_all_and_the_next_start_may_have_other_workers(tmp_path: Path) -> None:
    with running(tmp_path / "data", *WORKERS) as server:
        with server.client() as client:
            urls = [client.create_queue(QueueName=f"next-{number}")["QueueUrl"] for number in range(4)]
            for url in urls:
                client.send_message(QueueUrl=url, MessageBody="kept")
        workers = workers_of(server)
        assert server.stop() == 0
        assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]
    with running(tmp_path / "data", "--workers", "3") as server, server.client() as client:
        for url in urls:
            path = url.split("/", 3)[3]
            assert [each["Body"] for each in drain(client, f"{server.endpoint}/{path}")] == ["kept"]


def kill_all(server: Running) -> None:
    """The parent; the workers end by themselves, and nobody can start on their data before that."""
    workers = workers_of(server)
    server.kill()
    deadline = time.monotonic() + 15
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    with running(tmp_path / "data", *WORKERS) as server:
        assert len(workers_of(server)) == 2
        kill_all(server)
    with running(tmp_path / "data") as server, server.client() as client:
        client.create_queue(QueueName="q")


def test_workers_leave_nothing_outside_the_data_folder_whose_path_may_be_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, elsewhere = tmp_path / ("a" * 120) / "data", tmp_path / "tmp"  # no socket can have so long a path
    elsewhere.mkdir()
    data.parent.mkdir()
    monkeypatch.setenv("TMPDIR", str(elsewhere))
    with running(data, "--workers", "3") as server:
        assert {path.name for path in (data / "workers").iterdir()} == {"0", "1", "2"}
        kill_all(server)
    with running(data, *WORKERS) as server:
        assert {path.name for path in (data / "workers").iterdir()} == {"0", "1"}
        assert server.stop() == 0
    assert not (data / "workers").exists()
    assert not list(elsewhere.iterdir())
