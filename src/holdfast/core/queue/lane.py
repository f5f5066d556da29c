"""The state of one lane, and how records change it. No choices are made here.

A message of a lane is in exactly one place:

    sent ──▶ backlog (in order) ──receive──▶ lease: in flight ──time──▶ lease: visible again ──receive──▶ …
       └──▶ aside (own delay) ─────receive──┘        │ delete, retention, dead-letter
                                                     ▼
                                                   gone, or in the shard's outbox

Leases (messages handed out at least once) are kept one by one; everything else costs bytes per thousands. Time moves
only by `elapse`, which gives the same state whether it is called once or in steps.
"""

from bisect import insort
from heapq import heappush

from holdfast.core.limits import ATTEMPT_WINDOW, DEDUP_WINDOW, DELAY_MAX_S, MINUTE, SECOND
from holdfast.core.queue.aside import Aside, Maturing
from holdfast.core.queue.backlog import Backlog
from holdfast.core.queue.dedup import Dedup
from holdfast.core.queue.descent import Descent
from holdfast.core.queue.lease import Attempt, Lease, new_lease
from holdfast.core.queue.task import NO_TASKS
from holdfast.core.queue.tenants import Tenants
from holdfast.core.queue.wheel import NEVER, Wheel, on_grid
from holdfast.core.types import (
    Cause,
    Counts,
    Group,
    Header,
    Instant,
    Kind,
    LaneConfig,
    LaneId,
    Lsn,
    Seq,
    WallMs,
)
from holdfast.core.untouched import UNTOUCHED, own


class Lane:
    __slots__ = (
        "alarm",
        "aside",
        "attempts",
        "back",
        "backlog",
        "bytes",
        "causes",
        "config",
        "count",
        "dedup",
        "descent",
        "expired",
        "gone_target",
        "in_flight",
        "is_fifo",
        "is_watched",
        "lane",
        "last_seq",
        "leases",
        "maturing",
        "newest",
        "overdue",
        "purged",
        "retention",
        "taken",
        "tasks",
        "tenants",
        "wheel",
    )

    def __init__(self, lane: LaneId, config: LaneConfig) -> None:
        self.lane = lane
        self.last_seq = Seq(0)
        self.count = 0  # messages, wherever they are
        self.bytes = self.in_flight = 0
        self.expired = 0  # messages whose time was over, since this process has the lane: for those who watch
        self.backlog = Backlog(lane, is_grouped=config.kind is Kind.FIFO)
        self.leases: dict[Seq, Lease] = {}
        self.wheel: Wheel | None = None
        self.aside: Aside | None = None
        self.maturing: Maturing | None = None  # messages of the stream that are delayed
        self.back: list[tuple[Seq, Group]] = []  # heap: leases that are over; FIFO: of the first in its group
        self.taken: dict[Group, list[Seq]] = {} if config.kind is Kind.FIFO else UNTOUCHED  # FIFO: leases by group
        self.tenants: Tenants | None = None  # standard with groups
        self.overdue: dict[Seq, None] = UNTOUCHED  # leases whose retention or time to live is over
        self.dedup: Dedup | None = None
        self.descent: Descent | None = None  # it drains, or has parents
        self.attempts: dict[bytes, Attempt] = UNTOUCHED
        self.tasks = NO_TASKS
        self.causes: dict[Seq, Cause] = UNTOUCHED  # of messages that were to leave and could not
        self.purged = Instant(-NEVER)
        self.gone_target = 0  # packed address of a dead-letter target that does not exist any more
        self.alarm = NEVER  # when the shard will next look at this lane
        self.newest = Lsn(0)  # record that brought the last message
        self.is_watched = False  # somebody waits in a long poll
        self.configure(config)

    def configure(self, config: LaneConfig) -> None:
        self.config = config
        self.is_fifo = config.kind is Kind.FIFO
        self.retention = config.retention_s * SECOND
        self.gone_target = 0
        for seq, lease in self.leases.items():  # O(leases): retention may have changed
            self._set_timer(seq, lease)

    # Coming and going

    def add(self, header: Header, now: Instant) -> None:
        self.count += 1
        self.bytes += header.size
        self.last_seq = header.seq
        self.newest = header.lsn
        if header.group and not self.backlog.is_grouped:
            self.backlog.group_up()
            self.tenants = Tenants()
            for lease in self.leases.values():  # O(leases), once in a lane's life
                if lease.until:
                    self.tenants.leave(lease.group)
        if header.is_aside:
            self.aside = self.aside or Aside()
            self.aside.add(header)
            self.backlog.skip(header.seq)
            return
        self.backlog.append(header)
        if self.is_fifo or header.visible_at > now:
            self.maturing = self.maturing or Maturing()
            self.maturing.add(header.time if self.is_fifo else header.visible_at)

    def remove_fresh(self, header: Header, now: Instant) -> None:
        """A message that was never handed out is gone."""
        self._leave_stream(header, is_taken=False)
        if self.maturing is not None and not (self.is_fifo or header.is_aside) and header.visible_at > now:
            self.maturing.remove(header.visible_at)
        self.count -= 1
        self.bytes -= header.size

    def remove_leased(self, seq: Seq, now: Instant) -> Lease:
        """A message that was handed out is gone."""
        lease = self.leases.pop(seq)
        self.count -= 1
        self.bytes -= lease.size
        if lease.due != NEVER and self.wheel is not None:
            self.wheel.cancel(lease.due, seq)
        if lease.until:
            self._land(lease, now)
        if lease.rare is not None and lease.rare.attempt is not None:
            self._void(lease.rare.attempt, seq)
        if self.overdue:
            self.overdue.pop(seq, None)
        if self.causes:
            self.causes.pop(seq, None)
        if self.is_fifo:
            self._leave_group(seq, lease.group)
        return lease

    def restore_leased(self, header: Header, count: int, cause: Cause) -> None:
        """A message that had left comes back, visible: its target is gone."""
        lease = new_lease(header, number=count - header.count, until=Instant(0), received=Instant(0), wall=WallMs(0))
        self.leases[header.seq] = lease
        self.causes = own(self.causes)
        self.causes[header.seq] = cause
        self.count += 1
        self.bytes += header.size
        if self.is_fifo:
            insort(self.taken.setdefault(header.group, []), header.seq)
        self._come_back(header.seq, lease)
        self._set_timer(header.seq, lease)

    def purge(self, now: Instant) -> None:
        self.backlog.clear()
        self.purged = now
        self.count = self.bytes = self.in_flight = 0
        self.wheel = self.aside = self.maturing = self.dedup = None
        for state in (self.leases, self.taken, self.overdue, self.attempts, self.causes):
            state.clear()
        self.back.clear()
        if self.tenants is not None:
            self.tenants = Tenants()

    # Leases

    def adopt(self, seq: Seq, lease: Lease) -> None:
        """A lease out of a snapshot, in order of sequence."""
        self.leases[seq] = lease
        lease.due = NEVER
        if self.is_fifo:
            self.taken.setdefault(lease.group, []).append(seq)
        if lease.until:
            self.in_flight += 1
            if self.tenants is not None:
                self.tenants.leave(lease.group)
        else:
            self._come_back(seq, lease)
        self._set_timer(seq, lease)

    def hold(self, header: Header, *, until: Instant, now: Instant, wall: WallMs, attempt: bytes | None) -> None:
        """A message is handed out for the first time."""
        self._leave_stream(header, is_taken=True)
        seq = header.seq
        lease = self.leases[seq] = new_lease(header, number=1, until=until, received=now, wall=wall)
        if attempt is not None:
            lease.uncommon().attempt = attempt
        self.in_flight += 1
        if self.is_fifo:
            self.taken.setdefault(header.group, []).append(seq)
        elif self.tenants is not None:
            self.tenants.leave(header.group)
        if lease.rare is None and until <= header.time + self.retention:  # the common case of _set_timer
            lease.due = until
            if self.wheel is None:
                self.wheel = Wheel()
            self.wheel.add(until, seq)
        else:
            self._set_timer(seq, lease)

    def hold_again(self, seq: Seq, *, until: Instant, now: Instant, wall: WallMs, attempt: bytes | None) -> None:
        lease = self.leases[seq]
        lease.first_wall = lease.first_wall or wall
        self._start(seq, lease, until=until, now=now)
        if attempt is not None or lease.rare is not None:
            lease.uncommon().attempt = attempt

    def hold_on(self, seq: Seq, *, until: Instant, now: Instant) -> None:
        """The same attempt asked once more: the same receive, its lease starts anew."""
        lease = self.leases[seq]
        lease.until = until
        lease.received = now
        self._set_timer(seq, lease)

    def change(self, seq: Seq, *, until: Instant, now: Instant) -> None:
        """Visibility changed; `until` ≤ now: visible at once."""
        lease = self.leases[seq]
        was_out = lease.until != 0
        if until <= now:
            if was_out:
                self._land(lease, now)
                self._come_back(seq, lease)
        else:
            lease.until = until
            if not was_out:
                self.in_flight += 1
                if self.tenants is not None:
                    self.tenants.leave(lease.group)
        if lease.attempt is not None:
            self._void(lease.attempt, seq)
            lease.uncommon().attempt = None
        self._set_timer(seq, lease)

    def _start(self, seq: Seq, lease: Lease, *, until: Instant, now: Instant) -> None:
        lease.until = until
        lease.received = now
        lease.number += 1
        self.in_flight += 1
        if self.tenants is not None:
            self.tenants.leave(lease.group)
        self._set_timer(seq, lease)

    def _land(self, lease: Lease, now: Instant) -> None:
        """It is no longer in flight."""
        self.in_flight -= 1
        if self.tenants is not None:
            end = min(now, lease.until)
            self.tenants.land(lease.group, end - lease.received, end)
        lease.until = Instant(0)

    def _come_back(self, seq: Seq, lease: Lease) -> None:
        """It is visible again. In a FIFO lane that matters only when it is the first of its group."""
        lease.until = Instant(0)
        if not self.is_fifo or self.taken[lease.group][0] == seq:
            heappush(self.back, (seq, lease.group))

    def _void(self, attempt: bytes, seq: Seq) -> None:
        """The attempt that brought this message cannot be repeated, unless the id was used again for others."""
        if attempt in self.attempts and seq in self.attempts[attempt].seqs:
            del self.attempts[attempt]

    def _leave_group(self, seq: Seq, group: Group) -> None:
        taken = self.taken[group]
        taken.remove(seq)
        if not taken:
            del self.taken[group]
            if self.backlog.window is not None:
                self.backlog.window.unlock(group)
        elif not self.leases[taken[0]].until:
            heappush(self.back, (taken[0], group))

    def _leave_stream(self, header: Header, *, is_taken: bool) -> None:
        if header.is_aside:
            assert self.aside is not None, "an aside message was added before"
            self.aside.remove(header)
            self.aside = self.aside or None
            return
        if is_taken:
            self.backlog.take(header)
        else:
            self.backlog.remove(header)
        if self.is_fifo and self.maturing is not None:
            self.maturing.remove(header.time)

    # Time

    def elapse(self, now: Instant) -> None:
        """Leases and delays end. Nothing else depends on time alone."""
        if self.wheel is not None:
            for seq in self.wheel.pop(now):
                lease = self.leases[seq]
                lease.due = NEVER
                if on_grid(self.expiry(lease.time, lease.deadline)) <= now:  # as its timer would
                    self.overdue = own(self.overdue)
                    self.overdue[seq] = None
                if lease.until and lease.until <= now:
                    self._land(lease, now)
                    self._come_back(seq, lease)
                self._set_timer(seq, lease, now=now)
        if self.aside is not None:
            self.aside.ripen(now)
        self.prune(now)
        if self.maturing is not None:
            kept = DELAY_MAX_S * SECOND if self.is_fifo else 0  # a longer delay may be asked for at any time
            self.maturing = self.maturing if self.maturing.drop(now - kept) else None

    def expiry(self, time: Instant, deadline: Instant) -> Instant:
        by_retention = Instant(time + self.retention)
        return deadline if deadline and deadline < by_retention else by_retention

    def visible_at(self, header: Header) -> Instant:
        """FIFO queues: a change of the delay holds for waiting messages, too."""
        if self.is_fifo:
            return Instant(header.time + self.config.delay_s * SECOND)
        return header.visible_at

    def _own_delay(self) -> int:
        """What is added to the instants in `maturing`: FIFO lanes note when messages came, others when they are due."""
        return self.config.delay_s * SECOND if self.is_fifo else 0

    def next_event(self) -> Instant:
        """When `elapse` will have something to do."""
        due = self.wheel.first() if self.wheel is not None else NEVER
        if self.aside is not None:
            due = min(due, self.aside.first())
        if self.dedup is not None:
            due = min(due, Instant(self.dedup.oldest() + DEDUP_WINDOW + MINUTE))  # not for every single id
        return due

    def next_expiry(self) -> Instant:
        """When Tick will have something to remove that was never handed out. Messages aside go a little later: when
        they have been visible for as long as the retention."""
        due = Instant(self.aside.first_ripe() + self.retention) if self.aside is not None else NEVER
        if not self.backlog.count:
            return due
        return min(due, Instant(self.backlog.oldest() + self.retention), self.backlog.next_deadline())

    def next_visible(self, now: Instant) -> Instant:
        """When a delayed message of the stream will be visible: for somebody in a long poll."""
        if self.maturing is None:
            return NEVER
        first, _ = self.maturing.after(now - self._own_delay())
        return Instant(first + self._own_delay())

    def _set_timer(self, seq: Seq, lease: Lease, *, now: Instant | None = None) -> None:
        due = Instant(lease.time + self.retention)
        if lease.rare is not None and lease.rare.deadline and lease.rare.deadline < due:
            due = lease.rare.deadline
        if lease.until and lease.until <= due:
            due = lease.until  # on the grid already
        elif now is not None and on_grid(due) <= now:
            due = lease.until or NEVER  # it is overdue and known to be
        else:
            due = on_grid(due)
        if due == lease.due:
            return
        wheel = self.wheel = self.wheel or Wheel()
        if lease.due != NEVER:
            wheel.cancel(lease.due, seq)
        if due != NEVER:
            wheel.add(due, seq)
        lease.due = due

    def prune(self, now: Instant) -> None:
        """Forgets attempts and deduplication ids whose time is over."""
        while self.attempts:
            digest, attempt = next(iter(self.attempts.items()))
            if now < attempt.time + ATTEMPT_WINDOW:
                break
            del self.attempts[digest]
        if self.dedup is not None:
            self.dedup.prune(now)
            if not len(self.dedup):
                self.dedup = None

    # Reading

    def counts(self, now: Instant) -> Counts:
        delayed = self.aside.count if self.aside is not None else 0
        if self.maturing is not None and (self.config.delay_s or not self.is_fifo):  # the last ones of the stream
            delayed += min(self.backlog.count, self.maturing.after(now - self._own_delay())[1])
        return Counts(max(0, self.count - self.in_flight - delayed), self.in_flight, delayed, self.bytes)
