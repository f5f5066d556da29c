"""The content of a message, on its way from a host to a client."""

from collections.abc import Sequence
from typing import overload

from holdfast.core.types import Cause, WallMs
from holdfast.core.values import Value


class Letter(Value, frozen=True):
    """What a client gets of a message that was handed out."""

    content: bytes
    wall: WallMs  # SentTimestamp
    message_id: bytes = b""  # empty: it follows from the message's header
    cause: Cause = Cause.NONE  # why it left another queue


class PlainLetters(Sequence[Letter]):
    """Letters with nothing but a content and a time, as columns: most clients look at the contents alone, so each
    letter is made when somebody asks for it."""

    __slots__ = ("contents", "walls")

    def __init__(self, contents: list[bytes], walls: list[WallMs]) -> None:
        self.contents = contents
        self.walls = walls

    def __len__(self) -> int:
        return len(self.contents)

    @overload
    def __getitem__(self, place: int) -> Letter: ...
    @overload
    def __getitem__(self, place: slice) -> list[Letter]: ...
    def __getitem__(self, place: int | slice) -> Letter | list[Letter]:
        if isinstance(place, slice):
            return [Letter(*pair) for pair in zip(self.contents[place], self.walls[place], strict=True)]
        return Letter(self.contents[place], self.walls[place])
