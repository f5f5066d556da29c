"""How a primary lets members go and takes learners in: one change at a time, between two frames.

    nothing to do ──▶ asking ──▶ levelling ──▶ proposed ──▶ the next epoch
                        │            │            └── void: nothing happened, and never will ──▶ nothing to do
                        │            └── not level in 200 ms ──▶ nothing to do, another try later
                        └── the store does not answer: frames go on

    asking     the record is read, so that a store that is away does not stop the frames
    levelling  no frame is made; the new members and this host reach the end of the log
    proposed   one compare-and-swap: the range sealed at that end, epoch + 1, the new members. Only its outcome ends it

Laws
- The new members all have the whole log, and there are enough of them, before the change is proposed.
- No frame is made between levelling and a certain outcome. So there is nothing beyond the seal, whoever reads it.
- Every member that the record names is there, with the disk that has the log: its life is in the record, and its host's
  record in the store must not have changed since.
- A member that was let go has to wait before it is taken in again, longer each time.
"""

from enum import Enum
from typing import TYPE_CHECKING

from holdfast.core.coordination.cluster import HostId, Member, ShardRecord, succeed
from holdfast.core.limits import (
    CHANGE_PAUSE,
    LEVEL_WAIT,
    RETURN_AFTER,
    RETURN_AFTER_MAX,
    STORE_PATIENCE,
)
from holdfast.core.replication.proposal import Proposal
from holdfast.core.replication.roll import Peer
from holdfast.core.replication.station import NoticeKind, Station
from holdfast.core.types import Epoch, Instant
from holdfast.core.values import Form

if TYPE_CHECKING:
    from holdfast.core.replication.leader import Leader


class _Phase(Enum):
    NOTHING = 0
    ASKING = 1
    LEVELLING = 2
    PROPOSED = 3


_PAUSED = (_Phase.LEVELLING, _Phase.PROPOSED)


class _Absence(Form):
    """A host that was let go."""

    until: Instant
    pause: int


class Reconfiguration:
    def __init__(self, station: Station, leader: "Leader") -> None:
        self._station = station
        self._leader = leader
        self._phase = _Phase.NOTHING
        self._since = station.now  # of the phase
        self._next_at = station.now
        self._members: tuple[Member, ...] = ()
        self._round = 0
        self._absent: dict[HostId, _Absence] = {}
        self.proposal: Proposal | None = None

    @property
    def is_paused(self) -> bool:
        """No frame is made."""
        return self._phase in _PAUSED

    # Time

    def tick(self) -> None:
        self._enrol()
        now = self._station.now
        if self.proposal is not None:
            self.proposal.tick()
        elif self._phase is _Phase.ASKING and now - self._since >= STORE_PATIENCE:
            self._stop()
        elif self._phase is _Phase.NOTHING and now >= self._next_at and not self._station.is_frozen:
            self._begin()

    def advance(self) -> None:
        """Are they level? Asked after every event."""
        if self._phase is not _Phase.LEVELLING:
            return
        leader = self._leader
        if leader.is_level and leader.roll.are_level(self._members, leader.end):
            self._propose()
        elif self._station.now - self._since >= LEVEL_WAIT:
            self._stop()

    # Who should be a member?

    def _enrol(self) -> None:
        """Hosts that the shard is assigned to become learners; learners that it is not assigned to are forgotten."""
        roll, present = self._leader.roll, self._station.present
        assigned = {host: present[host] for host in self._station.assigned if host in present}
        for host, peer in list(roll.peers.items()):
            wish = assigned.get(host)
            is_other = wish is None or (peer.member, peer.revision) != (wish.member, wish.revision)
            if not peer.is_member and is_other:
                del roll.peers[host]
        for host, wish in assigned.items():
            if host not in roll.peers and wish.member != self._station.me:
                peer = Peer(wish.member, self._station.now, is_member=False, revision=wish.revision)
                roll.peers[host] = peer

    def _begin(self) -> None:
        members = self._without_late() or self._without_unassigned()
        if members is None or len(members) < self._leader.record.min_members:
            return
        if self._station.guards(members) is None:
            return
        self._members = members
        self._round += 1
        number = self._round
        self._enter(_Phase.ASKING)
        self._station.fetch(lambda record: self._asked(number, record))

    def _without_late(self) -> tuple[Member, ...] | None:
        """Late members go if enough are left, or learners that are ready can take their places. Else these come in."""
        record, late = self._leader.record, [peer.member for peer in self._leader.roll.late(self._station.now)]
        prompt = tuple(member for member in record.members if member not in late)
        if late and len(prompt) >= record.min_members:
            return prompt
        ready = self._ready()
        return (*prompt, *ready) if ready else None

    def _ready(self) -> list[Member]:
        """Learners that have caught up, and are not sent away for a while."""
        now, absent, durable = self._station.now, self._absent, self._leader.durable
        return [
            peer.member
            for host, peer in self._leader.roll.peers.items()
            if not peer.is_member and peer.acked >= durable and (host not in absent or now >= absent[host].until)
        ]

    def _send_away(self, host: HostId) -> None:
        now, before = self._station.now, self._absent.get(host)
        is_again = before is not None and now - before.until < RETURN_AFTER_MAX
        pause = min(2 * before.pause, RETURN_AFTER_MAX) if before is not None and is_again else RETURN_AFTER
        self._absent[host] = _Absence(Instant(now + pause), pause)

    def _without_unassigned(self) -> tuple[Member, ...] | None:
        """One that the manager wants elsewhere, once all whom it wants here are members."""
        wanted, members = self._station.wanted(), self._leader.record.members
        leaving = [member for member in members if member not in wanted and member != self._station.me]
        is_complete = len(wanted) == len(self._station.assigned) and all(member in members for member in wanted)
        if not wanted or not leaving or not is_complete:
            return None
        return tuple(member for member in members if member != leaving[0])

    # The change

    def _asked(self, number: int, record: ShardRecord | None) -> None:
        if self._phase is not _Phase.ASKING or number != self._round:
            return
        if record != self._leader.record:
            self._stop()
            return
        self._enter(_Phase.LEVELLING)

    def _propose(self) -> None:
        leader, guards = self._leader, self._station.guards(self._members)
        if guards is None:
            self._stop()
            return
        end = leader.end
        record = succeed(
            leader.record,
            epoch=Epoch(leader.record.epoch + 1),
            primary=self._station.me.host,
            members=self._members,
            end=end.lsn,
            end_hash=end.seal,
            low=leader.roll.covered(self._members, leader.journal.covered),
        )
        self._enter(_Phase.PROPOSED)
        self.proposal = Proposal(
            self._station,
            record,
            guards=guards,
            on_done=self._done,
            on_lost=self._lost,
            on_void=self._stop,
        )

    def _done(self) -> None:
        assert self.proposal is not None, "it was this one"
        record = self.proposal.record
        for member in self._leader.record.members:
            if member not in record.members:
                self._send_away(member.host)
        self._station.record = record
        self._station.raise_promise(record.epoch, lambda: None)
        self._leader.reign(record)
        self._stop()

    def _lost(self) -> None:
        """Somebody else has changed the record: whoever looks at it next sees that this host leads no longer."""
        self._station.notice(NoticeKind.DEPOSED, "a change of members was lost to somebody else's")

    def _stop(self) -> None:
        """Frames may be made again."""
        self.proposal = None
        self._next_at = Instant(self._station.now + CHANGE_PAUSE)
        self._enter(_Phase.NOTHING)

    def _enter(self, phase: _Phase) -> None:
        self._phase, self._since = phase, self._station.now
