"""What the searched system consists of: hosts with disks, one record in a store, messages that are facts.

Everything is a tuple, so a state can be compared, hashed and shared. What the model leaves out, and why it may:

- A log is the tuple of the epochs of its frames. While one host alone appends in an epoch (I3, checked at every
  append), an epoch and a place determine the bytes, and a log as a whole is its own chain of hashes.
- A message is a fact that stays: it can be delivered late, twice, in any order, or never. Of an epoch's leader
  the longest log it has sent is kept; a shorter one is what has been delivered of it so far. Of a member's
  acknowledgements in an epoch the highest is kept.
- A host that is down is a host that does nothing for a while. A host that was started again is told by `crash`.
- Requests to the store stay in `requests` until they are applied. All of them compare the revision, so those that
  compared an older one can do nothing any more and are dropped.
"""

from typing import NamedTuple

Log = tuple[int, ...]  # the epoch of each frame; a place in it is an lsn
Member = tuple[int, int]  # host, life of its disk

FOLLOWER, CANDIDATE, PRIMARY = 0, 1, 2
NAMES = "ABCDEFG"


class Record(NamedTuple):
    """The shard's record in the store. Epoch and state together are its revision: no pair comes twice."""

    epoch: int
    is_active: bool  # else RECOVERING: `primary` is a candidate, `members` are still those of the open range
    primary: int
    members: tuple[Member, ...]
    opened: int  # epoch of the open range
    sealed: Log  # everything below the open range, which the hash of the last seal stands for


class Ack(NamedTuple):
    """A host told the leader of an epoch: up to here my log is yours, and on my disk."""

    life: int
    epoch: int
    lsn: int


class Host(NamedTuple):
    life: int = 0
    promise: int = 1  # always durable: what persists it answers only afterwards
    log: Log = ()  # as the process sees it
    disk: Log = ()  # what a power cut leaves of it
    snapshot: Log = ()  # the state that is not rebuilt from the log any more
    acks: tuple[Ack, ...] = ()
    damaged: int = 0  # 0, or the promise when the tail of the log was found to be unreadable
    # The rest is gone after a restart.
    role: int = FOLLOWER
    epoch: int = 0  # in which it leads
    members: tuple[Member, ...] = ()  # of its epoch; of a candidate: of the last configuration
    start: int = 0  # of its range; a candidate: of the range it found open
    is_waiting: bool = False  # for the outcome of its request to the store
    has_heard: bool = False  # a candidate: of another member of the last configuration
    is_frozen: bool = False  # a candidate: its log was sent to others


class Sent(NamedTuple):
    """The log of the leader of an epoch, as it was sent to anybody."""

    epoch: int
    start: int  # of the leader's range
    log: Log


class State(NamedTuple):
    record: Record
    hosts: tuple[Host, ...]
    requests: tuple[Record, ...] = ()  # what the store may yet be asked to write, all against the present record
    outcomes: tuple[Record, ...] = ()  # configurations written whose primary may yet be told so
    calls: tuple[Record, ...] = ()  # candidates named that may yet hear of it
    sent: tuple[Sent, ...] = ()
    acknowledged: Log = ()  # what was answered to clients; only the checkers read it
    crashes: int = 0
    wipes: int = 0
    rots: int = 0
    wrong: str = ""  # an invariant that a step itself saw violated


class Bounds(NamedTuple):
    """How much may happen in one history."""

    hosts: int = 3
    outside: int = 0  # the last so many hosts are not members at the beginning
    min_members: int = 2
    epochs: int = 3
    lsns: int = 2
    crashes: int = 1
    wipes: int = 1
    rots: int = 0
    requests: int = 2  # to the store and unanswered, at a time
    has_snapshots: bool = False
    has_slow_disks: bool = False  # members write and sync in two steps; else only leaders do


class Rules(NamedTuple):
    """The protocol's rules. Each can be switched off, to see what it is for."""

    ack_after_fsync: bool = True
    fences: bool = True  # a member refuses an epoch below its promise
    promise_survives: bool = True
    life_counts: bool = True  # identity stands in members and acknowledgements
    all_members_commit: bool = True
    cuts_only_conflicts: bool = True  # never at a mark of what was committed
    learner_is_level: bool = True
    awaits_outcome: bool = True  # of a compare-and-swap, before anything is done with it
    stops_for_change: bool = True  # no frame is made while a configuration is being changed
    snapshots_committed: bool = True
    unchanged_is_unknown: bool = True  # a record that is as before does not tell that a request failed
    candidate_once: bool = True  # a restarted candidate does not go on in the same epoch
    candidate_is_frozen: bool = True  # nothing is added to a candidate's log once anybody was sent it
    candidate_knows_itself: bool = True  # it looks at its own life when it is named
    candidate_is_member: bool = True  # of the last configuration
    enough_members: bool = True  # min_members
    damage_asks: bool = True  # a damaged tail is not sealed before another member has answered
    damage_is_remembered: bool = True  # across restarts
    change_guards_lives: bool = True  # a configuration is written only if its members' disks are still those
    cuts_only_older: bool = True  # a late copy of a log does not cut what was added to it since
    start_is_checked: bool = True  # a candidate's log has to reach the open range, with the right hash
    counts_open_epoch: bool = True  # a candidate counts only frames of the open range's epoch beyond the seals


def first_state(bounds: Bounds) -> State:
    members = tuple((host, 0) for host in range(bounds.hosts - bounds.outside))
    leader = Host(role=PRIMARY, epoch=1, members=members)
    others = (Host(),) * (bounds.hosts - 1)
    record = Record(epoch=1, is_active=True, primary=0, members=members, opened=1, sealed=())
    return State(record, (leader, *others), sent=(Sent(epoch=1, start=0, log=()),))


def shared(a: Log, b: Log) -> int:
    """How many frames from the beginning are the same."""
    number = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        number += 1
    return number


def served(host: Host) -> Log:
    """What clients would see if this host led: the state of its snapshot, and the log beyond it."""
    return host.snapshot + host.disk[len(host.snapshot) :]


def demoted(host: Host) -> Host:
    return host._replace(
        role=FOLLOWER, epoch=0, members=(), start=0, is_waiting=False, has_heard=False, is_frozen=False
    )


def with_host(state: State, index: int, host: Host) -> State:
    hosts = state.hosts
    return state._replace(hosts=(*hosts[:index], host, *hosts[index + 1 :]))


def acked(host: Host, *, life: int, epoch: int) -> int:
    """The highest lsn that this host, with that disk, acknowledged in an epoch."""
    return max((ack.lsn for ack in host.acks if ack.life == life and ack.epoch == epoch), default=-1)


def with_ack(host: Host, epoch: int, lsn: int) -> Host:
    if acked(host, life=host.life, epoch=epoch) >= lsn:
        return host
    kept = (ack for ack in host.acks if (ack.life, ack.epoch) != (host.life, epoch))
    return host._replace(acks=tuple(sorted((*kept, Ack(host.life, epoch, lsn)))))
