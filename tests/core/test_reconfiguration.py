"""Members come and go between two frames, by one compare-and-swap whose outcome is certain before anything goes on."""

from holdfast.core.coordination.asking import Fetch, Transact
from holdfast.core.coordination.cluster import HostId, Life, Member
from holdfast.core.coordination.store import Put, State, Transaction
from holdfast.core.errors import Overloaded, Unsure
from holdfast.core.log.snapshot import Advanced, advance_snapshot, list_snapshots, removable, remove_old
from holdfast.core.queue import command as c
from holdfast.core.queue.shard import Shard
from holdfast.core.replication.replica_message import Append
from holdfast.core.replication.station import Frozen, NoticeKind, Tick
from holdfast.core.types import Receipt
from tests.core.memory_disk import MemoryDisk
from tests.core.replica_cluster import LANE, SHARD, Cluster, Letter, Node, serving


def names(cluster: Cluster) -> list[str]:
    return [member.host for member in cluster.record.members]


def add_host(cluster: Cluster, name: str) -> None:
    cluster.nodes[name] = Node(name, 10 + len(cluster.nodes))
    cluster.register(name)
    cluster.start(name)


def refuse_store(cluster: Cluster, how: str) -> list[Transact]:
    """Transactions of replicas end so; those that were kept from the store."""
    kept: list[Transact] = []

    def answer(_: Node, question: Transact | Fetch) -> str:
        if isinstance(question, Transact):
            kept.append(question)
            return how
        return "now"

    cluster.answer = answer
    return kept


def test_a_dead_member_is_let_go_after_the_patience() -> None:
    cluster = serving()
    cluster.crash("c")
    number = cluster.send("a", "one")
    cluster.run(1500)
    assert cluster.answer_of(number) is None
    cluster.run(1500)
    assert isinstance(cluster.answer_of(number), c.Accepted)
    assert names(cluster) == ["a", "b"]
    assert [(each.epoch, each.start, each.end) for each in cluster.record.ranges] == [(1, 1, 2), (2, 3, None)]


def test_a_member_is_not_let_go_when_too_few_would_be_left() -> None:
    cluster = serving()
    cluster.crash("b")
    cluster.crash("c")
    number = cluster.send("a", "one")
    cluster.run(5000)
    assert cluster.answer_of(number) is None
    assert names(cluster) == ["a", "b", "c"]
    refused = cluster.send("a", "two")
    assert isinstance(cluster.answer_of(refused), Overloaded)


def test_a_primary_that_does_not_hear_its_members_hands_nothing_out() -> None:
    cluster = serving()
    cluster.send("a", "one")
    cluster.run(200)
    cluster.lost = lambda letter: letter.target == "a"
    cluster.run(600)
    number = cluster.submit("a", c.Receive(LANE))
    cluster.settle()
    assert isinstance(cluster.answer_of(number), Unsure)
    cluster.lost = lambda _: False
    cluster.run(300)
    number = cluster.submit("a", c.Receive(LANE))
    cluster.settle()
    assert len(cluster.answer_of(number).messages) == 1


def test_old_news_of_the_members_does_not_make_a_primary_sure() -> None:
    cluster = serving()
    cluster.send("a", "one")
    cluster.run(200)
    cluster.step("a", Tick())
    for name in "bc":  # what they answer waits for a process that sleeps
        for letter in [each for each in cluster.wire if each.target == name]:
            cluster.deliver(letter)
    cluster.now += 5_000_000
    for letter in [each for each in cluster.wire if each.target == "a"]:
        cluster.deliver(letter)
    number = cluster.submit("a", c.Receive(LANE))
    assert isinstance(cluster.answer_of(number), Unsure) or cluster.answer_of(number) is None
    cluster.settle()
    assert isinstance(cluster.answer_of(number), Unsure)


def test_a_member_that_was_let_go_comes_back_as_a_learner_and_then_as_a_member() -> None:
    cluster = serving()
    cluster.assign("abc")
    cluster.crash("c")
    cluster.run(3000)
    for number in range(100):
        cluster.send("a", f"message {number} " + "x" * 100)
        cluster.settle()
    assert names(cluster) == ["a", "b"]
    cluster.start("c")
    cluster.run(3000)
    assert sorted(names(cluster)) == ["a", "b", "c"]
    cluster.run(1000)
    assert cluster.files("a") == cluster.files("c")


def test_a_new_host_is_taken_in_and_a_host_that_is_not_wanted_any_more_is_let_go() -> None:
    cluster = serving()
    cluster.send("a", "one")
    add_host(cluster, "d")
    cluster.assign("abd")
    cluster.run(3000)
    assert names(cluster) == ["a", "b", "d"]
    assert cluster.files("a") == cluster.files("d")


def test_no_frame_is_made_between_the_request_and_its_outcome() -> None:
    cluster = serving()
    kept = refuse_store(cluster, "never")
    cluster.crash("c")
    cluster.run(3000)
    assert len(kept) > 0
    before = cluster.lsns("a")
    number = cluster.send("a", "held")
    cluster.run(500)
    assert cluster.lsns("a") == before
    assert not isinstance(cluster.answer_of(number), c.Accepted)


def test_a_request_that_was_lost_is_sent_again() -> None:
    cluster = serving()
    lost = refuse_store(cluster, "lost")
    cluster.crash("c")
    number = cluster.send("a", "one")
    cluster.run(2200)
    cluster.run(300)
    assert names(cluster) == ["a", "b", "c"]
    assert len({repr(each.transaction) for each in lost}) == 1  # the very same
    cluster.answer = lambda _, __: "now"
    cluster.run(3000)
    assert names(cluster) == ["a", "b"]
    assert isinstance(cluster.answer_of(number), c.Accepted)


def test_a_request_whose_answer_was_lost_is_found_to_be_done() -> None:
    cluster = serving()
    asked = refuse_store(cluster, "unknown")
    cluster.crash("c")
    number = cluster.send("a", "one")
    cluster.run(3000)
    assert names(cluster) == ["a", "b"]
    assert len(asked) == 1
    assert isinstance(cluster.answer_of(number), c.Accepted)
    assert cluster.record.epoch == 2


def test_a_primary_whose_change_loses_is_deposed() -> None:
    cluster = serving()
    cluster.crash("c")
    cluster.answer = lambda _, question: "never" if isinstance(question, Transact) else "now"
    cluster.run(2500)
    number = cluster.send("a", "held")
    cluster.answer = lambda _, __: "now"
    cluster.elect("b")
    cluster.run(3000)
    assert cluster.leaders() == ["b"]
    assert not isinstance(cluster.answer_of(number), c.Accepted)


def test_a_learner_whose_disk_was_replaced_meanwhile_is_not_added() -> None:
    cluster = serving()
    add_host(cluster, "d")
    kept = refuse_store(cluster, "lost")
    cluster.assign("abcd")
    cluster.run(800)
    assert kept
    cluster.crash("d")
    node = cluster.nodes["d"]
    node.disk, node.me = MemoryDisk(), Member(HostId("d"), Life(99))
    cluster.register("d")
    assert not cluster.store.transact(kept[0].transaction)  # the delayed request
    cluster.answer = lambda _, __: "now"
    cluster.start("d")
    cluster.run(5000)
    assert cluster.record.members[-1] == Member(HostId("d"), Life(99))


def test_a_store_that_was_restored_changes_no_members() -> None:
    cluster = serving()
    cluster.crash("c")
    cluster.step("a", Frozen(is_frozen=True))
    cluster.run(5000)
    assert names(cluster) == ["a", "b", "c"]
    cluster.step("a", Frozen(is_frozen=False))
    cluster.run(1000)
    assert names(cluster) == ["a", "b"]


def test_a_store_that_knows_less_than_before_is_noticed() -> None:
    cluster = serving()
    cluster.crash("c")
    backup = cluster.store
    for _ in range(5):
        cluster.register("c")
    cluster.run(3000)
    assert names(cluster) == ["a", "b"]
    restored = State()
    for record in backup.range("").records:
        assert restored.transact(Transaction((), (Put(record.key, record.value),)))
    cluster.store = restored
    cluster.crash("b")
    add_host(cluster, "d")
    cluster.assign("ad")
    cluster.run(5000)
    assert [notice.kind for notice in cluster.nodes["a"].notices].count(NoticeKind.FROZEN) == 1
    assert names(cluster) == ["a", "b"]


def test_a_learner_whose_log_is_too_old_starts_over_with_a_copy() -> None:
    cluster = serving()
    cluster.assign("abc")
    cluster.crash("c")
    cluster.run(3000)
    drain_and_forget(cluster)
    cluster.start("c")
    cluster.run(5000)
    assert sorted(names(cluster)) == ["a", "b", "c"]
    assert cluster.files("a") == cluster.files("c")
    primary = cluster.replica("a").primary
    assert primary is not None
    assert primary.journal.segments[0].first > 1


def drain_and_forget(cluster: Cluster, leader: str = "a") -> None:
    """Everything is consumed, snapshots are made, and the segments below them go."""
    node, primary = cluster.nodes[leader], cluster.replica(leader).primary
    assert primary is not None
    for _ in range(3):
        for number in range(60):
            consume(cluster, f"message {number} " + "x" * 100, leader)
        advanced = node.disk.run(advance_snapshot(SHARD, primary.journal.sealed_upto(), machine=Shard))
    assert advanced is not None
    older = sorted(node.disk.run(list_snapshots()))[-2]
    stems = removable(primary.journal.segments, older=older, live={})
    for stem in stems:
        primary.journal.forget(stem)
    node.disk.run(remove_old(Advanced(advanced.lsn, (), stems)))


def consume(cluster: Cluster, text: str, leader: str) -> None:
    cluster.send(leader, text)
    cluster.settle()
    received = cluster.submit(leader, c.Receive(LANE))
    cluster.settle()
    (delivered,) = cluster.answer_of(received).messages
    header = delivered.header
    cluster.submit(leader, c.Delete(LANE, Receipt(LANE, header.seq, header.epoch, header.lsn, delivered.number)))
    cluster.settle()


def test_a_damaged_member_says_nothing_until_it_is_let_go_and_then_starts_over() -> None:
    cluster = serving()
    cluster.assign("abc")
    for number in range(20):
        cluster.send("a", str(number))
    cluster.run(1000)
    cluster.crash("c")
    disk = cluster.nodes["c"].disk
    path = disk.paths("segments")[0]
    damaged = bytearray(disk.get(path))
    damaged[700] ^= 1
    disk.put(path, bytes(damaged))
    cluster.start("c")
    cluster.run(500)
    assert names(cluster) == ["a", "b", "c"]
    cluster.run(10_000)
    assert sorted(names(cluster)) == ["a", "b", "c"]
    assert cluster.record.epoch > 2
    assert cluster.files("a") == cluster.files("c")


def test_frames_that_come_in_the_wrong_order_are_put_right() -> None:
    cluster = serving()
    kept: list[Letter] = []

    def is_kept(letter: Letter) -> bool:
        is_frame = letter.target == "b" and isinstance(letter.message, Append) and bool(letter.message.data)
        if is_frame:
            kept.append(letter)
        return is_frame

    cluster.lost = is_kept
    numbers = []
    for text in "one", "two", "three":
        numbers.append(cluster.send("a", text))
        cluster.settle()
    cluster.lost = lambda letter: letter.target == "a" and letter.sender == "b" and "Pull" in repr(letter.message)
    cluster.wire += reversed(kept)
    cluster.settle()
    assert all(isinstance(cluster.answer_of(number), c.Accepted) for number in numbers)


def test_the_record_forgets_the_ranges_that_all_members_have_in_snapshots() -> None:
    cluster = serving()
    cluster.assign("abc")
    for name in "bc":
        cluster.crash(name)
        cluster.send("a", f"without {name}")
        cluster.run(3000)
        cluster.start(name)
        cluster.send("a", f"with {name} again")
        cluster.run(3000)
    assert sorted(names(cluster)) == ["a", "b", "c"]
    before = len(cluster.record.ranges)
    assert before >= 4
    snapshot_all(cluster, "ab")
    cluster.crash("c")
    cluster.send("a", "once more without c")
    cluster.run(3000)
    assert sorted(names(cluster)) == ["a", "b"]
    assert [each.end is None for each in cluster.record.ranges] == [False, True]


def snapshot_all(cluster: Cluster, hosts: str) -> None:
    for name in hosts:
        archive = cluster.replica(name).log.archive
        advanced = cluster.nodes[name].disk.run(advance_snapshot(SHARD, archive.sealed_upto(), machine=Shard))
        assert advanced is not None
        archive.snapshotted(advanced.lsn)
    cluster.run(300)
