"""Stories about clusters: read, carried out on paper, and printed again with what really happened."""

import shlex
from collections.abc import Callable
from typing import Final

from holdfast.core.cluster.arrangement import Settings
from holdfast.core.coordination.cluster import (
    MANAGER_KEY,
    Drain,
    HostId,
    ShardRecord,
    ShardState,
    decode_assignment,
    decode_drain,
    decode_manager,
    decode_shard,
    drain_key,
    encode,
)
from holdfast.core.coordination.store import Delete, Event, Put, Transaction, Write
from holdfast.core.limits import SECOND
from holdfast.core.types import Lsn, ShardId
from tests.managers.paper import PaperHost, World
from tests.scenarios.script import Case

CALM: Final = 12 * SECOND  # until a new cluster has made its shards


def outputs_of(case: Case) -> list[list[str]]:
    """What really happens, block by block."""
    script = Script()
    return [[line for command in block.commands for line in script.run(command)] for block in case.blocks]


def seconds(instant: int) -> str:
    """Since the cluster was made."""
    return f"{(instant - CALM + 50_000) // 100_000 / 10:g}"


class Script:
    def __init__(self) -> None:
        self.world = World(Settings(), on_change=self.tell)
        self.verbs: dict[str, Callable[..., None]] = {
            "cluster": self.cluster,
            "join": self.join,
            "at": self.at,
            "kill": self.each(PaperHost.kill),
            "start": self.each(PaperHost.start),
            "wipe": self.each(PaperHost.wipe),
            "pause": self.each(PaperHost.pause),
            "resume": self.each(PaperHost.resume),
            "cut": self.cut,
            "deafen": self.deafen,
            "mend": self.mend,
            "drain": lambda name: self.write(Put(drain_key(HostId(name)), encode(Drain()))),
            "undrain": lambda name: self.write(Delete(drain_key(HostId(name)))),
            "busy": self.busy,
            "log": self.log,
            "damage": self.damage,
            "restore": self.restore,
            "replay": self.replay,
            "show": self.show,
        }

    def host(self, name: str) -> PaperHost:
        return self.world.hosts[HostId(name)]

    def each(self, action: Callable[[PaperHost], None]) -> Callable[..., None]:
        def carry_out(*names: str) -> None:
            for name in names:
                action(self.host(name))

        return carry_out

    def run(self, line: str) -> list[str]:
        verb, *words = shlex.split(line)
        options = dict(each.split("=", 1) for each in words if "=" in each)
        self.verbs[verb](*[each for each in words if "=" not in each], **options)
        lines = [f"{seconds(at):>5}  {text}" for at, text in self.world.happened]
        self.world.happened.clear()
        return lines

    # making it

    def cluster(
        self,
        *hosts: str,
        shards: str = "1",
        grace: str = "30",
        replicas: str = "3",
        zones: str = "",
        most: str = "0",
    ) -> None:
        """`zones`: one letter for each host. Time begins when the shards are made."""
        per_host, wanted = -(-int(shards) // len(hosts)), int(replicas)
        self.world = World(
            Settings(
                replicas=wanted,
                min_members=min(2, wanted),
                grace_us=int(grace) * SECOND,
                shards_per_host=per_host,
                hosts_max=int(most),
            ),
            on_change=self.tell,
        )
        for number, name in enumerate(hosts):
            self.world.add(name, zone=zones[number] if zones else "")
        self.world.run(CALM)
        self.world.happened.clear()
        self.show()

    def join(self, *hosts: str, zone: str = "") -> None:
        for each in hosts:
            self.world.add(each, zone=zone)

    # time and faults

    def at(self, second: str) -> None:
        self.world.run(CALM + int(float(second) * SECOND))

    def cut(self, one: str, *others: str) -> None:
        for each in others:
            self.world.cut(one, each)

    def deafen(self, name: str) -> None:
        self.world.deaf.add(name)

    def mend(self) -> None:
        self.world.mend()

    def busy(self, *hosts: str, permille: str) -> None:
        for each in hosts:
            self.host(each).busy = int(permille)

    def log(self, host: str, shard: str, *, lsn: str) -> None:
        self.host(host).replicas[ShardId(int(shard))].lsn = Lsn(int(lsn))

    def damage(self, host: str, shard: str) -> None:
        self.host(host).replicas[ShardId(int(shard))].is_damaged = True

    def write(self, write: Write) -> None:
        self.world.store.transact(Transaction((), (write,)))
        self.world.tell_watchers()

    def restore(self) -> None:
        self.world.restore()

    def replay(self) -> None:
        """Everything that managers ever asked of the store arrives once more."""
        done = [self.world.store.transact(each) for each in self.world.sent]
        self.world.say(f"{len(done)} transactions again, {sum(done)} carried out")
        self.world.tell_watchers()

    # showing it

    def show(self) -> None:
        manager = self.world.store.get(MANAGER_KEY)
        self.world.say(f"{decode_manager(manager.value).host} manages" if manager else "nobody manages")
        for record in self.world.store.range("shards/").records:
            shard = ShardId(int(record.key.removeprefix("shards/")))
            self.world.say(self.text_of_shard(shard, decode_shard(record.value)))

    @staticmethod
    def text_of_shard(shard: ShardId, record: ShardRecord) -> str:
        others = " ".join(each.host for each in record.members if each.host != record.primary)
        if record.state is ShardState.RECOVERING:
            return f"shard {shard}, epoch {record.epoch}: {record.primary} makes sure of everything"
        return f"shard {shard}, epoch {record.epoch}: {record.primary} leads, with {others or 'nobody'}"

    def tell(self, event: Event) -> None:
        kind, _, name = event.key.partition("/")
        value = event.record.value if event.record else b""
        say = self.world.say
        match kind:
            case "manager":
                say(f"{decode_manager(value).host} manages" if value else "nobody manages")
            case "hosts" if not value:
                say(f"the lease of {name} is over")
            case "shards":
                say(self.text_of_shard(ShardId(int(name)), decode_shard(value)))
            case "assignments":
                say(f"shard {name} should be on {' '.join(sorted(decode_assignment(value).hosts))}")
            case "drains" if value and decode_drain(value).is_done:
                say(f"{name} is empty")
