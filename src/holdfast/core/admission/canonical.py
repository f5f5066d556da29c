"""The canonical form of a request's path, query and headers, as AWS Signature Version 4 defines it.

Laws
- Two targets with the same canonical path differ at most in repeated slashes and dot segments.
- Two queries with the same canonical form have the same decoded parameters; order is all that may differ. For this the
  decoding here is the one that the Query dialect uses: "+" is a space, "%" without two digits is itself.
- A query has two canonical forms: as it was sent, which is what botocore signs, and with every parameter decoded and
  encoded anew, which is what the other SDKs sign. They are the same for all that SDKs send. Accepting either is safe:
  each one determines the decoded parameters.
"""

import binascii
from typing import Final

_SAFE: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
_ENCODED: Final = tuple(bytes([each]) if each in _SAFE else b"%%%02X" % each for each in range(256))


def canonical_path(path: bytes) -> bytes:
    """Without dot segments and repeated slashes, and encoded once more: the wire's %20 becomes %2520."""
    if path == b"/" or not path:
        return b"/"
    if path.translate(None, _SAFE + b"/") or b"//" in path or b"/." in path or path[:1] != b"/":
        return encode(_without_dots(path), safe=b"/")
    return path


def _without_dots(path: bytes) -> bytes:
    kept: list[bytes] = []
    for segment in path.split(b"/"):
        if segment == b"..":
            del kept[-1:]
        elif segment and segment != b".":
            kept.append(segment)
    first = b"/" if path[:1] == b"/" else b""
    last = b"/" if path[-1:] == b"/" and kept else b""
    return first + b"/".join(kept) + last


def canonical_query(query: bytes, *, without: bytes = b"") -> bytes:
    """As it was sent, in order. `without` names a parameter to leave out."""
    pairs = [(name, value) for name, value in _pairs(query) if not without or decode(name) != without]
    return _join(pairs)


def encoded_query(query: bytes, *, without: bytes = b"") -> bytes:
    """Every name and value decoded and encoded anew."""
    decoded = ((decode(name), decode(value)) for name, value in _pairs(query))
    return _join([(encode(name), encode(value)) for name, value in decoded if not without or name != without])


def parameters(query: bytes) -> list[tuple[bytes, bytes]]:
    """Decoded, in the order in which they were sent."""
    return [(decode(name), decode(value)) for name, value in _pairs(query)]


def canonical_value(value: bytes) -> bytes:
    """A header's value: no space around it, and one where there are more."""
    return b" ".join(value.split())


def encode(data: bytes, *, safe: bytes = b"") -> bytes:
    return b"".join([b"%c" % each if each in safe else _ENCODED[each] for each in data])


def decode(data: bytes) -> bytes:
    if b"%" not in data and b"+" not in data:
        return data
    first, *rest = data.replace(b"+", b" ").split(b"%")
    return first + b"".join(map(_decode_escape, rest))


def _decode_escape(part: bytes) -> bytes:
    """What follows a percent sign."""
    try:
        return binascii.unhexlify(part[:2].ljust(2)) + part[2:]
    except binascii.Error:
        return b"%" + part


def _pairs(query: bytes) -> list[tuple[bytes, bytes]]:
    if not query:
        return []
    parted = (pair.partition(b"=") for pair in query.split(b"&"))
    return [(name, value) for name, _, value in parted]


def _join(pairs: list[tuple[bytes, bytes]]) -> bytes:
    pairs.sort()
    return b"&".join([name + b"=" + value for name, value in pairs])
