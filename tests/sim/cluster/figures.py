"""`python -m tests.sim.cluster.figures`: how fast the simulator is, how long a fail-over takes. Nothing is asserted.

Speeds are of half a minute of load without faults, with the real limits and all checkers; by CPU time, and for all
cores together, each with a cluster of its own, by the clock. With PYTHONPATH=build/compiled the core is the compiled
one. Runs by seed are slower: crashes, recoveries and tiny limits.
"""

import sys
import time

from holdfast.core.queue import lane
from holdfast.core.types import ShardId
from tests.sim.cluster.plan import busy
from tests.sim.cluster.run import ClusterSimulation
from tests.sim.plan import Plan, shrunk
from tests.sim.pool import cores, in_order
from tests.sim.run import Simulation
from tests.sim.world import MS, SECOND

RATE = 200
LOAD_S = 30
CRASHES = 60
LIGHT = 40  # commands per second while primaries crash: enough that somebody always waits
BETWEEN = 9 * SECOND  # until all members are back and level


def speed_of_a_host() -> None:
    plan = Plan(seconds=LOAD_S, rate=RATE)
    simulation = Simulation(1, plan)
    simulation.set_up()
    begun, commands = time.process_time(), simulation.host.commands
    simulation.load()
    _show_speed("one host, two shards", simulation.host.commands - commands, time.process_time() - begun)


def load_a_cluster(seed: int) -> tuple[int, float, float]:
    """Commands, and what they took: of CPU time, and by the clock."""
    simulation = ClusterSimulation(seed, busy(3, rate=RATE, seconds=LOAD_S))
    simulation.set_up()
    commands, cpu_s, clock_s = simulation.cluster.commands, time.process_time(), time.perf_counter()
    simulation.load()
    return simulation.cluster.commands - commands, time.process_time() - cpu_s, time.perf_counter() - clock_s


def speed_of_a_cluster() -> None:
    commands, cpu_s, _ = load_a_cluster(1)
    _show_speed("3 hosts, two shards", commands, cpu_s)


def speed_of_all_cores() -> None:
    jobs = cores()
    runs = [run for _, run in in_order(load_a_cluster, iter(range(1, jobs + 1)), jobs=jobs)]
    speed = sum(commands / RATE / clock_s for commands, _, clock_s in runs)
    print(f"speed        3 hosts on each of {jobs} cores: {speed:.1f}x real time at {RATE} per second, by the clock")


def _show_speed(what: str, commands: int, cpu_s: float) -> None:
    print(
        f"speed        {what}, {commands / LOAD_S:.0f} commands per simulated second: {LOAD_S / cpu_s:.1f}x real time, "
        f"{commands / RATE / cpu_s:.1f}x at {RATE} per second"
    )


def fail_overs(count: int = CRASHES, latency_us: int = 5 * MS) -> list[int]:
    """Microseconds from the crash of a primary to the next acknowledged send of its shard, in ascending order."""
    plan = busy(3, rate=LIGHT, seconds=0, latency_us=latency_us)
    with shrunk(plan.limits):
        simulation = ClusterSimulation(2, plan)
        simulation.set_up()
        simulation.load()
        for client in simulation.clients:
            client.rest(False)
        world, cluster = simulation.world, simulation.cluster
        for number in range(count):
            world.run(world.now + BETWEEN + world.between(0, SECOND))
            record = cluster.record(ShardId(1 + number % 2))
            assert record is not None
            cluster.node(record.primary).lose_power(4 * SECOND, "for the figure")
        world.run(world.now + BETWEEN)
    return sorted(cluster.gaps)


def main() -> int:
    print(f"core         {'pure Python' if str(lane.__file__).endswith('.py') else 'compiled'}")
    speed_of_a_host()
    speed_of_a_cluster()
    speed_of_all_cores()
    gaps = fail_overs()
    at = [gaps[len(gaps) * part // 100] / SECOND for part in (50, 90, 99)]
    print(
        f"fail-over    {len(gaps)} crashes of a primary, store latency 5 ms: the next send is acknowledged after "
        f"{at[0]:.2f} s (median), {at[1]:.2f} s (p90), {at[2]:.2f} s (p99), {gaps[-1] / SECOND:.2f} s (longest)"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
