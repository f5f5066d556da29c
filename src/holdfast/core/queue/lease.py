"""A message that was handed out and is not gone: what a lane remembers of it."""

from holdfast.core.queue.wheel import NEVER
from holdfast.core.types import Epoch, Group, Header, Instant, Lsn, Seq, WallMs
from holdfast.core.values import Cell, Value


class Rare(Cell):
    """What most leases do without."""

    at: Lsn  # compaction moved its bytes
    deadline: Instant
    origin: int
    prior: int  # receives before it came to this lane
    attempt: bytes | None  # the ReceiveRequestAttemptId that may ask for it again


class Lease(Cell):
    """A message that was handed out. `until` 0: its lease is over and it is visible again.

    There may be 120,000 in a lane, so every field is counted: numbers are shared where they can be, the rare ones
    are apart.
    """

    lsn: Lsn
    epoch: Epoch
    group: Group
    size: int
    time: Instant
    number: int  # receives here
    until: Instant
    received: Instant  # of the last receive: 12 hours count from here
    first_wall: WallMs
    due: Instant  # where its timer is
    rare: Rare | None

    @property
    def at(self) -> Lsn:
        return self.lsn if self.rare is None else self.rare.at

    @property
    def count(self) -> int:
        """ApproximateReceiveCount."""
        return self.number if self.rare is None else self.rare.prior + self.number

    @property
    def deadline(self) -> Instant:
        return Instant(0) if self.rare is None else self.rare.deadline

    @property
    def attempt(self) -> bytes | None:
        return None if self.rare is None else self.rare.attempt

    def uncommon(self) -> Rare:
        """The rare fields, to be changed."""
        if self.rare is None:
            self.rare = Rare(self.lsn, Instant(0), 0, 0, None)
        return self.rare

    def header(self, seq: Seq) -> Header:
        rare = self.rare or Rare(self.lsn, Instant(0), 0, 0, None)
        return Header(
            seq=seq,
            lsn=self.lsn,
            epoch=self.epoch,
            at=rare.at,
            group=self.group,
            size=self.size,
            time=self.time,
            visible_at=self.time,
            deadline=rare.deadline,
            count=rare.prior,
            origin=rare.origin,
            is_aside=False,
        )


class Attempt(Value, frozen=True):
    time: Instant
    seqs: tuple[Seq, ...]


def new_lease(header: Header, *, number: int, until: Instant, received: Instant, wall: WallMs) -> Lease:
    rare = None
    if header.deadline or header.origin or header.count or header.at != header.lsn:
        rare = Rare(header.at, header.deadline, header.origin, header.count, None)
    return Lease(
        header.lsn,
        header.epoch,
        header.group,
        header.size,
        header.time,
        number,
        until,
        received,
        wall,
        NEVER,
        rare,
    )
