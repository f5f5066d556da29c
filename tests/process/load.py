"""Clients of one life of a server: they work until it is gone, and write down what they were told."""

import json
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from random import Random
from typing import Any

from tests.process.history import LINE, PLAIN, History
from tests.process.wire import Gone, Refused, Wire

ROUND, DEAD = "round", "dead"  # messages go from one to the other, and back by move tasks
ARNS = "arn:aws:sqs:us-east-1:000000000000:"
GROUPS = ("a", "b", "c")
TIMEOUT_S = 2  # visibility
BODY_CHARS = 1500  # so that segments fill


def set_up(endpoint: str) -> None:
    """The queues. They may be there already."""
    redrive = json.dumps({"deadLetterTargetArn": f"{ARNS}{DEAD}", "maxReceiveCount": "1"})
    with closing(Wire(endpoint)) as wire:
        wire.call("CreateQueue", QueueName=PLAIN)
        wire.call("CreateQueue", QueueName=LINE, Attributes={"FifoQueue": "true"})
        wire.call("CreateQueue", QueueName=DEAD)
        wire.call("CreateQueue", QueueName=ROUND, Attributes={"RedrivePolicy": redrive, "VisibilityTimeout": "0"})


class Load:
    def __init__(self, endpoint: str, history: History, *, life: str, seed: int) -> None:
        self._endpoint = endpoint
        self._history = history
        self._life = life  # makes bodies unique
        self._seed = seed
        self._is_over = False
        self.refusals: list[Refused] = []
        work: list[Callable[[Wire, Random], None]] = [
            *(self._producer(number) for number in range(2)),
            *(self._group(group) for group in GROUPS),
            *(self._consumer(PLAIN) for _ in range(2)),
            *(self._consumer(LINE) for _ in range(2)),
            self._make_queues,
            self._go_round,
        ]
        self._threads = [threading.Thread(target=self._run, args=each) for each in enumerate(work)]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """When the server is gone."""
        for thread in self._threads:
            thread.join()

    def stop(self) -> None:
        """While it runs."""
        self._is_over = True
        self.join()

    def _run(self, number: int, work: Callable[[Wire, Random], None]) -> None:
        rng = Random(f"{self._seed} {number}")
        with closing(Wire(self._endpoint)) as wire, suppress(Gone):
            while not self._is_over:
                try:
                    work(wire, rng)
                except Refused as problem:
                    self.refusals.append(problem)
                    time.sleep(0.01)

    def _producer(self, number: int) -> Callable[[Wire, Random], None]:
        count = 0

        def send(wire: Wire, rng: Random) -> None:
            """Batches, so that a frame has many sectors and can be torn in its middle."""
            nonlocal count
            bodies = []
            for _ in range(rng.randrange(1, 11)):
                count += 1
                bodies.append(f"{self._life}-{number}-{count} " + "x" * rng.randrange(BODY_CHARS))
            self._history.tried.update((PLAIN, body) for body in bodies)
            entries = [{"Id": str(place), "MessageBody": body} for place, body in enumerate(bodies)]
            told = wire.call("SendMessageBatch", PLAIN, Entries=entries)
            for each in told.get("Successful", []):
                self._history.sent.setdefault((PLAIN, bodies[int(each["Id"])]), set()).add(each["MessageId"])

        return send

    def _group(self, group: str) -> Callable[[Wire, Random], None]:
        """Repeats a number until it is acknowledged, then goes on with the next."""

        def send(wire: Wire, _: Random) -> None:
            number = self._history.next_number.setdefault(group, 0)
            body = f"{group}-{number}"
            self._history.tried.add((LINE, body))
            told = wire.call("SendMessage", LINE, MessageBody=body, MessageGroupId=group, MessageDeduplicationId=body)
            self._history.sent.setdefault((LINE, body), set()).add(told["MessageId"])
            self._history.next_number[group] = number + 1

        return send

    def _consumer(self, queue: str) -> Callable[[Wire, Random], None]:
        def consume(wire: Wire, rng: Random) -> None:
            receive(wire, self._history, queue, count=rng.randrange(1, 11), keep=lambda: rng.random() < 0.1)

        return consume

    def _make_queues(self, wire: Wire, rng: Random) -> None:
        history, name = self._history, f"q-{self._life}-{rng.randrange(10**9)}"
        wire.call("CreateQueue", QueueName=name)
        history.made.add(name)
        doomed = rng.choice(sorted(history.made))
        if rng.random() < 0.5:
            history.made.discard(doomed)
            wire.call("DeleteQueue", doomed)
            history.removed.add(doomed)
        time.sleep(0.05)

    def _go_round(self, wire: Wire, rng: Random) -> None:
        """Sends, lets messages become dead letters by receiving them, and has them moved back."""
        body = f"{self._life}-{rng.randrange(10**9)}"
        self._history.moving_tried.add(body)
        wire.call("SendMessage", ROUND, MessageBody=body)
        self._history.moving.add(body)
        for _ in range(2):
            wire.call("ReceiveMessage", ROUND, MaxNumberOfMessages=10)
        try:
            wire.call("StartMessageMoveTask", SourceArn=f"{ARNS}{DEAD}")
        except Refused as problem:
            if "already a task running" not in problem.message:
                raise
        wire.call("SetQueueAttributes", DEAD, Attributes={"DelaySeconds": str(rng.randrange(2))})
        time.sleep(0.02)


def receive(
    wire: Wire, history: History, queue: str, *, count: int = 10, keep: Callable[[], bool] = lambda: False
) -> int:
    """Receives once and deletes what is not kept. Answers how many messages came."""
    asked = time.monotonic()
    told = wire.call(
        "ReceiveMessage",
        queue,
        MaxNumberOfMessages=count,
        VisibilityTimeout=TIMEOUT_S,
        WaitTimeSeconds=1,
        AttributeNames=["All"],
    )
    messages = told.get("Messages", [])
    came = len(messages)
    history.delivered(queue, messages, asked=asked, timeout_s=TIMEOUT_S)
    if keep():
        messages = messages[: len(messages) // 2]  # the first ones, so that a FIFO group stays in order
    if messages and time.monotonic() < asked + TIMEOUT_S / 2:  # later somebody else may have them
        _delete(wire, history, queue, messages)
    return came


def _delete(wire: Wire, history: History, queue: str, messages: list[dict[str, Any]]) -> None:
    history.deleting.update((queue, each["Body"]) for each in messages)
    entries = [{"Id": str(place), "ReceiptHandle": each["ReceiptHandle"]} for place, each in enumerate(messages)]
    told = wire.call("DeleteMessageBatch", queue, Entries=entries)
    for each in told.get("Successful", []):
        history.deleted[queue, messages[int(each["Id"])]["Body"]] = time.monotonic()


def drain(endpoint: str, history: History) -> set[str]:
    """Everything comes out; leases that crashes left have to end first. Answers the names of the queues."""
    threads = [threading.Thread(target=_drain, args=(endpoint, history, queue)) for queue in (PLAIN, LINE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with closing(Wire(endpoint)) as wire:
        _collect(wire, history)
        urls = wire.call("ListQueues").get("QueueUrls", [])
    return {url.rpartition("/")[2] for url in urls}


def _collect(wire: Wire, history: History) -> None:
    """What goes round. Nothing becomes a dead letter any more, and a task that runs has time to end."""
    wire.call("SetQueueAttributes", ROUND, Attributes={"RedrivePolicy": ""})
    quiet_since = time.monotonic()
    while time.monotonic() < quiet_since + TIMEOUT_S:
        for queue in (DEAD, ROUND):
            told = wire.call("ReceiveMessage", queue, MaxNumberOfMessages=10, VisibilityTimeout=60)
            for each in told.get("Messages", []):
                history.moving_found.append(each["Body"])
                wire.call("DeleteMessage", queue, ReceiptHandle=each["ReceiptHandle"])
                quiet_since = time.monotonic()
        time.sleep(0.02)


def _drain(endpoint: str, history: History, queue: str) -> None:
    quiet_since = time.monotonic()
    with closing(Wire(endpoint)) as wire:
        while time.monotonic() < quiet_since + TIMEOUT_S + 0.5:
            if receive(wire, history, queue):
                quiet_since = time.monotonic()
