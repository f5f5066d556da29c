"""Who is alive, and what is wrong with a primary: what stories cannot show one by one."""

import msgspec

from holdfast.core.cluster.suspicion import Hearing, Trouble, candidates_of, is_cut_off, trouble_of
from holdfast.core.coordination.cluster import CLUSTER_KEY, DiskId, HostId, Life, Member, ShardState
from holdfast.core.coordination.cluster_view import ClusterView
from holdfast.core.coordination.heartbeat import Heartbeat, Role, ShardReport, audience_of
from holdfast.core.coordination.store import Record, Snapshot
from holdfast.core.limits import SECOND, STALL_PATIENCE, SUSPECT_AFTER, SUSPECT_AFTER_MAX
from holdfast.core.types import Epoch, Lsn, ShardId
from tests.core.one_cluster import view_of

ONE = ShardId(1)
MS = 1000


def beat(host: str, number: int, *reports: ShardReport, life: int = 1, boot: int = 1) -> Heartbeat:
    return Heartbeat(HostId(host), DiskId(host), Life(life), boot, number, reports)


def report(role: Role, *, appended: int = 9, committed: int = 9, epoch: int = 1, silence_us: int = 0) -> ShardReport:
    return ShardReport(ONE, Epoch(epoch), role, Epoch(epoch), Lsn(appended), Lsn(appended), Lsn(committed), silence_us)


class Ear:
    """A listener, and how things look to it."""

    def __init__(self) -> None:
        self.view = view_of("abc", ["abc"])
        self.hearing = Hearing()
        self.hearing.expect(self.view.hosts, 0)
        self.number = 0

    def hear(self, now: int, **roles: ShardReport) -> None:
        self.number += 1
        for host, said in roles.items():
            self.hearing.hear(beat(host, self.number, said), now)

    def trouble(self, now: int) -> Trouble | None:
        return trouble_of(ONE, self.view, self.hearing, now=now)

    def recovering(self) -> None:
        self.view.shards[ONE] = msgspec.structs.replace(self.view.shards[ONE], state=ShardState.RECOVERING)


def test_a_heartbeat_that_comes_late_is_ignored_and_a_new_start_counts_at_once() -> None:
    hearing = Hearing()
    hearing.hear(beat("a", 5), 0)
    hearing.hear(beat("a", 4), SECOND)
    assert hearing.silence(HostId("a"), SECOND) == SECOND
    hearing.hear(beat("a", 1, boot=2), 2 * SECOND)
    assert hearing.silence(HostId("a"), 2 * SECOND) == 0
    hearing.hear(beat("a", 9, boot=1), 3 * SECOND)
    assert hearing.silence(HostId("a"), 3 * SECOND) == SECOND


def test_silence_is_judged_by_how_regular_the_heartbeats_were() -> None:
    regular, irregular = Hearing(), Hearing()
    for number in range(1, 100):
        regular.hear(beat("a", number), number * 200 * MS)
        irregular.hear(beat("a", number), number * 600 * MS)
    assert not regular.is_heard(HostId("a"), 99 * 200 * MS + SUSPECT_AFTER)
    assert irregular.is_heard(HostId("a"), 99 * 600 * MS + 2 * SECOND)
    assert not irregular.is_heard(HostId("a"), 99 * 600 * MS + SUSPECT_AFTER_MAX)


def test_a_pause_of_the_listener_excuses_everybody() -> None:
    hearing = Hearing()
    hearing.hear(beat("a", 1), 0)
    hearing.excuse(10 * SECOND)
    assert hearing.is_heard(HostId("a"), 10 * SECOND + SUSPECT_AFTER - 1)


def test_a_primary_that_leads_is_left_alone() -> None:
    ear = Ear()
    ear.hear(0, a=report(Role.PRIMARY), b=report(Role.MEMBER), c=report(Role.MEMBER))
    assert ear.trouble(0) is None


def test_a_shard_that_commits_nothing_though_something_waits_is_stalled() -> None:
    ear = Ear()
    stuck = report(Role.PRIMARY, appended=12)
    for now in range(0, STALL_PATIENCE, 200 * MS):
        ear.hear(now, a=stuck, b=report(Role.MEMBER))
        assert ear.trouble(now) is None
    ear.hear(STALL_PATIENCE, a=stuck, b=report(Role.MEMBER))
    assert ear.trouble(STALL_PATIENCE) is Trouble.STALLED
    ear.hear(STALL_PATIENCE + 1, a=report(Role.PRIMARY, appended=12, committed=10))
    assert ear.trouble(STALL_PATIENCE + 1) is None


def test_a_shard_that_only_its_members_know_to_be_stuck_is_stalled_as_well() -> None:
    """The manager does not hear the primary; the members do, and nothing is committed any more."""
    ear = Ear()
    ear.hear(0, a=report(Role.PRIMARY), b=report(Role.MEMBER), c=report(Role.MEMBER))
    for now in range(200 * MS, STALL_PATIENCE + SECOND, 200 * MS):
        ear.hear(now, b=report(Role.MEMBER, appended=12), c=report(Role.MEMBER))
    assert ear.trouble(STALL_PATIENCE + SECOND - 200 * MS) is Trouble.STALLED


def test_an_idle_shard_is_not_stalled() -> None:
    ear = Ear()
    for now in range(0, 3 * STALL_PATIENCE, 200 * MS):
        ear.hear(now, a=report(Role.PRIMARY), b=report(Role.MEMBER, committed=8))
        assert ear.trouble(now) is None


def test_each_kind_of_trouble_has_its_name() -> None:
    ear = Ear()
    ear.hear(0, a=report(Role.MEMBER), b=report(Role.MEMBER))
    assert ear.trouble(0) is Trouble.NOT_LEADING
    ear.hear(1, a=report(Role.PRIMARY, epoch=0))
    assert ear.trouble(1) is Trouble.NOT_LEADING
    ear.hear(2, a=report(Role.DAMAGED))
    assert ear.trouble(2) is Trouble.DAMAGED
    ear.hearing.hear(beat("a", 1, report(Role.LEARNER), life=7), 3)
    assert ear.trouble(3) is Trouble.OTHER_DISK
    ear.hearing.hear(beat("b", 99), 3)
    assert ear.trouble(3 + SUSPECT_AFTER) is Trouble.SILENT


def test_a_candidate_has_time_and_then_is_slow_also_when_only_members_hear_it() -> None:
    ear = Ear()
    ear.recovering()
    ear.hear(0, a=report(Role.CANDIDATE), b=report(Role.MEMBER))
    assert ear.trouble(0) is Trouble.SLOW
    ear.hear(2 * SECOND, b=report(Role.MEMBER))
    assert ear.trouble(2 * SECOND) is Trouble.SLOW
    ear.hear(2 * SECOND, b=report(Role.MEMBER, silence_us=SECOND))
    assert ear.trouble(2 * SECOND) is Trouble.SILENT


def test_a_member_that_started_without_the_stores_knowledge_is_no_candidate() -> None:
    ear = Ear()
    ear.hear(0, a=report(Role.MEMBER), b=report(Role.MEMBER, appended=50), c=report(Role.MEMBER, appended=20))
    fit = candidates_of(ONE, ear.view, ear.hearing, led={}, now=0)
    assert [each.host for each in fit] == ["b", "c", "a"]
    ear.hearing.hear(beat("b", 1, report(Role.MEMBER, appended=50), boot=3), 1)
    fit = candidates_of(ONE, ear.view, ear.hearing, led={}, now=1)
    assert fit == [Member(HostId("c"), Life(1)), Member(HostId("a"), Life(1))]
    del ear.view.disks[DiskId("c")]
    assert [each.host for each in candidates_of(ONE, ear.view, ear.hearing, led={}, now=1)] == ["a"]


def test_who_hears_less_than_half_is_cut_off_unless_the_leases_of_the_others_are_over() -> None:
    ear = Ear()
    a = HostId("a")
    assert not is_cut_off(a, ear.view, ear.hearing, now=SUSPECT_AFTER - 1), "nobody had the time to be heard"
    assert is_cut_off(a, ear.view, ear.hearing, now=SUSPECT_AFTER)
    ear.hear(SUSPECT_AFTER, b=report(Role.MEMBER))
    assert not is_cut_off(a, ear.view, ear.hearing, now=SUSPECT_AFTER)
    del ear.view.hosts[HostId("b")], ear.view.hosts[HostId("c")]
    assert not is_cut_off(a, ear.view, ear.hearing, now=10 * SECOND)


def test_heartbeats_go_to_the_manager_and_the_next_two_and_the_managers_to_all() -> None:
    hosts = [HostId(each) for each in "edcba"]
    assert audience_of(HostId("c"), hosts, HostId("d")) == ["a", "d", "e"]
    assert audience_of(HostId("d"), hosts, HostId("d")) == ["a", "b", "c", "d", "e"]
    assert audience_of(HostId("a"), hosts, None) == ["a", "b", "c", "d", "e"]
    assert audience_of(HostId("a"), hosts, HostId("gone")) == ["a", "b", "c", "d", "e"]


def test_a_store_that_is_younger_twice_in_a_row_was_restored_and_an_operator_thaws_the_view() -> None:
    view = ClusterView(seen_revision=10)
    assert not view.load(Snapshot((), 9)), "perhaps it was overtaken: another one is asked for"
    assert (view.is_loaded, view.is_frozen) == (False, False)
    assert view.load(Snapshot((), 11))
    assert (view.is_loaded, view.is_frozen) == (True, False)
    view.load(Snapshot((), 5))
    view.load(Snapshot((), 5))
    assert (view.is_loaded, view.is_frozen) == (False, True)
    view.thaw(5)
    assert view.load(Snapshot((), 5))
    assert (view.is_loaded, view.is_frozen) == (True, False)


def test_the_store_of_another_cluster_freezes_the_view() -> None:
    def store(name: bytes, revision: int) -> Snapshot:
        return Snapshot((Record(CLUSTER_KEY, name, 1, 1),), revision)

    view = ClusterView(seen_revision=10, cluster="ours")
    assert view.load(store(b"ours", 11))
    assert (view.is_loaded, view.is_frozen) == (True, False)
    assert view.load(store(b"theirs", 12))
    assert (view.is_loaded, view.is_frozen) == (False, True)
    view.thaw(12)
    view.load(Snapshot((), 13))
    assert (view.is_loaded, view.is_frozen) == (False, True), "one that says nothing is another one, too"
