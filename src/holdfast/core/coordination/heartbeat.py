"""What a host tells those who may have to manage the cluster, five times a second.

Laws
- A heartbeat says what its host sees itself. Whether somebody else is alive is concluded from several of them.
- Durations travel, never instants: each host has a clock of its own.
- Of one boot, a heartbeat with a lower number is older and ignored.
"""

from collections.abc import Collection
from enum import StrEnum

import msgspec

from holdfast.core.coordination.census import LaneUse
from holdfast.core.coordination.cluster import DiskId, HostId, Life
from holdfast.core.limits import STANDBYS
from holdfast.core.types import Epoch, Lsn, ShardId


class Role(StrEnum):
    PRIMARY = "primary"  # serves
    CANDIDATE = "candidate"  # makes sure of what was acknowledged, to become primary
    MEMBER = "member"
    LEARNER = "learner"  # also a member of old that must catch up first
    DAMAGED = "damaged"  # cannot vouch for its open range; must not become primary


class ShardReport(msgspec.Struct, frozen=True, gc=False):
    """How a replica of one shard stands."""

    shard: ShardId
    epoch: Epoch  # the highest it has promised
    role: Role
    log_epoch: Epoch  # of its last frame
    appended: Lsn
    durable: Lsn
    committed: Lsn
    silence_us: int  # a primary: since it last heard all members. The others: since they last heard the primary
    load: int = 0  # frames' bytes per second, smoothed; reported by a primary
    lanes: tuple[LaneUse, ...] = ()  # the fullest; reported by a primary


class Heartbeat(msgspec.Struct, frozen=True):
    host: HostId
    disk: DiskId
    life: Life
    boot: int
    number: int
    shards: tuple[ShardReport, ...] = ()
    disk_bytes: int = 0
    disk_bytes_free: int = 0
    manager_silence_us: int = 0  # since it last heard a heartbeat of the manager
    busy_permille: int = 0  # how much of its time the loop was working, smoothed over seconds


def audience_of(host: HostId, hosts: Collection[HostId], manager: HostId | None) -> list[HostId]:
    """Who should get the heartbeats of `host`: the manager and its standbys, which are the next in the order of names.

    The manager's own go to everybody, and everybody's to everybody while there is none. `host` itself is among them if
    it listens, and hears itself without a wire.
    """
    names = sorted(hosts)
    if manager not in names or host == manager:
        return names
    at = names.index(manager)
    return sorted((names[at:] + names[:at])[: STANDBYS + 1])
