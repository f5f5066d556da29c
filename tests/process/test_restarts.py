"""kill -9 in the middle of something that takes a while: it is over, or goes on, and is not begun anew."""

import json
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.process.load import ARNS
from tests.process.server import running
from tests.process.wire import Refused, Wire


@contextmanager
def life(data: Path, *options: str) -> Iterator[Wire]:
    """Of a server; it ends by kill -9."""
    with running(data, *options) as server, closing(Wire(server.endpoint)) as wire:
        yield wire


def receive(wire: Wire, queue: str, **parameters: Any) -> list[dict[str, Any]]:
    told = wire.call("ReceiveMessage", queue, MaxNumberOfMessages=10, **parameters)
    messages: list[dict[str, Any]] = told.get("Messages", [])
    return messages


def send_fifo(wire: Wire, number: int) -> tuple[str, str]:
    told = wire.call(
        "SendMessage", "line.fifo", MessageBody=str(number), MessageGroupId="g", MessageDeduplicationId=str(number)
    )
    return told["MessageId"], told["SequenceNumber"]


def test_a_purge_is_not_undone_and_not_allowed_again_at_once(tmp_path: Path) -> None:
    with life(tmp_path / "data") as wire:
        wire.call("CreateQueue", QueueName="jobs")
        for number in range(50):
            wire.call("SendMessage", "jobs", MessageBody=str(number))
        held = receive(wire, "jobs", VisibilityTimeout=1)
        wire.call("PurgeQueue", "jobs")
    with life(tmp_path / "data") as wire:
        with pytest.raises(Refused, match="PurgeQueueInProgress"):
            wire.call("PurgeQueue", "jobs")
        wire.call("SendMessage", "jobs", MessageBody="later")
        time.sleep(1.2)  # what was held when it was purged would be visible again
        assert held
        assert [each["Body"] for each in receive(wire, "jobs")] == ["later"]


def test_a_move_task_goes_on_where_it_was_and_moves_each_message_once(tmp_path: Path) -> None:
    options, bodies = ("--shards", "2"), [str(number) for number in range(12)]
    with life(tmp_path / "data", *options) as wire:
        wire.call("CreateQueue", QueueName="dead")
        redrive = json.dumps({"deadLetterTargetArn": f"{ARNS}dead", "maxReceiveCount": "1"})
        wire.call("CreateQueue", QueueName="jobs", Attributes={"RedrivePolicy": redrive})
        for body in bodies:
            wire.call("SendMessage", "dead", MessageBody=body)
        wire.call(
            "StartMessageMoveTask",
            SourceArn=f"{ARNS}dead",
            DestinationArn=f"{ARNS}jobs",
            MaxNumberOfMessagesPerSecond=4,
        )
        time.sleep(0.5)
    with life(tmp_path / "data", *options) as wire:
        moved = wire.call("ListMessageMoveTasks", SourceArn=f"{ARNS}dead")["Results"][0]
        assert moved["Status"] == "RUNNING"
        time.sleep(1)
    with life(tmp_path / "data", *options) as wire:
        deadline = time.monotonic() + 15
        while moved["Status"] == "RUNNING" and time.monotonic() < deadline:
            time.sleep(0.1)
            moved = wire.call("ListMessageMoveTasks", SourceArn=f"{ARNS}dead")["Results"][0]
        assert (moved["Status"], moved["ApproximateNumberOfMessagesMoved"]) == ("COMPLETED", len(bodies))
        found = [*receive(wire, "jobs"), *receive(wire, "jobs")]
        assert sorted(each["Body"] for each in found) == sorted(bodies)
        assert receive(wire, "dead") == []


def test_the_deduplication_window_and_the_sequence_go_on(tmp_path: Path) -> None:
    with life(tmp_path / "data") as wire:
        wire.call("CreateQueue", QueueName="line.fifo", Attributes={"FifoQueue": "true"})
        first = [send_fifo(wire, number) for number in range(3)]
    for _ in range(2):
        with life(tmp_path / "data") as wire:
            assert [send_fifo(wire, number) for number in range(3)] == first
    with life(tmp_path / "data") as wire:
        assert int(send_fifo(wire, 3)[1]) > int(first[-1][1])
        assert [each["Body"] for each in receive(wire, "line.fifo")] == ["0", "1", "2", "3"]


def test_a_fifo_batch_that_was_received_stays_held_and_comes_back_in_order(tmp_path: Path) -> None:
    with life(tmp_path / "data") as wire:
        wire.call("CreateQueue", QueueName="line.fifo", Attributes={"FifoQueue": "true"})
        for number in range(12):
            send_fifo(wire, number)
        batch = receive(wire, "line.fifo", VisibilityTimeout=4)
        assert [each["Body"] for each in batch] == [str(number) for number in range(10)]
        entries = [{"Id": str(place), "ReceiptHandle": each["ReceiptHandle"]} for place, each in enumerate(batch[:3])]
        wire.call("DeleteMessageBatch", "line.fifo", Entries=entries)
    with life(tmp_path / "data") as wire:
        assert receive(wire, "line.fifo") == []  # the group is held
        wire.call("DeleteMessage", "line.fifo", ReceiptHandle=batch[3]["ReceiptHandle"])
        again = receive(wire, "line.fifo", WaitTimeSeconds=10)
        assert [each["Body"] for each in again] == [str(number) for number in range(4, 12)]
