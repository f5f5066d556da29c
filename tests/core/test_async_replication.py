"""Asynchronous queues: a reply waits for the primary's disk only, the lag is bounded, and what is lost is recorded."""

from holdfast.core import command as c
from holdfast.core.cluster import HostId, decode_loss, loss_key
from holdfast.core.errors import Overloaded
from holdfast.core.replica_message import Ack
from holdfast.core.types import Epoch, LaneConfig
from tests.core.replica_cluster import LANE, SHARD, Cluster, serving


def asynchronous() -> Cluster:
    cluster = serving()
    cluster.configure("a", LaneConfig(version=2, is_async=True))
    cluster.run(200)
    return cluster


def test_a_send_is_answered_when_the_primary_has_it_on_disk() -> None:
    cluster = asynchronous()
    cluster.lost = lambda letter: isinstance(letter.message, Ack)
    number = cluster.send("a", "one")
    assert cluster.answer_of(number) is None  # not before its own disk
    cluster.settle()
    assert isinstance(cluster.answer_of(number), c.Accepted)


def test_a_message_may_be_received_before_the_members_have_it() -> None:
    cluster = asynchronous()
    cluster.lost = lambda letter: isinstance(letter.message, Ack)
    cluster.send("a", "one")
    cluster.settle()
    number = cluster.submit("a", c.Receive(LANE))
    cluster.settle()
    assert len(cluster.answer_of(number).messages) == 1


def test_at_the_bound_of_the_lag_commands_are_refused() -> None:
    cluster = asynchronous()
    cluster.lost = lambda letter: letter.sender == "c"
    first = cluster.send("a", "one")
    cluster.run(1100)
    second = cluster.send("a", "two")
    assert isinstance(cluster.answer_of(first), c.Accepted)
    assert isinstance(cluster.answer_of(second), Overloaded)


def test_what_a_fail_over_loses_is_recorded_as_a_bound_and_then_exactly() -> None:
    cluster = asynchronous()
    cluster.lost = lambda letter: "a" in (letter.sender, letter.target)
    number = cluster.send("a", "only on a")
    cluster.settle()
    assert isinstance(cluster.answer_of(number), c.Accepted)
    cluster.crash("a")
    cluster.elect("b")
    cluster.run(1000)
    bound = cluster.store.get(loss_key(SHARD, Epoch(1)))
    assert bound is not None
    assert (decode_loss(bound.value).after, decode_loss(bound.value).last) == (2, None)
    cluster.lost = lambda _: False
    cluster.assign("abc")
    cluster.start("a")
    cluster.run(3000)
    exact = cluster.store.get(loss_key(SHARD, Epoch(1), HostId("a")))
    assert exact is not None
    assert (decode_loss(exact.value).after, decode_loss(exact.value).last) == (2, 3)
    assert any(path.endswith(".cut") for path in cluster.files("a", "quarantine"))


def test_when_every_member_shows_its_log_nothing_is_lost_and_nothing_recorded() -> None:
    cluster = asynchronous()
    number = cluster.send("a", "one")
    cluster.settle()
    cluster.crash("a")
    cluster.start("a")
    cluster.elect("b")
    cluster.run(1000)
    assert isinstance(cluster.answer_of(number), c.Accepted)
    assert cluster.store.get(loss_key(SHARD, Epoch(1))) is None
