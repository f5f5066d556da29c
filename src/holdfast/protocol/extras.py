"""What most messages do not have, as it stands at the end of their stored content (content.py).

Apart from that, because a struct that is decoded cannot be compiled.
"""

from typing import Final

import msgspec


class Extras(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What most messages do not have. Empty means absent."""

    group: str = ""
    deduplication_id: str = ""
    trace_header: str = ""
    attributes_md5: str = ""
    attributes: bytes = b""  # a JSON object: name -> value, as ReceiveMessage returns it
    reason: str = ""  # why the consumer that gave it back last could not use it
    consumer: str = ""  # the ARN of that consumer


NO_EXTRAS: Final = Extras()
