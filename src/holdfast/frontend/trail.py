"""Who asked for what: a row for each audited request, when it is answered. Never its body, never a secret."""

from collections.abc import Callable
from typing import Any, Final

from holdfast.core.types import QueueName
from holdfast.core.usage import ON_MESSAGES, Refusal, Tally, outcome
from holdfast.frontend.reach import Reach
from holdfast.runtime import clock, metrics

AGENT_CHARS_MAX: Final = 256  # of what a client says it is
Note = Callable[[tuple[Any, ...]], None]
_DATA = ON_MESSAGES | {"PeekMessages"}


class Trail:
    def __init__(self, note: Note, reach: Reach, *, has_data: bool) -> None:
        self._note = note  # takes a row of the kind audit
        self._reach = reach
        self._has_data = has_data  # also actions on messages

    def covers(self, action: str) -> bool:
        return self._has_data or action not in _DATA

    def write(self, action: str, reply: Any, refusal: Refusal) -> None:
        """`reply`: an exchange that is about to be answered."""
        queue: QueueName | None = reply.queue or reply.asked
        caller = reply.caller
        self._note(
            (
                clock.wall_us(),
                queue.account if queue is not None else caller.account,
                caller.arn,
                "data" if action in _DATA else "management",
                action,
                queue.name if queue is not None else "",
                outcome(refusal),
                refusal.code if refusal is not None else "",
                refusal.status if refusal is not None else 200,
                self._reach.source_ip(reply),
                reply.headers.get(b"user-agent", b"").decode("latin-1")[:AGENT_CHARS_MAX],
                reply.coming_id(),
            )
        )


class AuditedTally(Tally):
    """Counts like its neighbours, and leaves a row."""

    __slots__ = ("_trail",)

    def __init__(self, action: str, trail: Trail) -> None:
        super().__init__(action, metrics.now)
        self._trail = trail

    def note(self, reply: Any, refusal: Refusal = None, /) -> None:
        super().note(reply, refusal)
        self._trail.write(self.action, reply, refusal)
