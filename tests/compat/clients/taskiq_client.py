"""taskiq over taskiq-aio-sqs, with a worker in a process of its own: tasks, retries, delays, heartbeats, FIFO."""

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any

from aiobotocore.session import get_session

from tests.compat.clients import checks, taskiq_app

LOG = taskiq_app.RAN.with_name("worker.log")
QUEUES: dict[str, dict[str, str]] = {
    "taskiq-default": {},
    "taskiq-events.fifo": {"FifoQueue": "true", "ContentBasedDeduplication": "true"},
}


def ran() -> list[str]:
    return taskiq_app.RAN.read_text().splitlines() if taskiq_app.RAN.exists() else []


async def eventually(condition: Callable[[], Any]) -> Any:
    return await asyncio.to_thread(checks.eventually, condition)


async def thirty_tasks_are_done_once_each() -> None:
    await asyncio.gather(*(taskiq_app.greet.kiq(str(number)) for number in range(30)))
    await eventually(lambda: sum(line.startswith("hello") for line in ran()) >= 30)
    assert sorted(line for line in ran() if line.startswith("hello")) == sorted(f"hello {n}" for n in range(30))


async def a_task_that_fails_is_tried_again() -> None:
    await taskiq_app.fails_twice.kiq("x")
    await eventually(lambda: "done x" in ran())
    assert ran().count("tried x") == 3, ran()


async def a_delay_is_waited_for() -> None:
    begun = time.time()
    await taskiq_app.when.kicker().with_labels(delay=2).kiq("later")
    line = (await eventually(lambda: [line for line in ran() if line.startswith("later at")]))[0]
    assert float(line.split()[-1]) >= begun + 1.9, line


async def a_heartbeat_keeps_a_long_task_from_being_doubled() -> None:
    await taskiq_app.takes_longer_than_its_lease.kiq("long")
    await eventually(lambda: "ended long" in ran())
    assert ran().count("started long") == 1, ran()


async def a_fifo_queue_keeps_the_order_of_tasks() -> None:
    for number in range(5):
        await taskiq_app.in_order.kicker().with_labels(group_id="g").kiq(number)
    expected = [f"in order {number}" for number in range(5)]
    await eventually(lambda: expected[-1] in ran())
    assert [line for line in ran() if line.startswith("in order")] == expected


CHECKS = (
    thirty_tasks_are_done_once_each,
    a_task_that_fails_is_tried_again,
    a_delay_is_waited_for,
    a_heartbeat_keeps_a_long_task_from_being_doubled,
    a_fifo_queue_keeps_the_order_of_tasks,
)


async def main() -> None:
    async with get_session().create_client("sqs", region_name="us-east-1") as sqs:
        for name, attributes in QUEUES.items():
            await sqs.create_queue(QueueName=name, Attributes=attributes)
    with worker():
        await taskiq_app.broker.startup()
        await checks.run_async(CHECKS)
        await taskiq_app.broker.shutdown()


@contextlib.contextmanager
def worker() -> Iterator[None]:
    command = [sys.executable, "-m", "taskiq", "worker", f"{taskiq_app.__name__}:broker", "--workers", "1"]
    with LOG.open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
        sys.stderr.write(LOG.read_text()[-6000:])


if __name__ == "__main__":
    assert version("taskiq-aio-sqs") == "2.1.1"
    asyncio.run(main())
