"""The tasks of a taskiq application, as a user would write them. Imported by the worker and by taskiq_client.py."""

import os
import time
from pathlib import Path

from taskiq import SimpleRetryMiddleware
from taskiq_aio_sqs import SQSBroker, SQSQueue

RAN = Path(os.environ["COMPAT_FOLDER"]) / "ran"

broker = SQSBroker(
    sqs_queue_name="taskiq-default",
    endpoint_url=os.environ["AWS_ENDPOINT_URL_SQS"],
    wait_time_seconds=2,
    max_number_of_messages=10,
    enable_heartbeat=True,
    visibility_timeout=2,
)
broker.with_queues(SQSQueue(name="taskiq-events.fifo", is_fifo=True, wait_time_seconds=2))
broker.add_middlewares(SimpleRetryMiddleware(default_retry_count=3))


def note(line: str) -> None:
    with RAN.open("a") as file:
        file.write(line + "\n")


@broker.task
async def greet(name: str) -> None:
    note(f"hello {name}")


@broker.task(retry_on_error=True)
async def fails_twice(name: str) -> None:
    note(f"tried {name}")
    if RAN.read_text().splitlines().count(f"tried {name}") < 3:
        raise RuntimeError("not yet")
    note(f"done {name}")


@broker.task
def when(name: str) -> None:
    note(f"{name} at {time.time()}")


@broker.task
def takes_longer_than_its_lease(name: str) -> None:
    note(f"started {name}")
    time.sleep(5)
    note(f"ended {name}")


@broker.task(queue="taskiq-events.fifo")
async def in_order(number: int) -> None:
    note(f"in order {number}")
