"""What the manager wants of its cluster, asked directly: what takes too long for a story."""

from holdfast.core.cluster.arrangement import Arranger, Assign, Change, Dismiss, Settings
from holdfast.core.cluster.suspicion import Hearing
from holdfast.core.coordination.cluster import DiskId, HostId, Life, ShardRecord
from holdfast.core.coordination.cluster_view import ClusterView
from holdfast.core.coordination.heartbeat import Heartbeat, Role, ShardReport
from holdfast.core.coordination.sizing import Grow
from holdfast.core.limits import LEAVE_AFTER, MINUTE, SECOND
from holdfast.core.types import Epoch, Lsn, ShardId
from tests.core.one_cluster import view_of


class Talk:
    """Hosts that speak, and what the manager wants of them."""

    def __init__(self, view: ClusterView, settings: Settings) -> None:
        self.view, self.hearing, self.arranger = view, Hearing(), Arranger(settings)
        self.busy = dict.fromkeys(view.hosts, 0)
        self.loads: dict[ShardId, int] = {}
        self.number = 0

    def at(self, now: int) -> list[Change]:
        self.number += 1
        for host in self.view.hosts:
            reports = [
                self.report(shard, record, host)
                for shard, record in self.view.shards.items()
                if host in hosts_of(record)
            ]
            beat = Heartbeat(
                host, DiskId(host), Life(1), 1, self.number, tuple(reports), 1000, 900, busy_permille=self.busy[host]
            )
            self.hearing.hear(beat, now)
        return list(self.arranger.arrange(self.view, self.hearing, now=now))

    def report(self, shard: ShardId, record: ShardRecord, host: HostId) -> ShardReport:
        role, at = Role.PRIMARY if host == record.primary else Role.MEMBER, Lsn(1)
        return ShardReport(shard, Epoch(1), role, Epoch(1), at, at, at, 0, self.loads.get(shard, 0))


def hosts_of(record: ShardRecord) -> list[HostId]:
    return [each.host for each in record.members]


FIVE = ["abc", "bcd", "cde", "dea", "eab"]


def test_an_idle_cluster_lets_go_of_one_host_after_half_an_hour_of_it() -> None:
    talk = Talk(view_of("abcde", FIVE), Settings(shards_per_host=0, hosts_max=9))
    assert talk.at(0) == []
    assert talk.at(LEAVE_AFTER - 1) == []
    assert talk.at(LEAVE_AFTER) == [Dismiss(HostId("a"))]
    assert talk.at(LEAVE_AFTER + MINUTE) == [], "the reason must hold anew"


def test_a_moment_of_work_in_between_keeps_all_hosts() -> None:
    talk = Talk(view_of("abcde", FIVE), Settings(shards_per_host=0, hosts_max=9))
    talk.at(0)
    talk.busy = dict.fromkeys(talk.busy, 600)
    assert talk.at(LEAVE_AFTER // 2) == []
    talk.busy = dict.fromkeys(talk.busy, 0)
    assert talk.at(LEAVE_AFTER) == []
    assert talk.at(2 * LEAVE_AFTER) == [Dismiss(HostId("a"))]


def test_a_busy_cluster_asks_again_only_after_the_reason_has_held_again() -> None:
    talk = Talk(view_of("abc", ["abc"]), Settings(shards_per_host=0, hosts_max=9))
    talk.busy = dict.fromkeys(talk.busy, 1000)
    asked = [now // MINUTE for now in range(0, 10 * MINUTE, MINUTE) if Grow(3) in talk.at(now)]
    assert asked == [2, 5, 8]


def test_a_burst_moves_no_replica_but_lasting_load_does() -> None:
    """A host with two busy shards gives one away, but only when they have been busy for a while."""
    talk = Talk(view_of("ab", ["a", "a", "b", "b"]), Settings(shards_per_host=0, replicas=1, min_members=1))
    assert talk.at(0) == []
    talk.loads = {ShardId(1): 50_000_000, ShardId(2): 50_000_000}
    assert talk.at(SECOND) == []
    later = [change for number in range(2, 120) for change in talk.at(number * SECOND)]
    assert later[0] == Assign(ShardId(1), (HostId("b"),))
