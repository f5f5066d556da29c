"""The actors of a Dramatiq application, as a user would write them; for the worker and for dramatiq_client.py."""

import os
import time
from pathlib import Path

import dramatiq
from dramatiq.middleware import AgeLimit, Callbacks, Retries, ShutdownNotifications, TimeLimit
from dramatiq_sqs import SQSBroker

RAN = Path(os.environ["COMPAT_FOLDER"]) / "ran"

broker = SQSBroker(
    namespace="dramatiq",
    middleware=[
        AgeLimit(),
        TimeLimit(),
        ShutdownNotifications(),
        Callbacks(),
        Retries(min_backoff=1000, max_backoff=1000),
    ],
    endpoint_url=os.environ["AWS_ENDPOINT_URL_SQS"],
    dead_letter=True,
    tags={"team": "blue"},
)
dramatiq.set_broker(broker)


def note(line: str) -> None:
    with RAN.open("a") as file:
        file.write(line + "\n")


@dramatiq.actor
def greet(name: str) -> None:
    note(f"hello {name}")


@dramatiq.actor(max_retries=3)
def fails_twice(name: str) -> None:
    note(f"tried {name}")
    if RAN.read_text().splitlines().count(f"tried {name}") < 3:
        raise RuntimeError("not yet")
    note(f"done {name}")


@dramatiq.actor
def when(name: str) -> None:
    note(f"{name} at {time.time()}")


@dramatiq.actor(max_retries=0)
def hopeless() -> None:
    raise RuntimeError("never")
