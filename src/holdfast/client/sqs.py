"""SQS over one connection, one request after the other, in the JSON dialect.

Laws
- A request that may have been carried out is not repeated: only those that change nothing are, once, when a kept
  connection turns out to be closed.
- What the server refuses is `Refused`, with the code that SQS gives it; what never came to an answer is `Unreachable`.
"""

import http.client
import json
import ssl
import time
from typing import Any
from urllib.parse import urlsplit

import msgspec

from holdfast.client.signer import Credentials, sign

TIMEOUT_S = 60.0  # a long poll takes 20, and a busy disk its time
REPEATABLE = frozenset(
    "GetQueueUrl ListQueues GetQueueAttributes ListQueueTags ListDeadLetterSourceQueues ListMessageMoveTasks "
    "PeekMessages".split()
)
OWN = frozenset(("PeekMessages",))  # extensions, named Holdfast.* on the wire
BATCH_MAX = 10  # entries of one batch request
BATCH_BYTES_MAX = 1_048_576  # bodies and attributes of one batch request

Message = dict[str, Any]


class ClientError(Exception):
    """What a person at the command line is told."""


class Unreachable(ClientError):
    """No answer. The request may have been carried out all the same."""


class Refused(ClientError):
    def __init__(self, code: str, text: str, *, status: int) -> None:
        super().__init__(text or code)
        self.code = code
        self.status = status


class NoQueue(Refused):
    """There is no queue of that name."""

    def __init__(self, queue: str) -> None:
        super().__init__("QueueDoesNotExist", f"there is no queue {queue}", status=400)
        self.queue = queue


class Failed(msgspec.Struct, frozen=True):
    """An entry of a batch that was refused."""

    id: str
    code: str
    text: str


class Sqs:
    def __init__(self, endpoint: str, credentials: Credentials, *, region: str, cafile: str | None = None) -> None:
        parts = urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ClientError(f"{endpoint} is no endpoint. It looks like http://127.0.0.1:9324.")
        self.endpoint = endpoint.rstrip("/")
        self._credentials = credentials
        self._region = region
        self._path = parts.path or "/"
        self._host = parts.netloc
        self._connection = _connection(parts.scheme, parts.hostname, parts.port, cafile)
        self._urls: dict[str, str] = {}
        self._has_answered = False  # on this connection

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> "Sqs":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, action: str, **members: Any) -> dict[str, Any]:
        """One request. Members that are None are left out."""
        body = json.dumps({name: value for name, value in members.items() if value is not None}).encode()
        try:
            status, data = self._exchange(action, body)
        except (OSError, http.client.HTTPException) as problem:
            self._connection.close()
            if not (self._has_answered and action in REPEATABLE):
                raise Unreachable(_told(problem)) from problem
            status, data = self._once_more(action, body)
        self._has_answered = True
        return _answer(status, data)

    def _once_more(self, action: str, body: bytes) -> tuple[int, bytes]:
        self._has_answered = False
        try:
            return self._exchange(action, body)
        except (OSError, http.client.HTTPException) as problem:
            self._connection.close()
            raise Unreachable(_told(problem)) from problem

    def _exchange(self, action: str, body: bytes) -> tuple[int, bytes]:
        prefix = "Holdfast" if action in OWN else "AmazonSQS"
        headers = {
            "host": self._host,
            "content-type": "application/x-amz-json-1.0",
            "x-amz-target": f"{prefix}.{action}",
        }
        headers = sign(
            headers,
            body,
            path=self._path,
            credentials=self._credentials,
            region=self._region,
            now_s=int(time.time()),
        )
        self._connection.request("POST", self._path, body, headers)
        response = self._connection.getresponse()
        return response.status, response.read()

    # queues

    def url(self, queue: str) -> str:
        """Of a queue by its name; a URL is taken as it is."""
        if "/" in queue:
            return queue
        if queue not in self._urls:
            try:
                self._urls[queue] = str(self.call("GetQueueUrl", QueueName=queue)["QueueUrl"])
            except Refused as refusal:
                raise NoQueue(queue) if refusal.code == "QueueDoesNotExist" else refusal from None
        return self._urls[queue]

    def names(self, prefix: str = "") -> list[str]:
        """Of all queues, in order."""
        found: list[str] = []
        token: str | None = None
        while True:
            page = self.call("ListQueues", QueueNamePrefix=prefix or None, MaxResults=1000, NextToken=token)
            found += [url.rpartition("/")[2] for url in page.get("QueueUrls", [])]
            token = page.get("NextToken")
            if not token:
                return found

    def attributes(self, queue: str, *names: str) -> dict[str, str]:
        reply = self.call("GetQueueAttributes", QueueUrl=self.url(queue), AttributeNames=list(names) or ["All"])
        return dict(reply.get("Attributes", {}))

    # messages

    def batch(self, action: str, queue: str, entries: list[Message]) -> list[Failed]:
        """At most BATCH_MAX entries; answers those that were refused."""
        reply = self.call(action, QueueUrl=self.url(queue), Entries=entries)
        return [Failed(each["Id"], each["Code"], each.get("Message", "")) for each in reply.get("Failed", [])]

    def peek(self, queue: str, *, after: str = "", count_max: int = 100) -> dict[str, Any]:
        return self.call("PeekMessages", QueueUrl=self.url(queue), MaxNumberOfMessages=count_max, After=after or None)


def _connection(scheme: str, host: str, port: int | None, cafile: str | None) -> http.client.HTTPConnection:
    if scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    try:
        context = ssl.create_default_context(cafile=cafile or None)
    except OSError as problem:
        raise ClientError(
            f"the certificates in {cafile} cannot be read: {problem}. AWS_CA_BUNDLE names them."
        ) from None
    return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=context)


def _told(problem: Exception) -> str:
    if isinstance(problem, TimeoutError):
        return f"no answer within {TIMEOUT_S:.0f} seconds"
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({problem.verify_message}; AWS_CA_BUNDLE names whom to trust)"
    if isinstance(problem, OSError) and problem.strerror:
        return problem.strerror
    return str(problem) or type(problem).__name__


def _answer(status: int, data: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(data) if data else {}
    except ValueError:
        raise Unreachable(f"what answers there does not speak SQS (HTTP {status})") from None
    if status == 200 and isinstance(answer, dict):
        return answer
    if not isinstance(answer, dict) or "__type" not in answer:
        raise Unreachable(f"what answers there does not speak SQS (HTTP {status})")
    text = answer.get("message") or answer.get("Message") or ""
    raise Refused(str(answer["__type"]).rpartition("#")[2], str(text), status=status)
