"""Consumers that say why they give a message back: the reason becomes a part of the message's stored content.

So it is encrypted with it, goes where the message goes, and needs no place of its own in state, snapshots or moves. The
price is that the message is written once more, which whoever fails to use it can afford.
"""

from collections.abc import Callable, Iterator, Sequence

import msgspec

from holdfast.backend.letters import Reader
from holdfast.core.log.primary import Primary
from holdfast.core.queue.command import ChangeVisibility, Command
from holdfast.core.queue.handle import held
from holdfast.core.queue.headers import copy_of
from holdfast.core.queue.record import Message
from holdfast.core.types import Header
from holdfast.protocol import content


class Reasons:
    """Of one shard."""

    def __init__(self, primary: Primary, reader: Reader) -> None:
        self._primary = primary
        self._reader = reader

    def attach(self, commands: Sequence[Command], then: Callable[[list[Command]], None]) -> None:
        """Reads the messages, and hands the commands on with the messages as they are to be written. One whose message
        is gone or damaged, or does not fit on the disk once more, goes on without its reason."""
        asked = [each for each in commands if isinstance(each, ChangeVisibility)]
        found = [self._held(each) for each in asked]
        wanted = [(each.lane, header.at) for each, header in zip(asked, found, strict=True) if header is not None]

        def go_on(messages: list[Message | None]) -> None:
            left = iter(messages)
            then([self._with(each, header, left) for each, header in zip(asked, found, strict=True)])

        self._reader.messages(wanted, go_on)

    def _held(self, command: ChangeVisibility) -> Header | None:
        lane = self._primary.shard.lanes.get(command.lane)
        return held(lane, command.receipt) if lane is not None else None

    def _with(
        self, command: ChangeVisibility, header: Header | None, left: Iterator[Message | None]
    ) -> ChangeVisibility:
        rewritten = None
        message = next(left) if header is not None else None
        if header is not None and message is not None:
            stored = content.with_reason(message.content, command.reason, command.consumer)
            if self._primary.journal.has_room(len(stored)):
                rewritten = copy_of(header, msgspec.structs.replace(message, content=stored))
        return msgspec.structs.replace(command, reason="", consumer="", rewritten=rewritten)
