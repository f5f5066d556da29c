"""What a fail-over took from asynchronous queues, found again on the disk of the primary that had answered for it.

    losses/SHARD/EPOCH/HOST ──▶ quarantine/*.cut of that epoch ──▶ frames behind `after` ──▶ Send for each message

Whoever has the disk may send them once more: to the same lanes, as new messages. It is up to an operator.

Laws
- Standard queues only: in a FIFO queue a message that comes back late would come out of order.
- Duplicates perhaps, never a message that was consumed: what the lost records say was deleted, purged or handed out for
  good is left out. Who asks twice within the request window sends once: a send has the id of its first request.
- Each frame is verified by its checksum and each message by its seal. What cannot be read is left out and counted.
- Nothing here is changed: the files stay in quarantine/.
"""

from collections.abc import Callable, Iterator

import msgspec

from holdfast.core.coordination.cluster import LossRecord
from holdfast.core.limits import IDENTITY_BYTES_MAX
from holdfast.core.log.files import List, Read, Size, Work
from holdfast.core.log.segment import (
    SECTOR,
    STEM_CHARS,
    Damaged,
    Frame,
    decode_frame,
    key_path,
    parse_stem,
    split_records,
)
from holdfast.core.queue.cipher import Cipher
from holdfast.core.queue.codec import decode, decode_message
from holdfast.core.queue.command import Request, Send
from holdfast.core.queue.receipt import message_id_bytes
from holdfast.core.queue.record import Deleted, Purged, Received, Record, Sent
from holdfast.core.queue.shard import Shard
from holdfast.core.types import LaneId, Lsn, Seq, ShardId

Place = tuple[LaneId, Seq]


class Lost(msgspec.Struct, frozen=True):
    sends: tuple[Send, ...]  # in the order in which they were accepted
    unreadable: int  # messages, or frames


class _Found:
    """Messages that nobody has consumed, as far as the lost records say."""

    def __init__(self, shard: Shard) -> None:
        lanes = [shard.lanes[lane_id] for lane_id in shard.asynchronous]
        self._lanes = [lane.lane for lane in lanes if not lane.is_fifo]
        self._shard: ShardId = shard.shard
        self.sends: dict[Place, Send] = {}
        self.unreadable = 0

    def take(self, frame: Frame, lsn: Lsn, data: memoryview, *, cipher: Cipher) -> None:
        record = decode(data)
        match record:
            case Sent() if record.lane in self._lanes:
                self._sent(frame, lsn, data, cipher=cipher)
            case Purged():
                self.sends = {place: send for place, send in self.sends.items() if place[0] != record.lane}
            case _:
                for place in _consumed(record):
                    self.sends.pop(place, None)

    def _sent(self, frame: Frame, lsn: Lsn, data: memoryview, *, cipher: Cipher) -> None:
        try:
            message = decode_message(bytes(data), frame.epoch, lsn, cipher=cipher)
        except ValueError:
            self.unreadable += 1
            return
        assert isinstance(message, Sent), "it was one"
        request = Request(message.request or message_id_bytes(self._shard, frame.epoch, lsn))
        content, ttl_s = message.content, message.time_to_live_s or None
        send = Send(message.lane, content, content, message.size, delay_s=0, time_to_live_s=ttl_s, request=request)
        self.sends[message.lane, message.seq] = send


def _consumed(record: Record) -> list[Place]:
    match record:
        case Deleted(lane, seqs):
            return [(lane, seq) for seq in seqs]
        case Received() if record.is_final:
            return [(record.lane, seq) for seq in (*(each.seq for each in record.fresh), *record.again)]
        case _:
            return []


def find_lost(shard: Shard, loss: LossRecord, *, cipher_of: Callable[[bytes], Cipher]) -> Work[Lost]:
    """`shard`: its state as it is now. `cipher_of` a segment's wrapped key. O(bytes of the epoch in quarantine/)."""
    if loss.last is None:
        raise ValueError("what was lost is not known: the host that had it has not come back")
    names = [name for name in sorted((yield List("quarantine"))) if name.endswith(".cut")]
    found = _Found(shard)
    for name in names:
        stem = name[:STEM_CHARS]
        if parse_stem(stem)[0] != loss.epoch:
            continue
        path = f"quarantine/{name}"
        data = yield Read(path, 0, (yield Size(path)))
        cipher = cipher_of((yield Read(key_path(stem), 0, IDENTITY_BYTES_MAX)))
        begins = int(name[STEM_CHARS + 1 :][:8], 16) == 0
        for frame in _frames(data, SECTOR if begins else 0, found):
            if not loss.after < frame.last <= loss.last:
                continue
            for lsn, _, record in split_records(frame):
                found.take(frame, lsn, record, cipher=cipher)
    return Lost(tuple(found.sends.values()), found.unreadable)


def _frames(data: bytes, at: int, found: _Found) -> Iterator[Frame]:
    """Until zeros. A damaged frame ends the file: where the next one begins is not known."""
    while at < len(data) and any(data[at : at + SECTOR]):
        try:
            frame = decode_frame(data, at)
        except Damaged:
            found.unreadable += 1
            return
        yield frame
        at += frame.size
