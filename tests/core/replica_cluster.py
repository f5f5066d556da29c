"""A small cluster in memory: replicas of one shard, disks that lose power, a wire and a store that do as they are told.

Nothing happens by itself: `settle` carries out everything that is under way, `run` lets time pass as well. In between a
test can drop or keep back messages, answer the store's questions as it likes, and pull plugs.
"""

from collections.abc import Callable
from typing import Any

from holdfast.core.coordination.asking import Fetch, Fetched, Outcome, Settled, Transact
from holdfast.core.coordination.cluster import (
    HostId,
    Life,
    Member,
    ShardRecord,
    ShardState,
    decode_shard,
    encode,
    host_key,
    shard_key,
)
from holdfast.core.coordination.store import Put, State, Transaction
from holdfast.core.errors import CorruptLog
from holdfast.core.log.segment_files import prepare_segment
from holdfast.core.queue import command as c
from holdfast.core.replication.damaged import Damaged
from holdfast.core.replication.replica import Replica
from holdfast.core.replication.replica_message import Envelope, Message, decode_envelope, encode_envelope
from holdfast.core.replication.replica_recovery import recover_replica
from holdfast.core.replication.station import (
    Assigned,
    Changed,
    Done,
    Event,
    Heard,
    Job,
    Notice,
    Output,
    Presence,
    Present,
    Tick,
)
from holdfast.core.types import Epoch, Instant, LaneConfig, LaneId, Lsn, ShardId, WallMs
from tests.core.memory_disk import RESERVE, SEGMENT, MemoryDisk, Plain, lose_all

SHARD = ShardId(1)
LANE = LaneId(1)
MS = 1000
STEPS_MAX = 20_000


class Letter:
    """A message on the wire."""

    def __init__(self, sender: HostId, target: HostId, data: bytes) -> None:
        self.sender, self.target, self.data = sender, target, data

    @property
    def message(self) -> Message:
        return decode_envelope(self.data).message


class Node:
    def __init__(self, name: str, life: int) -> None:
        self.name = HostId(name)
        self.me = Member(self.name, Life(life))
        self.disk = MemoryDisk()
        self.replica: Replica | Damaged | None = None
        self.jobs: list[Job] = []
        self.questions: list[Transact | Fetch] = []
        self.replies: dict[Any, Any] = {}
        self.notices: list[Notice] = []
        self.lives = 0


class Cluster:
    def __init__(self, names: str = "abc", *, min_members: int = 2, segment: int = SEGMENT) -> None:
        self.now = 1000
        self.segment = segment
        self.store = State()
        self.wire: list[Letter] = []
        self.lost: Callable[[Letter], bool] = lambda _: False
        self.answer: Callable[[Node, Transact | Fetch], str] = lambda _, __: "now"  # never, unknown, lost: not done
        self.nodes = {name: Node(name, life) for life, name in enumerate(names, start=1)}
        self.revisions: dict[str, int] = {}
        self.assigned: tuple[HostId, ...] = ()
        self.requests = 0
        for name in names:
            self.register(name)
            self.start(name)
        members = tuple(node.me for node in self.nodes.values())
        first = ShardRecord(Epoch(1), members[0].host, members, ShardState.RECOVERING, (), min_members)
        self.put(first)

    # The store

    @property
    def record(self) -> ShardRecord:
        held = self.store.get(shard_key(SHARD))
        assert held is not None
        return decode_shard(held.value)

    def put(self, record: ShardRecord) -> None:
        assert self.store.transact(Transaction((), (Put(shard_key(SHARD), encode(record)),)))
        self.tell_record()

    def register(self, name: str) -> None:
        assert self.store.transact(Transaction((), (Put(host_key(HostId(name)), b"{}"),)))
        self.revisions[name] = self.store.revision
        self.tell_hosts()

    def tell_record(self, *names: str) -> None:
        held = self.store.get(shard_key(SHARD))
        for name in names or tuple(self.nodes):
            if held is not None:
                self.step(name, Changed(decode_shard(held.value), held.revision))

    def tell_hosts(self) -> None:
        hosts = tuple(
            Presence(node.me, self.revisions[name]) for name, node in self.nodes.items() if name in self.revisions
        )
        for name in self.nodes:
            self.step(name, Present(hosts))

    def assign(self, names: str) -> None:
        self.assigned = tuple(HostId(name) for name in names)
        for name in self.nodes:
            self.step(name, Assigned(self.assigned))

    def elect(self, name: str) -> None:
        """What a manager does when the primary is gone."""
        old = self.record
        candidate = HostId(name)
        self.put(
            ShardRecord(
                Epoch(old.epoch + 1), candidate, old.members, ShardState.RECOVERING, old.ranges, old.min_members
            )
        )

    # Hosts

    def start(self, name: str) -> None:
        node = self.nodes[name]
        work = recover_replica(SHARD, identity=name.encode(), segment_bytes=self.segment)
        node.jobs, node.questions = [], []
        node.lives += 1
        try:
            recovered = node.disk.run(work)
            node.replica = Replica(
                SHARD,
                node.me,
                recovered,
                identity=name.encode(),
                now=Instant(self.now),
                segment_bytes=self.segment,
                reserve_bytes=RESERVE,
            )
        except CorruptLog as problem:
            node.replica = Damaged(SHARD, node.me, problem, identity=name.encode(), now=Instant(self.now))
        self.tell_hosts()
        self.step(name, Assigned(self.assigned))
        if self.store.get(shard_key(SHARD)) is not None:
            self.tell_record(name)

    def crash(self, name: str, keep: Callable[[int], bool] = lose_all) -> None:
        node = self.nodes[name]
        node.replica = None
        node.jobs, node.questions = [], []
        node.disk.cut_power(keep)

    def replica(self, name: str) -> Replica:
        replica = self.nodes[name].replica
        assert isinstance(replica, Replica)
        return replica

    def step(self, name: str, event: Event) -> None:
        node = self.nodes[name]
        if node.replica is None:
            return
        self.take(node, node.replica.step(event, Instant(self.now), WallMs(self.now // 1000)))

    def take(self, node: Node, out: Output) -> None:
        for target, message in out.at_once:
            self.post(node, target, message)
        for token, answer in out.replies:
            assert token not in node.replies, "one reply each"
            node.replies[token] = answer
        node.notices += out.notices
        node.questions += out.store
        node.jobs += [*([out.job] if out.job is not None else []), *out.reads]
        if out.is_over:
            self.start(node.name)

    def post(self, node: Node, target: HostId, message: Message) -> None:
        letter = Letter(node.name, target, encode_envelope(Envelope(SHARD, node.name, message)))
        if not self.lost(letter):
            self.wire.append(letter)

    # What is under way

    def deliver(self, letter: Letter) -> None:
        self.wire.remove(letter)
        if letter.target in self.nodes:
            self.step(letter.target, Heard(letter.sender, letter.message))

    def do_job(self, node: Node, number: int = 0) -> None:
        job = node.jobs.pop(number)
        value = node.disk.run(job.work)
        for target, message in job.after:
            self.post(node, target, message)
        self.step(node.name, Done(job.token, value))

    def reply(self, node: Node, number: int = 0) -> None:
        """Answers a question to the store."""
        question = node.questions.pop(number)
        how = self.answer(node, question)
        if how == "never":
            return
        if isinstance(question, Fetch):
            record = self.store.get(question.key)
            self.step(node.name, Fetched(question.token, record, self.store.revision))
            return
        outcome = Outcome.UNKNOWN
        if how != "lost":
            is_done = self.store.transact(question.transaction)
            outcome = Outcome.DONE if is_done else Outcome.REFUSED
        self.step(node.name, Settled(question.token, Outcome.UNKNOWN if how == "unknown" else outcome))
        self.tell_record()

    def spare(self, node: Node) -> None:
        primary = node.replica.primary if node.replica is not None else None
        if primary is None or not primary.journal.wants_spare():
            return
        number = primary.journal.start_spare()
        key = f"key {node.name} {node.lives} {primary.journal.epoch}.{number}".encode().ljust(40)
        node.disk.run(prepare_segment(number, key=key, size=self.segment))
        primary.journal.end_spare(Plain(key), key)
        self.step(node.name, Tick())

    def settle(self) -> None:
        """Until nothing is under way. Time stands still."""
        for _ in range(STEPS_MAX):
            if self.wire:
                self.deliver(self.wire[0])
                continue
            for node in self.nodes.values():
                self.spare(node)
            busy = [node for node in self.nodes.values() if node.replica is not None and (node.jobs or node.questions)]
            if not busy:
                return
            for node in busy:
                if node.jobs:
                    self.do_job(node)
                elif node.questions:
                    self.reply(node)
        raise AssertionError("it never ends")

    def run(self, ms: int = 1000) -> None:
        """Lets time pass, and everything that is due happen."""
        self.settle()
        end = self.now + ms * MS
        while self.now < end:
            dues = [
                due
                for node in self.nodes.values()
                if node.replica is not None and (due := node.replica.deadline()) is not None
            ]
            self.now = min([end, *(max(due, self.now + 1) for due in dues)])
            for name in self.nodes:
                self.step(name, Tick())
            self.settle()

    # Clients

    def leaders(self) -> list[str]:
        nodes = self.nodes.values()
        return [node.name for node in nodes if node.replica is not None and node.replica.primary is not None]

    def submit(self, name: str, command: c.Command) -> int:
        self.requests += 1
        self.replica(name).submit(command, self.requests, Instant(self.now), WallMs(self.now // 1000))
        self.step(name, Tick())
        return self.requests

    def send(self, name: str, text: str) -> int:
        body = text.encode()
        return self.submit(name, c.Send(LANE, body, body, len(body)))

    def configure(self, name: str, config: LaneConfig | None = None) -> None:
        self.submit(name, c.Configure(LANE, config or LaneConfig()))
        self.settle()

    def answer_of(self, number: int) -> Any:
        for node in self.nodes.values():
            if number in node.replies:
                return node.replies[number]
        return None

    # What is where

    def files(self, name: str, folder: str = "segments") -> dict[str, bytes]:
        disk = self.nodes[name].disk
        return {path: disk.get(path) for path in disk.paths(folder) if "spare" not in path and "tmp" not in path}

    def lsns(self, name: str) -> Lsn:
        return self.replica(name).log.end.lsn


def serving(names: str = "abc", **options: Any) -> Cluster:
    """A cluster whose first host leads, with one lane."""
    cluster = Cluster(names, **options)
    cluster.run(200)
    assert cluster.leaders() == [names[0]]
    cluster.configure(names[0])
    return cluster
