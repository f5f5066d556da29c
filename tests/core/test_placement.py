"""Placement: what must hold for any cluster, and what a change may cost."""

from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.cluster.placement import Board, Move, Place, hand_overs, plan_moves
from holdfast.core.coordination.cluster import HostId
from holdfast.core.types import ShardId

Layout = dict[ShardId, list[HostId]]
EXACT = 0  # percent of slack


def host(number: int) -> HostId:
    return HostId(f"h{number:02}")


def settle(
    layout: Mapping[ShardId, Sequence[HostId]],
    places: Sequence[Place],
    *,
    replicas: int = 3,
    slack_percent: int = EXACT,
    loads: Mapping[ShardId, int] | None = None,
) -> tuple[Layout, list[Move]]:
    """All moves until nothing is wanted any more."""
    board = Board(layout, places, loads=loads or {})
    made: list[Move] = []
    while moves := plan_moves(board, replicas=replicas, slack_percent=slack_percent, limit=16):
        made += moves
        assert len(made) < 10_000, "moves go round in circles"
    return board.replicas, made


def empty(shards: int) -> Layout:
    return {ShardId(number): [] for number in range(1, shards + 1)}


def held(layout: Layout) -> Counter[HostId]:
    return Counter(each for hosts in layout.values() for each in hosts)


def zones_of(hosts: Sequence[HostId], places: Sequence[Place]) -> set[str]:
    return {each.zone for each in places if each.host in hosts}


def gained(moves: Sequence[Move]) -> int:
    return sum(each.gain is not None for each in moves)


places_anywhere = st.lists(st.sampled_from("abcd"), min_size=1, max_size=9).map(
    lambda zones: [Place(host(number), zone) for number, zone in enumerate(zones)]
)


@given(places_anywhere, st.integers(1, 40), st.integers(1, 4))
def test_replicas_are_on_different_hosts_and_in_as_many_zones_as_there_are(
    places: list[Place], shards: int, replicas: int
) -> None:
    layout, _ = settle(empty(shards), places, replicas=replicas)
    zones = {each.zone for each in places}
    for hosts in layout.values():
        assert len(hosts) == len(set(hosts)) == min(replicas, len(places))
        assert len(zones_of(hosts, places)) == min(len(hosts), len(zones))


@given(places_anywhere, st.integers(1, 40))
def test_hosts_of_one_zone_carry_equally_many(places: list[Place], shards: int) -> None:
    layout, _ = settle(empty(shards), places)
    counts = held(layout)
    for zone in {each.zone for each in places}:
        of_zone = [counts[each.host] for each in places if each.zone == zone]
        assert max(of_zone) - min(of_zone) <= 1


@given(st.integers(1, 12), st.integers(1, 60), st.integers(0, 30))
def test_without_zones_no_host_carries_more_than_the_slack_allows(hosts: int, shards: int, slack: int) -> None:
    layout, _ = settle(empty(shards), [Place(host(each)) for each in range(hosts)], slack_percent=slack)
    counts = held(layout)
    mean = sum(counts.values()) / hosts
    assert max(counts.values()) - min(counts[host(each)] for each in range(hosts)) <= 1 + mean * slack / 100


@given(st.integers(3, 12), st.integers(1, 60))
def test_a_host_that_joins_is_given_its_share_and_nothing_else_moves(hosts: int, shards: int) -> None:
    places = [Place(host(each)) for each in range(hosts)]
    before, _ = settle(empty(shards), places)
    after, moves = settle(before, [*places, Place(host(hosts))])
    assert {each.gain for each in moves} <= {host(hosts)}
    assert len(moves) == held(after)[host(hosts)] <= -(-shards * 3 // (hosts + 1))


def test_a_host_that_is_given_too_much_of_one_that_leaves_gives_another_away() -> None:
    places = [Place(host(number), zone) for number, zone in enumerate("aabbbdcc")]
    before = {ShardId(1): [host(0), host(2), host(5)], ShardId(2): [host(1), host(3), host(6)]}
    gone = Place(host(1), "a", accepts=False, keeps=False)
    board = Board(before, [places[0], gone, *places[2:]], loads={})
    repair, balance = plan_moves(board, replicas=3, slack_percent=100, limit=1000)
    assert repair == Move(ShardId(2), host(0), host(1))
    assert balance == Move(ShardId(1), host(7), host(0))


@given(places_anywhere, st.integers(1, 40), st.data())
def test_of_a_host_that_leaves_only_its_own_replicas_move(
    places: list[Place], shards: int, data: st.DataObject
) -> None:
    before, _ = settle(empty(shards), places)
    leaving = data.draw(st.sampled_from(places))
    left = [each for each in places if each is not leaving]
    gone = Place(leaving.host, leaving.zone, accepts=False, keeps=False)
    board = Board(before, [*left, gone], loads={})
    moves = plan_moves(board, replicas=3, slack_percent=None, limit=1000)
    assert {each.loss for each in moves} <= {leaving.host}
    assert len(moves) <= held(before)[leaving.host]
    if len(left) >= 3:
        assert leaving.host not in held(board.replicas)


@given(places_anywhere, st.integers(1, 30), st.permutations(range(9)), st.data())
def test_equal_clusters_get_equal_plans(
    places: list[Place], shards: int, order: list[int], data: st.DataObject
) -> None:
    weights = data.draw(st.lists(st.integers(0, 1000), min_size=shards, max_size=shards))
    loads = {ShardId(number): weight for number, weight in enumerate(weights, 1)}
    shuffled = [places[each] for each in order if each < len(places)]
    backwards = dict(reversed(empty(shards).items()))
    assert settle(empty(shards), places, loads=loads) == settle(backwards, shuffled, loads=loads)


@given(places_anywhere, st.integers(1, 30), st.data())
def test_any_layout_is_put_in_order_and_then_left_alone(places: list[Place], shards: int, data: st.DataObject) -> None:
    """Also one that names hosts nobody knows, too many of them, or hosts that may keep nothing."""
    names = [host(each) for each in range(12)]
    one = st.lists(st.sampled_from(names), unique=True, max_size=6)
    layout = {shard: data.draw(one) for shard in empty(shards)}
    leaving = data.draw(st.sets(st.sampled_from(places), max_size=len(places) - 1))
    there = [Place(each.host, each.zone, accepts=each not in leaving, keeps=each not in leaving) for each in places]
    weights = data.draw(st.lists(st.integers(0, 1000), min_size=shards, max_size=shards))
    after, _ = settle(layout, there, slack_percent=10, loads=dict(zip(empty(shards), weights, strict=True)))
    open_ = {each.host for each in there if each.accepts}
    for hosts in after.values():
        assert len(hosts) == len(set(hosts))
        assert len(open_ & set(hosts)) == min(3, len(open_))
        assert len(open_) < 3 or open_ >= set(hosts), "others are kept only where there are not enough"


def test_a_host_of_twice_the_capacity_carries_twice_as_much() -> None:
    places = [Place(host(0), capacity=200), *(Place(host(each)) for each in range(1, 5))]
    layout, _ = settle(empty(60), places, replicas=1)
    assert held(layout) == {host(0): 20, **{host(each): 10 for each in range(1, 5)}}


def test_a_busy_shard_weighs_more_than_idle_ones() -> None:
    loads = {ShardId(1): 90, **{ShardId(each): 10 for each in range(2, 11)}}
    layout, _ = settle(empty(10), [Place(host(0)), Place(host(1))], replicas=1, loads=loads)
    assert layout[ShardId(1)] == [host(0)]
    assert [layout[ShardId(each)] for each in range(2, 11)] == [[host(1)]] * 9


def test_a_lost_host_keeps_its_replicas_during_the_grace_and_where_there_is_no_other_place() -> None:
    layout = {ShardId(1): [host(0), host(1), host(2)]}
    absent = Place(host(2), accepts=False)
    assert settle(layout, [Place(host(0)), Place(host(1)), absent, Place(host(3))])[1] == []
    lost = Place(host(2), accepts=False, keeps=False)
    assert settle(layout, [Place(host(0)), Place(host(1)), lost])[1] == []
    assert settle(layout, [Place(host(0)), Place(host(1)), lost, Place(host(3))])[1] == [
        Move(ShardId(1), host(3), host(2))
    ]


def test_busy_shards_are_not_moved_for_balance_but_repaired() -> None:
    layout = {ShardId(1): [host(0)], ShardId(2): [host(0)], ShardId(3): [host(0)]}
    places = [Place(host(0)), Place(host(1))]
    busy = [ShardId(1), ShardId(2)]
    assert plan_moves(Board(layout, places, loads={}), replicas=1, slack_percent=0, limit=9, busy=busy) == [
        Move(ShardId(3), host(1), host(0))
    ]
    lost = [Place(host(0), accepts=False, keeps=False), Place(host(1))]
    assert gained(plan_moves(Board(layout, lost, loads={}), replicas=1, slack_percent=0, limit=9, busy=busy)) == 3


def test_no_more_moves_are_planned_than_asked_for() -> None:
    board = Board(empty(10), [Place(host(0))], loads={})
    assert gained(plan_moves(board, replicas=1, slack_percent=0, limit=4)) == 4
    assert len(held(board.replicas)) == 1


# --- primaries ----------------------------------------------------------------------------------------


@st.composite
def led_shards(draw: st.DrawFn) -> tuple[dict[ShardId, HostId], Layout]:
    members = {
        ShardId(number): draw(st.lists(st.sampled_from(range(6)).map(host), min_size=1, max_size=4, unique=True))
        for number in range(1, draw(st.integers(1, 24)) + 1)
    }
    return {shard: draw(st.sampled_from(hosts)) for shard, hosts in members.items()}, members


def fewest_of_the_most(members: Layout, most: int) -> bool:
    """Whether some choice of primaries gives no host more than `most`, found by trying."""
    taken: dict[tuple[HostId, int], ShardId] = {}

    def find(shard: ShardId, seen: set[tuple[HostId, int]]) -> bool:
        for slot in [(each, number) for each in members[shard] for number in range(most)]:
            if slot not in seen:
                seen.add(slot)
                if slot not in taken or find(taken[slot], seen):
                    taken[slot] = shard
                    return True
        return False

    return all(find(shard, set()) for shard in members)


@given(led_shards())
def test_primaries_become_as_even_as_the_members_allow(cluster: tuple[dict[ShardId, HostId], Layout]) -> None:
    leaders, members = cluster
    hosts = [host(each) for each in range(6)]
    for _ in range(200):
        chain = hand_overs(leaders, members, hosts)
        if not chain:
            break
        for shard, to in chain:
            assert to in members[shard]
            leaders[shard] = to
    most = max(Counter(leaders.values()).values())
    assert not chain
    assert most == 1 or not fewest_of_the_most(members, most - 1)


def test_a_chain_of_hand_overs_evens_out_what_no_single_one_could() -> None:
    a, b, c = host(0), host(1), host(2)
    leaders = {ShardId(1): a, ShardId(2): a, ShardId(3): a, ShardId(4): b, ShardId(5): b, ShardId(6): c}
    members = {shard: [leader] for shard, leader in leaders.items()} | {ShardId(1): [a, b], ShardId(4): [b, c]}
    assert hand_overs(leaders, members, [a, b, c]) == [(ShardId(4), c), (ShardId(1), b)]


@pytest.mark.parametrize("hosts", [[], [host(1)]])
def test_nothing_is_handed_to_hosts_that_may_not_lead(hosts: list[HostId]) -> None:
    leaders = {ShardId(each): host(0) for each in range(1, 5)}
    assert hand_overs(leaders, {shard: [host(0), host(1)] for shard in leaders}, hosts) == []
