"""Which queue a request means, and where it lives. Kept in memory; the catalogue on disk is the truth."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence

import msgspec

from holdfast.core.errors import QueueDoesNotExist
from holdfast.core.types import Kind, LaneConfig, LaneId, ShardId, unpack_address
from holdfast.protocol import attributes, names
from holdfast.protocol.actions import required
from holdfast.protocol.names import Site
from holdfast.protocol.receives import Origin
from holdfast.stores.sqlite import FORMER_MAX, QueueRow

REFERENCES_MAX = 10_000  # spellings of queue URLs remembered


class Queue(msgspec.Struct, frozen=True):
    """A queue as requests need it."""

    row: QueueRow
    lane: LaneId
    shard: ShardId
    is_fifo: bool
    wait_s: int  # ReceiveMessageWaitTimeSeconds
    config: LaneConfig  # without the dead-letter target, which only the lane itself needs
    origin: Origin


class Directory:
    """All queues of this host, by name."""

    def __init__(self, site: Site, *, receipt_key: bytes) -> None:
        self.site = site
        self._receipt_key = receipt_key
        self._queues: dict[str, Queue] = {}
        self._names: list[str] = []  # sorted
        self._by_lane: dict[LaneId, str] = {}
        self._former: dict[LaneId, str] = {}  # of deleted queues, oldest first
        self._sources: dict[str, list[str]] = {}  # name of a dead-letter queue -> whose letters it takes, sorted
        self._references: dict[str, Queue] = {}  # URL as clients write it -> queue; emptied at every change

    def __len__(self) -> int:
        return len(self._queues)

    def load(self, rows: Iterable[QueueRow], former: Iterable[tuple[LaneId, str]] = ()) -> None:
        """`former`: names of deleted queues, by lane."""
        self._former.update(former)
        for row in rows:
            self.add(row)

    def add(self, row: QueueRow) -> None:
        self._put(row)
        insort(self._names, row.name)

    def replace(self, row: QueueRow) -> None:
        """The queue is set to something else."""
        self._forget_source(self._queues[row.name].row)
        self._put(row)

    def _put(self, row: QueueRow) -> None:
        is_fifo = row.name.endswith(".fifo")
        values = attributes.effective(row.attributes, is_fifo=is_fifo)
        config = attributes.lane_config(
            row.attributes, is_fifo=is_fifo, version=row.version, redrive_to=None, is_strict=True
        )
        kind = Kind.FIFO if is_fifo else Kind.STANDARD
        origin = Origin(row.shard, row.lane, kind, self._receipt_key, self.arn_of_lane)
        wait_s = int(values["ReceiveMessageWaitTimeSeconds"])
        self._queues[row.name] = Queue(row, row.lane, row.shard, is_fifo, wait_s, config, origin)
        self._by_lane[row.lane] = row.name
        if target := self._target_of(row):
            insort(self._sources.setdefault(target, []), row.name)
        self._references.clear()

    def remove(self, row: QueueRow) -> None:
        self._forget_source(row)
        del self._queues[row.name]
        self._former[row.lane] = self._by_lane.pop(row.lane)
        if len(self._former) > FORMER_MAX:
            del self._former[next(iter(self._former))]
        self._names.pop(bisect_left(self._names, row.name))
        self._references.clear()

    def _target_of(self, row: QueueRow) -> str:
        """The name of the queue that its dead letters are for, which need not exist; empty: there is none."""
        policy = row.attributes.get("RedrivePolicy")
        try:
            return self.name_of(attributes.redrive_policy(policy).target_arn) if policy else ""
        except QueueDoesNotExist:
            return ""

    def _forget_source(self, row: QueueRow) -> None:
        if target := self._target_of(row):
            sources = self._sources[target]
            sources.remove(row.name)
            if not sources:
                del self._sources[target]

    def sources_of(self, name: str) -> Sequence[str]:
        """Names of the queues whose dead letters are for `name`, in order."""
        return tuple(self._sources.get(name, ()))

    def get(self, name: str) -> Queue | None:
        return self._queues.get(name)

    def find(self, reference: str | None) -> Queue:
        """By URL, ARN or bare name. O(1)."""
        queue = self._references.get(reference) if reference else None
        return queue if queue is not None else self._resolve(required(reference, "QueueUrl"))

    def _resolve(self, reference: str) -> Queue:
        queue = self._queues.get(self.name_of(reference))
        if queue is None:
            raise QueueDoesNotExist
        if len(self._references) >= REFERENCES_MAX:
            self._references.clear()
        self._references[reference] = queue
        return queue

    def name_of(self, reference: str) -> str:
        """What a URL or ARN calls a queue that need not exist."""
        return names.queue_name(reference, self.site)

    def arn_of(self, name: str) -> str:
        return names.queue_arn(self.site, name)

    def arn_of_lane(self, packed: int) -> str:
        """Of the queue whose lane this packed address is; empty when it has been gone for long."""
        lane = unpack_address(packed).lane
        name = self._by_lane.get(lane) or self._former.get(lane)
        return self.arn_of(name) if name else ""

    def page(self, prefix: str, after: str, count_max: int) -> tuple[list[str], bool]:
        """Names with a prefix in order, and whether there are more."""
        start = bisect_right(self._names, after) if after else bisect_left(self._names, prefix)
        found: list[str] = []
        for name in self._names[start : start + count_max + 1]:
            if not name.startswith(prefix):
                break
            found.append(name)
        return found[:count_max], len(found) > count_max
