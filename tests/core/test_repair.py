"""A sealed segment that went bad comes back from another host, byte for byte, and not from a copy that is bad, too."""

import pytest

from holdfast.core.scrub import scrub
from holdfast.core.station import NoticeKind, Scrubbed
from tests.core.replica_cluster import SHARD, Cluster, serving


def filled() -> Cluster:
    cluster = serving()
    for number in range(200):
        cluster.send("a", f"message {number} " + "x" * 100)
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
