"""A move task: the messages of one dead-letter lane on their way to another queue."""

import msgspec

from holdfast.core.limits import MOVE_RATE_MAX, SECOND
from holdfast.core.types import Address, Instant, Lsn, Seq, WallMs

RUNNING, COMPLETED = "RUNNING", "COMPLETED"
CANCELLING, CANCELLED, FAILED = "CANCELLING", "CANCELLED", "FAILED"


class Task(msgspec.Struct):
    """RUNNING ──▶ COMPLETED | FAILED; RUNNING ──▶ CANCELLING ──▶ CANCELLED."""

    task: str
    target: Address | None
    rate: int
    last: Seq  # messages queued later are not moved
    to_move: int
    started: Instant
    wall: WallMs
    lsn: Lsn  # of its start: what left later and before the next task is its own
    state: str = RUNNING
    failure: str = ""
    departed: int = 0  # put into the outbox
    moved: int = 0  # arrived

    def allowance(self, now: Instant) -> int:
        """How many more may leave by now: its rate, with a burst of at most one second."""
        rate = self.rate or MOVE_RATE_MAX
        return max(0, rate * (now - self.started + SECOND) // SECOND - self.departed)

    @property
    def is_active(self) -> bool:
        return self.state in (RUNNING, CANCELLING)


NO_TASKS: list[Task] = []  # shared by all lanes without one; another list takes its place


def owner_of(tasks: list[Task], lsn: Lsn) -> Task | None:
    """The task that sent off the message whose departure stands at `lsn`."""
    return next((task for task in reversed(tasks) if task.lsn < lsn), None)
