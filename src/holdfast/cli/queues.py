"""`holdfast queue`: see, make, change and remove queues."""

import json
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from holdfast.cli import connect, pairs, screen
from holdfast.client.sqs import NoQueue, Refused, Sqs

MAX_RECEIVES = 5  # of a dead-letter queue that is named without a number

app = typer.Typer(no_args_is_help=True, help="Queues: list, make, show, change, empty and remove them.")

Attributes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="An attribute, as SQS names it; may be repeated. Times: 90s, 4d."),
]
Tags = Annotated[list[str] | None, typer.Option("--tag", metavar="KEY=VALUE", help="A tag; may be repeated.")]
DeadLetters = Annotated[
    str | None, typer.Option("--dlq", metavar="QUEUE", help="Where dead letters go; made if it is missing.")
]
MaxReceives = Annotated[int, typer.Option(min=1, max=1000, help="Receives after which a message is a dead letter.")]
Yes = Annotated[
    str | None, typer.Option("--yes", metavar="QUEUE", help="The queue's name again, instead of being asked for it.")
]


@app.command()
def ls(
    prefix: Annotated[str, typer.Argument(help="Only queues whose names begin so.")] = "",
    *,
    names: Annotated[bool, typer.Option("--names", help="Names only, which is quick with many queues.")] = False,
    data: connect.Data = None,
    endpoint: connect.Endpoint = None,
    as_json: connect.AsJson = False,
) -> None:
    """List queues, with how many messages wait, are in flight, and are delayed.

    Example: holdfast queue ls order
    """
    with connect.server(data, endpoint) as sqs:
        found = sqs.names(prefix)
        rows = [{"name": name} for name in found] if names else _rows(sqs, found)
    if as_json:
        screen.show_json(rows)
    elif names:
        print("\n".join(found)) if found else None
    else:
        shown = [(r["name"], r["waiting"], r["in_flight"], r["delayed"], r["dead_letters_to"] or "-") for r in rows]
        headings = ("QUEUE", ">WAITING", ">IN FLIGHT", ">DELAYED", "DEAD LETTERS TO")
        screen.table(headings, shown, empty="No queues yet. Make one: holdfast queue create orders")


def _rows(sqs: Sqs, names: list[str]) -> list[dict[str, Any]]:
    rows = []
    with screen.progress("asking", len(names)) as advance:
        for name in names:
            try:
                rows.append(_row(name, sqs.attributes(name)))
            except NoQueue:
                pass  # removed meanwhile
            advance(1)
    return rows


def _row(name: str, values: dict[str, str]) -> dict[str, Any]:
    return {
        "name": name,
        "waiting": int(values["ApproximateNumberOfMessages"]),
        "in_flight": int(values["ApproximateNumberOfMessagesNotVisible"]),
        "delayed": int(values["ApproximateNumberOfMessagesDelayed"]),
        "dead_letters_to": dead_letter_queue(values),
    }


def dead_letter_queue(values: dict[str, str]) -> str | None:
    """Its name, from a queue's attributes."""
    policy = json.loads(values.get("RedrivePolicy") or "{}")
    target: str = policy.get("deadLetterTargetArn", "")
    return target.rpartition(":")[2] or None


@app.command()
def create(
    queue: connect.QueueName,
    *,
    attributes: Attributes = None,
    tag: Tags = None,
    dlq: DeadLetters = None,
    max_receives: MaxReceives = MAX_RECEIVES,
    data: connect.Data = None,
    endpoint: connect.Endpoint = None,
    as_json: connect.AsJson = False,
) -> None:
    """Make a queue; a name that ends with .fifo makes a FIFO queue. A queue that is there already stays as it is.

    Example: holdfast queue create orders --dlq orders-dead --set VisibilityTimeout=5m
    """
    with connect.server(data, endpoint) as sqs:
        given = pairs.attributes(attributes or [])
        if dlq is not None:
            given["RedrivePolicy"] = _redrive_policy(sqs, queue, dlq, max_receives)
        url = _make(sqs, queue, given, pairs.tags(tag or []))
    screen.show_json({"QueueUrl": url}) if as_json else print(url)


def _make(sqs: Sqs, name: str, attributes: dict[str, str], tags: dict[str, str] | None = None) -> str:
    if name.endswith(".fifo"):
        attributes = {"FifoQueue": "true", **attributes}
    return str(sqs.call("CreateQueue", QueueName=name, Attributes=attributes or None, tags=tags or None)["QueueUrl"])


def _redrive_policy(sqs: Sqs, queue: str, target: str, receives: int) -> str:
    if target.endswith(".fifo") != queue.endswith(".fifo"):
        raise connect.Mistake(
            f"{queue} and {target} must both be FIFO queues, or both not: name one {queue}-dead or so."
            if not queue.endswith(".fifo")
            else f"the dead-letter queue of a FIFO queue is one, too: its name must end with .fifo, {target} does not."
        )
    try:
        arn = sqs.attributes(target, "QueueArn")["QueueArn"]
    except NoQueue:
        _make(sqs, target, {"MessageRetentionPeriod": "1209600"})  # dead letters keep their age: 14 days, the most
        arn = sqs.attributes(target, "QueueArn")["QueueArn"]
        screen.note(f"made {target} for its dead letters; it keeps them for 14 days")
    return json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": receives})


@app.command()
def info(
    queue: connect.QueueName,
    *,
    data: connect.Data = None,
    endpoint: connect.Endpoint = None,
    as_json: connect.AsJson = False,
) -> None:
    """Show a queue: its messages, settings, tags and dead letters.

    Example: holdfast queue info orders
    """
    with connect.server(data, endpoint) as sqs:
        url = sqs.url(queue)
        values = sqs.attributes(queue)
        tags = dict(sqs.call("ListQueueTags", QueueUrl=url).get("Tags", {}))
        sources = sqs.call("ListDeadLetterSourceQueues", QueueUrl=url).get("queueUrls", [])
    names = [each.rpartition("/")[2] for each in sources]
    if as_json:
        shown = {"QueueUrl": url, "Attributes": values, "Tags": tags, "DeadLetterSources": names}
        screen.show_json(shown)
    else:
        screen.facts(_facts(queue, url, values, tags, sources=names))


def _facts(
    queue: str, url: str, values: dict[str, str], tags: dict[str, str], *, sources: list[str]
) -> list[tuple[str, screen.Cell]]:
    row = _row(queue, values)
    facts: list[tuple[str, screen.Cell]] = [
        ("queue", f"{queue} ({'FIFO' if queue.endswith('.fifo') else 'standard'})"),
        ("url", url),
        ("arn", values["QueueArn"]),
        ("waiting", row["waiting"]),
        ("in flight", row["in_flight"]),
        ("delayed", row["delayed"]),
    ]
    if policy := json.loads(values.get("RedrivePolicy") or "{}"):
        facts.append(("dead letters", f"to {row['dead_letters_to']} after {policy['maxReceiveCount']} receives"))
    if sources:
        facts.append(("dead letters of", ", ".join(sources)))
    for name in sorted(values):
        if not name.startswith("Approximate") and name not in ("QueueArn", "RedrivePolicy"):
            facts.append((name, _value(name, values[name])))
    facts += [(f"tag {key}", value) for key, value in sorted(tags.items())]
    return facts


def _value(name: str, value: str) -> str:
    if name.endswith("Timestamp"):
        return datetime.fromtimestamp(int(value), UTC).isoformat(" ")
    if name == "MaximumMessageSize":
        return screen.size(int(value))
    if name in pairs.SECONDS and int(value) > 120:
        return f"{value} s ({screen.duration(int(value))})"
    return f"{value} s" if name in pairs.SECONDS else value


@app.command("set")
def change(
    queue: connect.QueueName,
    attributes: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME=VALUE]...", help="Attributes; NAME= takes one away.")
    ] = None,
    *,
    tag: Tags = None,
    untag: Annotated[list[str] | None, typer.Option(metavar="KEY", help="A tag to remove.")] = None,
    dlq: DeadLetters = None,
    max_receives: MaxReceives = MAX_RECEIVES,
    data: connect.Data = None,
    endpoint: connect.Endpoint = None,
    as_json: connect.AsJson = False,
) -> None:
    """Change attributes and tags of a queue.

    Example: holdfast queue set orders VisibilityTimeout=2m Holdfast.MaxMessages=100000
    """
    with connect.server(data, endpoint) as sqs:
        url = sqs.url(queue)
        given, added = pairs.attributes(attributes or []), pairs.tags(tag or [])
        if dlq is not None:
            given["RedrivePolicy"] = _redrive_policy(sqs, queue, dlq, max_receives)
        if not (given or added or untag):
            raise connect.Mistake("name what to change, for example VisibilityTimeout=60 or --tag team=billing.")
        if given:
            sqs.call("SetQueueAttributes", QueueUrl=url, Attributes=given)
        if added:
            sqs.call("TagQueue", QueueUrl=url, Tags=added)
        if untag:
            sqs.call("UntagQueue", QueueUrl=url, TagKeys=untag)
    if as_json:
        screen.show_json({"QueueUrl": url, "Attributes": given, "Tags": added, "RemovedTags": untag or []})


@app.command()
def rm(
    queue: connect.QueueName,
    *,
    yes: Yes = None,
    data: connect.Data = None,
    endpoint: connect.Endpoint = None,
    as_json: connect.AsJson = False,
) -> None:
    """Remove a queue and all its messages, after asking for its name.

    Example: holdfast queue rm orders
    """
    with connect.server(data, endpoint) as sqs:
        url, count = sqs.url(queue), _messages(sqs, queue)
        screen.confirm(queue, yes=yes, what=f"{queue} and its messages ({_many(count)}) will be gone.")
        sqs.call("DeleteQueue", QueueUrl=url)
    if as_json:
        screen.show_json({"QueueUrl": url, "Messages": count})


@app.command()
def purge(
    queue: connect.QueueName,
    *,
    yes: Yes = None,
    data: connect.Data = None,
    endpoint: connect.Endpoint = None,
    as_json: connect.AsJson = False,
) -> None:
    """Delete all messages of a queue, after asking for its name; the queue stays.

    Example: holdfast queue purge orders
    """
    with connect.server(data, endpoint) as sqs:
        url, count = sqs.url(queue), _messages(sqs, queue)
        screen.confirm(queue, yes=yes, what=f"All messages of {queue} ({_many(count)}) will be gone.")
        sqs.call("PurgeQueue", QueueUrl=url)
    if as_json:
        screen.show_json({"QueueUrl": url, "Messages": count})


def _messages(sqs: Sqs, queue: str) -> int | None:
    """How many; None: a key that may not ask can still remove."""
    try:
        row = _row(queue, sqs.attributes(queue))
    except Refused:
        return None
    return int(row["waiting"] + row["in_flight"] + row["delayed"])


def _many(count: int | None) -> str:
    return "how many is not known" if count is None else f"{count:,} of them"
