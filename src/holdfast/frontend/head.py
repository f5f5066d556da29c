"""The head of a request: what a parser lets through, and what could still be read in two ways.

Everything but `Names` is rare: a usual head, whose headers come once and whose target is a path, is not asked.
"""

from typing import Final

from holdfast.frontend.bounds import HEAD_BYTES_MAX, HEADERS_MAX, NAME_BYTES_MAX, NAMES_MAX

Pairs = list[tuple[bytes, bytes]]
BLANKS: Final = b" \t"  # of HTTP; Python has more


def is_long(pairs: Pairs) -> bool:
    return len(pairs) > HEADERS_MAX or sum(len(name) + len(value) for name, value in pairs) > HEAD_BYTES_MAX


def join(pairs: Pairs) -> dict[bytes, bytes]:
    """Names in lower case; the values of a repeated header joined by commas, in order: that is how they were signed."""
    joined: dict[bytes, bytes] = {}
    for name, value in pairs:
        before = joined.get(name.lower())
        joined[name.lower()] = value if before is None else before + b"," + value
    return joined


def names_two_hosts(pairs: Pairs) -> bool:
    return sum(name.lower() == b"host" for name, _ in pairs) > 1


def path_of(target: bytes, host: bytes | None) -> bytes:
    """What a proxy's client asks for, who names scheme and host in the target; empty when they are not those of the
    request, or the target is no URL at all."""
    scheme, _, rest = target.partition(b"://")
    authority, slash, path = rest.partition(b"/")
    if scheme.lower() not in (b"http", b"https") or not authority or authority != host:
        return b""
    return b"/" + path if slash else b"/"


class Names:
    """The names of headers, which clients repeat with every request."""

    __slots__ = ("_small",)

    def __init__(self) -> None:
        self._small: dict[bytes, bytes] = {}  # as they were written -> in lower case

    def small(self, pairs: Pairs) -> dict[bytes, bytes]:
        """Names in lower case, and values; of a header that comes twice, the last one."""
        known = self._small
        return {known.get(name) or self._make_small(name): value for name, value in pairs}

    def _make_small(self, name: bytes) -> bytes:
        lower = name.lower()
        if len(self._small) < NAMES_MAX and len(name) <= NAME_BYTES_MAX:
            self._small[name] = lower
        return lower


def is_chunked(headers: dict[bytes, bytes], version: str) -> bool:
    """An older or another coding makes the length of the body a matter of opinion."""
    return headers[b"transfer-encoding"].lower() == b"chunked" and version == "1.1"
