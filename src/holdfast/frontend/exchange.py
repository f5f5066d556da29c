"""One HTTP request and the place for its answer."""

from binascii import hexlify
from collections.abc import Callable
from typing import Any, Final, Protocol

from holdfast.core.admission.bucket import RequestThrottled
from holdfast.core.errors import HoldfastError
from holdfast.core.types import QueueName
from holdfast.core.usage import Tally
from holdfast.frontend import bounds
from holdfast.frontend.caller import NOBODY, Caller
from holdfast.protocol import json
from holdfast.protocol.xml import Wording
from holdfast.runtime import metrics

REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    413: "Content Too Large",
    417: "Expectation Failed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class Carrier(Protocol):
    """The connection, as an exchange sees it."""

    heads: "Heads"

    def deliver(self, exchange: "Exchange", answer: bytes) -> None: ...

    def peer(self) -> str:
        """The client's address, without its port."""
        ...


class Heads:
    """The unchanging parts of answers. `turn_to` is called once a second, so that nothing formats a date per
    request."""

    __slots__ = ("_boot", "_common", "_count", "_date", "_endings", "_ok")

    def __init__(self, boot: str, date: str) -> None:
        self._boot = boot  # makes request ids of different processes differ
        self._count = 0
        self._endings: dict[int, bytes] = {}  # of heads, by the length of the body that follows
        self.turn_to(date)

    def turn_to(self, date: str) -> None:
        self._date = date
        common = f"Date: {date}\r\nContent-Type: application/x-amz-json-1.0\r\nx-amzn-RequestId: {self._boot}"
        self._common = common.encode()
        self._ok = f"HTTP/1.1 200 OK\r\n{common}".encode()

    def success(self, body: bytes) -> bytes:
        self._count += 1
        ending = self._endings.get(len(body)) or self._ending(len(body))
        return b"".join((self._ok, hexlify(self._count.to_bytes(6)), ending, body))  # the body is copied once

    def _ending(self, length: int) -> bytes:
        """Most answers have one of a few lengths, which are remembered."""
        ending = b"\r\nContent-Length: %d\r\n\r\n" % length
        if len(self._endings) < bounds.ENDINGS_MAX:
            self._endings[length] = ending
        return ending

    def build(self, status: int, body: bytes, *, headers: bytes = b"", is_last: bool, is_head: bool) -> bytes:
        """`headers` are whole lines. The last answer of a connection says so."""
        self._count += 1
        line = f"HTTP/1.1 {status} {REASONS[status]}\r\n".encode()
        ending = b"Connection: close\r\n" if is_last else b""
        return b"%b%b%012x\r\n%b%bContent-Length: %d\r\n\r\n%b" % (
            line,
            self._common,
            self._count,
            headers,
            ending,
            len(body),
            b"" if is_head else body,
        )

    def coming_id(self) -> str:
        """Of the next answer that is built."""
        return f"{self._boot}{self._count + 1:012x}"

    def next_id(self) -> str:
        self._count += 1
        return f"{self._boot}{self._count:012x}"

    def build_worded(
        self,
        status: int,
        body: bytes,
        *,
        content_type: str,
        request_id: str,
        headers: bytes = b"",
        is_last: bool,
        is_head: bool,
    ) -> bytes:
        """For another dialect than JSON, whose bodies repeat the request's id. `headers` are whole lines."""
        ending = headers.decode("latin-1") + ("Connection: close\r\n" if is_last else "")
        head = (
            f"HTTP/1.1 {status} {REASONS[status]}\r\nDate: {self._date}\r\nContent-Type: {content_type}\r\n"
            f"x-amzn-RequestId: {request_id}\r\n{ending}Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + (b"" if is_head else body)


def _hint(error: HoldfastError) -> bytes:
    """When to try again, where we know: whole seconds for everybody, milliseconds for the SDKs of AWS."""
    if not isinstance(error, RequestThrottled):
        return b""
    wait_ms = -(-error.retry_after_us // 1000)
    return b"Retry-After: %d\r\nx-amz-retry-after: %d\r\n" % (-(-wait_ms // 1000), wait_ms)


class Exchange:
    """Owned by its connection until it is answered, which must happen exactly once; an answer to a client that is gone
    is dropped."""

    __slots__ = (
        "_carrier",
        "asked",
        "began",
        "body",
        "caller",
        "headers",
        "is_gone",
        "is_last",
        "messages",
        "method",
        "on_gone",
        "queue",
        "refusal",
        "request",
        "size",
        "tally",
        "target",
        "wording",
    )

    def __init__(
        self,
        carrier: Carrier,
        method: bytes,
        target: bytes,
        headers: dict[bytes, bytes],
        body: bytes,
        *,
        is_last: bool,
    ) -> None:
        self._carrier = carrier
        self.method = method
        self.target = target
        self.headers = headers  # names in lower case; repeated ones joined by commas
        self.body = body
        self.is_last = is_last  # the connection closes after this answer
        self.is_gone = False
        self.caller: Caller = NOBODY  # until admission says who it is
        self.request: Any = None  # what it asks for, if that was looked at before its turn,
        self.refusal: HoldfastError | None = None  # or why it is refused
        self.on_gone: Callable[[], None] | None = None  # called when the client leaves before the answer
        self.wording: Wording | None = None  # of the Query dialect; None: JSON
        # what is counted of it, once, when it is answered
        self.began = metrics.now()
        self.tally: Tally | None = None  # None: nothing
        self.queue: QueueName | None = None  # the one it is about, once it is found
        self.asked: QueueName | None = None  # the one that it names, whether that exists or not; where that is audited
        self.messages = 1
        self.size = 0  # bytes of messages sent or handed out

    def forget_request(self) -> None:
        """What it asked for is under way. Its memory, still in the processor's caches, can serve the next one."""
        self.body, self.request = b"", None

    def coming_id(self) -> str:
        """The request id of the answer that is made next."""
        return self._carrier.heads.coming_id()

    def source_ip(self) -> str:
        return self._carrier.peer()

    def path_reference(self) -> str | None:
        """The queue that the request's path names, if it does."""
        target = self.target
        return target.partition(b"?")[0].decode("latin-1") if target.count(b"/") >= 2 else None

    def answer(self, body: bytes) -> None:
        """Success: a reply in JSON, whatever the dialect."""
        if self.tally is not None:
            self.tally.note(self)
        if self.wording is not None:
            self._answer_worded(self.wording, body)
        elif self.is_last:
            self.answer_with(200, body)
        else:
            self._carrier.deliver(self, self._carrier.heads.success(body))

    def _answer_worded(self, wording: Wording, outcome: bytes | HoldfastError) -> None:
        heads = self._carrier.heads
        name, is_head = heads.next_id(), self.method == b"HEAD"
        status = 200 if isinstance(outcome, bytes) else outcome.status
        body = wording.success(outcome, name) if isinstance(outcome, bytes) else wording.refusal(outcome, name)
        answer = heads.build_worded(
            status,
            body,
            content_type=wording.content_type,
            request_id=name,
            headers=b"" if isinstance(outcome, bytes) else _hint(outcome),
            is_last=self.is_last,
            is_head=is_head,
        )
        self._carrier.deliver(self, answer)

    def refuse(self, error: HoldfastError) -> None:
        """In the exchange's dialect."""
        if self.tally is not None:
            self.tally.note(self, type(error))
        if self.wording is not None:
            self._answer_worded(self.wording, error)
            return
        header = b"x-amzn-query-error: " + json.error_header(error) + b"\r\n"
        self.answer_with(error.status, json.error_body(error), header + _hint(error))

    def answer_with(self, status: int, body: bytes, headers: bytes = b"") -> None:
        is_head = self.method == b"HEAD"
        answer = self._carrier.heads.build(status, body, headers=headers, is_last=self.is_last, is_head=is_head)
        self._carrier.deliver(self, answer)
