"""Placement by what is there, beside three ways that compute it anew: how even, and how much moves.

    python bench/placement.py

The figures of docs/decisions on placement come from here.
"""

import hashlib
import time
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Sequence

from holdfast.core.cluster.placement import Board, Place, plan_moves
from holdfast.core.coordination.cluster import HostId
from holdfast.core.types import ShardId

Layout = dict[ShardId, tuple[HostId, ...]]
Method = Callable[[Layout, Sequence[Place]], Layout]

REPLICAS = 3
POINTS = 128  # of a host on the ring


def number_of(*parts: object) -> int:
    text = "/".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def first_of_each_zone(ordered: Sequence[Place]) -> tuple[HostId, ...]:
    """The first hosts in an order of preference, from different zones as long as there are any."""
    chosen: list[Place] = []
    for other_zones in (True, False):
        for place in ordered:
            is_new = place not in chosen and (not other_zones or place.zone not in [each.zone for each in chosen])
            if is_new and len(chosen) < REPLICAS:
                chosen.append(place)
    return tuple(each.host for each in chosen)


def rendezvous(layout: Layout, places: Sequence[Place]) -> Layout:
    def order(shard: ShardId) -> list[Place]:
        return sorted(places, key=lambda each: number_of(shard, each.host))

    return {shard: first_of_each_zone(order(shard)) for shard in layout}


def ring(layout: Layout, places: Sequence[Place]) -> Layout:
    points = sorted((number_of(each.host, point), each) for each in places for point in range(POINTS))
    positions = [at for at, _ in points]
    after = {}
    for shard in layout:
        at = bisect(positions, number_of("shard", shard))
        after[shard] = first_of_each_zone(list(dict.fromkeys(each for _, each in points[at:] + points[:at])))
    return after


def anew(layout: Layout, places: Sequence[Place]) -> Layout:
    """The same rules, from an empty cluster each time."""
    return incremental(dict.fromkeys(layout, ()), places)


def incremental(layout: Layout, places: Sequence[Place]) -> Layout:
    gone = [HostId(each) for each in sorted({host for hosts in layout.values() for host in hosts})]
    known = [each.host for each in places]
    lost = [Place(each, accepts=False, keeps=False) for each in gone if each not in known]
    board = Board(layout, [*places, *lost], loads={})
    while plan_moves(board, replicas=REPLICAS, slack_percent=5, limit=64):
        pass
    return {shard: tuple(hosts) for shard, hosts in board.replicas.items()}


METHODS: dict[str, Method] = {"what is there": incremental, "anew": anew, "rendezvous": rendezvous, "ring": ring}


def moved(before: Layout, after: Layout) -> int:
    return sum(len(set(after[shard]) - set(before[shard])) for shard in before)


def fullest(layout: Layout, places: Sequence[Place]) -> float:
    """Load of the fullest host, where 1 is the mean."""
    held = Counter(host for hosts in layout.values() for host in hosts)
    return max(held.values()) * len(places) / sum(held.values())


def measure(method: Method, hosts: int, shards: int) -> str:
    places = [Place(HostId(f"h{number:02}"), f"z{number % 3}") for number in range(hosts + 1)]
    empty: Layout = {ShardId(number): () for number in range(1, shards + 1)}
    began = time.process_time()
    before = method(empty, places[:hosts])
    took = time.process_time() - began
    joined = moved(before, method(before, places))
    left = moved(before, method(before, places[: hosts - 1]))
    own = sum(places[hosts - 1].host in each for each in before.values())
    share = shards * REPLICAS / (hosts + 1)
    return (
        f"{fullest(before, places[:hosts]):7.2f} {joined:7} {joined / share:7.2f} "
        f"{left:7} {left / own:7.2f} {took * 1e3:9.1f}"
    )


def main() -> None:
    print(
        "fullest: load of the fullest host, the mean is 1. join: replicas moved when a host joins, and in parts of its"
    )
    print("fair share. leave: the same when one leaves, in parts of what it held. Three zones, three replicas.\n")
    for hosts, shards in ((6, 12), (9, 36), (24, 96), (48, 192)):
        print(f"{hosts} hosts, {shards} shards")
        print(f"{'':16}fullest    join (share)   leave (own)  first ms")
        for name, method in METHODS.items():
            print(f"  {name:14}{measure(method, hosts, shards)}")
        print()


if __name__ == "__main__":
    main()
