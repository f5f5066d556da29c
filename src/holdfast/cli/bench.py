"""`holdfast bench`: how fast is this server, seen from here?

Threads that each wait for every answer, on connections of their own: a figure for comparing disks, hosts and networks.
The client is Python and takes its share of the machine, so a server can do more than this shows; what it can do at most
is measured by the benchmarks of the source (`make bench`).
"""

import secrets
import threading
import time
from collections.abc import Callable
from typing import Annotated, Any

import typer

from holdfast.cli import connect, screen
from holdfast.client.sqs import BATCH_MAX, ClientError, Sqs

Work = Callable[[Sqs], int]  # one request; answers how many messages it was for


class Phase:
    """Some threads doing one kind of request for a while."""

    def __init__(self, target: connect.Target, work: Work, *, connections: int, seconds: float) -> None:
        self.latencies_s: list[float] = []
        self.messages = 0
        self.problem: ClientError | None = None
        self._target = target
        self._work = work
        self._lock = threading.Lock()
        self._until = time.perf_counter() + seconds
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(connections)]
        self._start = time.perf_counter()
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            thread.join()
        self.seconds = time.perf_counter() - self._start

    def _run(self) -> None:
        try:
            with self._target.client() as sqs:
                self._go_on(sqs)
        except ClientError as problem:
            self.problem = problem

    def _go_on(self, sqs: Sqs) -> None:
        """Until the time is over, or there is nothing left to do."""
        count = 1
        while count and time.perf_counter() < self._until and self.problem is None:
            start = time.perf_counter()
            count = self._work(sqs)
            with self._lock:
                self.latencies_s.append(time.perf_counter() - start)
                self.messages += count

    def row(self, name: str) -> dict[str, Any]:
        ordered = sorted(self.latencies_s) or [0.0]
        return {
            "work": name,
            "messages": self.messages,
            "per_second": round(self.messages / self.seconds),
            "p50_ms": round(ordered[len(ordered) // 2] * 1000, 2),
            "p99_ms": round(ordered[int(len(ordered) * 0.99)] * 1000, 2),
            "max_ms": round(ordered[-1] * 1000, 2),
        }


def bench(
    *,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long to send.")] = 5.0,
    connections: Annotated[int, typer.Option("--connections", "-c", min=1, max=256, help="At the same time.")] = 8,
    size: Annotated[int, typer.Option(min=1, max=1_000_000, help="Bytes of a body.")] = 1024,
    batch: Annotated[int, typer.Option(min=1, max=BATCH_MAX, help="Messages per request.")] = 1,
    data: connect.Data = None,
    endpoint: connect.Endpoint = None,
    as_json: connect.AsJson = False,
) -> None:
    """Send for a while to a queue of its own, then receive and delete it all: rates and latencies.

    The client is one Python process; the server can do more than it shows.

    Example: holdfast bench --seconds 10 -c 16 --batch 10
    """
    with connect.server(data, endpoint) as sqs:
        target = connect.find(data, endpoint)
        name = f"holdfast-bench-{secrets.token_hex(4)}"
        url = sqs.call("CreateQueue", QueueName=name)["QueueUrl"]
        try:
            rows = _measure(target, url, seconds=seconds, connections=connections, size=size, batch=batch)
        finally:
            sqs.call("DeleteQueue", QueueUrl=url)
    if as_json:
        screen.show_json(rows)
        return
    headings = ("WORK", ">MESSAGES", ">PER SECOND", ">P50 MS", ">P99 MS", ">MAX MS")
    screen.table(
        headings, [tuple(str(each) if isinstance(each, float) else each for each in r.values()) for r in rows], empty=""
    )
    screen.note(f"{connections} connections, bodies of {size} bytes, {batch} per request; {target.endpoint}")


def _measure(
    target: connect.Target, url: str, *, seconds: float, connections: int, size: int, batch: int
) -> list[dict[str, Any]]:
    body = "x" * size
    entries = [{"Id": str(number), "MessageBody": body} for number in range(batch)]

    def send(sqs: Sqs) -> int:
        if batch == 1:
            sqs.call("SendMessage", QueueUrl=url, MessageBody=body)
            return 1
        return batch - len(sqs.batch("SendMessageBatch", url, entries))

    def consume(sqs: Sqs) -> int:
        found = sqs.call("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=batch).get("Messages", [])
        if len(found) == 1:
            sqs.call("DeleteMessage", QueueUrl=url, ReceiptHandle=found[0]["ReceiptHandle"])
        elif found:
            handles = [{"Id": str(n), "ReceiptHandle": each["ReceiptHandle"]} for n, each in enumerate(found)]
            sqs.batch("DeleteMessageBatch", url, handles)
        return len(found)

    rows = []
    for name, work, limit_s in (("send", send, seconds), ("receive and delete", consume, 4 * seconds)):
        phase = Phase(target, work, connections=connections, seconds=limit_s)
        if phase.problem is not None:
            raise phase.problem
        rows.append(phase.row(name))
    return rows
