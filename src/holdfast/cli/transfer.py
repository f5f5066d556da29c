"""`holdfast msg tail`, `export` and `import`: messages as a stream, and as files of JSON lines.

A line has the members of SendMessage (MessageBody, MessageAttributes, MessageGroupId, MessageDeduplicationId,
MessageSystemAttributes), which import sends again, and what export knows besides (MessageId, SequenceNumber,
SentTimestamp, ReceiveCount, State), which import passes over.

Laws
- Neither tail nor export receives anything: they peek.
- Import sends in the order of the file and stops at the first message that is refused. It always says how many lines
  were sent, which were not, and, when the connection broke, which may have been.
"""

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from holdfast.cli import connect, messages, screen
from holdfast.cli.messages import PEEK_PAGE
from holdfast.client.sqs import BATCH_BYTES_MAX, BATCH_MAX, Message, Refused, Sqs, Unreachable

SENT = ("MessageBody", "MessageAttributes", "MessageSystemAttributes", "MessageGroupId", "MessageDeduplicationId")

app = messages.app  # its other commands

File = Annotated[str, typer.Argument(help="A file of JSON lines; - is standard input or output.")]


@app.command()
def tail(
    queue: connect.QueueName,
    *,
    last: Annotated[int, typer.Option("--last", "-n", min=0, help="Begin with so many that are there.")] = 0,
    interval: Annotated[float, typer.Option(min=0.05, help="Seconds between two looks.")] = 0.5,
    data: connect.Data = None,
    endpoint: connect.Endpoint = None,
    as_json: connect.AsJson = False,
) -> None:
    """Follow the messages that come into a queue, without receiving them. Ctrl-C ends it.

    A message that is sent and deleted between two looks cannot be shown; how many there were is said.

    Example: holdfast msg tail orders --last 5
    """
    with connect.server(data, endpoint) as sqs, until_interrupted() as is_interrupted:
        newest = int(sqs.peek(queue, count_max=1)["LastSequenceNumber"])
        after = newest - last
        while not is_interrupted.is_set():
            page = sqs.peek(queue, after=str(after), count_max=PEEK_PAGE)
            for each in page["Messages"]:
                screen.show_line(each) if as_json else print(_line(each), flush=True)
            after = _follow(page, after, newest)
            if len(page["Messages"]) < PEEK_PAGE:
                time.sleep(interval)


@contextlib.contextmanager
def until_interrupted() -> Iterator[threading.Event]:
    """Ctrl-C ends what is within, and sets the event: Python drops an exception that comes while it destroys an object,
    as a reply is whenever it was read."""
    is_interrupted = threading.Event()

    def interrupt(_: int, __: object) -> None:
        is_interrupted.set()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            yield is_interrupted
    finally:
        signal.signal(signal.SIGINT, before)


def _follow(page: dict[str, Any], after: int, first: int) -> int:
    """Where to go on; says what was missed among those that came since `first`."""
    shown, last = page["Messages"], int(page["LastSequenceNumber"])
    if len(shown) == PEEK_PAGE:
        last = int(shown[-1]["SequenceNumber"])
    missed = last - max(after, first) - sum(int(each["SequenceNumber"]) > max(after, first) for each in shown)
    if missed > 0:
        screen.note(f"({missed} more came and were gone before they could be shown)")
    return max(last, after)


def _line(message: Message) -> str:
    sent = int(message["Attributes"]["SentTimestamp"]) / 1000
    return (
        f"{time.strftime('%H:%M:%S', time.localtime(sent))}  {message['MessageId']}  {screen.one_line(message['Body'])}"
    )


@app.command("export")
def export_messages(
    queue: connect.QueueName,
    file: File = "-",
    *,
    data: connect.Data = None,
    endpoint: connect.Endpoint = None,
) -> None:
    """Write all messages of a queue as JSON lines, without receiving them; also those in flight and delayed.

    It ends with the message that was the newest when it began. A file gets its name when it is complete.

    Example: holdfast msg export orders orders.jsonl
    """
    with connect.server(data, endpoint) as sqs, _written(file) as out:
        values = sqs.attributes(queue)
        total = sum(int(value) for name, value in values.items() if name.startswith("ApproximateNumber"))
        count = 0
        with screen.progress(f"exporting {queue}", total) as advance:
            for message in look_through(sqs, queue):
                out.write(json.dumps(_exported(message), ensure_ascii=False) + "\n")
                advance(1)
                count += 1
    screen.note(f"{count:,} messages of {queue}")


def look_through(sqs: Sqs, queue: str) -> Iterator[Message]:
    """What is there, up to the newest at the time of the first look."""
    page = sqs.peek(queue, count_max=PEEK_PAGE)
    last = int(page["LastSequenceNumber"])
    while page["Messages"]:
        for message in page["Messages"]:
            if int(message["SequenceNumber"]) > last:
                return
            yield message
        page = sqs.peek(queue, after=page["Messages"][-1]["SequenceNumber"], count_max=PEEK_PAGE)


def _exported(message: Message) -> Message:
    system = message["Attributes"]
    line: Message = {"MessageBody": message["Body"]}
    for name in ("MessageGroupId", "MessageDeduplicationId"):
        if name in system:
            line[name] = system[name]
    if "MessageAttributes" in message:
        line["MessageAttributes"] = message["MessageAttributes"]
    if "AWSTraceHeader" in system:
        trace = {"DataType": "String", "StringValue": system["AWSTraceHeader"]}
        line["MessageSystemAttributes"] = {"AWSTraceHeader": trace}
    known = {name: message[name] for name in ("MessageId", "SequenceNumber", "ReceiveCount", "State")}
    return line | known | {"SentTimestamp": system["SentTimestamp"]}


@contextlib.contextmanager
def _written(file: str) -> Iterator[TextIO]:
    if file == "-":
        yield sys.stdout
        return
    path = Path(file)
    temporary = path.with_name(path.name + ".unfinished")
    try:
        with temporary.open("w", encoding="utf-8") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        temporary.rename(path)
    except OSError as problem:
        raise connect.Mistake(f"{file} cannot be written: {problem.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)


@app.command("import")
def import_messages(
    queue: connect.QueueName,
    file: File,
    *,
    skip: Annotated[int, typer.Option(min=0, help="Lines to pass over: those that an earlier attempt sent.")] = 0,
    data: connect.Data = None,
    endpoint: connect.Endpoint = None,
    as_json: connect.AsJson = False,
) -> None:
    """Send the messages of a file of JSON lines, in its order, up to ten at a time.

    If it stops, it says with which --skip to go on. Exit code 1 when not all of them were sent.

    Example: holdfast msg import orders orders.jsonl
    """
    with connect.server(data, endpoint) as sqs:
        sqs.url(queue)
        lines = _read(file)
        total = max(0, len(lines) - skip)
        with screen.progress(f"importing into {queue}", total) as advance:
            sent, trouble = _send_all(sqs, queue, lines[skip:], skip, advance)
    if as_json:
        screen.show_json({"sent": sent, "of": total, "trouble": trouble})
    else:
        print(f"{sent:,} of {total:,} messages sent to {queue}")
        for each in trouble:
            screen.note(each)
    if trouble:
        raise typer.Exit(connect.FINDINGS)


def _read(file: str) -> list[tuple[Message, int]]:
    """Messages with the length of their lines. All of them are read before one is sent, so mistakes cost nothing."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise connect.Mistake(f"{file} cannot be read: {problem}") from None
    found = []
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        try:
            message = json.loads(line)
        except ValueError as problem:
            raise connect.Mistake(f"{file} line {number} is no JSON: {problem}") from None
        if not isinstance(message, dict) or not isinstance(message.get("MessageBody"), str):
            raise connect.Mistake(
                f"{file} line {number} has no MessageBody. Lines are as `holdfast msg export` writes."
            )
        found.append(({name: message[name] for name in SENT if name in message}, len(line.encode())))
    return found


def _send_all(
    sqs: Sqs, queue: str, messages: list[tuple[Message, int]], skipped: int, advance: screen.Meter
) -> tuple[int, list[str]]:
    """How many were sent, and what to say if not all were."""
    sent, at = 0, 0
    while at < len(messages):
        batch = _batch(messages, at)
        first, last = skipped + at + 1, skipped + at + len(batch)
        entries = [{"Id": str(number), **message} for number, message in enumerate(batch)]
        try:
            failed = sqs.batch("SendMessageBatch", queue, entries)
        except Unreachable as problem:
            return sent, [
                f"no answer for lines {first}–{last}: {problem}. They may have been sent.",
                f"Go on with --skip {first - 1} (they may come twice) or --skip {last} (they may be missing).",
            ]
        except Refused as refusal:
            why = f"lines {first}–{last} were refused: {refusal} ({refusal.code})"
            return sent, [why, f"When that is mended, go on with --skip {first - 1}"]
        sent += len(batch) - len(failed)
        if failed:
            refused = [f"line {first + int(each.id)} was refused: {each.code}: {each.text}" for each in failed]
            return sent, [*refused, f"All other lines up to {last} were sent. Go on behind them: --skip {last}"]
        at += len(batch)
        advance(len(batch))
    return sent, []


def _batch(messages: list[tuple[Message, int]], at: int) -> list[Message]:
    """What fits into one request."""
    batch, size = [messages[at][0]], messages[at][1]
    for message, length in messages[at + 1 : at + BATCH_MAX]:
        size += length
        if size > BATCH_BYTES_MAX:
            break
        batch.append(message)
    return batch
