"""Which queue a request means, and where it lives. Kept in memory; the metadata is the truth, and follow.py alone says
what has changed.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from holdfast.core.coordination.catalogue import QueueRow
from holdfast.core.errors import QueueDoesNotExist
from holdfast.core.limits import FORMER_MAX
from holdfast.core.queue.receipt import ReceiptKey
from holdfast.core.types import Kind, LaneConfig, LaneId, QueueName, unpack_address
from holdfast.protocol import attributes, names
from holdfast.protocol.actions import required
from holdfast.protocol.names import Site
from holdfast.protocol.receives import Origin

REFERENCES_MAX: Final = 10_000  # spellings of queue URLs remembered


class Queue:
    """A queue as requests need it. Replaced when anything about it changes."""

    __slots__ = ("config", "is_fifo", "lane", "name", "origin", "row", "shard", "wait_s")

    def __init__(self, row: QueueRow, config: LaneConfig, origin: Origin, *, is_fifo: bool, wait_s: int) -> None:
        self.row = row
        self.name = row.queue
        self.lane = row.lane
        self.shard = row.shard
        self.is_fifo = is_fifo
        self.wait_s = wait_s  # ReceiveMessageWaitTimeSeconds
        self.config = config  # without the dead-letter target, which only the lane itself needs
        self.origin = origin


class Directory:
    """All queues of this host, by account and name."""

    def __init__(self, site: Site, *, receipt_key: ReceiptKey) -> None:
        self.site = site
        self._receipt_key = receipt_key
        self._queues: dict[QueueName, Queue] = {}
        self._names: list[QueueName] = []  # sorted
        self._by_lane: dict[LaneId, QueueName] = {}
        self._former: dict[LaneId, QueueName] = {}  # of deleted queues, oldest first
        self._sources: dict[QueueName, list[QueueName]] = {}  # dead-letter queue -> whose letters it takes, sorted
        self._config: LaneConfig | None = None  # of the queue that was put last
        self._references: dict[str, Queue] = {}  # URL as clients write it -> queue; emptied at every change
        self.catch_up: Callable[[], None] = lambda: None  # set by whoever follows the metadata

    def __len__(self) -> int:
        return len(self._queues)

    def __iter__(self) -> Iterator[Queue]:
        """As they were when it began."""
        return iter(list(self._queues.values()))

    def reset(self, rows: Sequence[QueueRow]) -> None:
        """These and no others. O(queues)."""
        there = {row.queue for row in rows}
        for name in [name for name in self._names if name not in there]:
            self.remove(name)
        for row in rows:
            self.put(row)

    def put(self, row: QueueRow) -> None:
        """The queue is there now, or is set to something else. Does nothing when it is known to be so."""
        held = self._queues.get(row.queue)
        if held is None:
            insort(self._names, row.queue)
        elif held.row.revision == row.revision:
            return
        else:
            self._forget(held.row)
        is_fifo = row.queue.name.endswith(".fifo")
        values = attributes.effective(row.attributes, is_fifo=is_fifo)
        config = attributes.lane_config(
            row.attributes, is_fifo=is_fifo, version=row.version, redrive_to=None, is_strict=True
        )
        if config == self._config:  # most queues are configured alike: they share one object
            config = self._config
        self._config = config
        kind = Kind.FIFO if is_fifo else Kind.STANDARD
        origin = Origin(row.shard, row.lane, kind, self._receipt_key, self.arn_of_lane)
        wait_s = int(values["ReceiveMessageWaitTimeSeconds"])
        self._queues[row.queue] = Queue(row, config, origin, is_fifo=is_fifo, wait_s=wait_s)
        self._by_lane[row.lane] = row.queue
        if target := self._target_of(row):
            insort(self._sources.setdefault(target, []), row.queue)
        self._references.clear()

    def remove(self, name: QueueName) -> None:
        queue = self._queues.pop(name, None)
        if queue is None:
            return
        self._forget(queue.row)
        self._names.pop(bisect_left(self._names, name))
        self._references.clear()

    def note_former(self, lane: LaneId, name: QueueName) -> None:
        """Which deleted queue had this lane."""
        self._former[lane] = name
        if len(self._former) > FORMER_MAX:
            del self._former[next(iter(self._former))]

    def _target_of(self, row: QueueRow) -> QueueName | None:
        """The queue that its dead letters are for, which need not exist."""
        policy = row.attributes.get("RedrivePolicy")
        try:
            return name_of(attributes.redrive_policy(policy).target_arn) if policy else None
        except QueueDoesNotExist:
            return None

    def _forget(self, row: QueueRow) -> None:
        del self._by_lane[row.lane]
        if target := self._target_of(row):
            sources = self._sources[target]
            sources.remove(row.queue)
            if not sources:
                del self._sources[target]

    def rows(self) -> list[QueueRow]:
        return [each.row for each in self._queues.values()]

    def sources_of(self, name: QueueName) -> Sequence[QueueName]:
        """The queues whose dead letters are for `name`, in order."""
        return tuple(self._sources.get(name, ()))

    def get(self, name: QueueName) -> Queue | None:
        return self._queues.get(name)

    def find(self, reference: str | None, account: str) -> Queue:
        """By URL or ARN, or by the bare name of a queue of `account`. O(1)."""
        queue = self._references.get(reference) if reference else None
        return queue if queue is not None else self._resolve(required(reference, "QueueUrl"), account)

    def _resolve(self, reference: str, account: str) -> Queue:
        name = names.queue_name(reference, account)
        queue = self._queues.get(name)
        if queue is None:
            self.catch_up()  # another process may have made it just now
            queue = self._queues.get(name)
        if queue is None:
            raise QueueDoesNotExist
        if names.is_bare(reference):
            return queue  # another account means another queue by it
        if len(self._references) >= REFERENCES_MAX:
            self._references.clear()
        self._references[reference] = queue
        return queue

    def arn_of(self, name: QueueName) -> str:
        return names.queue_arn(self.site.region, name)

    def name_of_lane(self, lane: LaneId) -> QueueName | None:
        """Of the queue that has or had it; None when that has been gone for long."""
        return self._by_lane.get(lane) or self._former.get(lane)

    def arn_of_lane(self, packed: int) -> str:
        """Of the queue whose lane this packed address is; empty when it has been gone for long."""
        name = self.name_of_lane(unpack_address(packed).lane)
        return self.arn_of(name) if name else ""

    def page(self, prefix: QueueName, *, after: str, count_max: int) -> tuple[list[QueueName], bool]:
        """Queues of an account whose names have a prefix, in order, and whether there are more."""
        account = prefix.account
        start = bisect_right(self._names, (account, after)) if after else bisect_left(self._names, prefix)
        found: list[QueueName] = []
        for each in self._names[start : start + count_max + 1]:
            if each.account != account or not each.name.startswith(prefix.name):
                break
            found.append(each)
        return found[:count_max], len(found) > count_max


def name_of(arn: str) -> QueueName:
    """The queue that an ARN means, which need not exist."""
    return names.queue_name(arn, "")
