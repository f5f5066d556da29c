"""A sealed segment that went bad comes back from another host, byte for byte, and not from a copy that is bad, too.

And before it does, nobody builds on it: a candidate finds damage that its state depends on, a reader that of a message,
a learner that of the files it copies.
"""

import pytest

from holdfast.core.log.archive import Location
from holdfast.core.log.scrub import scrub
from holdfast.core.log.snapshot import advance_snapshot
from holdfast.core.queue.codec import decode_message
from holdfast.core.queue.shard import Shard
from holdfast.core.replication.candidate import verify
from holdfast.core.replication.replica_log import ReplicaLog
from holdfast.core.replication.station import NoticeKind, Scrubbed
from holdfast.core.types import Lsn
from tests.core.memory_disk import Plain
from tests.core.replica_cluster import LANE, SHARD, Cluster, serving


def filled(text: str = "message") -> Cluster:
    cluster = serving()
    for number in range(200):
        cluster.send("a", f"{text} {number} " + "x" * 100)
        cluster.settle()
    cluster.run(1500)
    assert len(cluster.files("a")) > 2
    return cluster


def harm(cluster: Cluster, name: str, *, at: int = 4708) -> str:
    """Flips a bit of the first segment."""
    disk = cluster.nodes[name].disk
    path = disk.paths("segments")[0]
    data = bytearray(disk.get(path))
    data[at] ^= 4
    disk.put(path, bytes(data))
    return path


def look(cluster: Cluster, name: str) -> None:
    report = cluster.nodes[name].disk.run(scrub(SHARD, is_live=True))
    stems = [harm.path.rpartition("/")[2].partition(".")[0] for harm in report.harms]
    assert stems
    cluster.step(name, Scrubbed(tuple(stems)))
    cluster.run(500)


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_bad_segment_comes_back_from_another_host(name: str) -> None:
    cluster = filled()
    path = harm(cluster, name)
    assert cluster.files(name)[path] != cluster.files("c")[path]
    look(cluster, name)
    assert cluster.files(name) == cluster.files("c")
    assert cluster.nodes[name].notices[-1].kind is NoticeKind.REPAIR
    assert cluster.nodes[name].disk.run(scrub(SHARD, is_live=True)).harms == []


def test_a_copy_that_is_bad_itself_is_not_taken_and_the_next_host_is_asked() -> None:
    cluster = filled()
    path = harm(cluster, "b")
    harm(cluster, "a", at=6244)
    look(cluster, "b")
    assert cluster.files("b")[path] == cluster.files("c")[path]


def test_when_nobody_has_a_good_copy_the_bad_one_stays_and_is_told() -> None:
    cluster = filled()
    path = harm(cluster, "b")
    before = cluster.files("b")[path]
    cluster.crash("c")
    harm(cluster, "a", at=6244)
    look(cluster, "b")
    cluster.run(5000)
    assert cluster.files("b")[path] == before
    assert "nobody has a copy" in cluster.nodes["b"].notices[-1].text


def snapshot(cluster: Cluster, name: str) -> None:
    """Of everything in sealed segments."""
    archive = cluster.replica(name).log.archive
    advanced = cluster.nodes[name].disk.run(advance_snapshot(SHARD, archive.sealed_upto(), machine=Shard))
    assert advanced is not None
    archive.snapshotted(advanced.lsn)


def is_readable(cluster: Cluster, name: str, lsn: int) -> bool:
    """The message at `lsn` as this host has it on disk."""
    disk, archive = cluster.nodes[name].disk, cluster.replica(name).log.archive
    place = archive.locate(LANE, Lsn(lsn))
    assert isinstance(place, Location)
    data = disk.get(place.path)[place.offset : place.offset + place.length]
    key = disk.get(f"keys/{place.stem}.key")
    try:
        return decode_message(data, place.epoch, Lsn(lsn), cipher=Plain(key)).content.startswith(b"message")
    except ValueError:
        return False


def test_damage_in_an_older_segment_that_no_snapshot_covers_keeps_a_member_from_leading() -> None:
    cluster = filled()
    harm(cluster, "b")
    cluster.crash("a")
    cluster.elect("b")
    cluster.run(1000)
    assert cluster.leaders() == []
    assert cluster.nodes["b"].notices[-1].kind is NoticeKind.WITHDRAWN
    cluster.elect("c")
    cluster.run(1000)
    assert cluster.leaders() == ["c"]
    assert cluster.lsns("c") == 201


def test_damage_below_a_snapshot_does_not_stop_a_fail_over_and_is_not_served() -> None:
    cluster = filled()
    snapshot(cluster, "b")
    path = harm(cluster, "b", at=harmed_at(cluster))
    cluster.crash("a")
    cluster.elect("b")
    cluster.run(1000)
    assert cluster.leaders() == ["b"]
    assert not is_readable(cluster, "b", 5)
    look(cluster, "b")
    assert is_readable(cluster, "b", 5)
    assert cluster.files("b")[path] == cluster.files("c")[path]


def harmed_at(cluster: Cluster) -> int:
    """A byte of the message at lsn 5."""
    place = cluster.replica("b").log.archive.locate(LANE, Lsn(5))
    assert isinstance(place, Location)
    return place.offset + place.length - 1


def test_a_learner_that_copied_damage_is_not_counted() -> None:
    cluster = filled()
    snapshot(cluster, "a")
    cluster.crash("c")
    cluster.run(3000)
    harm(cluster, "a", at=harmed_at(cluster))
    cluster.nodes["c"].disk = type(cluster.nodes["c"].disk)()
    cluster.start("c")
    cluster.assign("abc")
    cluster.run(4000)
    assert [member.host for member in cluster.record.members] == ["a", "b"]
    assert any(notice.kind is NoticeKind.DAMAGED for notice in cluster.nodes["c"].notices)
    look(cluster, "a")
    cluster.run(30_000)
    assert [member.host for member in cluster.record.members] == ["a", "b", "c"]


def swap_in(cluster: Cluster, other: Cluster, number: int) -> str:
    """A segment of another log takes the place of b's. What b says of its log then."""
    disk = cluster.nodes["b"].disk
    path = disk.paths("segments")[number]
    disk.put(path, other.nodes["b"].disk.get(path))
    return disk.run(verify(log_of(cluster), cluster.record.ranges[-1], b""))


def log_of(cluster: Cluster) -> ReplicaLog:
    log = cluster.replica("b").log.archive
    assert isinstance(log, ReplicaLog)
    return log


def test_a_sound_segment_of_another_log_is_noticed_by_the_segment_behind_it() -> None:
    cluster, other = filled(), filled("massage")
    assert cluster.nodes["b"].disk.run(verify(log_of(cluster), cluster.record.ranges[-1], b"")) == ""
    assert "does not follow the segment before it" in swap_in(cluster, other, 0)


def test_a_last_segment_of_another_log_is_noticed_by_its_end() -> None:
    cluster, other = serving(), serving()
    for each, text in ((cluster, "one"), (other, "two")):
        each.send("a", text)
        each.run(1500)
    assert "another checksum" in swap_in(cluster, other, 0)


def test_a_log_that_is_not_what_was_sealed_is_no_candidates() -> None:
    cluster = filled()
    cluster.crash("a")
    cluster.elect("c")
    cluster.run(1000)
    sealed, opened = cluster.record.ranges[-2:]
    disk, log = cluster.nodes["b"].disk, log_of(cluster)
    assert disk.run(verify(log, opened, sealed.end_hash)) == ""
    assert "is not what was sealed" in disk.run(verify(log, opened, b"else"))
