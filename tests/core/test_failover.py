"""Another member takes over: what was acknowledged is there, what was not may be, and the old primary is fenced."""

from holdfast.core.coordination.cluster import ShardState
from holdfast.core.errors import NotPrimary, OutcomeUnknown
from holdfast.core.queue import command as c
from holdfast.core.replication.replica_message import Ack, Append, Fenced
from holdfast.core.replication.station import NoticeKind
from tests.core.replica_cluster import Cluster, Letter, Node, serving


def names(cluster: Cluster) -> list[str]:
    return [member.host for member in cluster.record.members]


def between(cluster: Cluster, *hosts: str) -> None:
    """Only these hear each other."""

    def is_lost(letter: Letter) -> bool:
        return (letter.sender in hosts) != (letter.target in hosts)

    cluster.lost = is_lost


def texts(cluster: Cluster, name: str) -> int:
    """How many messages a host's state has, once it leads."""
    primary = cluster.replica(name).primary
    assert primary is not None
    return primary.shard.lanes[next(iter(primary.shard.lanes))].count


def test_a_member_takes_over_with_everything_that_was_acknowledged() -> None:
    cluster = serving()
    numbers = [cluster.send("a", str(number)) for number in range(10)]
    cluster.run(200)
    assert all(isinstance(cluster.answer_of(number), c.Accepted) for number in numbers)
    cluster.crash("a")
    cluster.elect("b")
    cluster.run(600)
    assert cluster.leaders() == ["b"]
    assert (cluster.record.epoch, cluster.record.state, names(cluster)) == (2, ShardState.ACTIVE, ["b", "c"])
    assert [(each.epoch, each.start, each.end) for each in cluster.record.ranges] == [(1, 1, 11), (2, 12, None)]
    assert texts(cluster, "b") == 10


def test_the_longest_log_among_the_members_is_kept() -> None:
    cluster = serving()
    cluster.lost = lambda letter: isinstance(letter.message, Append) and letter.target == "b"
    cluster.send("a", "only on a and c")
    cluster.settle()
    cluster.crash("a")
    cluster.lost = lambda _: False
    cluster.elect("b")
    cluster.run(600)
    assert cluster.leaders() == ["b"]
    assert texts(cluster, "b") == 1


def test_a_suffix_that_nobody_else_has_is_put_into_quarantine_when_its_host_comes_back() -> None:
    cluster = serving()
    between(cluster, "b", "c")
    number = cluster.send("a", "only on a")
    cluster.settle()
    cluster.elect("b")
    cluster.run(600)
    assert isinstance(cluster.answer_of(number), OutcomeUnknown)
    cluster.lost = lambda _: False
    later = cluster.send("b", "another")
    cluster.assign("abc")
    cluster.run(3000)
    assert isinstance(cluster.answer_of(later), c.Accepted)
    assert sorted(names(cluster)) == ["a", "b", "c"]
    assert cluster.files("a") == cluster.files("b") == cluster.files("c")
    assert any(path.endswith(".cut") for path in cluster.files("a", "quarantine"))
    assert [notice.kind for notice in cluster.nodes["a"].notices].count(NoticeKind.TRUNCATED) == 1


def test_an_old_primary_that_hears_nothing_cannot_commit() -> None:
    cluster = serving()
    cluster.lost = lambda letter: letter.target == "a" and letter.sender == "b"  # b promises, and a never learns of it
    cluster.nodes["a"].questions.clear()
    cluster.elect("b")
    cluster.run(100)
    between(cluster, "b", "c")
    number = cluster.send("a", "late")
    cluster.settle()
    answer = cluster.answer_of(number)
    assert answer is None or isinstance(answer, NotPrimary)


def test_a_promise_outlives_a_power_cut() -> None:
    cluster = serving()
    old = kept_back(cluster, "one")
    cluster.crash("a")
    cluster.elect("b")
    cluster.run(600)
    cluster.crash("c")
    cluster.start("c")
    for letter in old:
        cluster.wire.append(letter)
    before = cluster.lsns("c")
    cluster.settle()
    assert cluster.lsns("c") == before  # epoch 1 is over


def kept_back(cluster: Cluster, text: str) -> list[Letter]:
    """Sends, and keeps what was meant for c."""
    kept: list[Letter] = []

    def is_lost(letter: Letter) -> bool:
        if letter.target == "c" and isinstance(letter.message, Append) and letter.message.data:
            kept.append(letter)
            return True
        return False

    cluster.lost = is_lost
    cluster.send("a", text)
    cluster.settle()
    cluster.lost = lambda _: False
    return kept


def test_with_too_few_members_nobody_serves_and_the_old_configuration_stays() -> None:
    cluster = serving()
    cluster.crash("a")
    cluster.crash("c")
    cluster.elect("b")
    cluster.run(5000)
    assert cluster.leaders() == []
    assert cluster.record.state is ShardState.RECOVERING
    assert [each.end for each in cluster.record.ranges] == [None]
    cluster.start("c")
    cluster.run(3000)
    assert cluster.leaders() == ["b"]


def test_a_new_host_may_help_the_last_member() -> None:
    cluster = serving()
    for number in range(5):
        cluster.send("a", str(number))
    cluster.run(200)
    add_host(cluster, "d")
    cluster.crash("a")
    cluster.crash("c")
    cluster.elect("b")
    cluster.assign("bd")
    cluster.run(5000)
    assert cluster.leaders() == ["b"]
    assert names(cluster) == ["b", "d"]
    assert texts(cluster, "b") == 5


def add_host(cluster: Cluster, name: str) -> None:
    cluster.nodes[name] = Node(name, 10 + len(cluster.nodes))
    cluster.register(name)
    cluster.start(name)


def test_a_host_outside_the_last_configuration_never_leads() -> None:
    cluster = serving()
    add_host(cluster, "d")
    cluster.elect("d")
    cluster.run(3000)
    assert "d" not in cluster.leaders()
    assert cluster.record.state is ShardState.RECOVERING


def test_three_fail_overs_in_a_row_leave_equal_logs() -> None:
    cluster = serving()
    for leader, following in ("ab", "bc", "ca"):
        cluster.send(leader, f"from {leader}")
        cluster.run(50)
        cluster.crash(leader)
        cluster.start(leader)
        cluster.elect(following)
        cluster.run(600)
        assert cluster.leaders() == [following]
        cluster.assign("abc")
        cluster.run(3000)
    assert sorted(names(cluster)) == ["a", "b", "c"]
    cluster.run(1000)
    assert cluster.files("a") == cluster.files("b") == cluster.files("c")
    assert texts(cluster, "a") == 3


def test_fence_is_answered_only_after_the_promise_is_durable() -> None:
    cluster = serving()
    cluster.crash("a")
    cluster.elect("b")
    for _ in range(20):  # everything but the disk of c
        for letter in list(cluster.wire):
            cluster.deliver(letter)
        node = cluster.nodes["b"]
        while node.jobs:
            cluster.do_job(node)
    assert cluster.nodes["c"].jobs
    assert not any(isinstance(letter.message, Fenced | Ack) for letter in cluster.wire if letter.sender == "c")
    cluster.do_job(cluster.nodes["c"])
    assert any(isinstance(letter.message, Fenced) for letter in cluster.wire)
