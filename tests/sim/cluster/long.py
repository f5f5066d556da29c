"""A day in the life of a cluster: an hour or so of nothing, then something happens, and then nothing again.

    a burst        clients at work, with faults of its own as a short run has them, or without
    restarts       one host after the other, under load
    an absence     a host goes and comes back hours later, to a log that went on without it
    a mishap       one fault while nobody asks for anything

After each, everything has to be whole within thirty seconds; at the end of the day everything comes out. What short
runs cannot have: leases of up to twelve hours, delays of minutes, retention of hours, deduplication windows that pass,
and hosts that are away until what they lack cannot be had from the log any more.
"""

import time
from collections.abc import Callable
from random import Random
from typing import Any, Final

import msgspec

from holdfast.core.types import ShardId
from tests.sim.clients import Admin, Client, Consumer, Producer
from tests.sim.cluster.doze import doze
from tests.sim.cluster.faults import ClusterFaults
from tests.sim.cluster.plan import CLUSTERED, ClusterPlan, _faults, _store, _weather
from tests.sim.cluster.run import RECOVERY, ClusterSimulation
from tests.sim.cluster.seat import Seat
from tests.sim.plan import OPTIONAL, _limits, shrunk
from tests.sim.run import Outcome
from tests.sim.world import MS, SECOND

MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
LULL: Final = (20 * MINUTE, 120 * MINUTE)  # between two incidents
LEASES: Final = (60, 900, 7_200, 43_200)  # seconds, of those who take their time
DELAYS: Final = (0, 1, 3, 600, 900)
ENDING: Final = 20 * MINUTE  # before the end: delays pass, no lease is longer than this from then on
PAUSES: Final = 10 * SECOND  # what clients and hosts have begun is over


class PatientProducer(Producer):
    delays = DELAYS
    lives = (2, 60, 3_600)


class PatientConsumer(Consumer):
    """Sometimes takes a message for hours. All leases are over when the day is."""

    def __init__(self, *args: Any, until: int, **more: Any) -> None:
        super().__init__(*args, **more)
        self._until = until

    def _timeout(self) -> int | None:
        if self.world.chance(0.04):
            return min(self.world.rng.choice(LEASES), (self._until - self.world.now) // SECOND)
        return super()._timeout()


class LongSimulation(ClusterSimulation):
    def __init__(self, seed: int, plan: ClusterPlan, *, length: int = DAY) -> None:
        super().__init__(seed, plan)
        self.quiet = plan  # the same cluster without faults
        self._end = length
        self._incidents: list[Callable[[], None]] = [
            *([self._burst] * 8),
            *([self._calm_burst] * 2),
            *([self._restarts] * 2),
            *([self._absence] * 3),
            *([self._mishap] * 4),
        ]

    def make_clients(self) -> list[Client]:
        fronts = self.cluster.frontends

        def parts(number: int) -> tuple[Any, ...]:
            return fronts[number % len(fronts)], self.account, self.queues

        producers = [PatientProducer(f"p{n}", *parts(n), pause=130 * MS) for n in range(4)]
        more: dict[str, int] = {"pause": 210 * MS, "vanish": 0, "until": self._end}
        consumers = [PatientConsumer(f"c{n}", *parts(n), **more) for n in range(10)]
        return [*producers, *consumers, Admin("a", *parts(0), pause=600 * MS)]

    def load(self) -> None:
        self.clients = self.make_clients()
        for client in self.clients:
            client.rest(True)
            client.start()
        evening = self._end - ENDING
        while self.world.now < evening:
            doze(self.cluster, min(self.world.now + self.world.between(*LULL), evening))
            if self.world.now < evening:
                self.world.rng.choice(self._incidents)()
                self._get_over_it()
        self._return()
        self._get_over_it()
        doze(self.cluster, max(self._end, self.world.now))
        lag = self._lag()
        self.world.count("minutes that cluster time stood still", lag // MINUTE)
        doze(self.cluster, self.world.now + lag + MINUTE)

    def _lag(self) -> int:
        """After a fail-over cluster time goes on from the last frame: leases last longer by the silence since then."""
        return max(self.world.now - self._leader_of(shard).own() for shard in self.cluster.shards)

    def _leader_of(self, shard: ShardId) -> Seat:
        record = self.cluster.record(shard)
        assert record is not None
        process = self.cluster.node(record.primary).daemon
        assert process is not None, "the cluster is whole"
        return process.seats[shard]

    def _get_over_it(self) -> None:
        """I15, for all hosts that are not away on purpose; then accounts are closed that nobody asks for any more."""
        away = self.absent[0] if self.absent else None
        self.cluster.heal(away=away)
        is_whole = self.world.run_while(lambda: bool(self.missing()), self.world.now + RECOVERY)
        self.checkers.tally.check("I15", is_whole, f"thirty seconds after the last fault: {self.missing()}")
        self.world.run(self.world.now + PAUSES)
        self.cluster.expose(self.quiet)
        for node in self.cluster.nodes:
            for flip in node.disk.repair():  # where nobody looks, nobody repairs
                self.world.note(f"repaired {flip.what}")
        self._forget()

    def _forget(self) -> None:
        """What no check can need again, so that a day does not need more memory than an hour."""
        cluster = self.cluster
        for request in [each for each in cluster.asked_by if each.is_over]:
            del cluster.asked_by[request]
        for node in cluster.nodes:
            node.former.clear()
        self.checkers.platters.forget(
            [disk for node in cluster.nodes for disk in (node.disk, *(copy for _, copy in node.copies))]
        )
        for lane in self.account.lanes.values():
            lane.forget_deleted()

    # Incidents

    def _burst(self) -> None:
        rng = self.world.rng
        faults = _faults(rng)
        if self.absent:
            faults.pop("flip_s", None)  # of three hosts one is away, one damaged: then nobody is served, and rightly so
        plan = msgspec.structs.replace(self.quiet, weather=_weather(rng), store=_store(rng), **faults)
        self._work(plan, self.world.between(5, 14) * SECOND)

    def _calm_burst(self) -> None:
        self._work(self.quiet, self.world.between(5, 20) * SECOND)

    def _work(self, plan: ClusterPlan, length: int) -> None:
        self.world.count("bursts")
        self.cluster.expose(plan)
        faults = ClusterFaults(self.cluster)
        faults.start()
        self._rest(self.clients, is_at_rest=False)
        self.world.run(self.world.now + length)
        self.loaded_us += length
        self._rest(self.clients, is_at_rest=True)
        faults.is_over = True

    def _restarts(self) -> None:
        """One host after the other, as for an upgrade."""
        self.world.count("rolling restarts")
        self._rest(self.clients, is_at_rest=False)
        for node in self.cluster.nodes:
            if node not in self.absent:
                node.lose_power(self.world.between(SECOND, 4 * SECOND), "restart")
                self.world.run(self.world.now + 8 * SECOND)
                self.loaded_us += 8 * SECOND
        self._rest(self.clients, is_at_rest=True)

    def _absence(self) -> None:
        """It begins, or it ends."""
        if self.absent:
            self._return()
            return
        self.world.count("long absences")
        node = self.world.rng.choice(self.cluster.nodes)
        node.lose_power(2 * DAY, "for hours")
        self.absent.append(node)

    def _return(self) -> None:
        for node in self.absent:
            node.back_at = 0
            node.start()
        self.absent.clear()

    def _mishap(self) -> None:
        self.world.count("mishaps in the quiet")
        rng = self.world.rng
        plan = msgspec.structs.replace(self.quiet, weather=_weather(rng), store=_store(rng), flip_s=HOUR)  # scrubs, too
        self.cluster.expose(plan)
        rng.choice(ClusterFaults(self.cluster).actions(may_damage=not self.absent))()
        self.world.run(self.world.now + self.world.between(2 * SECOND, 15 * SECOND))

    def count_outlived(self) -> None:
        """Acknowledged, never deleted, and gone at the end, since their time was over."""
        for letter in self.account.letters:
            is_left = letter.is_acked and not (letter.is_drained or letter.is_delete_tried)
            if is_left and self.account.is_maybe_over(letter, self.world.now):
                self.world.count("messages that outlived their retention")


def draw_day(seed: int) -> ClusterPlan:
    rng = Random(f"day {seed}")
    return ClusterPlan(
        hosts=rng.choice((3, 3, 3, 3, 4, 5)),
        frontends=rng.choice((1, 2, 3)),
        sync_us=rng.choice((200, 800, 4000)),
        segment_bytes=rng.choice((32_768, 49_152, 65_536)),
        limits={**_limits(rng), "DEDUP_WINDOW": 300 * SECOND},
        snapshot_every=rng.choice((1, 2, 4)),
        has=tuple(name for name in (*OPTIONAL, *CLUSTERED) if rng.random() < 0.5),
        wishes=0.15,
        lives=(0, 1_800),
        retentions=(900, 7_200, 36_000),
    )


def simulate_day(seed: int, *, length: int = DAY) -> Outcome:
    plan = draw_day(seed)
    started = time.process_time()
    problem: Exception | None = None
    with shrunk(plan.limits):
        simulation = LongSimulation(seed, plan, length=length)
        try:
            simulation.set_up()
            simulation.load()
            simulation.finish()
            simulation.count_outlived()
        except Exception as raised:  # noqa: BLE001 - whatever the core raises is what the run has found
            problem = raised
    outcome = simulation.outcome(time.process_time() - started, problem)
    return msgspec.structs.replace(outcome, kind="day", gaps=[])  # a primary may crash hours before the next send
