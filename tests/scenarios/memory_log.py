"""A log kept in memory: what Primary needs of its journal, and proof that the state follows from the log.

Every record goes through its bytes. `replay` makes the state anew out of a snapshot and the frames behind it, as
recovery does; `assert_replayable` compares that with the living state, byte by byte.
"""

from collections.abc import Callable, Sequence

import msgspec

from holdfast.core.log.files import FileOp, Sync
from holdfast.core.queue.codec import decode, decode_message, encode
from holdfast.core.queue.command import Need
from holdfast.core.queue.dedup import NO_GROUP
from holdfast.core.queue.headers import header_of
from holdfast.core.queue.plain import SentAll
from holdfast.core.queue.record import NO_DIGEST, Arrived, Message, Moved, Record, Sent
from holdfast.core.queue.shard import Shard
from holdfast.core.types import Epoch, Header, Instant, LaneId, Lsn, Seq, ShardId, WallMs
from tests.core.memory_disk import Plain


class Frame(msgspec.Struct):
    epoch: Epoch
    now: Instant
    wall: WallMs
    first: Lsn
    records: list[bytes]


class MemoryLog:
    def __init__(self, shard: ShardId) -> None:
        self.shard = shard
        self.epoch = Epoch(1)
        self.frames: list[Frame] = []
        self.snapshots: list[tuple[Lsn, bytes]] = []
        self.stamp = Instant(0)
        self.next_lsn = Lsn(1)
        self.durable = Lsn(0)
        self.is_full = False
        self.is_used_up = False  # even the reserve
        self.is_between = False  # the next segment is being made
        self._wall = WallMs(0)
        self._open: Frame | None = None
        self._under_way: Lsn | None = None
        self._cipher = Plain()
        self._epochs: dict[Lsn, Epoch] = {}
        self._messages: dict[Lsn, bytes] = {}
        self._headers: dict[LaneId, dict[Lsn, Header]] = {}

    # What Primary asks of its journal

    @property
    def is_flushing(self) -> bool:
        return self._under_way is not None

    def is_open(self, own: Instant) -> bool:
        return own <= self.stamp and self._open is not None

    def begin(self, own: Instant, wall: WallMs) -> Instant:
        if own > self.stamp:
            self._open, self.stamp = None, own
        if self._open is None:
            self._wall = wall
        return self.stamp

    def append(self, record: Record) -> Lsn:
        lsn = self.next_lsn
        data = encode(record, self.epoch, lsn, cipher=self._cipher)[4:]
        assert_same(record, decode(data))
        if self._open is None:
            self._open = Frame(self.epoch, self.stamp, self._wall, lsn, [])
            self.frames.append(self._open)
        self._open.records.append(data)
        if isinstance(record, Sent | Arrived | Moved):
            self._messages[lsn], self._epochs[lsn] = data, self.epoch
            self._headers.setdefault(record.lane, {})[lsn] = header_of(record, self.epoch, lsn, self.stamp)
        self.next_lsn = Lsn(lsn + 1)
        return lsn

    def flush(self, *, is_idle: bool = False) -> tuple[FileOp, ...]:  # noqa: ARG002 - an idle frame says nothing here
        if self.next_lsn - 1 == self.durable:
            return ()
        self._open, self._under_way = None, Lsn(self.next_lsn - 1)
        return (Sync("log"),)

    is_replicated = False

    @property
    def committed(self) -> Lsn:
        return self.durable

    def synced(self) -> None:
        assert self._under_way is not None, "nothing was to be synced"
        self.durable, self._under_way = self._under_way, None

    def append_plain(self, sent: SentAll) -> None:
        for seq, (size, content) in enumerate(zip(sent.sizes, sent.contents, strict=True), sent.first):
            self.append(Sent(sent.lane, Seq(seq), NO_GROUP, size, 0, 0, sent.wall, NO_DIGEST, False, content))

    def holds_all(self, sizes: Sequence[int]) -> bool:
        return self.has_room(sum(sizes))

    def has_room(self, _: int) -> bool:
        return not (self.is_full or self.is_between)

    @property
    def is_spare_coming(self) -> bool:
        return self.is_between

    def is_exhausted(self, _: int = 0) -> bool:
        return self.is_used_up

    def idle_deadline(self) -> Instant | None:
        return None

    def idle_frame_due(self, _: Instant) -> bool:
        return False

    # What a reader of the log finds

    def headers_of(self, lane: LaneId) -> dict[Lsn, Header]:
        """Of every copy of every message, by log position."""
        return self._headers.get(lane, {})

    def message(self, at: Lsn) -> Message:
        return decode_message(self._messages[at], self._epochs[at], at, cipher=self._cipher)

    def headers(self, need: Need) -> tuple[list[Header], Seq]:
        """The answer to a Need: what lies behind need.lsn, the youngest copy of each message, in order."""
        latest = {
            header.seq: header
            for lsn, header in self._headers.get(need.lane, {}).items()
            if lsn >= need.lsn and need.first <= header.seq <= need.last
        }
        found = [latest[seq] for seq in sorted(latest)]
        if len(found) > need.count_max:
            return found[: need.count_max], found[need.count_max - 1].seq
        return found, need.last

    def messages_before(self, end: Lsn) -> list[tuple[Header, Message]]:
        """What compaction finds in an old segment, lane by lane."""
        found = [each for headers in self._headers.values() for each in headers.items() if each[0] < end]
        return [(header, self.message(lsn)) for lsn, header in found]

    def forget_before(self, end: Lsn) -> None:
        """The segments up to here are removed: nothing in them can be read any more."""
        for lsn in [lsn for lsn in self._messages if lsn < end]:
            del self._messages[lsn], self._epochs[lsn]
        for headers in self._headers.values():
            for lsn in [lsn for lsn in headers if lsn < end]:
                del headers[lsn]

    # Crashes

    def lose_power(self) -> None:
        """What was not synced is gone; the next start has a new epoch."""
        self._open = self._under_way = None
        self.frames = [frame for frame in self.frames if frame.first <= self.durable]
        self.snapshots = [each for each in self.snapshots if each[0] <= self.durable]
        for lsn in [lsn for lsn in self._messages if lsn > self.durable]:
            del self._messages[lsn], self._epochs[lsn]
        for headers in self._headers.values():
            for lsn in [lsn for lsn in headers if lsn > self.durable]:
                del headers[lsn]
        self.next_lsn = Lsn(self.durable + 1)
        self.stamp = self.frames[-1].now if self.frames else Instant(0)
        self.epoch = Epoch(self.epoch + 1)

    # Replay

    def keep_snapshot(self) -> None:
        """Of what is durable, made by replay: its time is that of the last frame."""
        if self.durable == self.next_lsn - 1:
            shard = self.replay(self.snapshots[-1][1] if self.snapshots else None)
            self.snapshots.append((shard.lsn, shard.dump()))

    def replay(self, snapshot: bytes | None = None) -> Shard:
        shard = Shard.restore(snapshot) if snapshot is not None else Shard(self.shard)
        for frame in self.frames:
            if frame.first > shard.lsn:
                shard.begin(frame.epoch, frame.now, frame.wall)
                for data in frame.records:
                    shard.apply(decode(data))
        return shard

    def twin_of(self, shard: Shard, choose: Callable[[int], int]) -> Shard:
        """The same state made anew. `choose` says which of the snapshots to start with; 0 means none."""
        chosen = choose(len(self.snapshots) + 1)
        twin = self.replay(self.snapshots[chosen - 1][1] if chosen else None)
        twin.begin(shard.epoch, shard.now, shard.wall)
        return twin

    def assert_replayable(self, shard: Shard, choose: Callable[[int], int] = lambda count: count // 2) -> None:
        twin = self.twin_of(shard, choose)
        if twin.dump() != shard.dump():
            assert readable(twin) == readable(shard), "replayed and living state differ"
            raise AssertionError("replayed and living state differ in their bytes only")


def assert_same(record: Record, decoded: Record) -> None:
    if isinstance(record, Sent | Arrived | Moved):
        record = msgspec.structs.replace(record, content=b"")
    assert decoded == record, "decode(encode(record)) is another record"


def readable(shard: Shard) -> object:
    return msgspec.msgpack.decode(shard.dump())
