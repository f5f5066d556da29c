"""Any schedule: messages lost, doubled and overtaken, power cuts, wiped disks, fail-overs at any moment, a store whose
answers get lost before or after the deed. Whatever was acknowledged is in the log of whoever leads in the end.
"""

from random import Random

import pytest

from holdfast.core.coordination.asking import Transact
from holdfast.core.coordination.cluster import HostId, Life, Member, ShardState
from holdfast.core.log.segment_files import Position, SegmentReader, list_segments
from holdfast.core.queue import command as c
from holdfast.core.replication.replica import Replica
from holdfast.core.replication.station import Tick
from tests.core.memory_disk import MemoryDisk
from tests.core.replica_cluster import MS, SHARD, Node, serving

ACTIONS = 1000


class Storm:
    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.cluster = serving(self.rng.choice(("abc", "abc", "abcd")), segment=self.rng.choice((8192, 16_384)))
        self.sent: list[int] = []
        self.late: list[Transact] = []  # transactions whose sender has given up, and that happen later
        self.cluster.lost = lambda _: self.rng.random() < self.loss
        self.cluster.answer = self.answer
        self.loss = self.rng.choice((0.0, 0.02, 0.2))
        self.wipes = self.rng.choice((0, 0, 1))
        self.trouble = self.rng.choice((0.0, 0.3, 0.7))  # of the store

    def answer(self, _: Node, question: object) -> str:
        if self.rng.random() >= self.trouble:
            return "now"
        how = self.rng.choice(("unknown", "lost", "late"))
        if how == "late" and isinstance(question, Transact):
            self.late.append(question)
        return "lost" if how == "late" else how

    def run(self) -> None:
        usual = [self.deliver] * 30 + [self.work] * 25 + [self.ask] * 8 + [self.send] * 8 + [self.wait] * 3
        faults = [self.double, self.crash, self.start, self.start, self.elect, self.happen, self.assign]
        actions = usual * self.rng.choice((1, 2, 5)) + faults
        for _ in range(ACTIONS):
            self.rng.choice(actions)()
            for node in self.cluster.nodes.values():
                self.cluster.spare(node)

    def deliver(self) -> None:
        if self.cluster.wire:
            self.cluster.deliver(self.rng.choice(self.cluster.wire[:8]))

    def double(self) -> None:
        if self.cluster.wire:
            letter = self.rng.choice(self.cluster.wire)
            self.cluster.wire.append(type(letter)(letter.sender, letter.target, letter.data))

    def work(self) -> None:
        busy = [node for node in self.cluster.nodes.values() if node.replica is not None and node.jobs]
        if busy:
            self.cluster.do_job(self.rng.choice(busy))

    def ask(self) -> None:
        asking = [node for node in self.cluster.nodes.values() if node.replica is not None and node.questions]
        if asking:
            self.cluster.reply(self.rng.choice(asking))

    def happen(self) -> None:
        """A transaction arrives at the store that everybody had given up."""
        if self.late:
            late = self.late.pop(self.rng.randrange(len(self.late)))
            self.cluster.store.transact(late.transaction)
            self.cluster.tell_record()

    def send(self) -> None:
        leaders = self.cluster.leaders()
        if leaders:
            self.sent.append(self.cluster.send(self.rng.choice(leaders), f"message {len(self.sent)}"))

    def wait(self) -> None:
        self.cluster.now += self.rng.choice((1, 20, 60, 300, 2100)) * MS
        for name in list(self.cluster.nodes):
            self.cluster.step(name, Tick())

    def crash(self) -> None:
        name = self.rng.choice(list(self.cluster.nodes))
        node = self.cluster.nodes[name]
        if node.replica is None:
            return
        self.cluster.crash(name, lambda _: self.rng.random() < 0.5)
        if self.wipes and name not in self.cluster.record.members[0].host:
            self.wipes -= 1
            self.wipe(node)

    def wipe(self, node: Node) -> None:
        """A new disk: the host comes back as another member."""
        node.disk = MemoryDisk()
        node.me = Member(node.name, Life(node.me.life + 100))
        self.cluster.register(node.name)

    def start(self) -> None:
        down = [name for name, node in self.cluster.nodes.items() if node.replica is None]
        if down:
            self.cluster.start(self.rng.choice(down))

    def elect(self) -> None:
        living = [member.host for member in self.cluster.record.members if self.is_there(member)]
        if living:
            self.cluster.elect(self.rng.choice(living))

    def is_there(self, member: Member) -> bool:
        node = self.cluster.nodes[member.host]
        return node.me == member and isinstance(node.replica, Replica)

    def assign(self) -> None:
        self.cluster.assign("".join(self.rng.sample(sorted(self.cluster.nodes), 3)))

    def heal(self) -> str:
        """Everybody comes back, and somebody leads."""
        cluster = self.cluster
        cluster.lost, self.trouble = (lambda _: False), 0.0
        for name, node in cluster.nodes.items():
            if node.replica is None:
                cluster.start(name)
        cluster.assign("".join(sorted(cluster.nodes)[:3]))
        for turn in range(20):
            cluster.run(3000)
            leaders = [name for name in cluster.leaders() if cluster.record.primary == name]
            if leaders and cluster.record.state is ShardState.ACTIVE:
                return leaders[0]
            living = [member.host for member in cluster.record.members if self.is_there(member)]
            cluster.elect(living[turn % len(living)])
        raise AssertionError(f"nobody leads: {cluster.record}")


def frames_of(disk: MemoryDisk) -> dict[tuple[int, int], bytes]:
    """(epoch, lsn) of the last record -> a frame's bytes, as far as the log goes."""
    found: dict[tuple[int, int], bytes] = {}
    position = None
    for segment in disk.run(list_segments()):
        reader = SegmentReader(segment)
        header = disk.run(reader.header(SHARD, segment))
        if header is None:
            continue
        position = Position(segment.first, header.previous, header.time)
        while (frame := disk.run(reader.next(position))) is not None:
            for lsn in range(frame.first, frame.last + 1):
                found[frame.epoch, lsn] = frame.covered
    return found


@pytest.mark.parametrize("seed", range(30))
def test_what_was_acknowledged_is_in_the_log_of_whoever_leads(seed: int) -> None:
    storm = Storm(seed)
    storm.run()
    leader = storm.heal()
    cluster = storm.cluster
    later = cluster.send(leader, "the last one")
    cluster.run(3000)
    accepted = [cluster.answer_of(number) for number in (*storm.sent, later)]
    acknowledged = [(answer.epoch, answer.lsn) for answer in accepted if isinstance(answer, c.Accepted)]
    held = frames_of(cluster.nodes[leader].disk)
    assert [each for each in acknowledged if each not in held] == []
    assert isinstance(accepted[-1], c.Accepted)


@pytest.mark.parametrize("seed", range(30, 40))
def test_in_the_end_all_members_have_equal_logs(seed: int) -> None:
    storm = Storm(seed)
    storm.run()
    leader = storm.heal()
    storm.cluster.run(70_000)
    logs = {member.host: frames_of(storm.cluster.nodes[member.host].disk) for member in storm.cluster.record.members}
    assert len(logs) >= 3
    assert all(log == logs[HostId(leader)] for log in logs.values())
