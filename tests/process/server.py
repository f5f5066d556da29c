"""A real `holdfast serve` in a process of its own, and a boto3 client that knows nothing of it."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

import holdfast

SOURCE = str(Path(holdfast.__file__).parent.parent)
START_S = 20.0


def command(*arguments: str, flags: tuple[str, ...] = ()) -> list[str]:
    return [sys.executable, *flags, "-m", "holdfast", *arguments]


def environment() -> dict[str, str]:
    """What is compiled is kept, whatever the machine says of it: a start takes a third less CPU then."""
    return {**os.environ, "PYTHONPATH": SOURCE, "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": ""}


class Running:
    """A server that has announced itself. `stop` and `kill` may be called more than once."""

    guard: tuple[str, ...] = ("--no-auth",)

    def __init__(self, data: Path, *options: str) -> None:
        self.data = data
        self._log = data.with_name(data.name + ".log")
        ready = data.with_name(data.name + ".ready")
        ready.unlink(missing_ok=True)
        arguments = ("--data", str(data), "--listen", "127.0.0.1:0", *self.guard, "--ready-file", str(ready))
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                command("serve", *arguments, *options), stdout=log, stderr=log, env=environment()
            )
        deadline = time.monotonic() + START_S
        while not ready.exists():
            assert self.process.poll() is None, self.output()
            assert time.monotonic() < deadline, self.output()
            time.sleep(0.02)
        self.endpoint = ready.read_text(encoding="utf-8").split()[0]

    def output(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def kill(self) -> None:
        """Without warning, as a crash would."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=20)

    @contextlib.contextmanager
    def client(self, *, keys: tuple[str, ...] = ("any", "any"), service: str = "sqs", **options: Any) -> Iterator[Any]:
        """`keys`: id, secret and, for clients that are mixed up, a session token."""
        client = boto3.client(
            service,
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=keys[0],
            aws_secret_access_key=keys[1],
            aws_session_token=keys[2] if keys[2:] else None,
            config=Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=40, **options),
        )
        try:
            yield client
        finally:
            client.close()


@contextlib.contextmanager
def running(data: Path, *options: str) -> Iterator[Running]:
    server = Running(data, *options)
    try:
        yield server
    finally:
        server.kill()


def drain(client: Any, url: str, *, patience_s: int = 1) -> list[dict[str, Any]]:
    """Receives and deletes until nothing comes for a while."""
    found: list[dict[str, Any]] = []
    while messages := client.receive_message(
        QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=patience_s, VisibilityTimeout=60, AttributeNames=["All"]
    ).get("Messages"):
        found += messages
        entries = [{"Id": str(n), "ReceiptHandle": each["ReceiptHandle"]} for n, each in enumerate(messages)]
        client.delete_message_batch(QueueUrl=url, Entries=entries)
    return found
