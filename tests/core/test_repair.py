"""A sealed segment that went bad comes back from another host, byte for byte, and not from a copy that is bad, too.

And before it does, nobody builds on it: a candidate finds damage that its state depends on, a reader that of a message,
a learner that of the files it copies.
"""

import pytest

from holdfast.core.coordination.cluster import HostId
from holdfast.core.log.archive import Location
from holdfast.core.log.scrub import scrub
from holdfast.core.log.segment import SECTOR
from holdfast.core.log.snapshot import advance_snapshot
from holdfast.core.queue.codec import decode_message
from holdfast.core.queue.shard import Shard
from holdfast.core.replication.candidate import verify
from holdfast.core.replication.replica_log import ReplicaLog
from holdfast.core.replication.replica_message import Doubt
from holdfast.core.replication.station import Heard, NoticeKind, Scrubbed
from holdfast.core.types import Lsn
from tests.core.memory_disk import Plain
from tests.core.replica_cluster import LANE, SHARD, Cluster, Letter, serving


def filled(text: str = "message") -> Cluster:
    cluster = serving()
    for number in range(200):
        cluster.send("a", f"{text} {number} " + "x" * 100)
        cluster.settle()
    cluster.run(1500)
    assert len(cluster.files("a")) > 2
    return cluster


def harm(cluster: Cluster, name: str, *, at: int = 4708, which: int = 0) -> str:
    """Flips a bit of the first segment, or of another one."""
    disk = cluster.nodes[name].disk
    path = [path for path in disk.paths("segments") if "spare" not in path][which]
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


def members(cluster: Cluster) -> list[str]:
    return [member.host for member in cluster.record.members]


def replace(cluster: Cluster, name: str) -> None:
    """A new host of this name, with an empty disk."""
    cluster.nodes[name].disk = type(cluster.nodes[name].disk)()
    cluster.start(name)
    cluster.assign("abc")


def is_doubt(letter: Letter) -> bool:
    return isinstance(letter.message, Doubt)


def test_a_learner_that_copied_damage_is_not_counted_and_the_damage_is_mended_where_it_comes_from() -> None:
    cluster = filled()
    snapshot(cluster, "a")
    cluster.crash("c")
    cluster.run(3000)
    path = harm(cluster, "a", at=harmed_at(cluster))
    cluster.lost = is_doubt
    replace(cluster, "c")
    cluster.run(30_000)
    assert members(cluster) == ["a", "b"]
    assert any(notice.kind is NoticeKind.DAMAGED for notice in cluster.nodes["c"].notices)
    assert cluster.files("a")[path] != cluster.files("b")[path]
    cluster.lost = lambda _: False
    cluster.run(10_000)
    assert members(cluster) == ["a", "b", "c"]
    assert cluster.files("a")[path] == cluster.files("b")[path] == cluster.files("c")[path]


def send_some(cluster: Cluster, count: int) -> None:
    for number in range(count):
        cluster.send("a", f"message {number}")
        cluster.run(100)
    cluster.run(1500)


@pytest.mark.parametrize("after", [0, 3])
def test_damage_in_the_last_segment_is_mended_when_nobody_can_follow_any_more(after: int) -> None:
    """It may be long until it has a successor: as long, no host could take the place of one that is lost. `after`: so
    many messages are sent behind the change of members, which ends a segment as well."""
    cluster = serving()
    send_some(cluster, 5)
    cluster.crash("c")
    cluster.run(3000)
    assert members(cluster) == ["a", "b"]
    send_some(cluster, after)
    path = harm(cluster, "a", at=SECTOR + 600, which=-1)
    assert len(cluster.files("a")) == 1 + (after > 0)
    replace(cluster, "c")
    cluster.run(10_000)
    assert members(cluster) == ["a", "b", "c"]
    assert cluster.files("a")[path] == cluster.files("b")[path] == cluster.files("c")[path]
    assert cluster.leaders() == ["a"]
    send_some(cluster, 1)
    assert cluster.lsns("a") == cluster.lsns("c") == 7 + after


def test_a_segment_that_is_doubted_without_reason_stays_as_it_is() -> None:
    cluster = serving()
    cluster.send("a", "message")
    cluster.run(1500)
    (path,) = cluster.files("a")
    cluster.step("a", Heard(HostId("b"), Doubt(cluster.record.epoch, path.rpartition("/")[2].partition(".")[0])))
    cluster.step("a", Heard(HostId("b"), Doubt(cluster.record.epoch, "another")))
    cluster.run(3000)
    assert list(cluster.files("a")) == [path]
    assert not any(notice.kind is NoticeKind.REPAIR for notice in cluster.nodes["a"].notices)


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
