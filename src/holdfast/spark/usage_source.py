"""`holdfast-usage`: the segments of the spool as a Spark source, for batches and for streams.

    spark.read.format("holdfast-usage").load("/data/usage")                          all meters
    spark.readStream.format("holdfast-usage").option("kind", "audit").load(...)      and what will follow

| option      | default |                                                         |
|-------------|---------|---------------------------------------------------------|
| kind        | meter   | meter, audit, queue_state, dead_letter                  |
| partitions  | 8       | tasks of a batch                                        |
| maxSegments | none    | per micro-batch of a stream, shared evenly by the nodes |
| ranges      |         | JSON, used by the ledger: exactly these segments        |

Laws
- The offset of a stream is the next number per node and epoch. The same offsets are always the same rows.
- A hole with a later segment behind it, a damaged file, a broken chain: an error that names the file, never a skip.
- Rows leave as Arrow batches of exactly the declared types; tuples would cost five times as much.
"""

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow

from holdfast.ledger import spool, tables
from holdfast.ledger.errors import LedgerError
from holdfast.ledger.positions import Position
from holdfast.ledger.spool import Range
from holdfast.runtime.failpoint import failpoint
from holdfast.usage import schema

FORMAT: Final = "holdfast-usage"
BATCH_ROWS: Final = 65_536  # 20 MB with histograms
PARTITIONS: Final = 8
NO_LIMIT: Final = 2**31 - 1


class UsageSource(DataSource):
    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._spool = _Spool(options)

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return tables.ddl(tables.source_schema(self._spool.kind))

    def reader(self, schema: Any) -> "UsageReader":  # noqa: ARG002 - Spark's signature
        return UsageReader(self._spool)

    def streamReader(self, schema: Any) -> "UsageStreamReader":  # noqa: ARG002, N802 - Spark's signature
        return UsageStreamReader(self._spool)


class _Spool:
    """What the options say, checked once, and what both readers share."""

    def __init__(self, options: Mapping[str, str]) -> None:
        if not options.get("path"):
            raise LedgerError(f"{FORMAT} needs the folder of the spool: .load('/data/usage')")
        self.root = Path(options["path"].removeprefix("file:"))
        self.kind = options.get("kind", schema.METER)
        if self.kind not in schema.KINDS:
            raise LedgerError(f"kind {self.kind!r} is none of {', '.join(schema.KINDS)}")
        self.partitions = _number(options, "partitions", default=PARTITIONS)
        self.segments_max = _number(options, "maxSegments", default=NO_LIMIT)
        ranges = options.get("ranges")
        self.ranges = None if ranges is None else msgspec.json.decode(ranges, type=tuple[Range, ...])

    def plan(self, positions: Mapping[str, Position], *, segments_max: int) -> spool.Plan:
        if not self.root.is_dir():
            raise LedgerError(
                f"{self.root} is no folder; the spool of a server is the folder `usage` in its data folder"
            )
        found = spool.plan(self.root, self.kind, positions=positions, segments_max=segments_max)
        if found.problems:
            raise LedgerError("; ".join(each.detail for each in found.problems))
        return found

    def tasks(self, ranges: Sequence[Range]) -> list[InputPartition]:
        parts = spool.split(self.root, self.kind, ranges, parts=self.partitions)
        return [InputPartition(msgspec.json.encode(each)) for each in parts]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        ranges = msgspec.json.decode(partition.value, type=list[Range])
        return spool.read(self.root, self.kind, ranges, batch_rows=BATCH_ROWS)


def _number(options: Mapping[str, str], name: str, *, default: int) -> int:
    given = options.get(name, str(default))
    if not given.isdecimal() or int(given) < 1:
        raise LedgerError(f"option {name} is {given!r}, and has to be a whole number from 1")
    return int(given)


class UsageReader(DataSourceReader):
    def __init__(self, source: _Spool) -> None:
        self._spool = source

    def partitions(self) -> Sequence[InputPartition]:
        ranges = self._spool.ranges
        if ranges is None:
            ranges = self._spool.plan({}, segments_max=NO_LIMIT).ranges
        return self._spool.tasks(ranges) or [InputPartition(b"[]")]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self._spool.read(partition)


class UsageStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """An offset is {"node": {"1": 17, "2": 4}}: the next number of each epoch. An epoch that ended keeps its number.

    With Trigger.AvailableNow the goal is fixed by the first `latestOffset`: what comes later is the next query's."""

    def __init__(self, source: _Spool) -> None:
        self._spool = source
        self._is_bounded = False
        self._goal: dict[str, Any] | None = None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._is_bounded = True

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        limit = self._spool.segments_max
        return ReadAllAvailable() if limit == NO_LIMIT else ReadMaxFiles(limit)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return {}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        if self._is_bounded and self._goal is None:
            self._goal = self._reach(start, segments_max=NO_LIMIT)
        segments_max = limit.max_files if isinstance(limit, ReadMaxFiles) else NO_LIMIT
        end = self._reach(start, segments_max=segments_max)
        failpoint("in_latest_offset")
        return end if self._goal is None else _least(end, self._goal)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        return self._goal

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return self._spool.tasks(_between(start, end))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self._spool.read(partition)

    def _reach(self, start: dict[str, Any], *, segments_max: int) -> dict[str, Any]:
        plan = self._spool.plan(_positions(self._spool, start), segments_max=segments_max)
        end = {node: dict(epochs) for node, epochs in start.items()}
        for each in plan.ranges:
            end.setdefault(each.node, {})[str(each.epoch)] = each.end
        return end


def _positions(source: _Spool, offset: Mapping[str, Mapping[str, int]]) -> dict[str, Position]:
    """From the segment before the offset, which tells whether its epoch ended and what the chain is. It has to be there
    still; segments are removed only when a day has passed."""
    return {
        node: spool.position_after(
            source.root, source.kind, node=node, place=max((int(e), s) for e, s in epochs.items())
        )
        for node, epochs in offset.items()
    }


def _between(start: Mapping[str, Mapping[str, int]], end: Mapping[str, Mapping[str, int]]) -> list[Range]:
    found = []
    for node, epochs in sorted(end.items()):
        for epoch, upto in sorted(epochs.items(), key=lambda item: int(item[0])):
            begin = start.get(node, {}).get(epoch, 0)
            if begin < upto:
                found.append(Range(node, int(epoch), begin, upto))
    return found


def _least(end: dict[str, Any], goal: dict[str, Any]) -> dict[str, Any]:
    return {
        node: {epoch: min(upto, goal[node][epoch]) for epoch, upto in epochs.items() if epoch in goal[node]}
        for node, epochs in end.items()
        if node in goal
    }
