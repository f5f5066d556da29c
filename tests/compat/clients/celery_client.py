"""Celery with a worker in a process of its own: tasks, retries, countdown and ETA, late acknowledgement, FIFO."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import celery

from tests.compat.clients import celery_app, checks

FOLDER = celery_app.FOLDER
RESULT_S = 25


@contextlib.contextmanager
def worker(name: str) -> Iterator[subprocess.Popen[bytes]]:
    """Ends as operators end it: SIGTERM, so that it finishes what it does. Of one process: two would run neighbours of
    a FIFO queue side by side, in any order."""
    command = [
        sys.executable,
        "-m",
        "celery",
        "-A",
        celery_app.__name__,
        "worker",
        "-n",
        name,
        "-Q",
        "celery,ordered.fifo",
    ]
    options = ["--pool", "prefork", "-c", "1", "--loglevel", "INFO", "--without-gossip", "--without-mingle"]
    with (FOLDER / f"{name}.log").open("wb") as log:
        process = subprocess.Popen([*command, *options], stdout=log, stderr=log, start_new_session=True)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """The worker and its pool, as when a machine is lost."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def ran() -> list[str]:
    file = FOLDER / "ran"
    return file.read_text().splitlines() if file.exists() else []


def a_task_outlives_the_worker_that_took_it() -> None:
    with worker("first") as process:
        result = celery_app.outlives_its_worker.delay("phoenix")
        checks.eventually(lambda: "phoenix started" in ran())
        kill(process)
    with worker("second"):
        assert result.get(timeout=RESULT_S) == "phoenix"
    assert ran().count("phoenix started") == 2, ran()


def thirty_tasks_are_done() -> None:
    results = [celery_app.add.delay(number, 1) for number in range(30)]
    assert [each.get(timeout=RESULT_S) for each in results] == [number + 1 for number in range(30)]


def a_task_that_fails_is_tried_again() -> None:
    assert celery_app.fails_twice.delay().get(timeout=RESULT_S) == 2


def a_countdown_and_an_eta_are_waited_for() -> None:
    begun = time.time()
    eta = datetime.now(UTC) + timedelta(seconds=2)
    results = [celery_app.when.apply_async(countdown=2), celery_app.when.apply_async(eta=eta)]
    for each in results:
        assert each.get(timeout=RESULT_S) >= begun + 1.9


def a_fifo_queue_keeps_the_order_of_tasks() -> None:
    results = [
        celery_app.in_order.apply_async((number,), MessageGroupId="g", MessageDeduplicationId=f"in-order-{number}")
        for number in range(5)
    ]
    assert [each.get(timeout=RESULT_S) for each in results] == list(range(5))
    assert [line for line in ran() if line.startswith("in order")] == [f"in order {number}" for number in range(5)]


CHECKS = (
    a_task_outlives_the_worker_that_took_it,
    thirty_tasks_are_done,
    a_task_that_fails_is_tried_again,
    a_countdown_and_an_eta_are_waited_for,
    a_fifo_queue_keeps_the_order_of_tasks,
)


def main() -> None:
    assert celery.__version__ == "5.7.0", celery.__version__
    (FOLDER / "results").mkdir()
    checks.run(CHECKS[:1])
    with worker("third"):
        checks.run(CHECKS[1:])


if __name__ == "__main__":
    try:
        main()
    finally:
        for log in sorted(Path(FOLDER).glob("*.log")):
            sys.stderr.write(f"--- {log.name}\n{log.read_text()[-6000:]}\n")
