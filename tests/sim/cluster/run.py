"""One seed, one run of a cluster: safety under faults, then healing, then thirty seconds, then everything comes out."""

import time
import traceback
from typing import Any

from holdfast.core.cluster.table import LAYOUTS
from holdfast.core.coordination.cluster import ShardState
from holdfast.core.limits import ROUTE_PATIENCE
from tests.sim.clients import Admin, Client, Consumer, Producer
from tests.sim.cluster.cluster import MEMBERS, Cluster
from tests.sim.cluster.faults import ClusterFaults
from tests.sim.cluster.lanes import is_calm
from tests.sim.cluster.node import Node
from tests.sim.cluster.plan import ClusterPlan, draw
from tests.sim.drain import Drain
from tests.sim.plan import shrunk
from tests.sim.queues import Queues
from tests.sim.request import Request
from tests.sim.run import PATIENCE, Outcome
from tests.sim.world import MS, SECOND, Violation

LEASES_PASS = 25 * SECOND  # nearly all; what is still in flight then is waited for
RECOVERY = 30 * SECOND  # from the last fault to a cluster that is whole again (I15)


class ClusterSimulation:
    """The parts of a run, for `simulate` and for directed tests."""

    def __init__(self, seed: int, plan: ClusterPlan) -> None:
        self.plan = plan
        self.cluster = Cluster(seed, plan)
        self.world, self.account = self.cluster.world, self.cluster.account
        self.checkers = self.cluster.checkers
        self.queues = Queues(plan, self.world.rng)
        self.faults = ClusterFaults(self.cluster)
        self.front = self.cluster.frontends[0]
        self.drain = Drain(self.front, self.account, self.queues)
        self.loaded_us = 0
        self.absent: list[Node] = []  # not expected to be there
        self.clients: list[Client] = []
        self._unconfigured = 0
        for queue in self.queues.all:
            self.account.add_queue(queue)
            if queue.is_spread:
                self.cluster.add_spread(queue)

    def set_up(self) -> None:
        """All hosts run, the shards are served and have their queues."""
        self.cluster.start()
        for queue in self.queues.all:
            self._unconfigured += 1
            self.front.request(Request(self, queue.shard, queue.configure()))
        is_done = self.world.run_while(lambda: self._unconfigured > 0, self.world.now + 60 * SECOND)
        self.checkers.tally.check("I15", is_done, "the queues could not be made")

    def told(self, request: Request, _: str) -> None:
        if request.is_done:
            self._unconfigured -= 1
        else:
            self.world.after(50 * MS, self.front.request, Request(self, request.shard, request.command))

    def load(self) -> None:
        plan, world = self.plan, self.world
        self.clients = clients = self.make_clients()
        for client in clients:
            client.start()
        self.faults.start()
        part = plan.seconds * SECOND // (len(plan.quiet_s) + 1)
        for quiet_s in (*plan.quiet_s, 0):
            world.run(world.now + part)
            self.loaded_us += part
            self._rest(clients, is_at_rest=True)
            if quiet_s:
                world.run(world.now + quiet_s * SECOND)
                self._rest(clients, is_at_rest=False)

    def _rest(self, clients: list[Client], *, is_at_rest: bool) -> None:
        self.faults.is_at_rest = is_at_rest
        for client in clients:
            client.rest(is_at_rest)

    def make_clients(self) -> list[Client]:
        plan, fronts = self.plan, self.cluster.frontends
        vanish = int(plan.vanish_s * SECOND * 8)

        def parts(number: int) -> tuple[Any, ...]:
            return fronts[number % len(fronts)], self.account, self.queues

        producers = [Producer(f"p{n}", *parts(n), pause=65 * MS * 200 // plan.rate) for n in range(4)]
        pause = 105 * MS * 200 // plan.rate
        steady = [self.queues.plain, self.queues.simple, self.queues.fifo]  # somebody is always there for these
        consumers = [
            Consumer(f"c{n}", *parts(n // 3), pause=pause, vanish=vanish, only=steady[n % 3] if n < 6 else None)
            for n in range(10)
        ]
        return [*producers, *self._swift_producers(), *consumers, Admin("a", *parts(0), pause=300 * MS)]

    def _swift_producers(self) -> list[Client]:
        """One at each front-end that asks for nothing else: it goes on where all others wait for a fail-over."""
        swift = [queue for queue in self.queues.all if queue.config.is_async]
        parts = (self.account, self.queues)
        pairs = [(front, queue) for front in self.cluster.frontends for queue in swift]
        return [Producer(f"s{n}", front, *parts, only=queue, pause=100 * MS) for n, (front, queue) in enumerate(pairs)]

    def finish(self) -> None:
        """Heal, be whole within thirty seconds, drain, and settle all accounts."""
        world, tally = self.world, self.checkers.tally
        self.cluster.heal()
        is_whole = world.run_while(lambda: bool(self.missing()), world.now + RECOVERY)
        tally.check("I15", is_whole, f"thirty seconds after the last fault: {self.missing()}")
        world.run(world.now + LEASES_PASS)
        self.account.is_draining = True
        self.drain.start()
        is_over = world.run_while(lambda: not self.drain.is_over, world.now + PATIENCE)
        tally.check("I15", is_over, f"the queues do not drain: {self.drain.left}")
        is_calm = world.run_while(lambda: not self._is_calm(), world.now + PATIENCE)
        tally.check("I15", is_calm, "lanes that drain never go")
        is_answered = world.run_while(lambda: bool(self._waiting()), world.now + 2 * ROUTE_PATIENCE)
        tally.check("I15", is_answered, f"never answered: {self._waiting()}")
        self.checkers.settle()

    def _waiting(self) -> list[str]:
        return [each for front in self.cluster.frontends for each in front.waiting()]

    def _is_calm(self) -> bool:
        """Nobody is changing the lanes of a queue any more."""
        return is_calm(self.cluster.store.state.range(LAYOUTS).records)

    def missing(self) -> str:
        """What this cluster still lacks; empty when all shards are served by as many members as there can be."""
        wanted = min(MEMBERS, len(self.cluster.nodes) - len(self.absent))
        for shard in self.cluster.shards:
            found = self.cluster.record(shard)
            if found is None:
                return f"shard {shard} has no record"
            if found.state is not ShardState.ACTIVE or len(found.members) < wanted:
                names = [str(member.host) for member in found.members]
                return f"shard {shard} is {found.state.value} in epoch {found.epoch} with {names}"
        return ""

    def outcome(self, cpu_s: float, problem: Exception | None) -> Outcome:
        invariant = violation = ""
        if isinstance(problem, Violation):
            invariant, violation = problem.invariant, problem.text
        elif problem is not None:
            where = "".join(traceback.format_exception(problem)[-6:])
            invariant, violation = "I17", f"the core failed: {where}"
        for what, count in self.account.reigns.excused.items():
            self.world.count(what, count)
        return Outcome(
            seed=self.world.seed,
            kind="cluster",
            hash=self.world.hash(),
            simulated_us=self.world.now,
            loaded_us=self.loaded_us,
            cpu_s=cpu_s,
            commands=self.cluster.commands,
            acknowledged=self.checkers.acknowledged,
            drained=self.drain.drained,
            starts=self.cluster.starts,
            faults=self.world.faults,
            events=self.world.events,
            checks=self.checkers.tally.counts,
            gaps=self.cluster.gaps,
            violation=violation,
            invariant=invariant,
            last=self.world.last,
        )


def simulate(seed: int, plan: ClusterPlan | None = None) -> Outcome:
    plan = draw(seed) if plan is None else plan
    started = time.process_time()
    problem: Exception | None = None
    with shrunk(plan.limits):
        simulation = ClusterSimulation(seed, plan)
        try:
            simulation.set_up()
            simulation.load()
            simulation.finish()
        except Exception as raised:  # noqa: BLE001 - whatever the core raises is what the run has found
            problem = raised
    return simulation.outcome(time.process_time() - started, problem)
