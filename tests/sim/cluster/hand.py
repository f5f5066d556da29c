"""One client of a cluster that does one thing after the other, and a hand on its hosts: for directed simulations.

    with at_work(CALM) as hand:
        hand.send(hand.queues.simple)
        hand.primary(hand.queues.simple).lose_power(20 * SECOND, "directed")
        ...
        hand.finish()

All checkers watch as in random runs; `finish` heals, waits for a whole cluster, drains and settles.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from holdfast.core.coordination.cluster import ShardRecord, ShardState
from tests.sim.cluster.node import Node
from tests.sim.cluster.plan import CALM, ClusterPlan
from tests.sim.cluster.run import ClusterSimulation
from tests.sim.hand import Client
from tests.sim.plan import shrunk
from tests.sim.queues import Queue
from tests.sim.world import SECOND


class ClusterHand(Client):
    def __init__(self, simulation: ClusterSimulation) -> None:
        super().__init__(simulation, simulation.front)
        self.cluster = simulation.cluster

    def record(self, queue: Queue) -> ShardRecord:
        record = self.cluster.record(queue.shard)
        assert record is not None
        return record

    def primary(self, queue: Queue) -> Node:
        return self.cluster.node(self.record(queue).primary)

    def members(self, queue: Queue) -> list[Node]:
        """The primary first."""
        record = self.record(queue)
        names = sorted((member.host for member in record.members), key=lambda name: name != record.primary)
        return [self.cluster.node(name) for name in names]

    def until(self, condition: Callable[[], bool], *, seconds: int = 30) -> None:
        is_met = self.world.run_while(lambda: not condition(), self.world.now + seconds * SECOND)
        assert is_met, "it did not happen in time"

    def until_led_by_another(self, queue: Queue, than: Node) -> Node:
        def is_led() -> bool:
            record = self.record(queue)
            return record.state is ShardState.ACTIVE and record.primary != than.name

        self.until(is_led)
        return self.primary(queue)


@contextmanager
def at_work(plan: ClusterPlan = CALM, seed: int = 1) -> Iterator[ClusterHand]:
    """A cluster whose shards are served and have their queues, with all members."""
    with shrunk(plan.limits):
        simulation = ClusterSimulation(seed, plan)
        simulation.set_up()
        hand = ClusterHand(simulation)
        hand.until(lambda: not simulation.missing())
        yield hand
