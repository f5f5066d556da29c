"""Usage of a real server: what is counted is what was answered, whatever ends the process (I22)."""

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from typer.testing import CliRunner

from holdfast.cli.main import program
from holdfast.usage import places, schema, segment
from tests.process.server import Running, running

ATTRIBUTE = {"kind": {"DataType": "String", "StringValue": "order"}}
HIDE = """
import importlib.util

find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "pyarrow" else find(name, *rest)
"""


def rows(data: Path, kind: str) -> list[dict[str, Any]]:
    """Of all segments, which must be in order."""
    root = data / "usage"
    found: list[dict[str, Any]] = []
    for node in sorted({each.node for each in places.streams(root, kind)}):
        assert list(segment.check(root, kind, node)) == []
    for stream in places.streams(root, kind):
        for seq in places.numbers(root, stream):
            found += segment.read(stream.path(root, seq))[1].to_pylist()
    return found


def counted(data: Path) -> Counter[tuple[str, str]]:
    total: Counter[tuple[str, str]] = Counter()
    for row in rows(data, schema.METER):
        total[row["action"], row["outcome"]] += row["requests"]
        assert sum(row["latency"]) == row["requests"]
    return total


class Client:
    """Counts the answers that it got."""

    def __init__(self, server: Running) -> None:
        self._server = server
        self.answers: Counter[tuple[str, str]] = Counter()
        self.unanswered = 0

    def use(self, *, until: float) -> None:
        with self._server.client() as sqs:
            url = self._ask(sqs.create_queue, "CreateQueue", QueueName="used")["QueueUrl"]
            while time.monotonic() < until and not self.unanswered:
                self._ask(sqs.send_message, "SendMessage", QueueUrl=url, MessageBody="x" * 70_000)
                got = self._ask(sqs.receive_message, "ReceiveMessage", QueueUrl=url).get("Messages", [])
                for each in got:
                    self._ask(sqs.delete_message, "DeleteMessage", QueueUrl=url, ReceiptHandle=each["ReceiptHandle"])
                self._ask(sqs.receive_message, "ReceiveMessage", QueueUrl=url)
                self._ask(sqs.get_queue_attributes, "GetQueueAttributes", QueueUrl=url, AttributeNames=["All"])
                self._ask(sqs.purge_queue, "PurgeQueue", QueueUrl=url + "-that-is-missing")

    def _ask(self, call: Any, action: str, **arguments: Any) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = call(**arguments)
        except ClientError:
            self.answers[action, "refused"] += 1
            return {}
        except Exception:  # noqa: BLE001 - whatever a client makes of a server that is gone
            self.unanswered += 1
            return {}
        self.answers[action, "success"] += 1
        return answer


def test_a_server_that_stops_has_counted_what_it_answered(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data, "--usage-window", "1") as server:
        client = Client(server)
        client.use(until=time.monotonic() + 2.5)
        assert server.stop() == 0
    assert counted(data) == client.answers
    sends = [row for row in rows(data, schema.METER) if row["action"] == "SendMessage"]
    count = client.answers["SendMessage", "success"]
    assert sum(row["units"] for row in sends) == 2 * count  # 70,000 bytes are two times 64 KB, begun
    assert sum(row["bytes_in"] for row in sends) == 70_000 * count
    empty = sum(row["empty_receives"] for row in rows(data, schema.METER))
    assert empty == client.answers["ReceiveMessage", "success"] - count


def test_a_server_that_is_killed_has_counted_all_but_its_last_moments(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data, "--usage-window", "1") as server:
        client = Client(server)
        thread = threading.Thread(target=client.use, kwargs={"until": time.monotonic() + 60})
        thread.start()
        time.sleep(3)
        before = Counter(client.answers)
        time.sleep(1)  # a twentieth of it is promised; the rest is for a busy machine
        server.kill()
        thread.join()
    with running(data) as server:
        with server.client() as sqs:
            sqs.list_queues()
        assert server.stop() == 0
    found = counted(data)
    assert found.pop(("ListQueues", "success")) == 1
    for kind, count in found.items():
        assert before[kind] <= count <= client.answers[kind] + 1, kind  # the last answer may not have arrived


def test_without_pyarrow_usage_is_kept_and_converted_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine where it is not installed."""
    data, layer = tmp_path / "data", tmp_path / "layer"
    layer.mkdir()
    (layer / "sitecustomize.py").write_text(HIDE, encoding="utf-8")
    monkeypatch.setattr("tests.process.server.SOURCE", f"{layer}{os.pathsep}{Path(segment.__file__).parents[2]}")
    total: Counter[tuple[str, str]] = Counter()
    for _ in range(2):
        with running(data, "--usage-window", "1") as server:
            client = Client(server)
            client.use(until=time.monotonic() + 1.5)
            assert not list((data / "usage").rglob("*.parquet"))
            server.stop()
        total += client.answers
    converted = CliRunner().invoke(program(), ["usage", "convert", "--data", str(data)])
    assert (converted.exit_code, "windows are in segments" in converted.output) == (0, True)
    assert counted(data) == total
    assert not list((data / "usage" / "journal").rglob("*.journal"))
    assert CliRunner().invoke(program(), ["usage", "convert", "--data", str(data)]).exit_code == 0
    checked = CliRunner().invoke(program(), ["usage", "check", "--data", str(data), "--json"])
    assert (checked.exit_code, json.loads(checked.output)["problems"]) == (0, [])


def test_each_worker_is_a_node_and_one_that_is_no_more_is_finished(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data, "--workers", "2") as server:
        client = Client(server)
        client.use(until=time.monotonic() + 0.5)
        server.kill()
    time.sleep(1.5)  # workers see that their parent is gone
    with running(data) as server:
        with server.client() as sqs:
            sqs.list_queues()
        server.stop()
    nodes = {each.node for each in places.streams(data / "usage", schema.METER)}
    base = (data / "usage" / "node").read_text(encoding="ascii").strip()
    assert base in nodes
    assert nodes <= {base, f"{base}-w0", f"{base}-w1"}
    found = counted(data)
    found.pop(("ListQueues", "success"))
    assert found == client.answers


def test_an_audit_says_who_did_what_and_never_what_was_sent(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data, "--audit", "all") as server, server.client() as sqs:
        url = sqs.create_queue(QueueName="orders", tags={"secret": "tag value"})["QueueUrl"]
        sent = sqs.send_message(QueueUrl=url, MessageBody="the body")
        with pytest.raises(ClientError):
            sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "none"})
        server.stop()
    found = rows(data, schema.AUDIT)
    shown = [(each["action"], each["plane"], each["queue"], each["outcome"], each["status"]) for each in found]
    assert shown == [
        ("CreateQueue", "management", "orders", "success", 200),
        ("SendMessage", "data", "orders", "success", 200),
        ("SetQueueAttributes", "management", "orders", "refused", 400),
    ]
    assert found[1]["request_id"] == sent["ResponseMetadata"]["RequestId"]
    assert {each["source_ip"] for each in found} == {"127.0.0.1"}
    assert found[2]["error_code"]
    written = [str(row) for kind in schema.KINDS for row in rows(data, kind)]
    assert not [each for each in written if "the body" in each]
    (state,) = rows(data, schema.QUEUE_STATE)
    assert [each for each in written if "tag value" in each] == [str(state)]
    assert json.loads(state["tags"]) == {"secret": "tag value"}


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_consumers_reason_is_with_the_message_wherever_it_goes(tmp_path: Path, workers: str) -> None:
    policy = json.dumps({"deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:dead", "maxReceiveCount": "2"})
    asked = ["Holdfast.FailureReason", "Holdfast.DeadLetterCause"]
    said = ["ValueError%3A no such order %E2%82%AC+1", "a second\tone " + "x" * 2000]
    with running(tmp_path / "data", "--workers", workers) as server, server.client() as sqs:
        dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
        url = sqs.create_queue(QueueName="orders", Attributes={"RedrivePolicy": policy})["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody='say "no"', MessageAttributes=ATTRIBUTE)
        headers = {"X-Holdfast-Reason": ""}
        for event in ("ChangeMessageVisibility", "ChangeMessageVisibilityBatch"):
            sqs.meta.events.register(f"before-call.sqs.{event}", lambda params, **_: params["headers"].update(headers))
        (first,) = sqs.receive_message(QueueUrl=url, MessageSystemAttributeNames=asked)["Messages"]
        headers["X-Holdfast-Reason"] = said[0]
        sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=first["ReceiptHandle"], VisibilityTimeout=0)
        (second,) = sqs.receive_message(QueueUrl=url, MessageSystemAttributeNames=asked)["Messages"]
        headers["X-Holdfast-Reason"] = said[1]
        entry = {"Id": "a", "ReceiptHandle": second["ReceiptHandle"], "VisibilityTimeout": 0}
        assert sqs.change_message_visibility_batch(QueueUrl=url, Entries=[entry])["Successful"]
        sqs.receive_message(QueueUrl=url)
        (third,) = sqs.receive_message(
            QueueUrl=dead, WaitTimeSeconds=5, MessageSystemAttributeNames=asked, MessageAttributeNames=["All"]
        )["Messages"]
        server.stop()
    assert "Attributes" not in first
    assert second["Attributes"] == {"Holdfast.FailureReason": "ValueError: no such order €+1"}
    cut = ("a second one " + "x" * 2000)[:1024]
    assert third["Attributes"] == {"Holdfast.FailureReason": cut, "Holdfast.DeadLetterCause": "MaxReceiveCount"}
    assert (third["Body"], third["MessageAttributes"]) == ('say "no"', ATTRIBUTE)
    (letter,) = rows(tmp_path / "data", schema.DEAD_LETTER)
    assert (letter["reason"], letter["receives"]) == (cut, 2)
    assert letter["consumer"] == "arn:aws:iam::000000000000:root"


def test_messages_that_no_call_removes_are_counted_by_queue(tmp_path: Path) -> None:
    """Three that expire, and two dead letters that a move task takes back."""
    arn = "arn:aws:sqs:us-east-1:000000000000:dead"
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": "1"})
    with running(tmp_path / "data") as server, server.client() as sqs:
        brief = sqs.create_queue(QueueName="brief", Attributes={"Holdfast.TimeToLiveSeconds": "1"})["QueueUrl"]
        for _ in range(3):
            sqs.send_message(QueueUrl=brief, MessageBody="x")
        dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
        attributes = {"RedrivePolicy": policy, "VisibilityTimeout": "0"}
        url = sqs.create_queue(QueueName="orders", Attributes=attributes)["QueueUrl"]
        for _ in range(2):
            sqs.send_message(QueueUrl=url, MessageBody="x")
        until(lambda: sqs.receive_message(QueueUrl=url) and count(sqs, dead) == 2)
        sqs.start_message_move_task(SourceArn=arn)
        until(lambda: count(sqs, url) == 2)
        until(lambda: count(sqs, brief) == 0)
        server.stop()
    lost = {row["queue"]: (row["expired"], row["redriven"]) for row in rows(tmp_path / "data", schema.QUEUE_STATE)}
    assert lost == {"brief": (3, 0), "dead": (0, 2), "orders": (0, 0)}


def count(sqs: Any, url: str) -> int:
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return sum(int(each) for each in found.values())


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_dead_letters_and_nothing_else_when_usage_is_off(tmp_path: Path) -> None:
    policy = json.dumps({"deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:dead", "maxReceiveCount": "1"})
    attributes = {"RedrivePolicy": policy, "VisibilityTimeout": "0"}
    data_of = tmp_path / "--usage"
    for option in ("--usage", "--no-usage"):
        data = tmp_path / option
        with running(data, option) as server, server.client() as sqs:
            sqs.create_queue(QueueName="dead")
            sqs.create_queue(QueueName="never-used")
            url = sqs.create_queue(QueueName="orders", Attributes=attributes)["QueueUrl"]
            message = sqs.send_message(QueueUrl=url, MessageBody='{"order": 7}')["MessageId"]
            while not sqs.receive_message(QueueUrl=url.replace("orders", "dead")).get("Messages"):
                sqs.receive_message(QueueUrl=url)
            server.stop()
    states = [(row["queue"], row["in_flight"], row["receives_max"]) for row in rows(data_of, schema.QUEUE_STATE)]
    assert states == [("dead", 1, 0)]
    (letter,) = rows(data_of, schema.DEAD_LETTER)
    assert (letter["queue"], letter["target"], letter["cause"], letter["receives"]) == (
        "orders",
        "dead",
        "MaxReceiveCount",
        1,
    )
    assert letter["message_id"] == message
    assert len(letter["shape"]) == 16
    assert not (tmp_path / "--no-usage" / "usage").exists()
