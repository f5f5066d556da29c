"""The table of wrong requests: read, filled with what it only names, sent in both dialects.

python -m tests.process.wrong_requests      writes what a server says today into the table; read the diff
"""

import base64
import json
import re
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from tests.process.server import Running, running

TABLE = Path(__file__).parent / "wrong_requests.txt"
ERRORS: dict[str, Any] = json.loads((TABLE.parent.parent / "core" / "sqs_errors.json").read_text("utf-8"))["errors"]
ARN = "arn:aws:sqs:us-east-1:000000000000:"
SPACE = "{http://queue.amazonaws.com/doc/2012-11-05/}"
DIALECTS = ("json", "query")
NAMING_A_QUEUE = (
    "AddPermission ChangeMessageVisibility ChangeMessageVisibilityBatch DeleteMessage DeleteMessageBatch DeleteQueue "
    "GetQueueAttributes ListDeadLetterSourceQueues ListQueueTags PurgeQueue ReceiveMessage RemovePermission "
    "SendMessage SendMessageBatch SetQueueAttributes TagQueue UntagQueue PeekMessages"
).split()
EXTENSIONS = ("PeekMessages",)

# Codes of the older dialect that the model does not tell.
CODES = {
    "InvalidParameterValueException": "InvalidParameterValue",
    "MissingRequiredParameterException": "MissingParameter",
}
# JSON member -> its name in a form; maps also name their keys.
LISTS = {
    "AWSAccountIds": "AWSAccountId",
    "Actions": "ActionName",
    "AttributeNames": "AttributeName",
    "MessageSystemAttributeNames": "MessageSystemAttributeName",
    "StringListValues": "StringListValue",
    "TagKeys": "TagKey",
}
MAPS = {
    "Attributes": ("Attribute", "Name"),
    "MessageAttributes": ("MessageAttribute", "Name"),
    "MessageSystemAttributes": ("MessageSystemAttribute", "Name"),
    "Tags": ("Tag", "Key"),
    "tags": ("Tag", "Key"),
}


class Refusal(NamedTuple):
    code: str
    status: int
    text: str

    def __str__(self) -> str:
        return f"{self.code} {self.status} {self.text}"


class Row(NamedTuple):
    action: str  # or "*"
    text: str  # its parameters as the table writes them
    answers: dict[str, str]  # by dialect, as the table writes them

    def parameters(self, known: dict[str, str]) -> dict[str, Any]:
        parameters: dict[str, Any] = _filled(json.loads(self.text), known)
        return parameters


# --- the table ------------------------------------------------------------------------------------------


def rows() -> list[Row]:
    return [each for each in _parts() if isinstance(each, Row)]


def _parts() -> Iterator[str | Row]:
    """The lines of the table, with rows in the place of theirs."""
    row: Row | None = None
    for line in TABLE.read_text("utf-8").splitlines():
        if row is not None and line.startswith("    "):
            dialect, _, answer = line.strip().partition(" ")
            for each in DIALECTS if dialect not in DIALECTS else (dialect,):
                row.answers[each] = answer if dialect in DIALECTS else line.strip()
            continue
        if row is not None:
            yield row
        row = None
        if re.match(r"(\*|[A-Z]\w+) \{", line):
            action, _, text = line.partition(" ")
            row = Row(action, text, {})
        else:
            yield line
    if row is not None:
        yield row


def _filled(value: Any, known: dict[str, str]) -> Any:
    match value:
        case dict():
            return {_filled(name, known): _filled(each, known) for name, each in value.items()}
        case list():
            return [_filled(each, known) for each in value]
        case str() if found := re.fullmatch(r"«(entries|attributes) (\d+)»", value):
            return _many(found[1], int(found[2]))
        case str():
            return fill(value, known)
    return value


def _many(what: str, count: int) -> Any:
    if what == "attributes":
        return {f"a{number}": {"DataType": "String", "StringValue": "x"} for number in range(count)}
    entry = {"MessageBody": "x", "ReceiptHandle": "garbage", "VisibilityTimeout": 0}
    return [{**entry, "Id": str(number)} for number in range(count)]


def fill(text: str, known: dict[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        name = found[1]
        if name in known:
            return known[name]
        if name.startswith("task "):
            handle = {"taskId": "none", "sourceArn": ARN + name.removeprefix("task ")}
            return base64.b64encode(json.dumps(handle).encode()).decode()
        letter, count = name.split(" ")
        return letter * int(count)

    return re.sub("«([^»]+)»", value, text)


def shorten(text: str, known: dict[str, str]) -> str:
    """The opposite of `fill`, for the table."""
    for name, value in known.items():
        text = text.replace(value, f"«{name}»")
    return re.sub(r"(.)\1{39,}", lambda found: f"«{found[1]} {len(found[0])}»", text)


# --- sending --------------------------------------------------------------------------------------------


def call(server: Running, action: str, parameters: dict[str, Any], *, dialect: str = "json") -> Any:
    """The answer, or an HTTPError."""
    if dialect == "json":
        prefix = "Holdfast" if action in EXTENSIONS else "AmazonSQS"
        headers = {"X-Amz-Target": f"{prefix}.{action}", "Content-Type": "application/x-amz-json-1.0"}
        request = urllib.request.Request(server.endpoint, json.dumps(parameters).encode(), headers)
    else:
        form = urllib.parse.urlencode({"Action": action, **dict(flat(action, parameters))})
        request = urllib.request.Request(server.endpoint, form.encode())
    with urllib.request.urlopen(request) as reply:
        return json.load(reply) if dialect == "json" else reply.read()


def flat(action: str, parameters: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Parameters as a form has them."""
    for name, value in parameters.items():
        entries = f"{prefix}{action}RequestEntry"
        match value:
            case dict() if name in MAPS:
                element, key = MAPS[name]
                for number, (own, inner) in enumerate(value.items(), 1):
                    at = f"{prefix}{element}.{number}"
                    yield f"{at}.{key}", own
                    if isinstance(inner, dict):
                        yield from flat(action, inner, f"{at}.Value.")
                    else:
                        yield f"{at}.Value", str(inner)
            case list():
                for number, each in enumerate(value, 1):
                    if isinstance(each, dict):
                        yield from flat(action, each, f"{entries}.{number}.")
                    else:
                        yield f"{prefix}{LISTS.get(name, name)}.{number}", str(each)
            case _:
                yield prefix + name, str(value)


def refusal(server: Running, action: str, parameters: dict[str, Any], *, dialect: str) -> Refusal | None:
    """What is said to a wrong request; None: it was no wrong one."""
    try:
        call(server, action, parameters, dialect=dialect)
    except urllib.error.HTTPError as error:
        with error:
            text = error.read()
            if dialect == "json":
                said = json.loads(text)
                return Refusal(said["__type"].partition("#")[2], error.code, said["message"])
            root = ElementTree.fromstring(text)
            code, message = (root.findtext(f"{SPACE}Error/{SPACE}{each}") or "" for each in ("Code", "Message"))
            return Refusal(code, error.code, message)
    return None


def in_query(code: str) -> str:
    return CODES.get(code) or (ERRORS.get(code) or [code])[0]


# --- the queues -----------------------------------------------------------------------------------------


def furnish(server: Running) -> dict[str, str]:
    """The queues that the table speaks of. Answers what it names."""
    redrive = json.dumps({"deadLetterTargetArn": ARN + "dead", "maxReceiveCount": 3})
    call(server, "CreateQueue", {"QueueName": "dead"})
    call(server, "CreateQueue", {"QueueName": "jobs", "tags": {"team": "blue"}})
    call(server, "CreateQueue", {"QueueName": "a.fifo", "Attributes": {"FifoQueue": "true"}})
    call(server, "CreateQueue", {"QueueName": "source", "Attributes": {"RedrivePolicy": redrive}})
    call(server, "CreateQueue", {"QueueName": "small", "Attributes": {"MaximumMessageSize": "1024"}})
    denies = json.dumps({"redrivePermission": "denyAll"})
    call(server, "CreateQueue", {"QueueName": "closed", "Attributes": {"RedriveAllowPolicy": denies}})
    permission = {"Label": "there", "AWSAccountIds": ["123456789012"], "Actions": ["SendMessage"]}
    call(server, "AddPermission", {"QueueUrl": "jobs", **permission})
    known = {"handle": _received(server, "jobs"), "stranger": _received(server, "small")}
    call(server, "SendMessage", {"QueueUrl": "jobs", "MessageBody": "stays"})
    call(server, "SendMessage", {"QueueUrl": "dead", "MessageBody": "stays, too"})
    return known


def _received(server: Running, queue: str) -> str:
    call(server, "SendMessage", {"QueueUrl": queue, "MessageBody": "in flight"})
    (message,) = call(server, "ReceiveMessage", {"QueueUrl": queue, "VisibilityTimeout": 43_200})["Messages"]
    return str(message["ReceiptHandle"])


def state(server: Running) -> list[Any]:
    """Everything that an action could have changed."""
    found: list[Any] = []
    for url in call(server, "ListQueues", {})["QueueUrls"]:
        found.append(call(server, "GetQueueAttributes", {"QueueUrl": url, "AttributeNames": ["All"]}))
        found.append(call(server, "ListQueueTags", {"QueueUrl": url}))
        found.append(call(server, "PeekMessages", {"QueueUrl": url}))
        found.append(call(server, "ListMessageMoveTasks", {"SourceArn": ARN + url.rpartition("/")[2]}))
    return found


# --- writing --------------------------------------------------------------------------------------------


def _answers(server: Running, row: Row, known: dict[str, str]) -> Iterator[str]:
    action = "GetQueueAttributes" if row.action == "*" else row.action
    parameters = row.parameters(known)
    said = {
        each: refusal(server, action, parameters, dialect=each) for each in DIALECTS if row.answers.get(each) != "-"
    }
    plain, form = said["json"], said.get("query")
    assert plain is not None, f"nothing is wrong with {row.action} {row.text}"
    alike = Refusal(in_query(plain.code), plain.status, worded(plain.text))
    if action in EXTENSIONS or form == alike:
        yield shorten(str(plain), known)
    else:
        yield f"json {shorten(str(plain), known)}"
        yield f"query {shorten(str(form), known) if form else '-'}"


def worded(text: str) -> str:
    """The one text that differs between the dialects."""
    whole = "The specified queue does not exist."
    return "The specified queue does not exist for this wsdl version." if text == whole else text


def rewrite() -> None:
    lines = []
    with tempfile.TemporaryDirectory() as folder, running(Path(folder) / "data") as server:
        known = furnish(server)
        for part in list(_parts()):
            if isinstance(part, Row):
                lines += [f"{part.action} {part.text}", *(f"    {each}" for each in _answers(server, part, known))]
            else:
                lines.append(part)
    TABLE.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    rewrite()
