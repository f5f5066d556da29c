"""Who is served next. Queues take turns, so that one under full load does not keep the clients of the others waiting.

Laws
- What waits for the same queue is served in the order in which it came.
- Between two that wait for one queue, one of every other queue that has something waiting is served.
- A queue for which nothing waits takes no memory and no time.
- Light is what should not wait for others: it is alone for its queue, and either the others stand in long lines now, or
  nearly all that was served lately was for one other queue, whose clients may all be about to be answered.
"""

from collections import OrderedDict, deque
from typing import Generic, TypeVar

from holdfast.core.limits import LINE_MIN, SERVED_LATELY, SERVED_LATELY_HEAVY
from holdfast.core.types import QueueName

Item = TypeVar("Item")


class Turns(Generic[Item]):
    __slots__ = ("_count", "_heavy", "_lately", "_waiting", "is_light")

    def __init__(self) -> None:
        self._waiting: OrderedDict[QueueName | None, deque[Item]] = OrderedDict()  # whose turn it is comes first
        self._count = 0
        self._lately: list[QueueName | None] = []  # whose requests were taken, since it was looked
        self._heavy: QueueName | None = None  # the queue that nearly all of them were for when it was looked, if any
        self.is_light = False  # the last one taken is

    def __bool__(self) -> bool:
        return self._count > 0

    def add(self, queue: QueueName | None, item: Item) -> None:
        """None: not known yet."""
        waiting = self._waiting.get(queue)
        if waiting is None:
            self._waiting[queue] = waiting = deque()
        waiting.append(item)
        self._count += 1

    def take(self) -> Item:
        """There must be one."""
        queue = next(iter(self._waiting))
        waiting = self._waiting[queue]
        item = waiting.popleft()
        self._count -= 1
        self._lately.append(queue)
        if len(self._lately) >= SERVED_LATELY:
            self._look()
        if waiting:
            if len(self._waiting) > 1:
                self._waiting.move_to_end(queue)
            self.is_light = False
        else:
            del self._waiting[queue]
            is_beside = self._heavy is not None and queue != self._heavy
            self.is_light = is_beside or self._count >= LINE_MIN * max(1, len(self._waiting))
        return item

    def _look(self) -> None:
        """Nearly all: then one of the first few is among them, and mostly it is the first."""
        lately, self._lately = self._lately, []
        self._heavy = None
        for queue in lately[: SERVED_LATELY - SERVED_LATELY_HEAVY + 1]:
            if lately.count(queue) >= SERVED_LATELY_HEAVY:
                self._heavy = queue
                break
