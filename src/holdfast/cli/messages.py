"""`holdfast msg`: send, receive, look at and delete messages. Files of messages: transfer.py."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from holdfast.cli import connect, pairs, screen
from holdfast.client.sqs import BATCH_MAX, Message, Sqs

PEEK_PAGE = 100  # messages of one PeekMessages

app = typer.Typer(
    no_args_is_help=True, help="Messages: send, receive, look at, follow, delete, export and import them."
)

Count = Annotated[int, typer.Option("--max", "-n", min=1, help="At most so many messages.")]


@app.command()
def send(
    queue: connect.QueueName,
    body: Annotated[str | None, typer.Argument(help="The body; - or nothing reads standard input.")] = None,
    *,
    file: Annotated[Path | None, typer.Option(help="Take the body from this file.")] = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option("--attr", metavar="NAME[:TYPE]=VALUE", help="A message attribute; may be repeated."),
    ] = None,
    group: Annotated[str | None, typer.Option(help="MessageGroupId; FIFO queues need one.")] = None,
    dedup: Annotated[str | None, typer.Option(help="MessageDeduplicationId, for FIFO queues.")] = None,
    delay: Annotated[int | None, typer.Option(help="Seconds until it becomes visible.")] = None,
    data: connect.Data = None,
    endpoint: connect.Endpoint = None,
    as_json: connect.AsJson = False,
) -> None:
    """Send a message. When this returns without an error, the message is on disk.

    Example: holdfast msg send orders '{"order": 7}' --attr shop=north
    """
    with connect.server(data, endpoint) as sqs:
        reply = sqs.call(
            "SendMessage",
            QueueUrl=sqs.url(queue),
            MessageBody=_body(body, file),
            MessageAttributes=pairs.message_attributes(attribute or []) or None,
            MessageGroupId=group,
            MessageDeduplicationId=dedup,
            DelaySeconds=delay,
        )
    screen.show_json(reply) if as_json else print(reply["MessageId"])


def _body(body: str | None, file: Path | None) -> str:
    if body not in (None, "-") and file is not None:
        raise connect.Mistake("give the body, or a file that holds it, not both.")
    try:
        if file is not None:
            return file.read_text(encoding="utf-8")
        return sys.stdin.read() if body is None or body == "-" else body
    except (OSError, UnicodeDecodeError) as problem:
        raise connect.Mistake(f"the body cannot be read as text: {problem}") from None


@app.command()
def receive(
    queue: connect.QueueName,
    *,
    count_max: Annotated[int, typer.Option("--max", "-n", min=1, max=BATCH_MAX, help="At most so many messages.")] = 1,
    wait: Annotated[int, typer.Option(min=0, max=20, help="Seconds to wait for a message.")] = 0,
    visibility: Annotated[
        int | None, typer.Option(help="Seconds until they come back; else as the queue says.")
    ] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete them after they were shown.")] = False,
    data: connect.Data = None,
    endpoint: connect.Endpoint = None,
    as_json: connect.AsJson = False,
) -> None:
    """Receive messages: they are hidden from others until they are deleted or come back.

    Example: holdfast msg receive orders --wait 10 --delete
    """
    with connect.server(data, endpoint) as sqs:
        found = take(sqs, queue, count_max=count_max, wait_s=wait, visibility_s=visibility)
        if as_json:
            screen.show_json(found)
        else:
            for each in found:
                _show_block(each, is_deleted=delete)
        if delete and found:
            entries = [{"Id": str(n), "ReceiptHandle": each["ReceiptHandle"]} for n, each in enumerate(found)]
            for failed in sqs.batch("DeleteMessageBatch", queue, entries):
                screen.note(f"not deleted: {found[int(failed.id)]['MessageId']}: {failed.text}")
    if not found and not as_json:
        screen.note(f"nothing to receive from {queue} now; `holdfast msg peek {queue}` shows what is hidden or delayed")


def take(
    sqs: Sqs, queue: str, *, count_max: int = BATCH_MAX, wait_s: int = 0, visibility_s: int | None = None
) -> list[Message]:
    reply = sqs.call(
        "ReceiveMessage",
        QueueUrl=sqs.url(queue),
        MaxNumberOfMessages=count_max,
        WaitTimeSeconds=wait_s,
        VisibilityTimeout=visibility_s,
        MessageSystemAttributeNames=["All"],
        MessageAttributeNames=["All"],
    )
    return list(reply.get("Messages", []))


@app.command()
def peek(
    queue: connect.QueueName,
    *,
    count_max: Count = 10,
    after: Annotated[str, typer.Option(metavar="SEQUENCE", help="Begin behind this SequenceNumber.")] = "",
    full: Annotated[bool, typer.Option("--full", help="Whole bodies and all attributes.")] = False,
    data: connect.Data = None,
    endpoint: connect.Endpoint = None,
    as_json: connect.AsJson = False,
) -> None:
    """Look at messages without receiving them: nothing is counted, hidden or changed.

    Example: holdfast msg peek orders -n 20
    """
    with connect.server(data, endpoint) as sqs:
        found = _look(sqs, queue, after=after, count_max=count_max)
    if as_json:
        screen.show_json(found)
    elif full:
        for each in found:
            _show_block(each)
    else:
        rows = [_row(each) for each in found]
        screen.table(("SEQUENCE", "STATE", ">AGE", ">RECEIVES", "BODY"), rows, empty=f"{queue} has no messages.")


def _look(sqs: Sqs, queue: str, *, after: str, count_max: int) -> list[Message]:
    found: list[Message] = []
    while len(found) < count_max:
        page = sqs.peek(queue, after=after, count_max=min(PEEK_PAGE, count_max - len(found)))["Messages"]
        if not page:
            break
        found += page
        after = page[-1]["SequenceNumber"]
    return found


def _row(message: Message) -> tuple[screen.Cell, ...]:
    return (
        message["SequenceNumber"],
        message["State"],
        screen.age(message["Attributes"]["SentTimestamp"]),
        message["ReceiveCount"],
        screen.one_line(message["Body"]),
    )


def _show_block(message: Message, *, is_deleted: bool = False) -> None:
    """One message: what is known of it in a few lines, then its body as it is."""
    console = Console(highlight=False, soft_wrap=True)
    for name, value in _known(message, is_deleted=is_deleted):
        console.print(Text(f"{name}: ", style="bold"), Text(value), sep="")
    console.print(Text(message["Body"]), end="\n\n")


def _known(message: Message, *, is_deleted: bool) -> list[tuple[str, str]]:
    system: dict[str, Any] = message["Attributes"]
    facts = [("message", message["MessageId"]), ("sent", f"{screen.age(system['SentTimestamp'])} ago")]
    if "State" in message:
        facts.append(("state", message["State"]))
    facts.append(("receives", str(system["ApproximateReceiveCount"])))
    for name, member in (("group", "MessageGroupId"), ("deduplication", "MessageDeduplicationId")):
        facts += [(name, system[member])] if member in system else []
    if "DeadLetterQueueSourceArn" in system:
        source = system["DeadLetterQueueSourceArn"].rpartition(":")[2]
        facts.append(("dead letter of", f"{source} ({message['Cause']})" if "Cause" in message else source))
    if "FailureReason" in message:
        facts.append(("given back", message["FailureReason"]))
    for name, value in message.get("MessageAttributes", {}).items():
        facts.append((f"{name} ({value['DataType']})", value.get("StringValue") or value.get("BinaryValue", "")))
    if "ReceiptHandle" in message and not is_deleted:
        facts.append(("receipt", message["ReceiptHandle"]))
    return facts


@app.command()
def rm(
    queue: connect.QueueName,
    receipts: Annotated[list[str], typer.Argument(metavar="RECEIPT...", help="As `msg receive` shows them.")],
    *,
    data: connect.Data = None,
    endpoint: connect.Endpoint = None,
    as_json: connect.AsJson = False,
) -> None:
    """Delete messages that were received, by their receipts.

    Example: holdfast msg rm orders AQAAAAAAAAAB...
    """
    with connect.server(data, endpoint) as sqs:
        for receipt in receipts:
            sqs.call("DeleteMessage", QueueUrl=sqs.url(queue), ReceiptHandle=receipt)
    if as_json:
        screen.show_json({"Deleted": receipts})
