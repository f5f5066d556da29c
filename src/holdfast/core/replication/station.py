"""What goes into a replica and what comes out of it, and the desk at which its roles work.

    step(event, now) ──▶ Output
        job        file work; one at a time, the next is given when Done has come for this one
        reads      file work that nothing of the log depends on, mostly reading; any number, beside the job
        at_once    messages that may leave now
        job.after  messages that may leave when the job is durable, and not before
        store      transactions and linearizable reads
        replies    to clients, earned
        is_over    the state is of no use any more: drop the replica, recover the shard, make a new one.
                   No job is under way then

Laws
- What is to be durable is written by jobs, in the order in which they were asked for. So a promise that was asked for
  after a write is durable after it, and nothing that was accepted under an older promise is written behind a newer one.
- Answers of the store and of jobs find their way by tokens. Those that nobody waits for are ignored.
- A store that knows less than it did when it was asked was restored from a backup: no configuration is changed until an
  operator has looked at it.
"""

from collections import deque
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from holdfast.core.coordination.asking import Fetch, Fetched, Outcome, Settled, Transact
from holdfast.core.coordination.cluster import HostId, Member, ShardRecord, decode_shard, host_key, shard_key
from holdfast.core.coordination.store import Check, Transaction
from holdfast.core.log.files import Work, replace
from holdfast.core.log.primary import Reply
from holdfast.core.log.promise import PROMISE, encode_promise
from holdfast.core.replication.replica_message import Message
from holdfast.core.types import Epoch, Instant, Lsn, ShardId, WallMs
from holdfast.core.values import Fact, Form, Value

Post = tuple[HostId, Message]  # to whom


# Events


class Heard(Value, frozen=True):
    sender: HostId
    message: Message


class Done(Fact, frozen=True):
    """A job or a read has been carried out. One that failed is never told: the host stops."""

    token: int
    value: Any = None


class Changed(Fact, frozen=True):
    """The shard's record in the store, from the watch."""

    record: ShardRecord
    revision: int


class Presence(Value, frozen=True):
    """A host that is there, with the life of its disk, and the revision of its `hosts/` record: every transaction that
    names it as a member compares that, so that nobody becomes a member with a disk that was replaced meanwhile."""

    member: Member
    revision: int


class Present(Fact, frozen=True):
    """All hosts that are there, from the watch of `hosts/` and `disks/`."""

    hosts: tuple[Presence, ...]


class Assigned(Fact, frozen=True):
    """Who should hold the shard, from the watch of `assignments/`."""

    hosts: tuple[HostId, ...]


class Frozen(Fact, frozen=True):
    """An operator, or the host at its start, has found the store to be restored from a backup, or has looked at it."""

    is_frozen: bool


class Scrubbed(Fact, frozen=True):
    """Stems of segments that a scrub found damaged, in the file or its key."""

    stems: tuple[str, ...]


class Tick(Fact, frozen=True):
    """Time has passed, or commands were submitted."""


Event = Heard | Done | Changed | Present | Assigned | Frozen | Scrubbed | Settled | Fetched | Tick


# Output


class Job(Fact, frozen=True):
    token: int
    work: Work[Any]
    after: tuple[Post, ...] = ()


class NoticeKind(StrEnum):
    DEPOSED = "deposed"
    WITHDRAWN = "withdrawn"  # this candidate cannot vouch for its log
    TRUNCATED = "truncated"  # a suffix that was never committed is in quarantine
    DOUBT = "doubt"  # asynchronous queues may have lost what the old primary had not sent yet
    MEMBERS = "members"
    DAMAGED = "damaged"
    REPAIR = "repair"
    FROZEN = "frozen"


class Notice(Fact, frozen=True):
    """For the operator."""

    kind: NoticeKind
    text: str
    first: Lsn = Lsn(0)
    last: Lsn = Lsn(0)


class Output(Form):
    job: Job | None = None
    reads: list[Job] = []
    at_once: list[Post] = []
    store: list[Transact | Fetch] = []
    replies: list[Reply] = []
    notices: list[Notice] = []
    is_over: bool = False


Begun = tuple[Work[Any], tuple[Post, ...]]  # what to do, and what may be sent when that is durable
Begin = Callable[[], Begun]
Then = Callable[[Any], None]


class Station:
    """Shared by the roles of one replica: who it is, what it promised and knows, what it gives out."""

    def __init__(self, shard: ShardId, me: Member, *, promise: Epoch, identity: bytes, segment_bytes: int) -> None:
        self.shard = shard
        self.me = me
        self.identity = identity
        self.segment_bytes = segment_bytes
        self.promise = promise  # durable
        self.promising = promise  # asked for; nothing below it is accepted any more
        self.record: ShardRecord | None = None
        self.revision = 0  # of the record
        self.assigned: tuple[HostId, ...] = ()
        self.present: dict[HostId, Presence] = {}
        self.is_frozen = False
        self.now = Instant(0)
        self.wall = WallMs(0)
        self.out = Output()
        self._last_token = 0
        self._jobs: deque[tuple[Begin, Then]] = deque()
        self._waiting: dict[int, Then] = {}  # token of a job or read -> what follows
        self._asked: dict[int, Then] = {}  # token of a question to the store -> what follows
        self._seen = 0  # the store's highest revision
        self._floors: dict[int, int] = {}  # token of a Fetch -> what had been seen when it was asked for
        self._busy = 0  # token of the job under way
        self.is_ending = False

    def take(self) -> Output:
        out, self.out = self.out, Output()
        out.is_over = self.is_ending and not self._busy
        return out

    def end(self) -> None:
        """The replica is over as soon as the job under way is done; nothing else is begun."""
        self.is_ending = True
        self._jobs.clear()

    # Messages

    def send(self, host: HostId, message: Message) -> None:
        self.out.at_once.append((host, message))

    def notice(self, kind: NoticeKind, text: str, *, first: int = 0, last: int = 0) -> None:
        self.out.notices.append(Notice(kind, text, Lsn(first), Lsn(last)))

    # The promise

    def raise_promise(self, epoch: Epoch, then: Callable[[], None]) -> None:
        """From now on nothing below is accepted; `then` is called when that is durable."""
        assert epoch > self.promising, "promises rise"
        self.promising = epoch

        def done(_: None) -> None:
            self.promise = epoch
            then()

        self.write(replace(PROMISE, encode_promise(epoch, self.identity)), done)

    # Files

    @property
    def is_idle(self) -> bool:
        return not self._busy and not self._jobs

    def enqueue(self, begin: Begin, then: Then) -> None:
        """`begin` is called when its turn has come: what to do, and what may be sent when that is durable."""
        self._jobs.append((begin, then))
        self._start()

    def write(self, work: Work[Any], then: Then) -> None:
        """As `enqueue`, of work that is known already and after which nothing is sent."""
        self.enqueue(lambda: (work, ()), then)

    def read(self, work: Work[Any], then: Then) -> None:
        self._last_token += 1
        self._waiting[self._last_token] = then
        self.out.reads.append(Job(self._last_token, work))

    def done(self, event: Done) -> None:
        then = self._waiting.pop(event.token, None)
        if then is None:
            return
        is_job = event.token == self._busy
        if is_job:
            self._busy = 0
        then(event.value)
        if is_job:
            self._start()

    def _start(self) -> None:
        if self._busy or not self._jobs or self.is_ending:
            return
        begin, then = self._jobs.popleft()
        work, after = begin()
        self._last_token += 1
        self._busy = self._last_token
        self._waiting[self._busy] = then
        self.out.job = Job(self._busy, work, after)

    # The store

    def transact(self, transaction: Transaction, then: Callable[[Outcome], None]) -> None:
        self._last_token += 1
        self._asked[self._last_token] = then
        self.out.store.append(Transact(self._last_token, transaction))

    def fetch(self, then: Callable[[ShardRecord | None], None]) -> None:
        """The shard's record as it is now; `revision` is set before `then` is called."""
        self._last_token += 1
        self._asked[self._last_token] = then
        self._floors[self._last_token] = self._seen
        self.out.store.append(Fetch(self._last_token, shard_key(self.shard)))

    def settled(self, event: Settled) -> None:
        if (then := self._asked.pop(event.token, None)) is not None:
            then(event.outcome)

    def fetched(self, event: Fetched) -> None:
        then, floor = self._asked.pop(event.token, None), self._floors.pop(event.token, 0)
        if then is None:
            return
        if event.revision < floor and not self.is_frozen:
            self.is_frozen = True
            text = f"the store is at revision {event.revision} and was at {floor} before: restored from a backup?"
            self.notice(NoticeKind.FROZEN, text)
        self._seen = max(self._seen, event.revision)
        if event.record is None:
            then(None)
            return
        record = decode_shard(event.record.value)
        self.know(record, event.record.revision)
        then(record)

    def wanted(self) -> list[Member]:
        """The assigned hosts that are there."""
        return [self.present[host].member for host in self.assigned if host in self.present]

    def guards(self, members: tuple[Member, ...]) -> tuple[Check, ...] | None:
        """That each of them is there with this disk, and stays there until the record names it. None: one is not."""
        found = [self.present.get(member.host) for member in members]
        if any(each is None or each.member != member for each, member in zip(found, members, strict=True)):
            return None
        return tuple(Check(host_key(each.member.host), each.revision) for each in found if each is not None)

    @property
    def is_member(self) -> bool:
        return self.record is not None and self.me in self.record.members

    def know(self, record: ShardRecord, revision: int) -> None:
        self._seen = max(self._seen, revision)
        if revision > self.revision:
            self.record, self.revision = record, revision

    def freeze(self, *, is_frozen: bool) -> None:
        """Whoever has looked at the store takes it as it is now."""
        if self.is_frozen and not is_frozen:
            self.revision = self._seen = 0
            self._floors = dict.fromkeys(self._floors, 0)
        self.is_frozen = is_frozen
