"""What each worker knows of itself, and how the one with the admin port makes a whole of it.

    worker 1 ── Part ──┐
    worker 2 ── Part ──┼─▶ whole ─▶ /metrics, /api/queues
    its own  ── Part ──┘

Laws
- Counts are added, whoever counted them: a queue is led by one worker and asked for through all of them.
- Counts of the whole do not fall. A worker keeps what it tells before it tells it (`Told`); whoever replaces it begins
  there, and until it answers, what was kept stands for it.
"""

from collections.abc import Iterable
from operator import add
from pathlib import Path

import msgspec
from prometheus_client import ProcessCollector

from holdfast.console.facts import Queue
from holdfast.runtime.metrics import NOTHING, Meter, Replies

_SMALLEST = ("process_start_time_seconds", "process_max_fds")  # of several processes; all else is added
_CPU = "process_cpu_seconds_total"


class Action(msgspec.Struct, array_like=True):
    """Replies to one action."""

    latency: list[int]
    micros: int
    statuses: dict[int, int]


class Part(msgspec.Struct, array_like=True):
    """Of one worker, or of several put together."""

    depths: list[Queue]  # of the queues that it leads, without counts
    counts: dict[str, list[int]]  # of all queues that were used through it, by "account/name"
    totals: list[int]  # of all queues, also of those that are no more
    actions: dict[str, Action]
    syncs: list[int]
    sync_seconds: float
    connections: int
    long_polls: int
    is_usage_waiting: bool
    usage_dropped: int
    process: dict[str, float]  # as Prometheus names it

    def queues(self) -> list[Queue]:
        return [_with_counts(each, self.counts.get(f"{each.account}/{each.name}", NOTHING)) for each in self.depths]


def of_meter(meter: Meter, depths: list[Queue], *, connections: int, long_polls: int, usage: tuple[bool, int]) -> Part:
    """`usage`: whether it waits for a disk, and how many of its rows were dropped."""
    meter.update()
    return Part(
        depths,
        {f"{name.account}/{name.name}": list(counts) for name, counts in meter.queues.items()},
        meter.totals(),
        {action: _action(replies) for action, replies in meter.actions.items()},
        list(meter.syncs.counts),
        meter.syncs.seconds,
        connections,
        long_polls,
        *usage,
        {
            sample.name: sample.value
            for family in ProcessCollector(registry=None).collect()
            for sample in family.samples
        },
    )


def _action(replies: Replies) -> Action:
    return Action(list(replies.latency), replies.micros, dict(replies.statuses))


def together(parts: Iterable[Part]) -> Part:
    """Of at least one."""
    first, *others = parts
    whole = msgspec.structs.replace(
        first, depths=list(first.depths), counts={}, actions={}, process=dict(first.process)
    )
    _add_by_name(whole, first)
    for part in others:
        whole.depths += part.depths
        _add_by_name(whole, part)
        whole.totals = _sums(whole.totals, part.totals)
        whole.syncs = _sums(whole.syncs, part.syncs)
        whole.sync_seconds += part.sync_seconds
        whole.connections += part.connections
        whole.long_polls += part.long_polls
        whole.is_usage_waiting |= part.is_usage_waiting
        whole.usage_dropped += part.usage_dropped
        for name, value in part.process.items():
            held = whole.process.get(name)
            whole.process[name] = value if held is None else min(held, value) if name in _SMALLEST else held + value
    return whole


def _add_by_name(whole: Part, part: Part) -> None:
    for name, counts in part.counts.items():
        whole.counts[name] = _sums(whole.counts.get(name, [0] * len(counts)), counts)
    for name, action in part.actions.items():
        held = whole.actions.get(name) or Action([0] * len(action.latency), 0, {})
        statuses = {
            each: held.statuses.get(each, 0) + action.statuses.get(each, 0)
            for each in (*held.statuses, *action.statuses)
        }
        whole.actions[name] = Action(_sums(held.latency, action.latency), held.micros + action.micros, statuses)


def _sums(one: list[int], other: list[int]) -> list[int]:
    return list(map(add, one, other))


def _with_counts(queue: Queue, counts: Iterable[int]) -> Queue:
    sent, received, deleted, empty_receives, sent_bytes = counts
    return msgspec.structs.replace(
        queue, sent=sent, received=received, deleted=deleted, empty_receives=empty_receives, sent_bytes=sent_bytes
    )


class Told:
    """The file in which a worker keeps what it has told, for whoever replaces it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> Part | None:
        """None: nothing was told."""
        try:
            return msgspec.msgpack.decode(self._path.read_bytes(), type=Part)
        except FileNotFoundError:
            return None

    def write(self, part: bytes) -> None:
        """Not synced: no file of the crew outlives a machine."""
        unfinished = self._path.with_suffix(".new")
        unfinished.write_bytes(part)
        unfinished.replace(self._path)


def counted(part: Part) -> Part:
    """What stays true of a worker that is no more: its counts."""
    process = {_CPU: part.process[_CPU]} if _CPU in part.process else {}
    return msgspec.structs.replace(
        part, depths=[], connections=0, long_polls=0, is_usage_waiting=False, process=process
    )
