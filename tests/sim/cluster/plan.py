"""What one seed does to a cluster: how many hosts, how the network and the store behave, which faults befall whom.

Drawn first, from the seed alone, as for one host; a plan of one host is part of it.
"""

from random import Random
from typing import Any, Final

import msgspec

from tests.sim.plan import OPTIONAL, Plan, _limits
from tests.sim.world import MS, SECOND

HOSTS_MIN, HOSTS_MAX = 3, 7
RESTLESS: Final[dict[str, Any]] = {"down_s": 5, "kill_s": 0.7, "sync_us": 4_000}  # killed in syncs, another one away
ROLLED_BACK: Final[dict[str, Any]] = {"roll_back_s": 1, "kill_s": 2}
RESTLESS_EVERY: Final = 20  # seeds
CLUSTERED: Final = ("swift", "wide", "keyed")  # queues that only clusters have; a split needs the store, so it is last


class Weather(msgspec.Struct, frozen=True, kw_only=True):
    """Of the network: probabilities for each message."""

    drop: float = 0
    twice: float = 0
    late: float = 0  # arrives much later than those sent after it
    is_ordered: bool = True


class StoreWeather(msgspec.Struct, frozen=True, kw_only=True):
    latency_us: int = 2 * MS
    request_lost: float = 0
    reply_lost: float = 0
    applied_late: float = 0


class ClusterPlan(Plan, frozen=True, kw_only=True):
    hosts: int = 3
    frontends: int = 2
    weather: Weather = Weather()
    store: StoreWeather = StoreWeather()
    # mean time between faults in seconds, each of one host, link or part; 0: never
    down_s: float = 0  # a host stays away for seconds
    blackout_s: float = 0  # power cut of all hosts at once
    wipe_s: float = 0
    roll_back_s: float = 0
    slow_disk_s: float = 0
    isolate_s: float = 0  # one host from everybody
    one_way_s: float = 0  # one host, one direction
    estrange_s: float = 0  # a primary from all other hosts, and not from front-ends
    maroon_s: float = 0  # a primary and a front-end from everybody else
    split_s: float = 0  # the hosts in two parts
    flicker_s: float = 0  # one link, shortly
    store_away_s: float = 0
    store_slow_s: float = 0
    store_cut_s: float = 0  # between one host and the store
    restore_s: float = 0  # the store is saved, or comes back as it was then
    wishes: float = 0  # probability that somebody wants other lanes, for each look at a queue

    @property
    def is_only_store(self) -> bool:
        """Nothing but the store fails: then queues must not notice (I18)."""
        own = {name: getattr(self, name) for name in self.__struct_fields__ if name.endswith("_s") or name in CHANCES}
        ignored = ("store_away_s", "store_slow_s", "store_cut_s", "restore_s", "quiet_s", "vanish_s", "jump_s")
        return self.weather == Weather() and not any(value for name, value in own.items() if name not in ignored)


CHANCES: Final = ("failpoint", "write_error", "sync_error", "read_error", "slow_sync", "reply_loss")
CALM: Final = ClusterPlan()


def draw(seed: int) -> ClusterPlan:
    rng = Random(f"cluster plan {seed}")
    is_only_store = rng.random() < 0.08
    plan = ClusterPlan(
        hosts=rng.choice((3, 3, 3, 4, 5, 7)),
        frontends=rng.choice((1, 2, 3)),
        seconds=rng.choice((12, 20, 30)),
        quiet_s=tuple(rng.choice((10, 40)) for _ in range(rng.choice((0, 0, 0, 1)))),
        rate=rng.choice((60, 120, 200)),
        sync_us=rng.choice((200, 800, 800, 4000)),
        segment_bytes=rng.choice((32_768, 49_152, 65_536)),
        limits=_lasting(_limits(rng)),
        snapshot_every=rng.choice((1, 2, 4)),
        spare_ms=0 if is_only_store else Random(f"spares {seed}").choice((0, 0, 0, 200, 1500)),
        has=tuple(name for name in (*OPTIONAL, *CLUSTERED[: 2 if is_only_store else None]) if rng.random() < 0.4),
        weather=Weather() if is_only_store else _weather(rng),
        store=_store(rng),
        wishes=rng.choice((0.1, 0.3)),
        **({"store_away_s": 4.0, "store_slow_s": 6.0} if is_only_store else _faults(rng)),
    )
    return msgspec.structs.replace(plan, **RESTLESS) if seed % RESTLESS_EVERY == 7 else plan


def _lasting(limits: dict[str, int]) -> dict[str, int]:
    """A front-end asks again for ten seconds; a shorter window would forget what the first try was taken for."""
    short = {"DEDUP_WINDOW": max(limits["DEDUP_WINDOW"], 15 * SECOND), "REQUEST_WINDOW": 20 * SECOND}
    return {**limits, **short, "BEQUEST_ENTRIES": 5}


def _weather(rng: Random) -> Weather:
    if rng.random() < 0.3:
        return Weather()
    return Weather(
        drop=rng.choice((0, 0, 0.001, 0.02)),
        twice=rng.choice((0, 0, 0.01, 0.1)),
        late=rng.choice((0, 0, 0.002, 0.03)),
        is_ordered=rng.random() < 0.4,
    )


def _store(rng: Random) -> StoreWeather:
    latency = rng.choice((2 * MS, 5 * MS, 5 * MS, 60 * MS))
    if rng.random() < 0.4:
        return StoreWeather(latency_us=latency)
    return StoreWeather(
        latency_us=latency,
        request_lost=rng.choice((0, 0.02, 0.1)),
        reply_lost=rng.choice((0, 0.02, 0.1)),
        applied_late=rng.choice((0, 0.05, 0.2)),
    )


EVENTS: Final[dict[str, tuple[float, ...]]] = {  # mean time between them in seconds, for the whole cluster
    "power_s": (4, 10),
    "kill_s": (4, 10),
    "down_s": (8, 20),
    "blackout_s": (8, 20),
    "pause_s": (4, 12),
    "jump_s": (2, 10),
    "full_s": (8, 15),
    "vanish_s": (0.3, 2),
    "wipe_s": (6, 15),
    "roll_back_s": (6, 15),
    "slow_disk_s": (10, 20),
    "flip_s": (6, 15),
    "isolate_s": (6, 15),
    "one_way_s": (6, 15),
    "estrange_s": (3, 8),
    "maroon_s": (3, 8),
    "split_s": (8, 20),
    "flicker_s": (1, 4),
    "store_away_s": (10, 20),
    "store_slow_s": (8, 20),
    "store_cut_s": (5, 12),
    "restore_s": (4, 8),
}
ACCIDENTS: Final[dict[str, tuple[float, ...]]] = {  # probabilities
    "failpoint": (0.001, 0.005, 0.02),
    "relapse": (0.1, 0.5),
    "write_error": (0.0001, 0.0005),
    "sync_error": (0.0001, 0.0005),
    "read_error": (0.0001, 0.0005),
    "slow_sync": (0.002, 0.02),
    "hand_over_loss": (0.1, 0.4),
    "hand_over_twice": (0.1, 0.4),
    "reply_loss": (0.01, 0.1),
}


def _faults(rng: Random) -> dict[str, Any]:
    """A few kinds: with all of them at once a cluster hardly ever serves, and then there is nothing to lose."""
    events = rng.sample(list(EVENTS), rng.choice((1, 2, 3, 3, 4, 6)))
    accidents = rng.sample(list(ACCIDENTS), rng.choice((0, 1, 2, 3)))
    drawn: dict[str, Any] = {name: rng.choice(EVENTS[name]) for name in events}
    drawn |= {name: rng.choice(ACCIDENTS[name]) for name in accidents}
    return {**drawn, "power_share": rng.choice((0.2, 0.5, 0.8))}


ROUGH: Final[tuple[dict[str, Any], ...]] = (
    {"maroon_s": 4},
    ROLLED_BACK,
    {"estrange_s": 2, "power_s": 6, "store_cut_s": 6},
    {"kill_s": 2.5, "power_s": 3.5},
    {"down_s": 5, "maroon_s": 3, "store_cut_s": 4},
    {"pause_s": 3, "split_s": 5, "one_way_s": 5, "blackout_s": 6, "estrange_s": 4},
    {"wipe_s": 3, "kill_s": 3, "flicker_s": 1},
)


def rough(seed: int, troubles: tuple[dict[str, Any], ...] = ROUGH) -> ClusterPlan:
    """Much happens in a short time: for mutants, which have a minute each."""
    store = StoreWeather(latency_us=5 * MS, request_lost=0.1, reply_lost=0.1, applied_late=0.2)
    return ClusterPlan(
        hosts=3,
        frontends=3,
        seconds=12,
        limits=_lasting(_limits(Random(f"rough {seed}"))),
        snapshot_every=1,
        has=CLUSTERED,
        wishes=0.3,
        store=store if seed // len(troubles) % 2 else StoreWeather(latency_us=5 * MS),
        **troubles[seed % len(troubles)],
    )


def busy(hosts: int, *, rate: int, seconds: int, latency_us: int = 5 * MS) -> ClusterPlan:
    """Nothing fails: for figures."""
    return msgspec.structs.replace(
        CALM, hosts=hosts, rate=rate, seconds=seconds, store=StoreWeather(latency_us=latency_us)
    )
