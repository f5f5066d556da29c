"""Dramatiq over dramatiq-sqs, with a worker in a process of its own: tasks, retries, delays, dead letters."""

import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import boto3

from tests.compat.clients import checks, dramatiq_app

LOG = dramatiq_app.RAN.with_name("worker.log")


def ran() -> list[str]:
    return dramatiq_app.RAN.read_text().splitlines() if dramatiq_app.RAN.exists() else []


def thirty_messages_are_worked_on_once_each() -> None:
    for number in range(30):
        dramatiq_app.greet.send(str(number))
    checks.eventually(lambda: sum(line.startswith("hello") for line in ran()) >= 30)
    assert sorted(line for line in ran() if line.startswith("hello")) == sorted(f"hello {n}" for n in range(30))


def a_message_that_fails_is_tried_again() -> None:
    dramatiq_app.fails_twice.send("x")
    checks.eventually(lambda: "done x" in ran())
    assert ran().count("tried x") == 3, ran()


def a_delay_is_waited_for() -> None:
    begun = time.time()
    dramatiq_app.when.send_with_options(args=("later",), delay=2000)
    line = checks.eventually(lambda: [line for line in ran() if line.startswith("later at")])[0]
    assert float(line.split()[-1]) >= begun + 1.9, line


def what_cannot_be_done_becomes_a_dead_letter() -> None:
    dramatiq_app.hopeless.send()
    queue = boto3.resource("sqs").get_queue_by_name(QueueName="dramatiq_default_dlq")
    (letter,) = queue.receive_messages(WaitTimeSeconds=20)
    assert letter.body, letter


def queues_have_the_tags_of_the_broker() -> None:
    sqs = boto3.client("sqs")
    url = sqs.get_queue_url(QueueName="dramatiq_default")["QueueUrl"]
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"team": "blue"}


def everything_is_acknowledged_in_the_end() -> None:
    """`join` reads the three counts of the queue until all are zero."""
    dramatiq_app.broker.join("default", timeout=20)


CHECKS = (
    thirty_messages_are_worked_on_once_each,
    a_message_that_fails_is_tried_again,
    a_delay_is_waited_for,
    what_cannot_be_done_becomes_a_dead_letter,
    queues_have_the_tags_of_the_broker,
    everything_is_acknowledged_in_the_end,
)


def main() -> None:
    assert version("dramatiq-sqs") == "0.4.4"
    command = [sys.executable, "-m", "dramatiq", dramatiq_app.__name__, "--processes", "1", "--threads", "4"]
    with LOG.open("wb") as log:
        worker = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        checks.run(CHECKS)
    finally:
        worker.terminate()
        try:
            worker.wait(25)
        except subprocess.TimeoutExpired:
            worker.kill()
        sys.stderr.write(Path(LOG).read_text()[-6000:])


if __name__ == "__main__":
    main()
