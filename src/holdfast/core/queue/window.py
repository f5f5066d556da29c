"""The headers of a backlog that are in memory. A cache: it can be dropped at any time and loaded again from the indexes
of segments, so nothing here is replicated state, and nothing may depend on what it happens to hold.
"""

from collections import deque
from collections.abc import Container
from heapq import heappop, heappush

from holdfast.core.types import Group, Header, Instant, Seq


class Window:
    """Headers at hand: `queue` from the cursor on, `parked` below it; by group where the lane needs it."""

    __slots__ = ("deadlines", "groups", "heads", "next", "parked", "queue", "tail")

    def __init__(self, first: Seq) -> None:
        self.next = first  # everything before is loaded
        self.tail: Header | None = None  # the last one that was loaded: the next ones lie behind it in the log
        self.queue: deque[Header] = deque()
        self.parked: dict[Seq, Header] = {}
        self.groups: dict[Group, list[Header]] = {}  # only in grouped lanes; the same headers again
        self.heads: list[tuple[Seq, Group]] = []  # heap: groups by their first header, unless behind a lease
        self.deadlines: list[tuple[Instant, Seq, Header]] = []  # heap of those with a time to live

    def size(self) -> int:
        return len(self.queue) + len(self.parked)

    def add(self, header: Header, *, is_grouped: bool, is_held: bool) -> None:
        self.tail = header
        if is_held:
            self.parked[header.seq] = header
        else:
            self.queue.append(header)
        if header.deadline:
            heappush(self.deadlines, (header.deadline, header.seq, header))
        if is_grouped:
            members = self.groups.get(header.group)
            if members is None:
                self.groups[header.group] = [header]
                heappush(self.heads, (header.seq, header.group))
            else:
                members.append(header)

    def discard(self, header: Header, cursor: Seq) -> None:
        """The header left the backlog; the cursor may have moved over others, which are parked now."""
        queue, seq = self.queue, header.seq
        if queue and queue[0].seq == seq:
            queue.popleft()
        elif seq in self.parked:
            del self.parked[seq]
        elif seq >= cursor:
            if header in queue:  # rare: its time to live ended before those of older messages
                queue.remove(header)
        else:
            while queue and queue[0].seq < cursor:
                passed = queue.popleft()
                if passed.seq != seq:
                    self.parked[passed.seq] = passed
        if self.groups:
            self._leave_group(header)

    def _leave_group(self, header: Header) -> None:
        members = self.groups.get(header.group)
        if members is None:
            return
        if members[0].seq == header.seq:
            del members[0]
            if members:
                heappush(self.heads, (members[0].seq, header.group))
            else:
                del self.groups[header.group]
            return
        members[:] = [member for member in members if member.seq != header.seq]

    def unlock(self, group: Group) -> None:
        """Nothing of this group is handed out any more: its first message may be served."""
        members = self.groups.get(group)
        if members is not None:
            heappush(self.heads, (members[0].seq, group))

    def first_head(self, seen: list[tuple[Seq, Group]], taken: Container[Group] = ()) -> tuple[Seq, Group] | None:
        """The group whose first message is the oldest, of those of which nothing is `taken`. Drops places in the heap
        that are out of date, second places of the group that was `seen` last, and groups behind a lease: they come
        back (`unlock`) when that goes."""
        heads, groups = self.heads, self.groups
        while heads:
            seq, group = heads[0]
            members = groups.get(group)
            is_current = members is not None and members[0].seq == seq and group not in taken
            if is_current and not (seen and seen[-1] == heads[0]):
                return heads[0]
            heappop(heads)
        return None
