"""A machine: a disk, a clock, and the one process that runs on it, which dies and is started again.

    Host      what outlives a process: disk, clock, faults
    Process   one life: recovery of every shard, then the loop (runner.py has what belongs to one shard)

Each file operation is one event in virtual time, so a crash can fall between any two of them, whoever issues them.
"""

import errno
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

from holdfast.core.errors import CorruptLog
from holdfast.core.log.files import Create, FileOp, Read, Rename, Sync, SyncDir, Unlink, Work, Write
from holdfast.core.log.primary import Primary
from holdfast.core.types import ShardId
from tests.sim.cipher import SealBook
from tests.sim.clock import Clock
from tests.sim.disk import READING, Disk
from tests.sim.plan import Plan
from tests.sim.request import ANSWERED, OPEN, REFUSED, UNKNOWN, Request
from tests.sim.runner import Runner
from tests.sim.world import MS, SECOND, World

Result = TypeVar("Result")
SLOW: Final = 300 * MS  # what a sync of a slow disk takes longer
RARE: Final = (Create, Rename, SyncDir, Unlink)  # operations whose failpoints are tried more often
KILL, POWER = "kill", "power cut"


class Witness(Protocol):
    """Who watches a host. The checkers do."""

    def begun(self, request: Request) -> None: ...

    def ended(self, request: Request) -> None: ...

    def abandoned(self, request: Request) -> None: ...

    def recovered(self, host: "Host", shard: ShardId, primary: Primary) -> None: ...

    def synced(self, host: "Host", shard: ShardId, primary: Primary, stamp: int) -> None: ...

    def corrupt(self, host: "Host", problem: CorruptLog) -> None: ...


class Host:
    def __init__(
        self, world: World, plan: Plan, *, shards: Sequence[ShardId], witness: Witness, seals: SealBook
    ) -> None:
        self.world = world
        self.plan = plan
        self.shards = tuple(shards)
        self.witness = witness
        self.seals = seals
        self.clock = Clock(world)
        self.disk = Disk(world.rng, [str(shard) for shard in shards])
        self.process: Process | None = None
        self.failpoint: Callable[[int, FileOp], str] | None = None  # directed tests: when to crash, and how
        self.ops = 0  # operations that change something, so far
        self.starts = 0
        self.commands = 0
        self.is_healed = False
        self.repaired_at = -SECOND  # when damaged bytes were brought back last
        self.slow_until = 0

    # Life

    def start(self) -> None:
        if self.process is None:
            self.starts += 1
            self.process = Process(self)
            self.process.begin()

    def crash(self, kind: str, why: str, *, restart: int | None = None) -> None:
        """The process is gone; with POWER also what was not durable. It is started again a little later."""
        process, self.process = self.process, None
        self.world.fault(kind, why)
        if process is not None:
            process.end()
        if kind == POWER:
            self.disk.cut_power()
        else:
            self.disk.kill()
        delay = self.world.between(1 * MS, 300 * MS) if restart is None else restart
        self.world.after(delay, self.start)
        if not self.is_healed and self.world.chance(self.plan.relapse):
            self.world.after(self.world.between(0, 2 * delay), self._relapse)

    def _relapse(self) -> None:
        self.crash(POWER if self.world.chance(self.plan.power_share) else KILL, "again")

    def heal(self) -> None:
        """No more faults. What is damaged is brought back."""
        self.is_healed = True
        self.failpoint = None
        self.disk.budget = None
        self.disk.repair()

    def pause(self, length: int) -> None:
        if self.process is not None:
            self.world.fault("pause", f"{length}")
            self.process.resume_at = self.world.now + length

    # The disk, with its faults

    def execute(self, root: str, op: FileOp) -> Any:
        plan = self.plan
        if (plan.read_error or plan.write_error or plan.sync_error) and not self.is_healed:
            self._fail_perhaps(root, op)
        try:
            return self.disk.execute(root, op)
        except OSError as problem:
            if problem.errno == errno.ENOSPC:
                self.world.fault("no space", getattr(op, "path", ""))
            raise

    def _fail_perhaps(self, root: str, op: FileOp) -> None:
        plan, world = self.plan, self.world
        if isinstance(op, Read):
            if world.chance(plan.read_error):
                world.fault("read error", op.path)
                raise OSError(errno.EIO, f"read {op.path}")
        elif isinstance(op, Write):
            if world.chance(plan.write_error):
                world.fault("write error", op.path)
                self.disk.fail_write(root, op)
        elif isinstance(op, Sync) and world.chance(plan.sync_error):
            world.fault("sync error", op.path)
            self.disk.fail_sync(root, op)

    def latency(self, op: FileOp) -> int:
        world, plan, kind = self.world, self.plan, type(op)
        if kind is not Sync and kind is not SyncDir:
            return 10 + int(world.random() * 51)
        slow = SLOW if world.now < self.slow_until else 0
        if plan.slow_sync and not self.is_healed and world.chance(plan.slow_sync):
            world.fault("slow sync")
            return slow + world.between(20 * MS, 600 * MS)
        return slow + world.between(plan.sync_us // 2, plan.sync_us * 2)

    def fails_at(self, op: FileOp) -> str:
        """KILL or POWER when the process crashes just before this operation, which changes something; else empty."""
        self.ops += 1
        if self.failpoint is not None:
            return self.failpoint(self.ops, op)
        probability = self.plan.failpoint
        if not probability or self.is_healed:
            return ""
        if not self.world.chance(probability if isinstance(op, RARE) else probability / 20):
            return ""
        return POWER if self.world.chance(self.plan.power_share) else KILL

    # Clients

    def request(self, request: Request) -> None:
        """Sent now; it arrives a little later."""
        self.world.after(self.world.between(50, 300), self._arrive, request)

    def _arrive(self, request: Request) -> None:
        process = self.process
        if process is None or not process.take(request):
            request.fate = REFUSED
            self.tell(request, REFUSED)

    def tell(self, request: Request, fate: str) -> None:
        self.world.after(self.world.between(50, 300), request.asker.told, request, fate)

    def waiting(self) -> list[str]:
        """Requests that have no answer yet."""
        requests = self.process.open_requests() if self.process is not None else []
        return [f"{request.number} {request.command}" for request in requests]

    def cancel(self, request: Request) -> None:
        """The client's connection broke, and the host noticed."""
        if self.process is not None:
            self.process.cancel(request)


class Process:
    def __init__(self, host: Host) -> None:
        self.host = host
        self.world = host.world
        self.is_alive = True
        self.resume_at = 0  # paused until then
        self.runners = self.make_runners()
        self._open: dict[int, Request] = {}

    def make_runners(self) -> dict[ShardId, Runner]:
        return {shard: Runner(self, self.host, shard) for shard in self.host.shards}

    def begin(self) -> None:
        self.world.note(f"start {self.host.starts}")
        for runner in self.runners.values():
            runner.recover()

    def end(self) -> None:
        """It is dead. Whoever waits for an answer learns that there will be none."""
        self.is_alive = False
        for request in self._open.values():
            request.fate, request.ended = UNKNOWN, self.world.now
            self.host.witness.abandoned(request)
            self.host.tell(request, UNKNOWN)
        self._open.clear()

    # Events of this life

    def call(self, delay: int, action: Callable[..., None], *args: Any) -> None:
        self.world.after(delay, self.gate, action, args)

    def gate(self, action: Callable[..., None], args: tuple[Any, ...]) -> None:
        if not self.is_alive:
            return
        if self.world.now < self.resume_at:
            self.world.at(self.resume_at, self.gate, action, args)
            return
        try:
            action(*args)
        except OSError as problem:
            self._stop(problem)
        except CorruptLog as problem:
            self.host.witness.corrupt(self.host, problem)
            self._stop(problem)

    def _stop(self, problem: Exception) -> None:
        """A write, sync or read that failed is not tried again: the host stops."""
        self.host.crash(KILL, f"stopped: {problem}", restart=self.world.between(1 * MS, SECOND))

    # Machines that yield file operations

    def run(self, shard: ShardId | str, work: Work[Result], on_done: Callable[[Result], None]) -> None:
        """Carries out one operation after the other, each in its own time."""
        Running(self, str(shard), work, on_done).advance(None)

    def run_now(self, shard: ShardId, work: Work[Result]) -> Result:
        """At once: for reads that the page cache answers."""
        value: Any = None
        while True:
            try:
                op = work.send(value)
            except StopIteration as end:
                result: Result = end.value
                return result
            value = self.host.execute(str(shard), op)

    # Clients

    def take(self, request: Request) -> bool:
        """False: its shard does not answer yet."""
        runner = self.runners.get(ShardId(request.shard))
        if runner is None or not runner.is_ready:
            return False
        self.host.commands += 1
        request.number = self.host.commands
        self._open[request.number] = request
        runner.inbox.append(request)
        runner.wake()
        return True

    def answer(self, request: Request) -> None:
        """The reply leaves the host now. It may get lost on its way."""
        if self._open.pop(request.number, None) is None:
            return  # its client is gone, and the host knows
        request.fate, request.ended = ANSWERED, self.world.now
        self.host.witness.ended(request)
        is_lost = not self.host.is_healed and self.world.chance(self.host.plan.reply_loss)
        self.host.tell(request, UNKNOWN if is_lost else ANSWERED)

    def open_requests(self) -> list[Request]:
        return list(self._open.values())

    def cancel(self, request: Request) -> None:
        if request.fate == OPEN and request.number in self._open:
            del self._open[request.number]
            self.runners[ShardId(request.shard)].cancel(request)
            request.fate, request.ended = UNKNOWN, self.world.now
            self.host.witness.abandoned(request)


class Running:
    """Work on its way through the operations that it asks for."""

    __slots__ = ("_on_done", "_op", "_process", "_root", "_work")

    def __init__(self, process: Process, root: str, work: Work[Any], on_done: Callable[[Any], None]) -> None:
        self._process = process
        self._root = root
        self._work = work
        self._on_done = on_done
        self._op: Any = None

    def advance(self, value: Any, problem: OSError | None = None) -> None:
        try:
            self._op = op = self._work.send(value) if problem is None else self._work.throw(problem)
        except StopIteration as end:
            self._on_done(end.value)
            return
        process = self._process
        process.world.after(process.host.latency(op), process.gate, self._do, ())

    def _do(self) -> None:
        op, root, host = self._op, self._root, self._process.host
        is_change = type(op) not in READING
        if is_change and (kind := host.fails_at(op)):
            host.crash(kind, f"before {name_of(op)}")
            return
        value, problem = None, None
        try:
            value = host.execute(root, op)
        except OSError as error:
            problem = error
        if is_change:
            host.world.note(f"{root} {name_of(op)}")
        self.advance(value, problem)


def name_of(op: FileOp) -> str:
    kind = type(op)
    if kind is Write:
        return f"write {op.path} {op.offset} {len(op.data)}"  # type: ignore[union-attr]
    if kind is Sync:
        return f"Sync {op.path}"  # type: ignore[union-attr]
    if isinstance(op, Rename):
        return f"rename {op.old} {op.new}"
    return f"{kind.__name__} {op.path}"
