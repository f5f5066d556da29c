"""The head of a request: what a parser lets through, and what could still be read in two ways.

Everything here is rare. A usual head, whose headers come once and whose target is a path, is not asked.
"""

from holdfast.frontend.bounds import HEAD_BYTES_MAX, HEADERS_MAX

Pairs = list[tuple[bytes, bytes]]


def is_long(pairs: Pairs) -> bool:
    return len(pairs) > HEADERS_MAX or sum(len(name) + len(value) for name, value in pairs) > HEAD_BYTES_MAX


def join(pairs: Pairs) -> dict[bytes, bytes]:
    """Names in lower case; the values of a repeated header joined by commas, in order."""
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


def is_chunked(headers: dict[bytes, bytes], version: str) -> bool:
    """An older or another coding makes the length of the body a matter of opinion."""
    return headers[b"transfer-encoding"].lower() == b"chunked" and version == "1.1"
