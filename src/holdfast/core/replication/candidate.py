"""A fail-over, as the host sees it that was chosen to lead next.

    promise durable ──▶ fencing ──▶ reaching ──▶ verifying ──▶ levelling ──▶ proposed ──▶ leads
                                                    │
                                                    └── damage ──▶ withdrawn: another member has to be chosen

    fencing    all members of the last configuration are asked to promise the epoch, and tell where their logs end
    reaching   the longest of their logs is fetched: it has the most work that nobody was told of yet
    verifying  what no snapshot has is read back from the disk: checksums and chain
    levelling  the others are brought to exactly this log, its end included; enough of them, whoever they are
    proposed   one compare-and-swap: the open range sealed at that end, the new members, ACTIVE

Laws
- Its own durable promise fences the old primary: that one needs every member of the last configuration to commit, and
  this host is one of them. So whatever was acknowledged is in this log, and nothing can be added to it any more.
- From verifying on its log is frozen: a longer one that turns up later needs another epoch. A call is taken up once:
  whoever starts again does not know what it has sent, to whom, and whether a transaction is on its way.
- Only frames of the open range count for "longest". What an older epoch left beyond its seal is not part of any log.
- A log whose tail was torn may miss what it had acknowledged: then another member of the last configuration has to
  answer first, and its log is taken if it is longer. A sole member has nobody to ask, as one host has not.
- It serves only after the compare-and-swap is certain. With too few others it waits, and the old configuration stays.
"""

from collections.abc import Callable
from enum import Enum

from holdfast.core.coordination.cluster import HostId, LossRecord, Member, Range, ShardRecord, encode, loss_key, succeed
from holdfast.core.coordination.store import Put
from holdfast.core.limits import FENCE_WAIT, FENCE_WAIT_LONG, LEVEL_WAIT, REPLICA_BEAT
from holdfast.core.log.files import Work
from holdfast.core.log.replay import from_snapshot
from holdfast.core.log.segment import parse_stem, segment_path
from holdfast.core.log.segment_files import Position, SegmentReader
from holdfast.core.log.snapshot import list_snapshots
from holdfast.core.replication.proposal import Proposal
from holdfast.core.replication.replica_log import ReplicaLog
from holdfast.core.replication.replica_message import Ack, Append, Fence, Fenced, Place
from holdfast.core.replication.standby import Standby
from holdfast.core.replication.station import NoticeKind, Station
from holdfast.core.types import Epoch, Instant, Lsn


class Phase(Enum):
    FENCING = 1
    REACHING = 2
    VERIFYING = 3
    LEVELLING = 4
    PROPOSED = 5
    WITHDRAWN = 6


class Candidate:
    def __init__(
        self,
        station: Station,
        standby: Standby,
        record: ShardRecord,
        *,
        on_active: Callable[[ShardRecord], None],
    ) -> None:
        """The promise of the record's epoch is durable."""
        self.record = record
        self.phase = Phase.FENCING
        self._station = station
        self._standby = standby
        self._on_active = on_active
        self._open = record.ranges[-1] if record.ranges and record.ranges[-1].end is None else None
        self._others = [member for member in record.members if member != station.me]
        self._answers: dict[HostId, Fenced] = {}
        self._level: dict[HostId, Member] = {}
        self._covered: dict[HostId, Lsn] = {}  # by snapshots
        self._source: HostId | None = None  # whose longer log is being fetched
        self._mute: list[HostId] = []  # who had a longer log and did not give it
        self._since = self._beat_at = station.now
        self._proposal: Proposal | None = None
        self.tick()

    @property
    def is_sure(self) -> bool:
        """Of its log: others may be cut back to it."""
        return self.phase in (Phase.LEVELLING, Phase.PROPOSED)

    def deadline(self) -> Instant:
        enough = Instant(self._since + FENCE_WAIT)
        is_near = self.phase is Phase.FENCING and self._station.now < enough
        return min(self._beat_at, enough) if is_near else self._beat_at

    def tick(self) -> None:
        now = self._station.now
        if self._proposal is not None:
            self._proposal.tick()
        if now >= self._beat_at:
            self._beat_at = Instant(now + REPLICA_BEAT // 2)
            self._beat()
        self._advance()

    def _beat(self) -> None:
        if self.phase is Phase.FENCING:
            for member in self._others:
                if member.host not in self._answers:
                    self._station.send(member.host, Fence(self.record.epoch))
        elif self.phase is Phase.REACHING and self._source is not None:
            self._standby.pull(self._source)
        elif self.is_sure:
            log = self._standby.log
            beat = Append(self.record.epoch, log.end, log.end.stem, b"", b"", log.committed)
            for host in self._reachable():
                self._station.send(host, beat)

    def _reachable(self) -> list[HostId]:
        """Members of the last configuration, and hosts that the shard is assigned to."""
        hosts = dict.fromkeys([member.host for member in self._others])
        hosts |= dict.fromkeys(member.host for member in self._station.wanted())
        return [host for host in hosts if host != self._station.me.host]

    # Answers

    def append(self, sender: HostId, message: Append) -> None:
        """Bytes that this host has asked for."""
        if self.phase is Phase.REACHING and sender == self._source:
            self._standby.adopt(sender, message)
            self._advance()

    def fenced(self, sender: HostId, message: Fenced) -> None:
        if Member(sender, message.life) in self._others:
            self._answers[sender] = message
            self._advance()

    def ack(self, sender: HostId, message: Ack) -> None:
        """Level is who has exactly this log on disk. Who it may be: the old members and assigned hosts, by life."""
        member = Member(sender, message.life)
        is_known = member in self._others or member in self._station.wanted()
        if self.is_sure and is_known and message.durable == self._standby.log.end:
            self._level[sender], self._covered[sender] = member, message.covered
            self._advance()

    # Steps

    def _advance(self) -> None:
        if self.phase is Phase.FENCING and self._has_heard_enough():
            self._choose()
        if self.phase is Phase.REACHING and self._has_reached():
            self._enter(Phase.VERIFYING)
            self._station.read(verify(self._standby.log, self._open, self._seal()), self._verified)
        if self.phase is Phase.LEVELLING and self._has_enough():
            self._propose()

    def _has_heard_enough(self) -> bool:
        if len(self._answers) == len(self._others):
            return True
        waited = self._station.now - self._since
        is_enough = len(self._answers) >= self.record.min_members - 1
        has_waited = waited >= (FENCE_WAIT if is_enough else FENCE_WAIT_LONG)
        return has_waited and (bool(self._answers) or not self._standby.log.is_suspect)

    def _choose(self) -> None:
        """The longest log of the open range."""
        log = self._standby.log
        if problem := self._gap():
            self._withdraw(problem)
            return
        self._source = None
        best = log.end
        for host, answer in self._answers.items():
            is_of_range = self._open is not None and _epoch_of(answer.end) == self._open.epoch
            is_mute = host in self._mute and not log.is_suspect
            if is_of_range and not is_mute and answer.end > best:
                best, self._source = answer.end, host
        self._enter(Phase.REACHING)
        if self._source is not None:
            self._standby.pull(self._source)

    def _gap(self) -> str:
        """A member of the last configuration has all that lies before the open range, and no other epoch behind it."""
        if self._open is None:
            return ""
        log, before = self._standby.log, self._open.start - 1
        if log.end.lsn < before:
            return f"the log ends at lsn {log.end.lsn}, and {before} was sealed"
        if log.end.lsn > before and log.epoch != self._open.epoch:
            return f"lsn {before + 1} is of epoch {log.epoch} instead of {self._open.epoch}"
        return ""

    def _seal(self) -> bytes:
        """What the log's checksum was where the open range begins; empty: not known."""
        sealed = self.record.ranges[-2] if len(self.record.ranges) > 1 else None
        is_next = sealed is not None and self._open is not None and sealed.end == self._open.start - 1
        return sealed.end_hash if sealed is not None and is_next else b""

    def _has_reached(self) -> bool:
        if self._source is not None:
            goal = self._answers[self._source].end
            is_late = self._station.now - self._since >= FENCE_WAIT_LONG
            if self._standby.log.end < goal and not is_late:
                return False
            if self._standby.log.end < goal:  # it does not answer any more: do without it
                self._mute.append(self._source)
                self._enter(Phase.FENCING)
                return False
        return self._standby.is_settled

    def _verified(self, problem: str) -> None:
        if self.phase is not Phase.VERIFYING:
            return
        if problem:
            self._withdraw(problem)
            return
        self._enter(Phase.LEVELLING)
        self._beat()
        self._advance()

    def _withdraw(self, problem: str) -> None:
        self._enter(Phase.WITHDRAWN)
        self._station.notice(NoticeKind.WITHDRAWN, f"epoch {self.record.epoch}: {problem}")

    def _has_enough(self) -> bool:
        members = self._members()
        if len(members) < self.record.min_members or self._station.is_frozen or self._station.guards(members) is None:
            return False
        expected = [member.host for member in self._others if member.host in self._answers]
        is_complete = all(host in self._level for host in expected)
        return is_complete or self._station.now - self._since >= LEVEL_WAIT

    def _members(self) -> tuple[Member, ...]:
        """Those of them that are still there."""
        level = [member for member in self._level.values() if self._station.guards((member,)) is not None]
        return (self._station.me, *level)

    def _propose(self) -> None:
        end, members = self._standby.log.end, self._members()
        record = succeed(
            self.record,
            epoch=self.record.epoch,
            primary=self._station.me.host,
            members=members,
            end=end.lsn,
            end_hash=end.seal,
            low=min([self._standby.log.covered, *(self._covered[each.host] for each in members[1:])]),
        )
        guards = self._station.guards(members)
        assert guards is not None, "they are there"
        self._enter(Phase.PROPOSED)
        self._proposal = Proposal(
            self._station,
            record,
            guards=guards,
            notes=self._doubts(end.lsn),
            on_done=lambda: self._on_active(record),
            on_lost=lambda: self._withdraw("somebody else has changed the record"),
            on_void=self._again,
        )

    def _doubts(self, end: Lsn) -> tuple[Put, ...]:
        """Asynchronous queues may have answered for more than this log has, unless every member has shown its log."""
        is_complete = len(self._answers) == len(self._others)
        if self._open is None or is_complete or not self._standby.log.has_async:
            return ()
        text = f"asynchronous queues may have lost what followed lsn {end} in epoch {self._open.epoch}"
        self._station.notice(NoticeKind.DOUBT, text, first=end + 1)
        doubt = LossRecord(self._open.epoch, end)
        return (Put(loss_key(self._station.shard, doubt.epoch), encode(doubt)),)

    def _again(self) -> None:
        """A new member is not what it was when it became level."""
        self._proposal = None
        self._level.clear()
        self._enter(Phase.LEVELLING)

    def _enter(self, phase: Phase) -> None:
        self.phase, self._since = phase, self._station.now


def _epoch_of(place: Place) -> Epoch:
    return parse_stem(place.stem)[0] if place.stem else Epoch(0)


def verify(log: ReplicaLog, opened: Range | None, seal: bytes) -> Work[str]:
    """Reads back what this log's next recovery would read: all behind the newest snapshot, as one chain of frames.
    Answers what is wrong; "" if nothing is. O(bytes behind the snapshot), which snapshots keep to a few segments.

    And the open range has to begin where the last one was sealed. What lies before is in the snapshot, except for the
    bytes of living messages: those are verified when they are read, by the scrub, and by whoever copies them.
    """
    if problem := (yield from _check_seal(log, opened, seal)):
        return problem
    newest = max((yield from list_snapshots()), default=Lsn(0))
    segments = log.segments[from_snapshot(log.segments, newest) :]
    last: Position | None = None
    for segment in segments:
        reader, path = SegmentReader(segment), segment_path(segment.stem)
        used = segment.used if segment is not segments[-1] else log.end.offset
        begin, end = yield from reader.read_through(log.shard, segment, used)
        if reader.offset != used:
            return f"{path} byte {reader.offset}, lsn {end.expected}: {reader.problem}"
        if last is not None and (begin.expected, begin.crc) != (last.expected, last.crc):
            return f"{path} does not follow the segment before it"
        last = end
    if last is not None and (last.expected - 1, last.crc) != (log.end.lsn, log.end.crc):
        return f"the log on disk ends at lsn {last.expected - 1} with another checksum than at lsn {log.end.lsn}"
    return ""


def _check_seal(log: ReplicaLog, opened: Range | None, seal: bytes) -> Work[str]:
    firsts = [each for each in log.segments if opened is not None and each.epoch == opened.epoch]
    crc = log.end.crc
    if firsts:
        begun = yield from SegmentReader(firsts[0]).header(log.shard, firsts[0])
        is_first = begun is not None and opened is not None and begun.first == opened.start
        crc = begun.previous if begun is not None else 0
        seal = seal if is_first else b""  # earlier segments of the range are not kept any more
    if seal and crc.to_bytes(4, "little") != seal:
        return f"the log before lsn {log.end.lsn + 1} is not what was sealed"
    return ""
