"""What a server has acknowledged is there after kill -9, and what it has deleted stays deleted."""

import contextlib
import itertools
import resource
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from tests.process.server import Running, command, drain, environment, running

LOST = (BotoCoreError, ClientError)


class Load:
    """Clients that send, receive and delete until the server is gone, and remember what they were told."""

    def __init__(self, server: Running, url: str, *, prefix: str) -> None:
        self.tried: set[str] = set()  # bodies of sends, answered or not
        self.sent: set[str] = set()  # acknowledged
        self.deleting: set[str] = set()  # deletes, answered or not
        self.deleted: set[str] = set()  # acknowledged
        work = [(self._send, number) for number in range(6)] + [(self._consume, number) for number in range(2)]
        self._threads = [threading.Thread(target=run, args=(server, url, f"{prefix}-{number}")) for run, number in work]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _send(self, server: Running, url: str, name: str) -> None:
        with server.client() as client, contextlib.suppress(*LOST):
            for number in itertools.count():
                body = f"{name}-{number}"
                self.tried.add(body)
                client.send_message(QueueUrl=url, MessageBody=body)
                self.sent.add(body)

    def _consume(self, server: Running, url: str, _: str) -> None:
        with server.client() as client, contextlib.suppress(*LOST):
            while True:
                received = client.receive_message(QueueUrl=url, MaxNumberOfMessages=3, VisibilityTimeout=1)
                for message in received.get("Messages", []):
                    self.deleting.add(message["Body"])
                    client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
                    self.deleted.add(message["Body"])


def check(found: list[dict[str, Any]], loads: list[Load]) -> None:
    bodies = [message["Body"] for message in found]
    assert len(bodies) == len(set(bodies)), "a message was handed out twice within its visibility timeout"
    sent = set().union(*(load.sent for load in loads))
    tried = set().union(*(load.tried for load in loads))
    deleting = set().union(*(load.deleting for load in loads))
    deleted = set().union(*(load.deleted for load in loads))
    assert sent - deleting - set(bodies) == set(), "acknowledged messages are lost"
    assert set(bodies) & deleted == set(), "deleted messages are back"
    assert set(bodies) - tried == set(), "messages that nobody sent"


def test_kill_9_under_load_and_restart_again_and_again(tmp_path: Path) -> None:
    data, loads = tmp_path / "data", []
    for round_number in range(4):
        with running(data) as server:
            with server.client() as client:
                url = client.create_queue(QueueName="load")["QueueUrl"]
            load = Load(server, url, prefix=f"r{round_number}")
            loads.append(load)
            time.sleep(1.2)
            server.kill()
            load.join()
            assert load.sent
            assert load.deleted
    with running(data) as server, server.client() as client:
        assert client.list_queues()["QueueUrls"] == [f"{server.endpoint}/000000000000/load"]
        check(drain(client, "load", patience_s=3), loads)
    with running(data) as server, server.client() as client:
        assert drain(client, "load") == []


def test_fifo_order_and_deduplication_survive_kill_9(tmp_path: Path) -> None:
    data = tmp_path / "data"
    attributes = {"FifoQueue": "true"}
    with running(data) as server, server.client() as client:
        url = client.create_queue(QueueName="line.fifo", Attributes=attributes)["QueueUrl"]
        first = [_send_fifo(client, url, number) for number in range(20)]
        server.kill()
    with running(data) as server, server.client() as client:
        again = [_send_fifo(client, "line.fifo", number) for number in range(25)]
        assert again[:20] == first
        assert [int(message["Body"]) for message in drain(client, "line.fifo")] == list(range(25))


def _send_fifo(client: Any, url: str, number: int) -> str:
    sent: str = client.send_message(
        QueueUrl=url, MessageBody=str(number), MessageGroupId="g", MessageDeduplicationId=str(number)
    )["MessageId"]
    return sent


def test_a_receipt_is_good_after_a_restart(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data) as server, server.client() as client:
        url = client.create_queue(QueueName="jobs")["QueueUrl"]
        client.send_message(QueueUrl=url, MessageBody="x")
        (message,) = client.receive_message(QueueUrl=url)["Messages"]
        server.kill()
    with running(data) as server, server.client() as client:
        client.delete_message(QueueUrl="jobs", ReceiptHandle=message["ReceiptHandle"])
        counts = client.get_queue_attributes(QueueUrl="jobs", AttributeNames=["All"])["Attributes"]
        assert counts["ApproximateNumberOfMessagesNotVisible"] == "0"


def test_a_backlog_is_read_from_disk_after_a_restart(tmp_path: Path) -> None:
    _restart_with_backlog(tmp_path / "data", 3000)


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="NOT TESTED: a file system in memory")
def test_a_file_system_in_memory_can_hold_the_data() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:  # it cannot tell whether a read would wait
        _restart_with_backlog(Path(folder) / "data", 100)


def _restart_with_backlog(data: Path, count: int) -> None:
    with running(data) as server, server.client() as client:
        url = client.create_queue(QueueName="jobs")["QueueUrl"]
        for start in range(0, count, 10):
            entries = [{"Id": str(n), "MessageBody": f"{n} " + "x" * 2000} for n in range(start, start + 10)]
            client.send_message_batch(QueueUrl=url, Entries=entries)
        server.stop()
    with running(data) as server, server.client() as client:
        found = drain(client, "jobs")
        assert sorted(int(message["Body"].split()[0]) for message in found) == list(range(count))


def test_sigterm_ends_long_polls_and_loses_nothing(tmp_path: Path) -> None:
    data, answers = tmp_path / "data", []
    with running(data) as server, server.client() as client:
        url = client.create_queue(QueueName="empty")["QueueUrl"]
        kept = client.create_queue(QueueName="kept")["QueueUrl"]
        client.send_message(QueueUrl=kept, MessageBody="x")

        def poll() -> None:
            with server.client() as other:
                answers.append(other.receive_message(QueueUrl=url, WaitTimeSeconds=20))

        polling = threading.Thread(target=poll)
        polling.start()
        time.sleep(0.5)
        started = time.monotonic()
        assert server.stop() == 0, server.output()
        polling.join()
        assert time.monotonic() - started < 5
        assert "Messages" not in answers[0]
        assert '"event":"stopped"' in server.output().splitlines()[-1]
    with running(data) as server, server.client() as client:
        assert len(drain(client, "kept")) == 1


def test_a_second_process_on_the_same_data_is_refused(tmp_path: Path) -> None:
    with running(tmp_path / "data") as server:
        arguments = ("serve", "--data", str(server.data), "--listen", "127.0.0.1:0", "--no-auth")
        second = subprocess.run(command(*arguments), env=environment(), capture_output=True, text=True, check=False)
        assert second.returncode == 2
        assert "in use by another holdfast process" in second.stderr


def test_a_torn_end_of_the_log_is_cut_off(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data) as server, server.client() as client:
        url = client.create_queue(QueueName="jobs")["QueueUrl"]
        for number in range(10):
            client.send_message(QueueUrl=url, MessageBody=str(number))
        server.kill()
    segment = max((data / "shards").glob("*/segments/0*.log"))
    used = len(segment.read_bytes().rstrip(b"\0"))
    with segment.open("r+b") as log:
        log.seek(-(-used // 512) * 512)
        log.write(b"\xa5" * 700)
    with running(data) as server, server.client() as client:
        assert '"bytes":700' in next(line for line in server.output().splitlines() if "torn end" in line)
        assert sorted(message["Body"] for message in drain(client, "jobs")) == sorted(map(str, range(10)))


def test_damage_in_what_was_durable_stops_the_server(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data) as server, server.client() as client:
        url = client.create_queue(QueueName="jobs")["QueueUrl"]
        for number in range(10):
            client.send_message(QueueUrl=url, MessageBody=str(number))
        server.stop()
    segment = max((data / "shards").glob("*/segments/0*.log"))
    with segment.open("r+b") as log:
        log.seek(600)
        log.write(b"\xff")
    arguments = ("serve", "--data", str(data), "--listen", "127.0.0.1:0", "--no-auth")
    refused = subprocess.run(command(*arguments), env=environment(), capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "the log is damaged" in refused.stderr
    assert segment.name in refused.stderr


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="the system cannot limit another process")
def test_a_write_that_fails_stops_the_server_and_is_not_acknowledged(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data) as server, server.client() as client:
        url = client.create_queue(QueueName="jobs")["QueueUrl"]
        client.send_message(QueueUrl=url, MessageBody="x" * 100_000)
        client.send_message(QueueUrl=url, MessageBody="acknowledged")
        limit = 65_536  # the log is longer already, so the kernel refuses every further write to it
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (limit, limit))
        with pytest.raises(LOST):
            client.send_message(QueueUrl=url, MessageBody="refused")
        assert server.process.wait(timeout=10) == 74
        assert "stopped at once" in server.output().splitlines()[-1]
    with running(data) as server, server.client() as client:
        assert [message["Body"] for message in drain(client, "jobs")][1:] == ["acknowledged"]


def test_a_missing_master_key_is_not_replaced(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data) as server:
        server.stop()
    assert (data / "master.key").stat().st_mode & 0o777 == 0o600
    (data / "master.key").unlink()
    arguments = ("serve", "--data", str(data), "--listen", "127.0.0.1:0", "--no-auth")
    refused = subprocess.run(command(*arguments), env=environment(), capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "master.key is missing" in refused.stderr


REFUSED_STARTS = {
    "open to other machines": (("--listen", "0.0.0.0:0", "--no-auth"), (), "127.0.0.1"),
    "not an address": (("--listen", "nonsense", "--no-auth"), (), "HOST:PORT"),
    "without assertions": (("--listen", "127.0.0.1:0", "--no-auth"), ("-O",), "-O"),
}


@pytest.mark.parametrize(("options", "flags", "fix"), REFUSED_STARTS.values(), ids=REFUSED_STARTS)
def test_a_start_that_would_be_unsafe_is_refused_with_the_fix(
    tmp_path: Path, options: tuple[str, ...], flags: tuple[str, ...], fix: str
) -> None:
    arguments = command("serve", "--data", str(tmp_path / "data"), *options, flags=flags)
    refused = subprocess.run(arguments, env=environment(), capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert fix in refused.stderr


def test_the_version_is_shown() -> None:
    shown = subprocess.run(command("--version"), env=environment(), capture_output=True, text=True, check=True)
    assert shown.stdout.startswith("holdfast ")
