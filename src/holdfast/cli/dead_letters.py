"""`holdfast dlq`: dead letters and their way back.

Without a filter the server moves them (StartMessageMoveTask): exactly once, with their ids. With one this command
receives, sends and deletes, message by message: each is sent before it is deleted, so that none is lost. If it stops
between the two, the message is in both queues; when it is sent to a FIFO queue again within five minutes, it is
recognised by its deduplication id, which is the dead letter's own MessageId. Sent messages have new ids.
"""

import contextlib
import time
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Annotated, Any

import msgspec
import typer

from holdfast.cli import connect, pairs, screen
from holdfast.cli.messages import take
from holdfast.cli.queues import dead_letter_queue
from holdfast.cli.transfer import look_through
from holdfast.client.sqs import Message, Refused, Sqs

HOLD_S = 120  # how long messages are kept aside while the others are looked at
LOOK_EVERY_S = 0.2
NAMES = ("body", "id", "source", "group", "cause", "reason")
FILTERS = f"{', '.join(NAMES)} or attr.NAME"

app = typer.Typer(no_args_is_help=True, help="Dead letters: see where they are, and send them back.")


@app.command()
def ls(*, data: connect.Data = None, endpoint: connect.Endpoint = None, as_json: connect.AsJson = False) -> None:
    """List dead-letter queues: whose letters they take, how many there are, and what is being moved.

    Example: holdfast dlq ls
    """
    with connect.server(data, endpoint) as sqs:
        rows = _rows(sqs)
    if as_json:
        screen.show_json(rows)
        return
    shown = [(r["name"], r["letters"], r["in_flight"], r["move_task"] or "-", ", ".join(r["sources"])) for r in rows]
    headings = ("DEAD LETTERS IN", ">LETTERS", ">IN FLIGHT", "MOVE TASK", "FROM")
    screen.table(
        headings, shown, empty="No queue has a dead-letter queue. Give it one: holdfast queue set QUEUE --dlq NAME"
    )


def _rows(sqs: Sqs) -> list[dict[str, Any]]:
    attributes = {name: sqs.attributes(name) for name in sqs.names()}
    sources: dict[str, list[str]] = {}
    for name, values in attributes.items():
        if target := dead_letter_queue(values):
            sources.setdefault(target, []).append(name)
    rows = []
    for name in sorted(sources):
        values = attributes.get(name, {})
        row: dict[str, Any] = {
            "name": name,
            "letters": 0,
            "in_flight": 0,
            "move_task": "missing",
            "sources": sources[name],
        }
        if values:
            row["letters"] = int(values["ApproximateNumberOfMessages"])
            row["in_flight"] = int(values["ApproximateNumberOfMessagesNotVisible"])
            row["move_task"] = _task_text(sqs, values["QueueArn"])
        rows.append(row)
    return rows


def _task_text(sqs: Sqs, arn: str) -> str | None:
    task = _last_task(sqs, arn)
    if task is None:
        return None
    moved, total = task["ApproximateNumberOfMessagesMoved"], task["ApproximateNumberOfMessagesToMove"]
    return f"{task['Status'].lower()}, {moved} of {total}"


def _last_task(sqs: Sqs, arn: str) -> dict[str, Any] | None:
    results = sqs.call("ListMessageMoveTasks", SourceArn=arn).get("Results", [])
    return results[0] if results else None


class Filter(msgspec.Struct, frozen=True):
    """Conditions that must all hold; values are patterns with * and ?."""

    conditions: list[tuple[str, str]]

    @classmethod
    def parse(cls, texts: list[str]) -> "Filter":
        conditions = [pairs.split(text, "'body=*timeout*' or source=orders") for text in texts]
        for name, _ in conditions:
            if name not in NAMES and not name.startswith("attr."):
                raise connect.Mistake(f"a filter is about {FILTERS}, and {name} is none of them.")
        return cls(conditions)

    def matches(self, message: Message) -> bool:
        """Of a peek."""
        return all(fnmatchcase(_property(message, name), pattern) for name, pattern in self.conditions)


def _property(message: Message, name: str) -> str:
    system = message["Attributes"]
    if name.startswith("attr."):
        value = message.get("MessageAttributes", {}).get(name.removeprefix("attr."), {})
        return str(value.get("StringValue") or value.get("BinaryValue", ""))
    known = {
        "body": message["Body"],
        "id": message["MessageId"],
        "source": source_of(message),
        "group": system.get("MessageGroupId", ""),
        "cause": message.get("Cause", ""),
        "reason": message.get("FailureReason", ""),
    }
    return str(known[name])


def source_of(message: Message) -> str:
    """The name of the queue that it is a dead letter of; empty when that is not known."""
    return str(message["Attributes"].get("DeadLetterQueueSourceArn", "")).rpartition(":")[2]


@app.command()
def redrive(
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="The dead-letter queue.")],
    *,
    to: Annotated[str | None, typer.Option(metavar="QUEUE", help="Send them there, not where they came from.")] = None,
    filters: Annotated[
        list[str] | None,
        typer.Option("--filter", metavar="NAME=PATTERN", help=f"Only these: {FILTERS}; all must match. * is anything."),
    ] = None,
    rate: Annotated[int | None, typer.Option(min=1, max=500, help="At most so many a second.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be moved, and move nothing.")] = False,
    data: connect.Data = None,
    endpoint: connect.Endpoint = None,
    as_json: connect.AsJson = False,
) -> None:
    """Send dead letters back to the queues they came from, or to another one.

    Without --filter the server moves them, once each and with their ids; Ctrl-C stops it. With --filter each message is
    sent, then deleted: none is lost, and if this is interrupted, the last one may be in both queues. On a FIFO queue
    only messages at the front of their groups can be taken.

    Example: holdfast dlq redrive orders-dead --filter 'body=*timeout*' --dry-run
    """
    with connect.server(data, endpoint) as sqs:
        chosen = Filter.parse(filters or [])
        if dry_run or filters:
            found = [each for each in look_through(sqs, queue) if chosen.matches(each)]
        if dry_run:
            result = {"would_move": _by_target(found, to)}
        elif filters:
            result = _move_some(sqs, queue, {each["MessageId"]: each for each in found}, to, rate)
        else:
            result = _move_all(sqs, queue, to, rate)
    _tell(result, as_json=as_json)


def _by_target(messages: list[Message], to: str | None) -> dict[str, int]:
    counts: dict[str, int] = {}
    for each in messages:
        target = to or source_of(each) or "(unknown: name one with --to)"
        counts[target] = counts.get(target, 0) + 1
    return counts


def _tell(result: dict[str, Any], *, as_json: bool) -> None:
    trouble = result.get("trouble", [])
    if as_json:
        screen.show_json(result)
    elif "would_move" in result:
        screen.table(("WOULD GO TO", ">MESSAGES"), list(result["would_move"].items()), empty="Nothing would be moved.")
    else:
        print(f"{result['moved']:,} of {result['of']:,} messages moved")
        for each in trouble:
            screen.note(each)
    if trouble:
        raise typer.Exit(connect.FINDINGS)


# by the server


def _move_all(sqs: Sqs, queue: str, to: str | None, rate: int | None) -> dict[str, Any]:
    source = sqs.attributes(queue, "QueueArn")["QueueArn"]
    target = sqs.attributes(to, "QueueArn")["QueueArn"] if to else None
    handle = sqs.call(
        "StartMessageMoveTask", SourceArn=source, DestinationArn=target, MaxNumberOfMessagesPerSecond=rate
    )["TaskHandle"]
    task = _last_task(sqs, source) or {}
    total, moved = task.get("ApproximateNumberOfMessagesToMove", 0), 0
    with screen.progress(f"moving from {queue}", total) as advance:
        try:
            while task.get("Status") in ("RUNNING", "CANCELLING"):
                time.sleep(LOOK_EVERY_S)
                task = _last_task(sqs, source) or {}
                advance(task["ApproximateNumberOfMessagesMoved"] - moved)
                moved = task["ApproximateNumberOfMessagesMoved"]
        except KeyboardInterrupt:
            sqs.call("CancelMessageMoveTask", TaskHandle=handle)
            return {"moved": moved, "of": total, "trouble": ["stopped; the rest stays where it is"]}
    trouble = [] if task.get("Status") == "COMPLETED" else [f"{task.get('Status')}: {task.get('FailureReason', '')}"]
    return {"moved": task.get("ApproximateNumberOfMessagesMoved", 0), "of": total, "trouble": trouble}


# one by one


def _move_some(sqs: Sqs, queue: str, wanted: dict[str, Message], to: str | None, rate: int | None) -> dict[str, Any]:
    """`wanted` by MessageId, as a peek saw them."""
    if dead_letter_queue(sqs.attributes(queue)):
        raise connect.Mistake(
            f"{queue} has a dead-letter queue of its own: looking for some would count receives of all. "
            "Move all of them, without --filter."
        )
    trouble: list[str] = []
    total, moved, left = len(wanted), 0, dict(wanted)
    with screen.progress(f"moving from {queue}", total) as advance, _held(sqs, queue) as held:
        for message in _looked_at(sqs, queue, held, left):
            seen = left.pop(message["MessageId"])
            if problem := _move(sqs, queue, message, to or source_of(seen)):
                held[message["MessageId"]] = message["ReceiptHandle"]
                trouble.append(f"{message['MessageId']} stays in {queue}: {problem}")
                continue
            moved += 1
            advance(1)
            time.sleep(1 / rate if rate else 0)
    if left:
        trouble.append(
            f"{len(left)} could not be taken: in flight, deleted meanwhile, or behind others of their groups"
        )
    return {"moved": moved, "of": total, "trouble": trouble}


def _looked_at(sqs: Sqs, queue: str, held: dict[str, str], left: dict[str, Message]) -> Iterator[Message]:
    """Receives message after message: yields those that are `left`, holds the others, until none is new."""
    is_new = True
    while left and is_new:
        is_new = False
        for message in take(sqs, queue, visibility_s=HOLD_S):
            is_new = is_new or message["MessageId"] not in held  # others were held too long, and come again
            if message["MessageId"] in left:
                yield message
            else:
                held[message["MessageId"]] = message["ReceiptHandle"]


@contextlib.contextmanager
def _held(sqs: Sqs, queue: str) -> Iterator[dict[str, str]]:
    """Messages that were received and are not wanted: visible again at the end, whatever happens."""
    held: dict[str, str] = {}
    try:
        yield held
    finally:
        for receipt in held.values():
            with contextlib.suppress(Refused):  # visible already
                sqs.call("ChangeMessageVisibility", QueueUrl=sqs.url(queue), ReceiptHandle=receipt, VisibilityTimeout=0)


def _move(sqs: Sqs, queue: str, message: Message, target: str) -> str:
    """Empty when it is done, else why not. Deleted only after it was sent."""
    if not target:
        return "where it came from is not known; name a queue with --to"
    system = message["Attributes"]
    is_fifo = target.endswith(".fifo")
    try:
        sqs.call(
            "SendMessage",
            QueueUrl=sqs.url(target),
            MessageBody=message["Body"],
            MessageAttributes=message.get("MessageAttributes"),
            MessageGroupId=system.get("MessageGroupId"),
            MessageDeduplicationId=message["MessageId"] if is_fifo else None,
        )
    except Refused as refusal:
        return str(refusal)
    sqs.call("DeleteMessage", QueueUrl=sqs.url(queue), ReceiptHandle=message["ReceiptHandle"])
    return ""
