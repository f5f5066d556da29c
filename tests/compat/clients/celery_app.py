"""The tasks of a Celery application, as a user would write them. Imported by the worker and by celery_client.py.

SQS keeps no results: they lie in a folder, as does the list of what ran.
"""

import os
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

from celery import Celery

FOLDER = Path(os.environ["COMPAT_FOLDER"])
VISIBILITY_S = 3

endpoint = os.environ["AWS_ENDPOINT_URL_SQS"].removeprefix("http://")
key, secret = (quote(os.environ[name], safe="") for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"))

app = Celery("compat", broker=f"sqs://{key}:{secret}@{endpoint}//", backend=f"file://{FOLDER}/results")
app.conf.update(
    broker_transport_options={
        "region": os.environ["AWS_REGION"],
        "is_secure": False,
        "queue_name_prefix": "celery-",
        "visibility_timeout": VISIBILITY_S,
        "wait_time_seconds": 2,
        "polling_interval": 0.1,
    },
    broker_connection_retry_on_startup=True,
    worker_prefetch_multiplier=1,
    task_routes={"*.in_order": {"queue": "ordered.fifo"}},
)


def note(line: str) -> None:
    with (FOLDER / "ran").open("a") as file:
        file.write(line + "\n")


@app.task
def add(first: int, second: int) -> int:
    return first + second


@app.task(bind=True, max_retries=5)
def fails_twice(self: Any) -> int:
    if self.request.retries < 2:
        raise self.retry(countdown=1)
    return int(self.request.retries)


@app.task
def when() -> float:
    return time.time()


@app.task(acks_late=True)
def outlives_its_worker(name: str) -> str:
    """The first worker is killed while it sleeps in here."""
    note(f"{name} started")
    if (FOLDER / "ran").read_text().splitlines().count(f"{name} started") == 1:
        time.sleep(60)
    return name


@app.task
def in_order(number: int) -> int:
    note(f"in order {number}")
    return number
