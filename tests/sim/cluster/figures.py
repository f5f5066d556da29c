"""`python -m tests.sim.cluster.figures`: how fast the simulator is, how long a fail-over takes. Nothing is asserted.

Speeds are of half a minute of load without faults, with the real limits and all checkers: in one process by CPU time,
and for all cores together, each with clusters of its own, by the clock. After `make compile-sim` core and simulator are
the compiled ones, unless `--plain` is asked for. Runs by seed are slower: crashes, recoveries and tiny limits.
"""

import argparse
import subprocess
import sys
import time

from holdfast.core.queue import lane
from holdfast.core.types import ShardId
from tests.sim import world
from tests.sim.cluster.plan import busy
from tests.sim.cluster.run import ClusterSimulation
from tests.sim.compiled import ROOT, fastest
from tests.sim.plan import Plan, shrunk
from tests.sim.pool import cores, in_order
from tests.sim.run import Simulation
from tests.sim.world import MS, SECOND

RATE = 200
LOAD_S = 30
CRASHES = 60
LIGHT = 40  # commands per second while primaries crash: enough that somebody always waits
BETWEEN = 9 * SECOND  # until all members are back and level
EACH = 4  # clusters that each core simulates, one after the other


def speed_of_a_host() -> None:
    plan = Plan(seconds=LOAD_S, rate=RATE)
    simulation = Simulation(1, plan)
    simulation.set_up()
    begun, commands = time.process_time(), simulation.host.commands
    simulation.load()
    _show_speed("one host, two shards", simulation.host.commands - commands, time.process_time() - begun)


def load_a_cluster(seed: int) -> tuple[int, float, float, float]:
    """Commands, the CPU time that they took, and when it began and ended by a clock that all processes share."""
    simulation = ClusterSimulation(seed, busy(3, rate=RATE, seconds=LOAD_S))
    simulation.set_up()
    commands, cpu_s, begun = simulation.cluster.commands, time.process_time(), time.monotonic()
    simulation.load()
    return simulation.cluster.commands - commands, time.process_time() - cpu_s, begun, time.monotonic()


def speed_of_a_cluster() -> None:
    commands, cpu_s, _, _ = load_a_cluster(1)
    _show_speed("3 hosts, two shards", commands, cpu_s)


def speed_of_all_cores() -> None:
    """From the beginning of the first load to the end of the last, with all that lies between."""
    jobs = cores()
    runs = [run for _, run in in_order(load_a_cluster, iter(range(1, jobs * EACH + 1)), jobs=jobs)]
    clock_s = max(ended for _, _, _, ended in runs) - min(begun for _, _, begun, _ in runs)
    speed = sum(commands for commands, _, _, _ in runs) / RATE / clock_s
    print(
        f"speed        3 hosts, two shards, {len(runs)} clusters on {jobs} cores: "
        f"{len(runs) * LOAD_S / clock_s:.1f}x real time, {speed:.1f}x at {RATE} per second, by the clock"
    )


def _show_speed(what: str, commands: int, cpu_s: float) -> None:
    print(
        f"speed        {what}, one process, {commands / LOAD_S:.0f} commands per simulated second: "
        f"{LOAD_S / cpu_s:.1f}x real time, {commands / RATE / cpu_s:.1f}x at {RATE} per second, by CPU time"
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


def made_of(path: object) -> str:
    return "pure Python" if str(path).endswith(".py") else "compiled"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.cluster.figures", description=__doc__)
    parser.add_argument("--plain", action="store_true", help="pure Python, also if there is a compiled simulator")
    arguments = parser.parse_args()
    if not arguments.plain and (folder := fastest()) != ROOT:
        return subprocess.run([sys.executable, "-m", "tests.sim.cluster.figures"], cwd=folder, check=False).returncode
    print(f"core         {made_of(lane.__file__)}, simulator {made_of(world.__file__)}")
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
