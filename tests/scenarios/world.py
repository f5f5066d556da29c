"""Shards with their primaries, a clock, a disk that may stop and a network that may misbehave.

What a host's event loop does, without one: submit, flush, sync, tick, replies, loads, hand-overs, until all is quiet.
"""

import enum
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from holdfast.core import limits
from holdfast.core.errors import HoldfastError
from holdfast.core.log.journal import Journal
from holdfast.core.log.primary import Primary
from holdfast.core.queue.command import Arrive, ArriveReply, Command, Handover, Settle
from holdfast.core.queue.shard import Shard
from holdfast.core.types import Instant, ShardId, WallMs
from tests.scenarios.memory_log import MemoryLog

WALL_START = 1_700_000_000_000
ROUNDS_MAX = 200


class Mode(enum.Enum):
    """How a case is run. The answers must be the same in all of them."""

    PLAIN = "plainly"
    CHECKED = "replayed after every command"
    DROPPED = "with windows dropped after every command"
    REPLACED = "with the state made anew from the log after every command"


class Network(enum.Enum):
    WORKS = "works"
    STOPS = "stops"  # hand-overs are lost
    LOSES = "loses answers"  # hand-overs arrive, the answers are lost
    REPEATS = "repeats"  # everything comes twice
    REVERSES = "reverses"  # the last hand-over comes first


class Node:
    """One shard with its primary and its log."""

    def __init__(self, shard: ShardId, mode: Mode) -> None:
        self.log = MemoryLog(shard)
        self.mode = mode
        self.primary = self._start(Shard(shard))

    @property
    def shard(self) -> Shard:
        return self.primary.shard

    def _start(self, shard: Shard) -> Primary:
        return Primary(shard, cast(Journal, self.log))

    def restart(self) -> None:
        self.log.lose_power()
        chosen = self.log.snapshots[len(self.log.snapshots) // 2][1] if self.log.snapshots else None
        self.primary = self._start(self.log.replay(chosen))

    def after_command(self) -> None:
        if self.mode is Mode.PLAIN:
            return
        self.log.assert_replayable(self.shard)
        self.log.keep_snapshot()
        if self.mode is Mode.DROPPED:
            for lane in self.shard.lanes.values():
                lane.backlog.window = None
        if self.mode is Mode.REPLACED:
            self._replace()

    def _replace(self) -> None:
        watched = [lane.lane for lane in self.shard.lanes.values() if lane.is_watched]
        self.primary.shard = self.log.twin_of(self.shard, lambda count: self.shard.lsn % count)
        for lane_id in watched:
            self.shard.watch(lane_id, is_watched=True)
            self.shard.stirred[lane_id] = None


class World:
    def __init__(self, mode: Mode = Mode.PLAIN) -> None:
        self.mode = mode
        self.nodes: dict[ShardId, Node] = {}
        self.time = Instant(0)  # cluster time of every shard, unless one was restarted
        self.wall_offset = 0
        self.stopped: set[ShardId] = set()  # shards whose disk does not answer
        self.network = Network.WORKS
        self.handed: list[tuple[ShardId, Handover]] = []  # everything that ever was handed over, and to whom
        self.answers: list[tuple[Any, object]] = []

    def node(self, shard: ShardId) -> Node:
        if shard not in self.nodes:
            self.nodes[shard] = Node(shard, self.mode)
        return self.nodes[shard]

    @property
    def wall(self) -> WallMs:
        return WallMs(WALL_START + self.time // 1000 + self.wall_offset)

    def submit(self, shard: ShardId, command: Command, token: Any, *, wait_s: int = 0) -> None:
        self.node(shard).primary.submit(command, token, self.time, self.wall, wait_s=wait_s)

    def take_answers(self) -> list[tuple[Any, object]]:
        taken, self.answers = self.answers, []
        return taken

    def advance(self, to: Instant) -> None:
        assert to >= self.time, "time does not go back"
        self.time = to
        for node in self.nodes.values():
            node.primary.tick(self.time, self.wall)
        self.settle()

    def restart(self, *, after_s: int) -> None:
        """All hosts stop, unsynced bytes are lost, and start again. Cluster time goes on from the last frame."""
        for node in self.nodes.values():
            node.restart()
        before, self.time = self.time, max(node.log.stamp for node in self.nodes.values())
        self.wall_offset += (before - self.time) // 1000 + after_s * 1000
        self.stopped.clear()
        self.settle()

    # Until all is quiet

    def settle(self) -> None:
        for _ in range(ROUNDS_MAX):
            turns = [self._turn(node) for node in self.nodes.values()]
            if not any(turns) and not self._carry():
                break
        else:
            raise AssertionError("the shards do not come to rest")
        for node in self.nodes.values():
            self._assert_not_spinning(node)

    def after_command(self) -> None:
        for node in self.nodes.values():
            node.after_command()

    def _turn(self, node: Node) -> bool:
        """True: something happened, so something else may be possible now."""
        primary = node.primary
        is_busy = False
        for need in primary.needs():
            headers, upto = node.log.headers(need)
            primary.loaded(need, headers, upto, self.time, self.wall)
            is_busy = True
        if node.shard.shard not in self.stopped and (node.log.is_flushing or primary.flush()):
            primary.synced()
            primary.tick(self.time, self.wall)
            is_busy = True
        for token, answer in primary.replies():
            if isinstance(token, Handover):
                self._answered(token, answer)
            else:
                self.answers.append((token, answer))
            is_busy = True
        return is_busy

    def _assert_not_spinning(self, node: Node) -> None:
        """A host rings its timer at `deadline`; one that is always due would keep a processor busy for nothing."""
        node.primary.tick(self.time, self.wall)
        deadline = node.primary.deadline()
        is_quiet = deadline > self.time + 1 or node.shard.shard in self.stopped
        assert is_quiet, f"a timer that is due at {deadline} though nothing happens then"

    # Hand-overs

    def _carry(self) -> bool:
        is_busy = False
        for node in list(self.nodes.values()):
            due = [
                (each.entry.target.shard, each.handover(node.log.message(each.entry.header.at)))
                for each in node.primary.outgoing(self.time)
            ]
            self.handed += due
            is_busy = self._hand_over(due) or is_busy
        return is_busy

    def _hand_over(self, due: list[tuple[ShardId, Handover]]) -> bool:
        match self.network:
            case Network.STOPS:
                return False
            case Network.REPEATS:
                due = [*due, *due]
            case Network.REVERSES:
                due = due[::-1]
        for target, handover in due:
            self.submit(target, Arrive(handover), handover)
        return bool(due)

    def _answered(self, handover: Handover, answer: object) -> None:
        """The target shard's answer to a hand-over. An error is none: the source asks again."""
        if self.network is Network.LOSES or isinstance(answer, HoldfastError):
            return
        assert isinstance(answer, ArriveReply)
        settle = Settle(answer.target, answer.number, answer.is_refused)
        for _ in range(2 if self.network is Network.REPEATS else 1):
            self.submit(handover.source, settle, None)

    def repeat_everything(self) -> None:
        """Every hand-over that ever was sent comes once more, the last first, and so do the answers."""
        for target, handover in self.handed[::-1]:
            self.submit(target, Arrive(handover), handover)
        self.settle()


@contextmanager
def changed_limits(changes: dict[str, int]) -> Iterator[None]:
    """Bounds are compiled into the modules that use them; a test of a bound must not need 120,000 messages."""
    modules = [module for name, module in sys.modules.items() if name.startswith("holdfast.core.")]
    before = [(module, name, getattr(module, name)) for module in modules for name in changes if hasattr(module, name)]
    for name in changes:
        assert hasattr(limits, name), f"there is no limit {name}"
    for module, name, _ in before:
        setattr(module, name, changes[name])
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
