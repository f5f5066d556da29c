"""The roll of a shard's hosts as its primary sees them: who has what on disk, who was heard, who is late.

Laws
- A place is committed when the primary and every member have it on disk. Learners do not count.
- What counts is an acknowledgement of this epoch by the disk that was made a member: host and life.
- A member was heard at the time when that was sent which it answers: then, at least, it had promised nobody else. When
  its answer is read does not matter, for this process may have slept in between.
"""

from collections import deque

from holdfast.core.coordination.cluster import HostId, Member
from holdfast.core.limits import REPLICA_PATIENCE, SLOW_FOR, SLOW_LAG
from holdfast.core.replication.replica_message import NOWHERE, Ack, Place
from holdfast.core.types import Instant, Lsn
from holdfast.core.values import Form, Value


class Peer(Form):
    member: Member
    heard: Instant
    is_member: bool
    revision: int = 0  # of its record in the store, when it is to be added
    acked: Place = NOWHERE
    covered: Lsn = Lsn(0)  # by its snapshots
    sent: Instant = Instant(0)
    lag: int = 0  # smoothed time between a frame and its acknowledgement
    slow_since: Instant | None = None


class _Sent(Value, frozen=True):
    end: Place
    size: int
    at: Instant


class Roll:
    def __init__(self, me: Member) -> None:
        self.me = me
        self.peers: dict[HostId, Peer] = {}
        self._unacked: deque[_Sent] = deque()  # what not all members have
        self.unacked_bytes = 0

    def members(self) -> list[Peer]:
        return [peer for peer in self.peers.values() if peer.is_member]

    def set_members(self, members: tuple[Member, ...], now: Instant) -> None:
        """Those who were learners keep what they have acknowledged, those who were members become learners."""
        for peer in self.peers.values():
            peer.is_member = False
        for member in members:
            if member == self.me:
                continue
            known = self.peers.get(member.host)
            if known is None or known.member != member:
                self.peers[member.host] = Peer(member, now, is_member=True)
            else:
                known.is_member = True

    # Frames and acknowledgements

    def sent(self, end: Place, size: int, now: Instant) -> None:
        self._unacked.append(_Sent(end, size, now))
        self.unacked_bytes += size

    def ack(self, sender: HostId, ack: Ack, now: Instant) -> bool:
        """Does it count?"""
        peer = self.peers.get(sender)
        if peer is None or peer.member.life != ack.life:
            return False
        peer.heard = max(peer.heard, min(ack.at, now))
        peer.covered = ack.covered
        if ack.durable > peer.acked:
            self._measure(peer, ack.durable, now)
            peer.acked = ack.durable
        return True

    def _measure(self, peer: Peer, durable: Place, now: Instant) -> None:
        for sent in self._unacked:
            if peer.acked < sent.end <= durable:
                peer.lag += (now - sent.at - peer.lag) // 4
                return

    def reached(self, durable: Place) -> Place:
        """What the primary, which has `durable`, and all members have. Forgets what all of them have."""
        place, unacked = durable, self._unacked
        for peer in self.peers.values():
            if peer.is_member and peer.acked < place:
                place = peer.acked
        while unacked and unacked[0].end <= place:
            self.unacked_bytes -= unacked.popleft().size
        return place

    def covered(self, members: tuple[Member, ...], mine: Lsn) -> Lsn:
        """What the snapshots of all of them cover; `mine` those of the primary."""
        others = [self.peers[member.host].covered for member in members if member != self.me]
        return min([mine, *others])

    # Who follows?

    def stall(self, now: Instant) -> int:
        """How long the oldest frame that not all members have has been on its way."""
        return now - self._unacked[0].at if self._unacked else 0

    def silence(self, now: Instant) -> int:
        """Since all members were heard."""
        heard = now
        for peer in self.peers.values():
            if peer.is_member and peer.heard < heard:
                heard = peer.heard
        return now - heard

    def late(self, now: Instant) -> list[Peer]:
        """Members that are silent, do not keep up, or are much slower than the others."""
        waiting = self._unacked[0] if self._unacked else None
        is_stalled = waiting is not None and now - waiting.at >= REPLICA_PATIENCE
        late = []
        for peer in self.members():
            is_behind = is_stalled and waiting is not None and peer.acked < waiting.end
            if is_behind or now - peer.heard >= REPLICA_PATIENCE or self._is_slow(peer, now):
                late.append(peer)
        return late

    def _is_slow(self, peer: Peer, now: Instant) -> bool:
        others = [each.lag for each in self.members() if each is not peer]
        if not others or peer.lag < SLOW_LAG or peer.lag < 4 * max(others):
            peer.slow_since = None
            return False
        if peer.slow_since is None:
            peer.slow_since = now
        return now - peer.slow_since >= SLOW_FOR

    def are_level(self, members: tuple[Member, ...], end: Place) -> bool:
        return all(
            (peer := self.peers.get(member.host)) is not None and peer.member == member and peer.acked == end
            for member in members
            if member != self.me
        )
