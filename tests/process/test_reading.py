"""Messages that are far from each other in the log are read like all others."""

import time
from contextlib import closing
from pathlib import Path

from tests.process.cuts import Watched
from tests.process.wire import Refused, Wire

MESSAGES = 10


def send(wire: Wire, queue: str, body: str) -> None:
    """Small segments fill faster than the next ones are made."""
    for _ in range(200):
        try:
            wire.call("SendMessage", queue, MessageBody=body)
        except Refused:
            time.sleep(0.01)
        else:
            return
    raise AssertionError("refused again and again")


def test_one_receive_takes_messages_out_of_more_segments_than_indexes_are_kept(tmp_path: Path) -> None:
    server = Watched(tmp_path / "data")
    try:
        with closing(Wire(server.wait_ready())) as wire:
            for name in ("far", "filler", "other"):  # one of the fillers shares the log of the first
                wire.call("CreateQueue", QueueName=name)
            for number in range(MESSAGES):
                send(wire, "far", str(number))
                for _ in range(5):
                    send(wire, "filler", "x" * 30_000)
                    send(wire, "other", "x" * 30_000)
    finally:
        server.kill()
    assert len(list((tmp_path / "data").glob("shards/*/segments/0*.log"))) > 2 * MESSAGES
    server = Watched(tmp_path / "data")
    try:
        with closing(Wire(server.wait_ready(), timeout_s=10)) as wire:
            told = wire.call("ReceiveMessage", "far", MaxNumberOfMessages=MESSAGES)
            assert sorted(int(each["Body"]) for each in told["Messages"]) == list(range(MESSAGES))
    finally:
        server.kill()
