"""How many lanes and hosts: expansion and shrinking that do not chase each other."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.coordination.cluster import HostId
from holdfast.core.coordination.sizing import (
    Grow,
    HostUse,
    LaneLimits,
    QueueUse,
    Shrink,
    Steady,
    advice,
    fullness,
    lanes_wanted,
    pressure,
    shards_for,
)
from holdfast.core.limits import SECOND
from holdfast.core.types import ShardId

LIMITS = LaneLimits(messages=1000, bytes=1_000_000, in_flight=100, sends_per_s=50)
uses = st.builds(
    QueueUse, st.integers(0, 100_000), st.integers(0, 10**8), st.integers(0, 10_000), st.integers(0, 5_000)
)


def test_a_queue_is_expanded_at_eighty_percent_of_any_limit() -> None:
    assert lanes_wanted(QueueUse(messages=799), 1, limits=LIMITS) == 1
    assert lanes_wanted(QueueUse(messages=800), 1, limits=LIMITS) == 2
    assert lanes_wanted(QueueUse(bytes=800_000), 1, limits=LIMITS) == 2
    assert lanes_wanted(QueueUse(in_flight=80), 1, limits=LIMITS) == 2
    assert lanes_wanted(QueueUse(sends_per_s=40), 1, limits=LIMITS) == 2


def test_it_is_expanded_to_half_full_but_at_most_doubled_and_within_the_bound() -> None:
    assert lanes_wanted(QueueUse(messages=3200), 4, limits=LIMITS) == 7
    assert lanes_wanted(QueueUse(messages=90_000), 4, limits=LIMITS) == 8
    assert lanes_wanted(QueueUse(messages=90_000), 4, limits=LIMITS, lanes_max=5) == 5
    assert lanes_wanted(QueueUse(messages=90_000), 4, limits=LIMITS, lanes_max=3) == 4


def test_it_is_shrunk_by_one_when_one_less_would_still_have_room() -> None:
    assert lanes_wanted(QueueUse(messages=1199), 4, limits=LIMITS) == 3
    assert lanes_wanted(QueueUse(messages=1200), 4, limits=LIMITS) == 4
    assert lanes_wanted(QueueUse(), 1, limits=LIMITS) == 1


@given(uses, st.integers(1, 64))
def test_equal_use_never_changes_its_mind(use: QueueUse, lanes: int) -> None:
    """However it begins, it goes one way only and comes to rest."""
    changes = []
    for _ in range(100):
        wanted = lanes_wanted(use, lanes, limits=LIMITS)
        if wanted == lanes:
            break
        changes.append(wanted > lanes)
        lanes = wanted
    assert len(set(changes)) <= 1
    assert lanes_wanted(use, lanes, limits=LIMITS) == lanes
    assert fullness(use, lanes, LIMITS) < 800 or lanes == 64


def test_new_lanes_go_to_different_hosts_then_to_idle_shards() -> None:
    a, b, c = HostId("a"), HostId("b"), HostId("c")
    leaders = {ShardId(1): a, ShardId(2): a, ShardId(3): b, ShardId(4): b, ShardId(5): c}
    loads = {ShardId(1): 10, ShardId(3): 5, ShardId(5): 90}
    assert shards_for(2, leaders, loads=loads) == [2, 4]
    assert shards_for(9, leaders, loads=loads) == [2, 4, 5, 3, 1]
    assert shards_for(2, leaders, loads=loads, taken=[ShardId(2), ShardId(4)]) == [5, 3]
    assert shards_for(1, {}, loads={}) == []


@given(st.integers(1, 12), st.lists(st.sampled_from("abcd"), min_size=1, max_size=20))
def test_lanes_are_spread_evenly_over_the_hosts_that_lead(count: int, names: list[str]) -> None:
    leaders = {ShardId(number): HostId(name) for number, name in enumerate(names)}
    chosen = shards_for(count, leaders, loads={})
    assert len(chosen) == len(set(chosen)) == min(count, len(names))
    if count <= len(set(names)):
        assert len({leaders[each] for each in chosen}) == count


def cluster(*busy: int, disk: int = 0, led: int = 1) -> list[HostUse]:
    return [HostUse(HostId(f"h{number}"), "", each, disk, led) for number, each in enumerate(busy)]


def test_hosts_are_asked_for_when_the_cluster_is_full() -> None:
    assert advice(cluster(790, 790, 790), hosts_min=3, hosts_max=9) is None
    assert advice(cluster(900, 700, 800), hosts_min=3, hosts_max=9) == Grow(2)
    assert advice(cluster(300, 300, 300, disk=850), hosts_min=3, hosts_max=9) == Grow(3)
    assert advice(cluster(300, 300, 300, led=4), hosts_min=3, hosts_max=9) == Grow(3)
    assert advice(cluster(999, 999, 999), hosts_min=3, hosts_max=4) == Grow(1)
    assert advice(cluster(999, 999, 999), hosts_min=3, hosts_max=3) is None


def test_too_few_hosts_for_the_replicas_are_always_too_few() -> None:
    assert advice([], hosts_min=3, hosts_max=9) == Grow(3)
    assert advice(cluster(0), hosts_min=3, hosts_max=9) == Grow(2)


def test_a_host_can_go_when_the_others_have_room_and_it_is_the_idlest_of_the_fullest_zone() -> None:
    assert advice(cluster(290, 290, 290, 290), hosts_min=3, hosts_max=9) == Shrink(HostId("h0"))
    assert advice(cluster(310, 310, 310, 310), hosts_min=3, hosts_max=9) is None
    assert advice(cluster(0, 0, 0), hosts_min=3, hosts_max=9) is None
    assert advice(cluster(0, 0, 0, 0, led=2), hosts_min=3, hosts_max=9) == Shrink(HostId("h0"))
    assert advice(cluster(0, 0, 0, 0, led=3), hosts_min=3, hosts_max=9) is None, "the others would lead too many"
    zoned = [HostUse(HostId("a"), "x"), HostUse(HostId("b"), "y", 5), HostUse(HostId("c"), "y", 2)]
    assert advice(zoned, hosts_min=2, hosts_max=9) == Shrink(HostId("c"))


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=20))
def test_a_cluster_that_grew_does_not_shrink_again_by_the_same_work(busy: list[int]) -> None:
    grown = advice(cluster(*busy, led=0), hosts_min=1, hosts_max=100)
    if isinstance(grown, Grow):
        count = len(busy) + grown.hosts
        spread = cluster(*[sum(busy) // count] * count, led=0)
        assert not isinstance(advice(spread, hosts_min=1, hosts_max=100), Shrink)
        assert pressure(spread) < pressure(cluster(*busy, led=0))


def test_a_reason_must_hold_for_a_while_and_starts_anew_when_it_is_gone() -> None:
    steady = Steady()
    assert not steady.holds("full", True, now=0, for_us=SECOND)
    assert not steady.holds("full", True, now=SECOND - 1, for_us=SECOND)
    assert steady.holds("full", True, now=SECOND, for_us=SECOND)
    assert not steady.holds("full", False, now=SECOND + 1, for_us=SECOND)
    assert not steady.holds("full", True, now=SECOND + 2, for_us=SECOND)
    steady.keep_only([])
    assert not steady.holds("full", True, now=9 * SECOND, for_us=SECOND)
