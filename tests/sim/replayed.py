"""I21: the state that snapshot and log on a disk lead to, as a restart would find it; read without changing it."""

from typing import Any, TypeVar

import msgspec

from holdfast.core.log.files import FileOp, List, Work
from holdfast.core.log.replay import Replay, from_snapshot
from holdfast.core.log.segment_files import list_segments
from holdfast.core.log.snapshot import list_snapshots, load_newest
from holdfast.core.queue import state as states
from holdfast.core.queue.shard import Shard
from holdfast.core.types import Lsn, ShardId
from tests.sim.disk import Disk

Result = TypeVar("Result")


def state(disk: Disk, shard: ShardId, *, skip_newest: bool = False, upto: Lsn | None = None) -> Shard | None:
    """As of `upto`, or of the end. None when there is no older snapshot to start from."""

    def do(op: FileOp) -> Any:
        names = disk.execute(str(shard), op)
        if isinstance(op, List) and op.path == "snapshots" and skip_newest:
            return sorted(name for name in names if name.endswith(".snap"))[:-1]
        return names

    if skip_newest and not run(list_snapshots(), do):
        return None
    return run(_replay(shard, upto), do)


def run(work: Work[Result], do: Any) -> Result:
    answer: Any = None
    while True:
        try:
            op = work.send(answer)
        except StopIteration as end:
            result: Result = end.value
            return result
        answer = do(op)


def _replay(shard: ShardId, upto: Lsn | None) -> Work[Shard]:
    found, head = yield from load_newest(shard, Shard)
    segments = yield from list_segments()
    for segment in segments:
        segment.has_index_file = True  # no index is wanted
    replay = Replay(shard, found, crc=head.crc, time=head.time)
    yield from replay.run(segments[from_snapshot(segments, head.lsn) :], floor=Lsn(0), upto=upto)
    return found


def difference(live: Shard, other: Shard) -> str:
    """Empty when both dump the same bytes; else where they differ first."""
    one, two = live.dump(), other.dump()
    if one == two:
        return ""
    return _first(msgspec.to_builtins(states.decode(one)), msgspec.to_builtins(states.decode(two)), "state")


def _first(one: Any, two: Any, path: str) -> str:
    if isinstance(one, list | tuple) and isinstance(two, list | tuple) and len(one) == len(two):
        pairs = enumerate(zip(one, two, strict=True))
        return next((_first(a, b, f"{path}[{i}]") for i, (a, b) in pairs if a != b), "")
    if isinstance(one, dict) and isinstance(two, dict) and list(one) == list(two):
        return next((_first(one[key], two[key], f"{path}.{key}") for key in one if one[key] != two[key]), "")
    return f"{path}: {one!r} and {two!r}"[:600]
