"""One host's part in a shard that lives on several.

                         a record names this host,             its compare-and-swap
                         RECOVERING; promise durable           is certain
    recover ──▶ standby ─────────────────────────▶ candidate ───────────────────▶ leader
                  ▲ ▲                                  │                            │
                  │ └── a higher epoch ◀───────────────┘          a higher epoch    │
                  └────────────── recover ◀── over: the state is discarded ◀────────┘

    damaged: the log cannot be read. It says nothing until the record shows that it is no member; then it starts over.

Laws (REPLICATION)
- Every message carries its sender's epoch. Below the promise: refused, and told the promise. Above: the promise is made
  durable first, then the message is looked at. So a host that answers in an epoch has promised it, on its disk.
- The record in the store says who is a member; epochs come from there alone. A start raises none.
- State is applied up to what is committed. A leader applies what it decides, so when it is deposed its state is
  discarded, for `apply` has no undo.

Shells call `step` for every event and carry out its Output (station.py); commands go in by `submit` and are followed by
a step(Tick) that brings out what they caused. `now` is this host's own clock; wall time is for display.
"""

from collections.abc import Sequence
from typing import Any, assert_never

from holdfast.core.coordination.asking import Fetched, Settled
from holdfast.core.coordination.cluster import HostId, Member, ShardRecord, ShardState
from holdfast.core.coordination.heartbeat import Role, ShardReport
from holdfast.core.errors import NotPrimary
from holdfast.core.limits import REPLICA_BEAT, RESERVE_BYTES, SEGMENT_BYTES, WAITING_MAX
from holdfast.core.log.archive import Archive
from holdfast.core.log.primary import Primary
from holdfast.core.queue.command import Command, Need
from holdfast.core.replication.candidate import Candidate, Phase
from holdfast.core.replication.leader import Leader
from holdfast.core.replication.repair import Repair
from holdfast.core.replication.replica_message import (
    Ack,
    Append,
    Chunk,
    Cut,
    Doubt,
    Fence,
    Fenced,
    Fetch,
    Message,
    Pull,
    Refused,
    Restart,
)
from holdfast.core.replication.replica_recovery import RecoveredReplica
from holdfast.core.replication.source import Source, View
from holdfast.core.replication.standby import Standby
from holdfast.core.replication.station import (
    Assigned,
    Changed,
    Done,
    Event,
    Frozen,
    Heard,
    NoticeKind,
    Output,
    Present,
    Scrubbed,
    Station,
    Tick,
)
from holdfast.core.types import Epoch, Header, Instant, Seq, ShardId, WallMs


class Replica:
    def __init__(
        self,
        shard: ShardId,
        me: Member,
        recovered: RecoveredReplica,
        *,
        identity: bytes,
        now: Instant,
        segment_bytes: int = SEGMENT_BYTES,
        reserve_bytes: int = RESERVE_BYTES,
    ) -> None:
        station = Station(shard, me, promise=recovered.promise, identity=identity, segment_bytes=segment_bytes)
        station.now = now
        self._station = station
        self._reserve_bytes = reserve_bytes
        self._source = Source(station, self._harm)
        self._standby: Standby | None = Standby(station, recovered.log)
        self._candidate: Candidate | None = None
        self._leader: Leader | None = None
        self._waiting: list[Heard] = []  # for the promise to be durable
        self._look_again = now  # when a refusal is worth another look at the record
        self._harmed: list[str] = []  # segments to be fetched again
        self._repair: Repair | None = None
        self._called: ShardRecord | None = None  # the record that this host has promised to take up

    # What the shell needs to know

    @property
    def primary(self) -> Primary | None:
        """While this host leads."""
        return self._leader.primary if self._leader is not None else None

    @property
    def log(self) -> "View":
        """The segments here, for index files, snapshots and reads."""
        if self._leader is not None:
            return View(self._leader.journal, self._leader.end, self._leader.durable, is_leading=True)
        assert self._standby is not None, "who does not lead, follows"
        log = self._standby.log
        is_leading = self._candidate is not None and self._candidate.is_sure
        return View(log, log.end, log.durable, is_leading=is_leading)

    @property
    def archive(self) -> Archive:
        """The same, for who looks after every step."""
        if self._leader is not None:
            return self._leader.journal
        assert self._standby is not None, "who does not lead, follows"
        return self._standby.log

    @property
    def is_copying(self) -> bool:
        """The shard's files are being replaced by another's: no index, snapshot or removal meanwhile."""
        return self._standby is not None and self._standby.catch_up is not None

    def own(self, now: Instant) -> Instant:
        """Cluster time, while this host leads."""
        if self._leader is None:
            return Instant(0)
        self._station.now = now
        return self._leader.own

    def deadline(self) -> Instant | None:
        if self._station.is_ending:  # only the end of its last job is waited for
            return None
        catch_up = self._standby.catch_up if self._standby is not None else None
        soonest: Instant | None = None
        for busy in (self._leader, self._candidate, catch_up, self._repair):
            due = busy.deadline() if busy is not None else None
            if due is not None and (soonest is None or due < soonest):
                soonest = due
        return soonest

    def report(self, now: Instant) -> ShardReport:
        """For the host's heartbeat. `now` may be long after the last step: a silent primary wakes nobody."""
        station, view = self._station, self.log
        epoch = view.archive.segments[-1].epoch if view.archive.segments else station.promise
        heard = self._standby.heard if self._standby is not None else now
        silence = self._leader.roll.silence(now) if self._leader is not None else now - heard
        marks = (view.end.lsn, view.durable.lsn, view.archive.committed)
        measured = self._leader.measure(now) if self._leader is not None else ()
        return ShardReport(station.shard, station.promise, self._role(), epoch, *marks, silence, *measured)

    def _role(self) -> Role:
        if self._leader is not None:
            return Role.PRIMARY
        if self._candidate is not None:
            return Role.DAMAGED if self._candidate.phase is Phase.WITHDRAWN else Role.CANDIDATE
        return Role.MEMBER if self._station.is_member else Role.LEARNER

    # Commands

    def submit(self, command: Command, token: Any, now: Instant, wall: WallMs, *, wait_s: int = 0) -> None:
        station, leader = self._station, self._leader
        if leader is None or station.is_ending:
            station.out.replies.append((token, self._elsewhere()))
            return
        station.now, station.wall = now, wall
        leader.submit(command, token, wait_s)

    def submit_all(self, commands: Sequence[Command], token: Any, now: Instant, wall: WallMs) -> None:
        if self._leader is None or self._station.is_ending:
            self._station.out.replies.append((token, [self._elsewhere() for _ in commands]))
            return
        self._station.now, self._station.wall = now, wall
        self._leader.submit_all(commands, token)

    def loaded(self, need: Need, headers: list[Header], upto: Seq) -> None:
        """Answers one of `primary.needs()`."""
        if self._leader is not None:
            self._leader.loaded(need, headers, upto)

    def cancel(self, token: Any) -> bool:
        return self._leader is not None and self._leader.cancel(token)

    def _elsewhere(self) -> NotPrimary:
        record = self._station.record
        if record is None or record.primary == self._station.me.host:
            return NotPrimary()
        return NotPrimary(host=record.primary, epoch=record.epoch)

    # Events

    def step(self, event: Event, now: Instant, wall: WallMs) -> Output:
        station = self._station
        station.now, station.wall = now, wall
        if isinstance(event, Done):
            station.done(event)
        elif not station.is_ending:
            self._take(event)
        if not station.is_ending:
            self._look_at_record()
            if self._harmed or self._repair is not None:
                self._mend()
        if self._leader is not None and not station.is_ending:
            self._leader.pump()
        return station.take()

    def _take(self, event: Event) -> None:
        station = self._station
        match event:
            case Heard(sender, message):
                self._hear(sender, message)
            case Changed(record, revision):
                station.know(record, revision)
            case Assigned(hosts):
                station.assigned = hosts
            case Present(present):
                station.present = {each.member.host: each for each in present}
            case Frozen(is_frozen):
                station.freeze(is_frozen=is_frozen)
            case Scrubbed(stems):
                for stem in stems:
                    self._harm(stem)
            case Settled():
                station.settled(event)
            case Fetched():
                station.fetched(event)
            case Tick():
                self._tick()
            case Done():
                station.done(event)
            case _:
                assert_never(event)

    def _tick(self) -> None:
        if self._leader is not None:
            self._leader.tick()
        elif self._candidate is not None:
            self._candidate.tick()
        if self._standby is not None and self._standby.catch_up is not None:
            self._standby.catch_up.tick()

        if self._repair is not None:
            self._repair.tick()

    def _harm(self, stem: str) -> None:
        if stem not in self._harmed:
            self._harmed.append(stem)

    def _mend(self) -> None:
        """One bad segment after the other, unless the files are being replaced anyway. Who leads first leaves the one
        that is written to: only then is it the same everywhere."""
        if self._repair is not None and not self._repair.is_over:
            return
        self._repair = None
        if not self._harmed or self.is_copying or self._station.record is None:
            return
        stem, archive = self._harmed.pop(0), self.log.archive
        found = next((each for each in archive.segments if each.stem == stem), None)
        is_sealed = found is not None and found is not archive.segments[-1] and found.last <= archive.committed
        if found is not None and not is_sealed and self._leader is not None:
            self._leader.journal.leave(found)
            self._harmed.append(stem)
        if is_sealed:
            self._repair = Repair(self._station, archive, stem)

    # Messages

    def _hear(self, sender: HostId, message: Message) -> None:
        station, epoch = self._station, message.epoch
        if epoch < station.promising:
            self._answer_old(sender, message)
        elif isinstance(message, Refused):
            if epoch > station.promising and station.now >= self._look_again:  # somebody leads, or is about to
                self._look_again = Instant(station.now + REPLICA_BEAT)
                station.fetch(lambda _: None)
        elif epoch > station.promising and self._leader is not None:
            self._depose(f"epoch {epoch} has begun")
        elif epoch > station.promise:
            if epoch > station.promising:
                self._promise(epoch)
            if len(self._waiting) < WAITING_MAX:
                self._waiting.append(Heard(sender, message))
        else:
            self._dispatch(sender, message)

    def _answer_old(self, sender: HostId, message: Message) -> None:
        """Who is behind is told so. What asks for bytes is served: the answer carries the higher epoch."""
        match message:
            case Append() | Fence() | Cut() | Restart():
                self._station.send(sender, Refused(self._station.promising))
            case Pull() | Fetch() | Doubt() if self._station.promise == self._station.promising:
                self._dispatch(sender, message)
            case _:
                pass

    def _promise(self, epoch: Epoch) -> None:
        """The candidate, if this host was one, is so no longer."""
        self._candidate = None
        if self._standby is not None:
            self._standby.fence()
        self._station.raise_promise(epoch, self._promised)

    def _promised(self) -> None:
        self._take_up()
        waiting, self._waiting = self._waiting, []
        for heard in waiting:
            self._hear(heard.sender, heard.message)

    def _dispatch(self, sender: HostId, message: Message) -> None:
        leader, candidate, standby = self._leader, self._candidate, self._standby
        match message:
            case Ack() if leader is not None:
                leader.ack(sender, message)
            case Append() if candidate is not None:
                candidate.append(sender, message)
            case Cut() | Restart() if candidate is not None:
                pass  # its log is its own now
            case Append() if standby is not None and message.is_leading:
                standby.append(sender, message)
            case Cut() if standby is not None:
                standby.cut(sender, message)
            case Restart() if standby is not None:
                standby.restart(sender, message)
            case Chunk() if standby is not None and standby.catch_up is not None:
                standby.chunk(sender, message)
            case Chunk() if self._repair is not None:
                self._repair.chunk(sender, message)
            case Ack() if candidate is not None:
                candidate.ack(sender, message)
            case Fence() if standby is not None:
                self._fenced(sender, standby)
            case Fenced() if candidate is not None:
                candidate.fenced(sender, message)
            case Pull():
                self._source.pulled(sender, message, self.log)
            case Fetch():
                self._source.fetched(sender, message)
            case Doubt():
                self._source.doubted(message.stem, self.log)
            case _:
                pass  # for a role that this host does not have any more

    def _fenced(self, sender: HostId, standby: Standby) -> None:
        """The promise is durable, and nothing of an older epoch is written behind it: this is where the log ends."""
        station = self._station
        station.send(sender, Fenced(station.promise, station.me.life, standby.log.durable))

    # Roles

    def _look_at_record(self) -> None:
        record, station = self._station.record, self._station
        if record is None:
            return
        if self._leader is not None:
            if record is not self._leader.record:
                self._compare(self._leader, record)
            return
        if self._candidate is not None and record.epoch > self._candidate.record.epoch:
            self._candidate = None
        is_call = record.state is ShardState.RECOVERING and record.primary == station.me.host
        if not is_call or not station.is_member or record.epoch < station.promising:
            return
        if record.epoch > station.promising:
            self._called = record
            self._promise(record.epoch)

    def _compare(self, leader: Leader, record: ShardRecord) -> None:
        """Is it this primary's own?"""
        proposal = leader.changes.proposal
        if record == leader.record:
            self._station.record = leader.record  # as it came from the store: the next look is quick
        elif record.epoch >= leader.record.epoch and not (proposal is not None and record == proposal.record):
            self._depose(f"the record is of epoch {record.epoch}")

    def _take_up(self) -> None:
        """A call is taken up once: a host that has promised its epoch before does not know any more what it sent."""
        called, self._called = self._called, None
        if called is None or called != self._station.record or self._standby is None:
            return
        if called.epoch == self._station.promise:
            self._candidate = Candidate(self._station, self._standby, called, on_active=self._lead)

    def _lead(self, record: ShardRecord) -> None:
        if self._standby is None or self._candidate is None:
            return  # it has learnt meanwhile that somebody else is to lead
        self._station.record = record
        log, time = self._standby.log, self._standby.time
        self._leader = Leader(self._station, log, record, time=time, reserve_bytes=self._reserve_bytes)
        self._standby = self._candidate = None

    def _depose(self, why: str) -> None:
        assert self._leader is not None, "somebody who leads"
        self._station.notice(NoticeKind.DEPOSED, why)
        self._leader.abandon()
        self._station.end()
