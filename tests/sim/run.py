"""One seed, one run: safety under faults, then healing, then everything has to come out."""

import time
import traceback
from typing import Any

import msgspec

from holdfast.core.types import ShardId
from tests.sim.account import Account
from tests.sim.checkers import Checkers
from tests.sim.cipher import SealBook
from tests.sim.clients import Admin, Client, Consumer, Producer
from tests.sim.drain import Drain
from tests.sim.faults import Faults
from tests.sim.host import POWER, Host
from tests.sim.plan import Plan, draw, shrunk
from tests.sim.queues import ONE, TWO, Queues
from tests.sim.request import Request
from tests.sim.world import MS, SECOND, Violation, World

SHARDS = (ShardId(ONE), ShardId(TWO))
PATIENCE = 600 * SECOND  # for the drain
LEASES_PASS = 70 * SECOND


class Outcome(msgspec.Struct, kw_only=True):
    seed: int
    kind: str = "host"  # or "cluster"
    hash: str
    simulated_us: int
    loaded_us: int  # of it with clients at work
    cpu_s: float
    commands: int
    acknowledged: int
    drained: int
    starts: int
    faults: dict[str, int]
    events: dict[str, int]
    checks: dict[str, int]
    gaps: list[int] = []  # of a cluster: from the crash of a primary to the next acknowledged send
    violation: str = ""
    invariant: str = ""
    last: list[str] = []


class Simulation:
    """The parts of a run, for `simulate` and for directed tests."""

    def __init__(self, seed: int, plan: Plan) -> None:
        self.plan = plan
        self.world = World(seed)
        self.account = Account()
        self.seals = SealBook()
        window = plan.limits.get("DEDUP_WINDOW", 300 * SECOND)
        self.checkers = Checkers(self.world, self.account, self.seals, window=window)
        self.host = Host(self.world, plan, shards=SHARDS, witness=self.checkers, seals=self.seals)
        self.queues = Queues(plan, self.world.rng)
        self.faults = Faults(self.world, self.host)
        self.drain = Drain(self.host, self.account, self.queues)
        self.loaded_us = 0
        self._unconfigured = 0
        for queue in self.queues.all:
            self.account.add_queue(queue)

    def set_up(self) -> None:
        """The host runs and has its queues."""
        self.host.start()
        for queue in self.queues.all:
            self._unconfigured += 1
            self.host.request(Request(self, queue.shard, queue.configure()))
        is_done = self.world.run_while(lambda: self._unconfigured > 0, self.world.now + 60 * SECOND)
        self.checkers.tally.check("liveness", is_done, "the queues could not be made")

    def told(self, request: Request, _: str) -> None:
        if request.is_done:
            self._unconfigured -= 1
        else:
            self.world.after(50 * MS, self.host.request, Request(self, request.shard, request.command))

    def load(self) -> None:
        plan, world = self.plan, self.world
        clients = self._clients()
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
                if world.chance(0.5):
                    self.host.crash(POWER, "in the quiet")
                self._rest(clients, is_at_rest=False)

    def _rest(self, clients: list[Client], *, is_at_rest: bool) -> None:
        self.faults.is_at_rest = is_at_rest
        for client in clients:
            client.rest(is_at_rest)

    def _clients(self) -> list[Client]:
        plan = self.plan
        parts: tuple[Any, ...] = (self.host, self.account, self.queues)
        vanish = int(plan.vanish_s * SECOND * 8)
        producers = [Producer(f"p{n}", *parts, pause=65 * MS * 200 // plan.rate) for n in range(4)]
        consumers = [Consumer(f"c{n}", *parts, pause=105 * MS * 200 // plan.rate, vanish=vanish) for n in range(10)]
        return [*producers, *consumers, Admin("a", *parts, pause=300 * MS)]

    def finish(self) -> None:
        """Heal, drain, and settle all accounts."""
        world = self.world
        self.host.heal()
        world.run(world.now + LEASES_PASS)
        self.account.is_draining = True
        self.drain.start()
        is_over = world.run_while(lambda: not self.drain.is_over, world.now + PATIENCE)
        self.checkers.tally.check("liveness", is_over, f"the queues do not drain: {self.drain.left}")
        forgotten = self.host.waiting()
        self.checkers.tally.check("liveness", not forgotten, f"never answered: {forgotten}")
        self.checkers.settle()

    def outcome(self, cpu_s: float, problem: Exception | None) -> Outcome:
        invariant = violation = ""
        if isinstance(problem, Violation):
            invariant, violation = problem.invariant, problem.text
        elif problem is not None:
            where = "".join(traceback.format_exception(problem)[-6:])
            invariant, violation = "I17", f"the core failed: {where}"
        return Outcome(
            seed=self.world.seed,
            hash=self.world.hash(),
            simulated_us=self.world.now,
            loaded_us=self.loaded_us,
            cpu_s=cpu_s,
            commands=self.host.commands,
            acknowledged=self.checkers.acknowledged,
            drained=self.drain.drained,
            starts=self.host.starts,
            faults=self.world.faults,
            events=self.world.events,
            checks=self.checkers.tally.counts,
            violation=violation,
            invariant=invariant,
            last=self.world.last,
        )


def simulate(seed: int, plan: Plan | None = None) -> Outcome:
    plan = draw(seed) if plan is None else plan
    started = time.process_time()
    problem: Exception | None = None
    with shrunk(plan.limits):
        simulation = Simulation(seed, plan)
        try:
            simulation.set_up()
            simulation.load()
            simulation.finish()
        except Exception as raised:  # noqa: BLE001 - whatever the core raises is what the run has found
            problem = raised
    return simulation.outcome(time.process_time() - started, problem)
