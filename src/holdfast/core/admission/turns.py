"""Who is served next. Queues take turns, so that one under full load does not keep the clients of the others waiting.

Laws
- What waits for the same queue is served in the order in which it came.
- Between two that wait for one queue, one of every other queue that has something waiting is served.
- A queue for which nothing waits takes no memory and no time.
"""

from collections import OrderedDict, deque
from typing import Generic, TypeVar

from holdfast.core.limits import LINE_MIN
from holdfast.core.types import QueueName

Item = TypeVar("Item")


class Turns(Generic[Item]):
    __slots__ = ("_count", "_waiting", "is_light")

    def __init__(self) -> None:
        self._waiting: OrderedDict[QueueName | None, deque[Item]] = OrderedDict()  # whose turn it is comes first
        self._count = 0
        self.is_light = False  # the last one taken was alone for its queue, and the others stand in long lines

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
        if waiting:
            self._waiting.move_to_end(queue)
            self.is_light = False
        else:
            del self._waiting[queue]
            self.is_light = self._count >= LINE_MIN * max(1, len(self._waiting))
        return item
