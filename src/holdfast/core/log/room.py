"""Is there room in the log for what a command writes? Content is refused early; small records, and compaction, which
makes room, may use the reserve.
"""

from holdfast.core.errors import NoRoom, Overloaded
from holdfast.core.log.journal import Journal
from holdfast.core.queue.command import Arrive, Command, Compact, Inherit, Send


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
