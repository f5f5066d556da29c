"""A replica whose log cannot be read: it neither follows nor answers, and starts over once nobody counts on it.

Laws
- While the record names it a member it says nothing: what it had acknowledged may be what it cannot read. The primary
  lets a silent member go, or a candidate does without it.
- Only when a linearizable read shows that it is no member does it put its files aside, and become an empty learner. Its
  promise is then at least the epoch that was read: whatever it had promised before, nobody of those epochs needs it.
"""

from typing import Any

from holdfast.core.coordination.asking import Fetched, Settled
from holdfast.core.coordination.cluster import Member, ShardRecord
from holdfast.core.coordination.heartbeat import Role, ShardReport
from holdfast.core.errors import CorruptLog, NotPrimary
from holdfast.core.limits import STORE_PATIENCE
from holdfast.core.log.files import Work, replace
from holdfast.core.log.promise import PROMISE, encode_promise
from holdfast.core.replication.catch_up import set_aside
from holdfast.core.replication.replica_recovery import read_promise
from holdfast.core.replication.station import Changed, Done, Event, NoticeKind, Output, Station
from holdfast.core.types import Epoch, Instant, Lsn, ShardId, WallMs


class Damaged:
    """In the place of a Replica, when `recover_replica` has raised CorruptLog."""

    def __init__(self, shard: ShardId, me: Member, problem: CorruptLog, *, identity: bytes, now: Instant) -> None:
        self._station = Station(shard, me, promise=Epoch(0), identity=identity, segment_bytes=0)
        self._station.now = self._look_at = now
        self._station.notice(NoticeKind.DAMAGED, problem.message)
        self._is_starting = False

    primary = None

    def deadline(self) -> Instant:
        return self._look_at

    def report(self, _: Instant) -> ShardReport:
        nothing = Lsn(0)
        return ShardReport(
            self._station.shard, Epoch(0), Role.DAMAGED, Epoch(0), nothing, nothing, nothing, silence_us=0
        )

    def submit(self, _: Any, token: Any, now: Instant, wall: WallMs, *, wait_s: int = 0) -> None:
        del now, wall, wait_s
        self._station.out.replies.append((token, NotPrimary()))

    def step(self, event: Event, now: Instant, wall: WallMs) -> Output:
        station = self._station
        station.now, station.wall = now, wall
        match event:
            case Done():
                station.done(event)
            case Changed(record, revision):
                station.know(record, revision)
            case Fetched():
                station.fetched(event)
            case Settled():
                station.settled(event)
            case _:
                pass
        if now >= self._look_at and not self._is_starting:
            self._look_at = Instant(now + STORE_PATIENCE)
            station.fetch(self._looked)
        return station.take()

    def _looked(self, record: ShardRecord | None) -> None:
        station = self._station
        if self._is_starting or record is None or station.me in record.members:
            return
        self._is_starting = True
        station.write(_start_over(record.epoch, station.identity), lambda _: station.end())


def _start_over(epoch: Epoch, identity: bytes) -> Work[None]:
    promised = Epoch(0)
    try:
        promised = yield from read_promise(identity, has_log=False)
    except CorruptLog:
        pass  # it cannot be read, or is another disk's
    yield from set_aside(epoch)
    yield from replace(PROMISE, encode_promise(max(promised, epoch), identity))
