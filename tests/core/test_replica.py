"""The normal path of a shard on three hosts: frames go to all members, and a reply waits for all of them."""

from holdfast.core.coordination.cluster import ShardState
from holdfast.core.errors import NotPrimary
from holdfast.core.queue import command as c
from holdfast.core.replication.replica_message import Ack, Append
from tests.core.replica_cluster import LANE, serving


def test_the_first_candidate_of_an_empty_shard_leads_it() -> None:
    cluster = serving()
    assert cluster.record.state is ShardState.ACTIVE
    assert [member.host for member in cluster.record.members] == ["a", "b", "c"]
    assert [(each.epoch, each.start, each.end) for each in cluster.record.ranges] == [(1, 1, None)]


def test_a_send_is_answered_when_every_member_has_it_on_disk() -> None:
    cluster = serving()
    cluster.lost = lambda letter: isinstance(letter.message, Ack) and letter.sender == "c"
    number = cluster.send("a", "one")
    cluster.settle()
    assert cluster.answer_of(number) is None
    cluster.lost = lambda _: False
    cluster.run(200)
    assert isinstance(cluster.answer_of(number), c.Accepted)
    assert {name: cluster.lsns(name) for name in "abc"} == {"a": 2, "b": 2, "c": 2}


def test_members_hold_the_same_bytes_in_files_of_the_same_name() -> None:
    cluster = serving()
    for number in range(200):
        cluster.send("a", f"message {number} " + "x" * 100)
        cluster.settle()
    cluster.run(1500)
    assert len(cluster.files("a")) > 2
    for folder in ("segments", "keys"):
        assert cluster.files("b", folder) == cluster.files("a", folder) == cluster.files("c", folder)


def test_members_apply_what_is_committed() -> None:
    cluster = serving()
    for number in range(20):
        cluster.send("a", str(number))
    cluster.run(1500)
    states = [cluster.replica(name).log.archive for name in "bc"]
    assert [state.committed for state in states] == [21, 21]
    dumps = [cluster.replica(name)._standby.log.state.dump() for name in "bc"]  # type: ignore[union-attr]
    assert dumps[0] == dumps[1]


def test_a_host_that_does_not_lead_says_who_does() -> None:
    cluster = serving()
    number = cluster.send("b", "one")
    answer = cluster.answer_of(number)
    assert isinstance(answer, NotPrimary)
    assert (answer.host, answer.epoch) == ("a", 1)


def test_a_lost_frame_is_asked_for_again() -> None:
    cluster = serving()
    cluster.lost = lambda letter: isinstance(letter.message, Append) and letter.target == "b"
    number = cluster.send("a", "one")
    cluster.settle()
    cluster.lost = lambda _: False
    cluster.send("a", "two")
    cluster.run(200)
    assert isinstance(cluster.answer_of(number), c.Accepted)
    assert cluster.files("a") == cluster.files("b")


def test_a_message_is_received_only_when_it_is_committed() -> None:
    cluster = serving()
    cluster.lost = lambda letter: isinstance(letter.message, Ack) and letter.sender == "c"
    cluster.send("a", "one")
    early = cluster.submit("a", c.Receive(LANE))
    cluster.settle()
    assert cluster.answer_of(early) == c.Delivery(())
    cluster.lost = lambda _: False
    cluster.run(200)
    later = cluster.submit("a", c.Receive(LANE))
    cluster.settle()
    assert len(cluster.answer_of(later).messages) == 1
