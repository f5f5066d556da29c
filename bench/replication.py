"""What a replicated append costs: one send of 1 KB through a primary with two members, step by step. Asserts nothing.

Everything that leaves the primary goes straight into two members and their acknowledgements back, without encoding and
without disks: what is measured is the core alone.
"""

import statistics
import time
from typing import Any

from holdfast.core.coordination.asking import Fetch, Fetched, Outcome, Settled
from holdfast.core.coordination.cluster import HostId, Life, Member, ShardRecord, ShardState, encode, shard_key
from holdfast.core.coordination.store import Record
from holdfast.core.queue import command as c
from holdfast.core.queue.cipher import Places, open_each, seal_each
from holdfast.core.queue.shard import Shard
from holdfast.core.replication.replica import Replica
from holdfast.core.replication.replica_log import ReplicaLog
from holdfast.core.replication.replica_message import NOWHERE, Message
from holdfast.core.replication.replica_recovery import RecoveredReplica
from holdfast.core.replication.station import Changed, Done, Heard, Output, Presence, Present, Tick
from holdfast.core.types import Epoch, Instant, LaneConfig, LaneId, Lsn, ShardId, WallMs

SHARD, LANE = ShardId(1), LaneId(1)
MEMBERS = tuple(Member(HostId(name), Life(1)) for name in "abc")
BODY = b"x" * 1024
BATCH = 32  # sends per turn, as a busy host has them
SEGMENT = 1 << 30


class _Clear:
    """Sealing is the shell's: it costs 1.2 µs per KB."""

    def seal(self, _epoch: int, _lsn: int, content: bytes, _clear: bytes) -> bytes:
        return content

    def seal_all(self, epoch: int, first: int, contents: list[bytes], clears: bytes) -> bytes:
        return seal_each(self.seal, epoch, first, contents, clears)

    def open(self, _epoch: int, _lsn: int, sealed: bytes, _clear: bytes) -> bytes:
        return sealed

    def open_all(self, epoch: int, places: Places, data: bytes, base: int, width: int) -> list[bytes]:
        return open_each(self, epoch, places, data=data, base=base, width=width)


def _cost_of_asking() -> int:
    """How long two questions for the CPU time in a row say that nothing took."""
    return int(statistics.median(-(time.thread_time_ns() - time.thread_time_ns()) for _ in range(1000)))


class Trio:
    """Three replicas of one shard, wired to each other; what each of them takes is added up."""

    def __init__(self) -> None:
        self.now = 1_000_000
        self._asking = _cost_of_asking()
        self.replicas = {member.host: self.replica(member) for member in MEMBERS}
        self.took = dict.fromkeys(self.replicas, 0)  # ns
        self._posts: list[tuple[HostId, HostId, Message]] = []
        self._jobs: list[tuple[HostId, Any]] = []
        self._record = ShardRecord(Epoch(1), MEMBERS[0].host, MEMBERS, ShardState.RECOVERING, (), 2)
        for host in self.replicas:
            self.step(host, Present(tuple(Presence(member, 1) for member in MEMBERS)))
            self.step(host, Changed(self._record, 1))
        self.settle()
        for _ in range(10):
            self.now += 100_000
            for host in self.replicas:
                self.step(host, Tick())
            self.settle()
        self.make_spare()
        self.submit([c.Configure(LANE, LaneConfig())])
        self.make_spare()  # a host makes the next one while the present one fills

    def make_spare(self) -> None:
        self.primary.journal.start_spare()
        self.primary.journal.end_spare(_Clear(), b"key")

    def replica(self, member: Member) -> Replica:
        log = ReplicaLog(
            Shard(SHARD),
            segments=[],
            base=NOWHERE,
            tail=[],
            time=Instant(0),
            declared=Lsn(0),
            torn=Epoch(0),
            segment_bytes=SEGMENT,
        )
        recovered = RecoveredReplica(log, Epoch(0), torn_bytes=0)
        return Replica(SHARD, member, recovered, identity=b"bench", now=Instant(0), segment_bytes=SEGMENT)

    @property
    def primary(self) -> Any:
        primary = self.replicas[MEMBERS[0].host].primary
        assert primary is not None, "the first one leads"
        return primary

    def submit(self, commands: list[c.Command]) -> None:
        host, now, wall = MEMBERS[0].host, Instant(self.now), WallMs(0)
        submit = self.replicas[host].submit
        start = time.thread_time_ns()
        for number, command in enumerate(commands):
            submit(command, number, now, wall)
        self.took[host] += time.thread_time_ns() - start - self._asking
        self.step(host, Tick())
        self.settle()

    def step(self, host: HostId, event: Any) -> None:
        start = time.thread_time_ns()
        output = self.replicas[host].step(event, Instant(self.now), WallMs(0))
        self.took[host] += time.thread_time_ns() - start - self._asking
        self._take(host, output)

    def _take(self, host: HostId, output: Output) -> None:
        self._posts += [(host, target, message) for target, message in output.at_once]
        self._jobs += [(host, job) for job in ([output.job] if output.job is not None else []) + output.reads]
        for question in output.store:
            if isinstance(question, Fetch):
                held = Record(shard_key(SHARD), encode(self._record), 1, 1)
                self.step(host, Fetched(question.token, held, 1))
            else:
                self.step(host, Settled(question.token, Outcome.DONE))

    def settle(self) -> None:
        """Disks are infinitely fast, and the wire is."""
        while self._posts or self._jobs:
            posts, self._posts = self._posts, []
            for sender, target, message in posts:
                self.step(target, Heard(sender, message))
            jobs, self._jobs = self._jobs, []
            for host, job in jobs:
                self._posts += [(host, target, message) for target, message in job.after]
                self.step(host, Done(job.token, "" if self.replicas[host].primary is None else None))


def measure(rounds: int = 400) -> dict[str, float]:
    """Median microseconds of CPU per send on the primary and on one member, in turns of BATCH.

    Asking for the CPU time takes time itself, which is taken off.
    """
    trio = Trio()
    send = c.Send(LANE, BODY, BODY, len(BODY))
    found: dict[str, list[float]] = {"primary": [], "member": []}
    for _ in range(rounds):
        trio.now += 1000
        trio.took = dict.fromkeys(trio.took, 0)
        trio.submit([send] * BATCH)
        for name, member in zip(found, MEMBERS, strict=False):
            found[name].append(trio.took[member.host] / BATCH / 1000)
    return {name: statistics.median(values) for name, values in found.items()}
