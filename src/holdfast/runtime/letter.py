"""The content of a message, on its way from a host to a client."""

from holdfast.core.types import Cause, WallMs
from holdfast.core.values import Value


class Letter(Value, frozen=True):
    """What a client gets of a message that was handed out."""

    content: bytes
    wall: WallMs  # SentTimestamp
    message_id: bytes = b""  # empty: it follows from the message's header
    cause: Cause = Cause.NONE  # why it left another queue
