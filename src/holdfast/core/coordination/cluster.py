"""What the coordination store knows of a cluster: hosts, disks, and for each shard who may write to it.

    hosts/{host}         where a host can be reached now; leased, so it goes when the host does
    disks/{disk}         which disk is whose, since when, and how often it was started; never leased
    shards/{shard}       the configuration that decides who commits; changed only by comparing its revision
    assignments/{shard}  which hosts the manager wants to hold the shard; the shard's primary works towards it
    drains/{host}        an operator wants the host empty; never leased, so a restart does not undo it
    manager              who manages the cluster now; leased
    losses/{shard}/…     what a fail-over has lost of asynchronous queues: an upper bound, and what a host had

Laws
- A member is a host with the life of its disk: a host that comes back with another disk is not that member.
- An epoch belongs to one configuration. It grows with every change of primary or members.
- Ranges follow each other without gaps: each begins where the one before was sealed; only the last is open.
- A sealed range never changes. Ranges that every snapshot covers may be dropped from the front.
- An assignment is a wish. It says who should be a member, never who is: a primary adds an assigned host as a learner
  and makes it a member when it has caught up, and lets go of a member that is not assigned once all assigned ones are
  members. Acting on an old assignment is useless at worst.
"""

from enum import StrEnum
from typing import NewType

import msgspec

from holdfast.core.limits import ASYNC_LAG, RANGES_MAX, UNCOMMITTED_BYTES_MAX
from holdfast.core.types import Epoch, Lsn, ShardId

HostId = NewType("HostId", str)
DiskId = NewType("DiskId", str)
Life = NewType("Life", int)  # the store's revision when the empty disk was first registered


class ShardState(StrEnum):
    ACTIVE = "active"
    RECOVERING = "recovering"  # a candidate makes sure of what was acknowledged; nobody serves


class Member(msgspec.Struct, frozen=True, gc=False):
    host: HostId
    life: Life


class HostRecord(msgspec.Struct, frozen=True):
    disk: DiskId
    boot: int
    address: str
    zone: str = ""  # what fails together: a rack, a data centre; "" is a zone like any other
    capacity: int = 100  # how much it can take, relative to the others


class DiskRecord(msgspec.Struct, frozen=True):
    host: HostId
    life: Life
    last_boot: int
    pending_boot: int  # a start that may not have reached the disk; equal to last_boot when none is under way


class Range(msgspec.Struct, frozen=True):
    """Lsns that one configuration wrote."""

    epoch: Epoch
    members: tuple[Member, ...]
    start: Lsn
    end: Lsn | None = None  # None: open
    end_hash: bytes = b""  # of a sealed range


class ShardRecord(msgspec.Struct, frozen=True):
    epoch: Epoch
    primary: HostId
    members: tuple[Member, ...]  # the primary is one of them
    state: ShardState
    ranges: tuple[Range, ...]
    min_members: int
    losses: int = 0  # how often an operator accepted the loss of data to get the shard back


def first_record(members: tuple[Member, ...], *, min_members: int) -> ShardRecord:
    """A shard that does not exist yet: as after the fail-over of an empty one, the first member makes sure of nothing
    and serves. The range before the first is open, empty and of epoch 0, in which nobody ever wrote."""
    before = Range(Epoch(0), members, Lsn(1))
    return ShardRecord(Epoch(1), members[0].host, members, ShardState.RECOVERING, (before,), min_members)


class Assignment(msgspec.Struct, frozen=True):
    hosts: tuple[HostId, ...]


class Drain(msgspec.Struct, frozen=True):
    is_done: bool = False  # set by the manager: nothing is assigned to the host or kept by it, it may be switched off


class ManagerRecord(msgspec.Struct, frozen=True):
    """Its revision is the term: whatever a manager writes, it checks that this record is still its own."""

    host: HostId
    boot: int


class LossRecord(msgspec.Struct, frozen=True):
    """What asynchronous queues may have lost: records behind `after` that the primary of `epoch` had answered for."""

    epoch: Epoch
    after: Lsn
    last: Lsn | None = None  # None: unknown; then at most `bytes_max` of log and `lag_max_us` of time
    bytes_max: int = UNCOMMITTED_BYTES_MAX
    lag_max_us: int = ASYNC_LAG


MANAGER_KEY = "manager"
CLUSTER_KEY = "cluster"  # its name: whose store this is


def succeed(
    record: ShardRecord,
    *,
    epoch: Epoch,
    primary: HostId,
    members: tuple[Member, ...],
    end: Lsn,
    end_hash: bytes,
    low: Lsn,
) -> ShardRecord:
    """The record of the next configuration: the open range is sealed at `end`, and one of `epoch` begins behind it.

    A range without a single lsn is not worth a seal. Ranges up to `low`, which the snapshots of all members cover, are
    dropped; the last seal stays, for a candidate compares its log with that. Logs are compared by their segments, so a
    record that would get too long may lose its oldest ranges, too.
    """
    sealed = [each for each in record.ranges if each.end is not None]
    last = record.ranges[-1] if record.ranges else None
    if last is not None and last.end is None and end >= last.start:
        sealed.append(Range(last.epoch, last.members, last.start, end, end_hash))
    begun = Range(epoch, members, Lsn(end + 1))
    needed = [each for each in sealed[:-1] if each.end is not None and each.end > low]
    ranges = (*[*needed, *sealed[-1:]][1 - RANGES_MAX :], begun)
    return ShardRecord(epoch, primary, members, ShardState.ACTIVE, ranges, record.min_members, record.losses)


def host_key(host: HostId) -> str:
    return f"hosts/{host}"


def disk_key(disk: DiskId) -> str:
    return f"disks/{disk}"


def shard_key(shard: ShardId) -> str:
    return f"shards/{shard}"


def assignment_key(shard: ShardId) -> str:
    return f"assignments/{shard}"


def loss_key(shard: ShardId, epoch: Epoch, host: HostId | None = None) -> str:
    """Of the bound that a fail-over notes, or of what `host` was found to have had when it came back."""
    return f"losses/{shard}/{epoch:08x}" + (f"/{host}" if host is not None else "")


def drain_key(host: HostId) -> str:
    return f"drains/{host}"


def encode(record: HostRecord | DiskRecord | ShardRecord | Assignment | Drain | ManagerRecord | LossRecord) -> bytes:
    return msgspec.json.encode(record)


def decode_host(value: bytes) -> HostRecord:
    return msgspec.json.decode(value, type=HostRecord)


def decode_disk(value: bytes) -> DiskRecord:
    return msgspec.json.decode(value, type=DiskRecord)


def decode_shard(value: bytes) -> ShardRecord:
    return msgspec.json.decode(value, type=ShardRecord)


def decode_assignment(value: bytes) -> Assignment:
    return msgspec.json.decode(value, type=Assignment)


def decode_drain(value: bytes) -> Drain:
    return msgspec.json.decode(value, type=Drain)


def decode_loss(value: bytes) -> LossRecord:
    return msgspec.json.decode(value, type=LossRecord)


def decode_manager(value: bytes) -> ManagerRecord:
    return msgspec.json.decode(value, type=ManagerRecord)
