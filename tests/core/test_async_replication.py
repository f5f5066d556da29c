"""Asynchronous queues: a reply waits for the primary's disk only, the lag is bounded, and what is lost is recorded.

And it can be found again on the disk that had it.
"""

import pytest

from holdfast.core.coordination.cluster import HostId, LossRecord, decode_loss, loss_key
from holdfast.core.errors import Overloaded
from holdfast.core.queue import command as c
from holdfast.core.replication.reinjection import Lost, find_lost
from holdfast.core.replication.replica_message import Ack
from holdfast.core.types import Epoch, Kind, LaneConfig, LaneId, Lsn, Receipt
from tests.core.memory_disk import Plain
from tests.core.replica_cluster import LANE, SHARD, Cluster, serving
from tests.core.test_reconfiguration import drain_and_forget


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


def test_a_queue_is_asynchronous_only_when_all_members_know_it() -> None:
    cluster = serving()
    cluster.run(200)
    cluster.lost = lambda letter: isinstance(letter.message, Ack)
    switch = cluster.submit("a", c.Configure(LANE, LaneConfig(version=2, is_async=True)))
    send = cluster.send("a", "one")
    cluster.settle()
    assert cluster.answer_of(switch) is None
    assert cluster.answer_of(send) is None
    cluster.lost = lambda _: False
    cluster.run(300)
    cluster.lost = lambda letter: isinstance(letter.message, Ack)
    assert isinstance(cluster.answer_of(send), c.Accepted)
    later = cluster.send("a", "two")
    cluster.settle()
    assert isinstance(cluster.answer_of(later), c.Accepted)


# What was lost, found again


def lose(cluster: Cluster, *texts: str) -> None:
    """Sends that only `a` ever has, and answers."""
    cluster.lost = lambda letter: "a" in (letter.sender, letter.target)
    for text in texts:
        number = cluster.send("a", text)
        cluster.settle()
        assert isinstance(cluster.answer_of(number), c.Accepted)


def fail_over(cluster: Cluster) -> None:
    cluster.crash("a")
    cluster.elect("b")
    cluster.run(1000)
    cluster.lost = lambda _: False
    cluster.assign("abc")
    cluster.start("a")
    cluster.run(5000)


def found(cluster: Cluster) -> Lost:
    exact = cluster.store.get(loss_key(SHARD, Epoch(1), HostId("a")))
    assert exact is not None
    primary = cluster.replica("b").primary
    assert primary is not None
    return cluster.nodes["a"].disk.run(find_lost(primary.shard, decode_loss(exact.value), cipher_of=Plain))


def test_lost_messages_can_be_sent_once_more_and_asking_twice_sends_them_once() -> None:
    cluster = asynchronous()
    cluster.send("a", "not lost")
    cluster.settle()
    lose(cluster, "one", "two")
    fail_over(cluster)
    lost = found(cluster)
    assert [send.content for send in lost.sends] == [b"one", b"two"]
    assert lost.unreadable == 0
    for send in (*lost.sends, *lost.sends):
        cluster.submit("b", send)
    cluster.settle()
    received = cluster.submit("b", c.Receive(LANE, 10))
    cluster.settle()
    assert len(cluster.answer_of(received).messages) == 3


def test_what_was_consumed_or_purged_before_the_fail_over_does_not_come_back() -> None:
    cluster = asynchronous()
    lose(cluster, "consumed")
    received = cluster.submit("a", c.Receive(LANE))
    cluster.settle()
    (delivered,) = cluster.answer_of(received).messages
    header = delivered.header
    receipt = Receipt(LANE, header.seq, header.epoch, header.lsn, delivered.number)
    cluster.submit("a", c.Delete(LANE, receipt))
    cluster.settle()
    lose(cluster, "waiting")
    fail_over(cluster)
    assert [send.content for send in found(cluster).sends] == [b"waiting"]


def test_a_purge_and_an_at_most_once_receive_are_final() -> None:
    cluster = asynchronous()
    lose(cluster, "purged")
    cluster.submit("a", c.Purge(LANE, "queue"))
    cluster.submit("a", c.Configure(LANE, LaneConfig(version=3, is_async=True, at_most_once=True)))
    lose(cluster, "handed out")
    cluster.submit("a", c.Receive(LANE))
    cluster.settle()
    lose(cluster, "waiting")
    fail_over(cluster)
    assert [send.content for send in found(cluster).sends] == [b"waiting"]


def test_fifo_and_synchronous_queues_get_nothing_back() -> None:
    cluster = asynchronous()
    fifo, plain = LaneId(2), LaneId(3)
    ordered = LaneConfig(version=1, kind=Kind.FIFO, content_deduplication=True, is_async=True)
    cluster.submit("a", c.Configure(fifo, ordered))
    cluster.submit("a", c.Configure(plain, LaneConfig()))
    cluster.run(300)
    lose(cluster, "one")
    for command in (c.Send(fifo, b"two", b"two", 3, group="g"), c.Send(plain, b"three", b"three", 5)):
        cluster.submit("a", command)
    cluster.settle()
    fail_over(cluster)
    assert [send.content for send in found(cluster).sends] == [b"one"]


def test_a_message_that_cannot_be_read_is_left_out_and_counted() -> None:
    cluster = asynchronous()
    lose(cluster, "one", "two")
    fail_over(cluster)
    disk = cluster.nodes["a"].disk
    (path,) = [path for path in disk.paths("quarantine") if path.endswith(".cut")]
    data = bytearray(disk.get(path))
    data[-512 + 60] ^= 1
    disk.put(path, bytes(data))
    lost = found(cluster)
    assert ([send.content for send in lost.sends], lost.unreadable) == ([b"one"], 1)
    primary = cluster.replica("b").primary
    assert primary is not None
    exact = LossRecord(Epoch(1), Lsn(2), Lsn(4))
    wrong = disk.run(find_lost(primary.shard, exact, cipher_of=lambda _: Plain(b"another")))
    assert (wrong.sends, wrong.unreadable) == ((), 2)
    with pytest.raises(ValueError, match="has not come back"):
        disk.run(find_lost(primary.shard, LossRecord(Epoch(1), Lsn(2)), cipher_of=Plain))


def test_who_has_to_start_over_says_what_it_had_and_keeps_it() -> None:
    cluster = asynchronous()
    lose(cluster, "only on a")
    cluster.crash("a")
    cluster.elect("b")
    cluster.run(1000)
    cluster.lost = lambda _: False
    drain_and_forget(cluster, "b")
    cluster.assign("abc")
    cluster.start("a")
    cluster.run(5000)
    assert [send.content for send in found(cluster).sends] == [b"only on a"]
    assert cluster.files("a") == cluster.files("b")
