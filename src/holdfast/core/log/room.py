"""Is there room in the log for what a command writes? Content is refused early; small records, and compaction, which
makes room, may use the reserve.

When clients write faster than the disk makes segments, sends wait for the next one instead of being refused.
"""

from collections.abc import Sequence
from typing import Any

from holdfast.core.errors import NoRoom, Overloaded
from holdfast.core.limits import LOBBY_BYTES_MAX, LOBBY_INTERVAL
from holdfast.core.log.journal import Journal
from holdfast.core.queue.command import Arrive, Command, Compact, Inherit, Send
from holdfast.core.types import Instant


def check_room(journal: Journal, command: Command) -> None:
    if type(command) is Send:
        has_room = journal.has_room(len(command.content))
    elif type(command) is Arrive:
        has_room = journal.has_room(len(command.handover.content))
    elif type(command) is Inherit:
        has_room = journal.has_room(len(command.bequest.rows))
    elif type(command) is Compact:
        has_room = not journal.is_exhausted(sum(len(message.content) for _, message in command.messages))
    else:
        has_room = not journal.is_exhausted()
    if not has_room:
        raise NoRoom if journal.is_full else Overloaded  # else the next segment is being made


class Lobby:
    """Where sends wait for the next segment, as long as it is being made and they are not too much. They leave in the
    order in which they came, those of a batch together."""

    __slots__ = ("_bytes", "_looked", "_waiting")

    def __init__(self) -> None:
        self._waiting: list[tuple[Sequence[Command], Any, bool]] = []
        self._bytes = 0
        self._looked = Instant(0)

    def admit(self, journal: Journal, commands: Sequence[Command], token: Any, *, is_batch: bool) -> bool:
        """False: they are no sends, or there is room for them, or none will be made, or too much waits already."""
        if not journal.is_spare_coming or not commands or type(commands[0]) is not Send:
            return False
        sizes = [len(each.content) for each in commands if type(each) is Send]
        size = sum(sizes)
        if journal.holds_all(sizes) or self._bytes + size > LOBBY_BYTES_MAX:
            return False
        if not self._waiting:
            self._looked = journal.stamp
        self._waiting.append((commands, token, is_batch))
        self._bytes += size
        return True

    def leave(self, journal: Journal, own: Instant) -> list[tuple[Sequence[Command], Any, bool]]:
        """All of them, once the segment is there or could not be made: commands, token, whether they are a batch."""
        self._looked = own
        return [] if journal.is_spare_coming else self.clear()

    def clear(self) -> list[tuple[Sequence[Command], Any, bool]]:
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        return waiting

    def deadline(self) -> Instant | None:
        """When to look again whether they may leave."""
        return Instant(self._looked + LOBBY_INTERVAL) if self._waiting else None
