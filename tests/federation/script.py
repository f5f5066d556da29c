"""Stories about clusters and the external manager, of which two processes run: read, carried out, and printed again."""

import heapq
import shlex
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import msgspec

from holdfast.core.cluster.federation import OFFICE, Federation
from holdfast.core.cluster.membership import Leased, Tick
from holdfast.core.cluster.spread import (
    CLUSTERS,
    REPORTS,
    SPREADS,
    STANDINGS,
    ClusterId,
    ClusterRecord,
    ClusterReport,
    Spread,
    Standing,
    clusters_for,
    new_spread,
    pick,
    spread_key,
)
from holdfast.core.coordination.asking import Fetched, Loaded, Outcome, Settled, Watched
from holdfast.core.coordination.store import Event, LeaseGone, Put, State, Transaction
from holdfast.core.limits import SECOND
from holdfast.core.types import QueueName
from tests.scenarios.script import Case

LATENCY: Final = 10_000
LEASE_LIFE: Final = 5 * SECOND
REPORTED_EVERY: Final = 2 * SECOND


def outputs_of(case: Case) -> list[list[str]]:
    script = Script()
    return [[line for command in block.commands for line in script.run(command)] for block in case.blocks]


def queue_of(name: str) -> QueueName:
    return QueueName("000000000000", name)


class Cluster(msgspec.Struct):
    """As it speaks of itself."""

    name: ClusterId
    speaks: bool = True
    active: int = 8
    busy: int = 300
    emptied: tuple[QueueName, ...] = ()
    number: int = 0


class Process:
    """One of the processes that may be the external manager."""

    def __init__(self, name: str, script: "Script") -> None:
        self.name, self.script, self.is_up = name, script, True
        self.machine = Federation(name, script.now)
        self.lease = script.store.grant(LEASE_LIFE, script.now)
        self.step(Loaded(script.store.range("")))
        self.step(Leased(self.lease))
        self.tick()

    def tick(self) -> None:
        if self.is_up:
            self.script.store.renew(self.lease, self.script.now)
            self.step(Tick())
            self.script.call(self.machine.deadline() - self.script.now, self.tick)

    def step(self, event: Any) -> None:
        if not self.is_up:
            return
        output = self.machine.step(event, self.script.now)
        for each in output.transacts:
            self.script.sent.append(each.transaction)
            self.script.call(LATENCY, lambda each=each: self.settle(each.token, each.transaction))  # type: ignore[misc]
        for one in output.fetches:
            self.script.call(LATENCY, lambda one=one: self.fetch(one.token, one.key))  # type: ignore[misc]

    def settle(self, token: int, transaction: Transaction) -> None:
        outcome = Outcome.DONE if self.script.transact(transaction) else Outcome.REFUSED
        self.script.call(LATENCY, lambda: self.step(Settled(token, outcome)))

    def fetch(self, token: int, key: str) -> None:
        answer = Fetched(token, self.script.store.get(key), self.script.store.revision)
        self.script.call(LATENCY, lambda: self.step(answer))


class Script:
    def __init__(self) -> None:
        self.now = 0
        self.store = State()
        self.clusters: dict[str, Cluster] = {}
        self.sent: list[Transaction] = []
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0
        self._told = 0
        self._lines: list[str] = []
        self.processes = {name: Process(name, self) for name in ("m1", "m2")}
        self.verbs: dict[str, Callable[..., None]] = {
            "clusters": self.make,
            "queue": self.queue,
            "at": self.at,
            "send": self.send,
            "drain": lambda name: self.register(name, is_draining=True),
            "is": self.set,
            "emptied": self.emptied,
            "kill": self.kill,
            "replay": self.replay,
        }

    def run(self, line: str) -> list[str]:
        verb, *words = shlex.split(line)
        options = dict(each.split("=", 1) for each in words if "=" in each)
        self.verbs[verb](*[each for each in words if "=" not in each], **options)
        lines, self._lines = self._lines, []
        return lines

    # time and store

    def call(self, delay: int, action: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._queue, (self.now + max(1, delay), self._number, action))

    def at(self, second: str) -> None:
        until = int(float(second) * SECOND)
        while self._queue[0][0] <= until:
            self.now, _, action = heapq.heappop(self._queue)
            self.store.expire(self.now)
            action()
            self.tell()
        self.now = until

    def transact(self, transaction: Transaction) -> bool:
        try:
            return self.store.transact(transaction)
        except LeaseGone:
            return False

    def put(self, key: str, value: Any) -> None:
        self.store.transact(Transaction((), (Put(key, msgspec.json.encode(value)),)))
        self.tell()

    def tell(self) -> None:
        changes = self.store.changes("", self._told)
        self._told = changes.revision
        for event in changes.events:
            self.show(event)
            for process in self.processes.values():
                self.call(LATENCY, lambda process=process, event=event: process.step(Watched(event)))  # type: ignore[misc]

    def show(self, event: Event) -> None:
        value = event.record.value if event.record else None
        at = f"{self.now // 100_000 / 10:5g}  "
        if event.key == OFFICE:
            self._lines.append(
                at + (f"{value.decode()} manages the clusters" if value else "nobody manages the clusters")
            )
        elif event.key.startswith(STANDINGS) and value:
            standing = msgspec.json.decode(value, type=Standing)
            said = "gets its share" if standing.part else f"gets nothing new: {standing.reason}"
            self._lines.append(f"{at}{event.key.removeprefix(STANDINGS)} {said}")
        elif event.key.startswith(SPREADS) and value:
            spread = msgspec.json.decode(value, type=Spread)
            names = " ".join(each.cluster for each in spread.shares)
            self._lines.append(f"{at}{event.key.rpartition('/')[2]} is on {names}")

    # commands

    def make(self, *names: str) -> None:
        for name in names:
            self.clusters[name] = Cluster(ClusterId(name))
            self.register(name)
            self.report(self.clusters[name])

    def register(self, name: str, *, is_draining: bool = False) -> None:
        self.put(CLUSTERS + name, ClusterRecord(f"https://{name}.example", is_draining=is_draining))

    def report(self, cluster: Cluster) -> None:
        self.call(REPORTED_EVERY, lambda: self.report(cluster))
        if cluster.speaks:
            cluster.number += 1
            said = ClusterReport(cluster.number, 8, cluster.active, cluster.busy, 200, cluster.emptied)
            self.put(REPORTS + cluster.name, said)

    def set(self, name: str, how: str, *, busy: str = "300") -> None:
        cluster = self.clusters[name]
        match how:
            case "silent" | "well":
                cluster.speaks, cluster.active, cluster.busy = how == "well", 8, int(busy)
            case "thin":
                cluster.active = 3
            case "busy":
                cluster.busy = int(busy)
            case _:
                raise AssertionError(how)

    def queue(self, name: str, *words: str, clusters: str = "2") -> None:
        machine = self.processes["m1"].machine
        found = clusters_for(int(clusters), machine.clusters, machine.reports, standings=machine.standings)
        self.put(spread_key(queue_of(name)), new_spread(found, machine.clusters, is_pinned="fifo" in words))

    def emptied(self, name: str, queue: str) -> None:
        self.clusters[name].emptied = (queue_of(queue),)

    def kill(self, name: str) -> None:
        self.processes[name].is_up = False

    def send(self, name: str, count: str) -> None:
        """Where that many messages go, by what the store says now."""
        record = self.store.get(spread_key(queue_of(name)))
        assert record is not None
        spread = msgspec.json.decode(record.value, type=Spread)
        standings = {
            ClusterId(each.key.removeprefix(STANDINGS)): msgspec.json.decode(each.value, type=Standing)
            for each in self.store.range(STANDINGS).records
        }
        went = Counter(pick(spread, standings, number) for number in range(int(count)))
        self._lines.append("       " + ", ".join(f"{went[each]} to {each}" for each in sorted(went)))

    def replay(self) -> None:
        done = [self.transact(each) for each in self.sent]
        self._lines.append(f"       {len(done)} transactions again, {sum(done)} carried out")
        self.tell()
