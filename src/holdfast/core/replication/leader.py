"""A shard that this host leads among others: its Primary, the frames to the members, and what they acknowledge.

    submit ─▶ Primary ─▶ flush ─┬─▶ own disk ──────────┐
                                └─▶ Append to all ─ Ack ┴─▶ committed = what everybody has ─▶ replies

Laws
- The members get the very bytes that the own disk gets, at the same time.
- A reply leaves when its lsn is committed: on this disk and on that of every member, and those are enough.
- While the members change (reconfiguration.py) no frame is made. Commands wait: they would be decided under an epoch
  that may be over.
- What is not committed is bounded. At the bound, or when nothing was committed for too long, commands are refused; and
  when a member was not heard for too long nothing is handed out, for somebody else may be leading by now.
"""

from collections.abc import Callable, Sequence
from typing import Any

from holdfast.core.coordination.census import Census, LaneUse
from holdfast.core.coordination.cluster import HostId, ShardRecord
from holdfast.core.errors import NotPrimary, Overloaded
from holdfast.core.limits import (
    ASYNC_LAG,
    HELD_MAX,
    REPLICA_BEAT,
    REPLICA_PATIENCE,
    RESERVE_BYTES,
    UNCOMMITTED_BYTES_MAX,
    UNSURE_AFTER,
)
from holdfast.core.log.files import Write, perform
from holdfast.core.log.journal import Journal
from holdfast.core.log.primary import Primary
from holdfast.core.queue.command import Command, Need, Outcome, Receive
from holdfast.core.replication.reconfiguration import Reconfiguration
from holdfast.core.replication.replica_log import ReplicaLog
from holdfast.core.replication.replica_message import Ack, Append, Place
from holdfast.core.replication.roll import Peer, Roll
from holdfast.core.replication.station import NoticeKind, Station
from holdfast.core.types import Header, Instant, Lsn, Seq

_START = Instant(0)


class Leader:
    def __init__(
        self,
        station: Station,
        log: ReplicaLog,
        record: ShardRecord,
        *,
        time: Instant = _START,
        reserve_bytes: int = RESERVE_BYTES,
    ) -> None:
        """`log` is on the disk of every member of `record`, up to its end. It is `time` at least."""
        log.commit(log.end.lsn)
        assert not any(entry.frame.count for entry in log.tail), "everything is durable"
        journal = Journal(
            station.shard,
            record.epoch,
            segments=log.segments,
            next_lsn=Lsn(log.end.lsn + 1),
            declared=log.declared,
            crc=log.end.crc,
            stamp=max(log.time, time),
            segment_bytes=station.segment_bytes,
            reserve_bytes=reserve_bytes,
            is_replicated=True,
        )
        journal.snapshotted(log.covered)
        self.primary = Primary(log.state, journal)
        self.journal = journal
        self.end = self.durable = log.end
        self.roll = Roll(station.me)
        self._census = Census(station.now)
        self._written = 0  # bytes of frames
        self._station = station
        self._record = record
        self._stamp, self._since = journal.stamp, station.now
        self._held: list[tuple[Any, Callable[[], None]]] = []  # token, and what it waits for
        self._beat_at = station.now
        self._is_fresh = True  # something may have become possible for those who wait
        self._free_until = station.now  # no command is refused or has to wait before this, if nothing happens
        self._sure_until = station.now  # and messages may be handed out
        self.roll.set_members(record.members, station.now)
        for peer in self.roll.members():
            peer.acked = log.end
            peer.heard = Instant(station.now - UNSURE_AFTER)  # the news that this host leads may be old
        self.changes = Reconfiguration(station, self)

    # Time

    @property
    def own(self) -> Instant:
        """Cluster time, as this host counts it since it took over."""
        return Instant(self._stamp + self._station.now - self._since)

    def deadline(self) -> Instant:
        if self.is_closed:
            return self._beat_at
        return min(self._beat_at, Instant(self._since + self.primary.deadline() - self._stamp))

    # Commands

    def submit(self, command: Command, token: Any, wait_s: int) -> None:
        station, primary = self._station, self.primary
        now = station.now
        if now >= self._free_until:
            if self._is_refused(command, token):
                return
            if self.is_closed:
                self._held.append((token, lambda: self.submit(command, token, wait_s)))
                return
        if type(command) is Receive:  # this process may have slept since the last event
            primary.is_sure = now < self._sure_until
        primary.submit(command, token, Instant(self._stamp + now - self._since), station.wall, wait_s=wait_s)

    def submit_all(self, commands: Sequence[Command], token: Any) -> None:
        if commands and self._is_refused(commands[0], token, len(commands)):
            return
        if self.is_closed:
            self._held.append((token, lambda: self.submit_all(commands, token)))
            return
        self.primary.submit_all(commands, token, self.own, self._station.wall)

    def loaded(self, need: Need, headers: list[Header], upto: Seq) -> None:
        if self.is_closed:
            self._held.append((None, lambda: self.loaded(need, headers, upto)))
            return
        self.primary.is_sure = self._station.now < self._sure_until
        self.primary.loaded(need, headers, upto, self.own, self._station.wall)

    def cancel(self, token: Any) -> bool:
        kept = [each for each in self._held if each[0] is not token]
        is_found, self._held = len(kept) < len(self._held), kept
        return self.primary.cancel(token) or is_found

    @property
    def is_closed(self) -> bool:
        """No frame can be made now; commands wait."""
        return self.changes.is_paused or self.journal.is_waiting

    def _is_refused(self, command: Command, token: Any, count: int = 0) -> bool:
        """Too much is not committed, or for too long, or too many wait."""
        roll = self.roll
        is_full = roll.unacked_bytes >= UNCOMMITTED_BYTES_MAX or len(self._held) >= HELD_MAX
        stall = roll.stall(self._station.now)
        if not is_full and (stall < ASYNC_LAG or (stall < REPLICA_PATIENCE and not self.primary.is_async(command))):
            return False
        refusals: list[Outcome] = [Overloaded() for _ in range(count)]
        if token is not None:
            self._station.out.replies.append((token, refusals if count else Overloaded()))
        return True

    def _look_ahead(self) -> None:
        """So that not every command has to be looked at: what decides it changes by events alone, and with time."""
        now, roll = self._station.now, self.roll
        is_full = roll.unacked_bytes >= UNCOMMITTED_BYTES_MAX
        self._free_until = now if is_full or self.is_closed else Instant(now + ASYNC_LAG - roll.stall(now))

    def _release(self) -> None:
        held, self._held = self._held, []
        for _, decide in held:
            decide()

    # Frames

    def pump(self) -> None:
        """After every event: what can be decided is, what was decided goes out, what was earned is answered."""
        now = self._station.now
        self._count()
        self.changes.advance()
        self._sure_until = Instant(now + UNSURE_AFTER - self.roll.silence(now))
        if not self.is_closed:
            is_sure = now < self._sure_until
            self._is_fresh = self._is_fresh or (is_sure and not self.primary.is_sure)
            self.primary.is_sure = is_sure
            if self._held:
                self._release()
            if self._is_fresh:
                self._is_fresh = False
                self.primary.tick(self.own, self._station.wall)
        self._flush()
        if now >= self._beat_at:
            self._beat()
        self._look_ahead()
        self._station.out.replies += self.primary.replies()

    def tick(self) -> None:
        self._is_fresh = True

    def _flush(self) -> None:
        operations = self.primary.flush()
        if not operations:
            return
        writes = [operation for operation in operations if type(operation) is Write]
        for write, (stem, offset, lsn, crc) in zip(writes, self.journal.ends, strict=True):
            end = Place(stem, offset, lsn, crc)
            self._send(write, end)
            self.end = end
        end = self.end

        def done(_: None) -> None:
            self.primary.synced()
            self.durable = end
            self._is_fresh = self._is_fresh or bool(self.primary.shard.asynchronous)

        self._station.write(perform(operations), done)

    def _send(self, write: Write, end: Place) -> None:
        now, journal = self._station.now, self.journal
        key = b"" if write.offset else journal.keys.get(end.stem, b"")
        message = Append(journal.epoch, self.end, end.stem, write.data, key, journal.committed, now)
        for host, peer in self.roll.peers.items():
            if peer.is_member or self._is_near(peer):
                peer.sent = now
                self._station.send(host, message)
        self.roll.sent(end, len(write.data), now)
        self._written += len(write.data)

    def _is_near(self, peer: Peer) -> bool:
        """A learner that has nearly caught up gets frames as they are made."""
        return peer.acked.stem == self.end.stem and peer.acked.lsn >= self.journal.committed

    def _beat(self) -> None:
        """Whoever has heard nothing for a while hears where the log ends and what is committed."""
        now = self._station.now
        self.changes.tick()
        self._beat_at = Instant(now + REPLICA_BEAT)
        beat = Append(self.journal.epoch, self.end, self.end.stem, b"", b"", self.journal.committed, now, time=self.own)
        for host, peer in self.roll.peers.items():
            if now - peer.sent >= REPLICA_BEAT // 2 or peer.acked < self.end:
                peer.sent = now
                self._station.send(host, beat)

    # Acknowledgements

    def ack(self, sender: HostId, message: Ack) -> None:
        if self._has(message.durable):
            self.roll.ack(sender, message, self._station.now)

    def _has(self, place: Place) -> bool:
        """Is it on this log? What an old epoch left beyond its seal is not."""
        if place.stem == self.end.stem:
            return place.offset <= self.end.offset
        return any(each.stem == place.stem and place.offset <= each.used for each in self.journal.segments)

    def _count(self) -> None:
        place = self.roll.reached(self.durable)
        is_enough = len(self._record.members) >= self._record.min_members
        if is_enough and place.lsn > self.journal.committed:
            self.journal.committed = place.lsn
            self._is_fresh = True

    def measure(self, now: Instant) -> tuple[int, tuple[LaneUse, ...]]:
        """For a heartbeat: how much is written, and which lanes are full or busy."""
        lanes = self._census.look(self.primary.shard.lanes, self._written, now)
        return self._census.load, lanes

    # Configurations

    @property
    def record(self) -> ShardRecord:
        return self._record

    @property
    def is_level(self) -> bool:
        """Everything decided is on this disk."""
        return self.durable == self.end and self.journal.durable == self.journal.appended

    def reign(self, record: ShardRecord) -> None:
        """The configuration is `record` now; all its members have the whole log."""
        self._record = record
        self.journal.reign(record.epoch)
        self.roll.set_members(record.members, self._station.now)
        self.journal.committed = self.end.lsn
        self._is_fresh = True
        names = ", ".join(member.host for member in record.members)
        self._station.notice(NoticeKind.MEMBERS, f"epoch {record.epoch}: {names}", last=self.end.lsn)

    def abandon(self) -> None:
        """Somebody else leads, or will."""
        waiting = [(token, NotPrimary()) for token, _ in self._held if token is not None]
        self._station.out.replies += [*self.primary.abandon(), *waiting]
        self._held = []
