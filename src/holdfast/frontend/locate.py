"""Which queue a request means, and where it lives. Kept in memory; the catalogue on disk is the truth."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable

import msgspec

from holdfast.core.errors import QueueDoesNotExist
from holdfast.core.types import Kind, LaneConfig, LaneId, ShardId, unpack_address
from holdfast.protocol import attributes, names
from holdfast.protocol.actions import required
from holdfast.protocol.names import Site
from holdfast.protocol.receives import Origin
from holdfast.stores.sqlite import QueueRow

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
        self._references: dict[str, Queue] = {}  # URL as clients write it -> queue; emptied at every change

    def __len__(self) -> int:
        return len(self._queues)

    def load(self, rows: Iterable[QueueRow]) -> None:
        for row in rows:
            self.add(row)

    def add(self, row: QueueRow) -> None:
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
        insort(self._names, row.name)
        self._references.clear()

    def remove(self, row: QueueRow) -> None:
        del self._queues[row.name]
        del self._by_lane[row.lane]
        self._names.pop(bisect_left(self._names, row.name))
        self._references.clear()

    def get(self, name: str) -> Queue | None:
        return self._queues.get(name)

    def find(self, reference: str | None) -> Queue:
        """By URL, ARN or bare name. O(1)."""
        queue = self._references.get(reference) if reference else None
        return queue if queue is not None else self._resolve(required(reference, "QueueUrl"))

    def _resolve(self, reference: str) -> Queue:
        queue = self._queues.get(names.queue_name(reference, self.site))
        if queue is None:
            raise QueueDoesNotExist
        if len(self._references) >= REFERENCES_MAX:
            self._references.clear()
        self._references[reference] = queue
        return queue

    def arn_of_lane(self, packed: int) -> str:
        """Of the queue whose lane this packed address is; empty when it is gone."""
        name = self._by_lane.get(unpack_address(packed).lane)
        return names.queue_arn(self.site, name) if name else ""

    def page(self, prefix: str, after: str, count_max: int) -> tuple[list[str], bool]:
        """Names with a prefix in order, and whether there are more."""
        start = bisect_right(self._names, after) if after else bisect_left(self._names, prefix)
        found: list[str] = []
        for name in self._names[start : start + count_max + 1]:
            if not name.startswith(prefix):
                break
            found.append(name)
        return found[:count_max], len(found) > count_max
