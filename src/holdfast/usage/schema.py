"""The rows that a node hands over: four kinds, their columns, what they mean. Nothing here needs Arrow.

    meter        what was asked, counted: one row per window, account, principal, queue, action and outcome
    audit        who asked for what: one row per management action; of actions on messages only where that is wanted
    queue_state  how full a queue is: one row per queue and minute
    dead_letter  a message that was given up: one row each, with its cause and what its consumer said

Laws
- Times are microseconds since 1970, UTC. A text that does not apply is empty; nothing is null.
- Measures are whole numbers, never negative, and add up: over rows, windows and nodes.
- Never a body, never a secret. A consumer's reason and the tags of queues are the only texts that users wrote.
- A change of columns is a new VERSION: columns come behind the others, and rows of an earlier version have 0 or nothing
  in them. Readers refuse versions that they do not know.

Units are SQS's: a call that succeeds counts one per started 64 KB of messages that it carries, a batch by its total;
a receive that finds nothing counts one. A call that is refused counts nothing.

Latency is a histogram of 32 buckets: bucket 0 counts calls under a microsecond, bucket n those from 2**(n-1) up to
2**n microseconds, the last one also all that took longer. Histograms are added bucket by bucket.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

VERSION: Final = 2  # 1: without queue_state's expired, redriven and tags, and dead_letter's consumer

METER: Final = "meter"
AUDIT: Final = "audit"
QUEUE_STATE: Final = "queue_state"
DEAD_LETTER: Final = "dead_letter"


class Type(StrEnum):
    """Named as Arrow names them."""

    TEXT = "string"
    NUMBER = "int64"
    NUMBERS = "list<int64>"
    TIME = "timestamp[us, UTC]"


class Column(NamedTuple):
    name: str
    type: Type
    meaning: str
    is_measure: bool = False  # adds up
    since: int = 1  # the first version that has it

    @property
    def default(self) -> str | int:
        """In rows of earlier versions."""
        return "" if self.type is Type.TEXT else 0


def _text(name: str, meaning: str, *, since: int = 1) -> Column:
    return Column(name, Type.TEXT, meaning, since=since)


def _number(name: str, meaning: str) -> Column:
    return Column(name, Type.NUMBER, meaning)


def _measure(name: str, meaning: str, *, since: int = 1) -> Column:
    return Column(name, Type.NUMBER, meaning, is_measure=True, since=since)


_ACCOUNT = _text("account", "whom it is charged to: the queue's owner, else the caller's account, else nobody")
_PRINCIPAL = _text("principal", "ARN of the caller; empty when the signature did not verify")
_QUEUE = _text("queue", "name of the queue; empty when there is none")
_QUEUE_TYPE = _text("queue_type", "standard or fifo; empty when there is no queue")
_ACTION = _text("action", "SendMessage, …; unknown when the request was refused before it was read")
_OUTCOME = _text("outcome", "success, refused (the caller's fault), throttled, failed (ours)")
_ERROR_CODE = _text("error_code", "the error's name in the JSON dialect; empty on success")

COLUMNS: Final[dict[str, tuple[Column, ...]]] = {
    METER: (
        Column("time", Type.TIME, "start of the window"),
        _number("window_ms", "its length; longer than usual while the disk was full"),
        _ACCOUNT,
        _PRINCIPAL,
        _QUEUE,
        _QUEUE_TYPE,
        _ACTION,
        _OUTCOME,
        _ERROR_CODE,
        _measure("requests", "replies given"),
        _measure("units", "what is billed, see above"),
        _measure("messages", "messages sent, handed out, deleted or changed"),
        _measure("empty_receives", "receives that found nothing"),
        _measure("bytes_in", "bytes of messages sent: bodies and attributes, as SQS counts their size"),
        _measure("bytes_out", "bytes of messages handed out, counted likewise"),
        _measure("latency_us", "time from the last byte of the request to its reply, summed up"),
        Column("latency", Type.NUMBERS, "the same as a histogram, see above", is_measure=True),
    ),
    AUDIT: (
        Column("time", Type.TIME, "when it was answered"),
        _ACCOUNT,
        _PRINCIPAL,
        _text("plane", "management, or data: an action on messages"),
        _ACTION,
        _QUEUE,
        _OUTCOME,
        _ERROR_CODE,
        _number("status", "of the HTTP reply"),
        _text("source_ip", "the client's address, as far as proxies are trusted"),
        _text("user_agent", "as the client names itself"),
        _text("request_id", "as the reply names it"),
    ),
    QUEUE_STATE: (
        Column("time", Type.TIME, "when it was looked at"),
        _text("account", "the queue's owner"),
        _QUEUE,
        _QUEUE_TYPE,
        _number("visible", "messages that can be received"),
        _number("in_flight", "messages received and not deleted"),
        _number("delayed", "messages whose delay is not over"),
        _number("bytes", "bytes of messages stored, as SQS counts their size"),
        _number("oldest_age_s", "age of the oldest message"),
        _number("retention_s", "MessageRetentionPeriod"),
        _number("in_flight_max", "how many may be in flight"),
        _number("messages_max", "Holdfast.MaxMessages; 0: no limit"),
        _number("bytes_max", "Holdfast.MaxBytes; 0: no limit"),
        _number("receives_max", "maxReceiveCount of the redrive policy; 0: none"),
        _text("dead_letter_queue", "name of its dead-letter queue; empty: none"),
        _measure("expired", "messages removed since the last row because their time was over", since=2),
        _measure("redriven", "messages that a move task has taken out since the last row", since=2),
        _text("tags", "of the queue, a JSON object; empty: none", since=2),
    ),
    DEAD_LETTER: (
        Column("time", Type.TIME, "when the message was given up"),
        _text("account", "owner of the queue that it was in"),
        _QUEUE,
        _text("target", "name of the dead-letter queue; empty when it is gone"),
        _text("message_id", "as its consumers knew it"),
        _text("cause", "MaxReceiveCount, QueueFull, TimeToLive, TargetGone"),
        _number("receives", "how often it was received"),
        _number("bytes", "its size as SQS counts it"),
        _text("reason", "what the last consumer that gave it back said; empty: nothing"),
        _text("shape", "digest of the body's form: names and types of members, no values; empty: not known"),
        _text("consumer", "ARN of the consumer that gave it back last and said why; empty: none did", since=2),
    ),
}
KINDS: Final = tuple(COLUMNS)


def columns(kind: str, version: int = VERSION) -> tuple[Column, ...]:
    if not 1 <= version <= VERSION:
        raise ValueError(f"schema version {version} is not known; this Holdfast knows up to {VERSION}")
    return tuple(each for each in COLUMNS[kind] if each.since <= version)


def completed(kind: str, row: Sequence[Any]) -> Sequence[Any]:
    """A row of an earlier version, from a journal, as one of this."""
    missing = COLUMNS[kind][len(row) :]
    return (*row, *(each.default for each in missing)) if missing else row


def names(kind: str) -> tuple[str, ...]:
    return tuple(each.name for each in COLUMNS[kind])
