"""The MD5 sums that SQS clients check: of a body, and of message attributes.

Attributes are hashed in the order of their names, each as

    u32 length, name | u32 length, data type | u8 1 for text, 2 for binary | u32 length, value

with big-endian lengths and text as UTF-8.
"""

import hashlib
import struct
from collections.abc import Callable, Iterable
from typing import Final

_length: Final = struct.Struct(">I").pack
_md5: Final = hashlib.md5
_begun: Final = hashlib.md5(usedforsecurity=False).copy  # quicker than to find the algorithm for each body
_TEXT, _BINARY = b"\x01", b"\x02"


def body_md5(body: bytes) -> bytes:
    """16 bytes."""
    sum_of = _begun()
    sum_of.update(body)
    return sum_of.digest()


def _find_together() -> Callable[[list[bytes]], list[bytes] | None]:
    try:
        from holdfast.protocol._md5 import sums  # noqa: PLC0415 - where it was compiled, and the processor can do it
    except ImportError:
        return lambda _: None
    return sums


_together: Final = _find_together()


def bodies_md5(bodies: list[bytes]) -> list[bytes]:
    """As `body_md5` of each."""
    return _together(bodies) or [body_md5(body) for body in bodies]


def attributes_md5(attributes: Iterable[tuple[str, str, str | bytes]]) -> str:
    """Of (name, data type, value). O(n log n) in the number of attributes, linear in their size."""
    parts: list[bytes] = []
    for name, data_type, value in sorted(attributes):
        _add(parts, name.encode())
        _add(parts, data_type.encode())
        parts.append(_BINARY if isinstance(value, bytes) else _TEXT)
        _add(parts, value if isinstance(value, bytes) else value.encode())
    return _md5(b"".join(parts), usedforsecurity=False).hexdigest()


def _add(parts: list[bytes], data: bytes) -> None:
    parts.append(_length(len(data)))
    parts.append(data)
