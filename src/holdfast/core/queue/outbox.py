"""Messages between lanes, also of different shards: dead letters and redrive.

    source: Departed(n) ─commit─▶ hand-over n ─▶ target: Arrived(n) or Refused(n) ─commit─▶ answer ─▶ source: Settled(n)
                                                                                              or Returned(n)

Numbers rise by one per (source, target shard). The target takes n only after n-1 and answers an old number again the
same way; the message leaves one log and enters the other exactly once, whatever is repeated, delayed or lost between.
Only committed departures are sent. Both tables are replicated state, so a restart resumes where it was.
"""

from collections.abc import Mapping

from holdfast.core.limits import OUTBOX_IN_FLIGHT, OUTBOX_RETRY
from holdfast.core.queue.command import Handover
from holdfast.core.queue.receipt import message_id_bytes
from holdfast.core.queue.record import NO_DIGEST, Departed, Message, Sent
from holdfast.core.types import (
    Address,
    Cause,
    Epoch,
    Header,
    Instant,
    Kind,
    LaneConfig,
    LaneId,
    Lsn,
    ShardId,
    WallMs,
    pack_address,
)
from holdfast.core.values import Fact, Value


class Entry(Value, frozen=True):
    """A message that left its lane and has not arrived yet."""

    number: int
    lsn: Lsn  # of its departure: sent only when that is committed
    lane: LaneId
    is_fifo: bool
    header: Header
    count: int
    target: Address
    cause: Cause


class Outgoing(Fact, frozen=True):
    """A committed departure to hand over now: read the message at entry.header.at, then call `handover`."""

    source: ShardId
    entry: Entry
    now: Instant

    def handover(self, message: Message) -> Handover:
        return hand_over(self.entry, message, source=self.source, now=self.now)


class Outbox:
    """Departures to one target shard."""

    __slots__ = ("entries", "last")

    def __init__(self) -> None:
        self.last = 0
        self.entries: dict[int, Entry] = {}


class Courier:
    """Knows when each departure was sent last."""

    __slots__ = ("_sent", "_source")

    def __init__(self, source: ShardId) -> None:
        self._source = source
        self._sent: dict[tuple[ShardId, int], Instant] = {}

    def due(self, outboxes: Mapping[ShardId, Outbox], own: Instant, *, committed: Lsn, now: Instant) -> list[Outgoing]:
        """Those to be sent, for the first time or once more. None goes further ahead of the first unsettled one than
        the target remembers what it refused (Inbox.note)."""
        due: list[Outgoing] = []
        for target, outbox in outboxes.items():
            end = next(iter(outbox.entries), 0) + OUTBOX_IN_FLIGHT
            for entry in outbox.entries.values():
                if entry.number >= end:
                    break
                key = (target, entry.number)
                sent = self._sent.get(key)
                if entry.lsn <= committed and (sent is None or own - sent >= OUTBOX_RETRY):
                    self._sent[key] = own
                    due.append(Outgoing(self._source, entry, now))
        if len(self._sent) > 4 * OUTBOX_IN_FLIGHT:
            self._sent = {key: sent for key, sent in self._sent.items() if own - sent < OUTBOX_RETRY}
        return due


class Inbox:
    """Arrivals from one source shard."""

    __slots__ = ("last", "refused")

    def __init__(self) -> None:
        self.last = 0
        self.refused: dict[int, None] = {}

    def note(self, number: int, *, is_refused: bool) -> None:
        self.last = number
        if is_refused:
            self.refused[number] = None
        # The source sends at most OUTBOX_IN_FLIGHT numbers past the first unsettled one: older ones are never asked.
        for old in [old for old in self.refused if old < number - 2 * OUTBOX_IN_FLIGHT]:
            del self.refused[old]


def hand_over(entry: Entry, message: Message, *, source: ShardId, now: Instant) -> Handover:
    """The departed message as it travels. `message` is the record at entry.header.at.

    A dead letter keeps its MessageId, receive count and (on standard queues) its age; a redriven message is new.
    """
    header = entry.header
    time_left = max(0, header.deadline - now)  # 0: none, or it is over; a dead letter stays
    is_new = entry.cause is Cause.REDRIVE
    if is_new:
        time_left = 0
    is_young = is_new or entry.is_fifo
    wall = WallMs(0) if is_young else message.wall
    kept_id = b"" if is_new else _message_id(header, message, source)
    return Handover(
        source=source,
        number=entry.number,
        lane=entry.target.lane,
        group=header.group,
        size=header.size,
        age=0 if is_young else now - header.time,
        time_left=time_left,
        count=0 if is_new else entry.count,
        origin=0 if is_new else pack_address(Address(source, entry.lane)),
        cause=entry.cause,
        wall=wall,
        message_id=kept_id,
        content=message.content,
    )


def dead_letter_target(config: LaneConfig, gone_target: int) -> Address | None:
    """Where dead letters go, unless that queue is known to be gone."""
    if config.redrive is None or pack_address(config.redrive.target) == gone_target:
        return None
    return config.redrive.target


def entry_of(record: Departed, lsn: Lsn, kind: Kind) -> Entry:
    return Entry(
        record.number,
        lsn,
        record.lane,
        kind is Kind.FIFO,
        record.header,
        record.count,
        record.target,
        record.cause,
    )


def _message_id(header: Header, message: Message, shard: ShardId) -> bytes:
    if isinstance(message, Sent) or message.message_id == NO_DIGEST:
        return message_id_bytes(shard, Epoch(header.epoch), header.lsn)
    return message.message_id
