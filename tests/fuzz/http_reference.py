"""HTTP/1.1 read in the simplest way: the whole stream at once, by the letter of RFC 9112, and nothing that could be
read in two ways. Slow and without limits; a judge, not a server.
"""

import re
from typing import NamedTuple

_LINE = re.compile(rb"([A-Z-]+) +([^ \r\n\t\0]+) +HTTP/1\.([01])", re.DOTALL).fullmatch  # spaces as the RFC lets us
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*?)[ \t]*", re.DOTALL).fullmatch
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,16})(;[^\r\n\0]*)?\r\n")
_DIGITS = re.compile(rb"[0-9]{1,18}").fullmatch


class Asked(NamedTuple):
    method: bytes
    target: bytes
    body: bytes


class Reading(NamedTuple):
    requests: list[Asked]
    is_refused: bool  # after those requests something comes that is none


class _Refused(Exception):
    pass


class _Unfinished(Exception):
    pass


def read(stream: bytes) -> Reading:
    requests: list[Asked] = []
    rest = stream.lstrip(b"\r\n")
    try:
        while rest:
            asked, rest, is_last = _one(rest)
            requests.append(asked)
            if is_last:
                return Reading(requests, False)
            rest = rest.lstrip(b"\r\n")
    except _Refused:
        return Reading(requests, True)
    except _Unfinished:
        pass
    return Reading(requests, False)


def _one(rest: bytes) -> tuple[Asked, bytes, bool]:
    """A request, what comes after it, and whether the client said that nothing does."""
    head, end, rest = rest.partition(b"\r\n\r\n")
    line, *fields = head.split(b"\r\n")
    found = _LINE(line)
    if not end:
        raise _Unfinished
    if found is None:
        raise _Refused
    method, target, minor = found.groups()
    headers = _headers(fields)
    _check(headers, method)
    target = _path(target, headers)
    body, rest = _body(rest, headers, is_old=minor == b"0")
    words = [each.strip().lower() for each in b",".join(headers.get(b"connection", [])).split(b",")]
    is_last = b"keep-alive" not in words if minor == b"0" else b"close" in words
    return Asked(method, target, body), rest, is_last or method == b"HEAD"


def _headers(fields: list[bytes]) -> dict[bytes, list[bytes]]:
    headers: dict[bytes, list[bytes]] = {}
    for field in fields:
        found = _HEADER(field)
        if found is None:
            raise _Refused
        headers.setdefault(found[1].lower(), []).append(found[2])
    return headers


def _check(headers: dict[bytes, list[bytes]], method: bytes) -> None:
    is_upgrade = b"upgrade" in headers and b"upgrade" in b",".join(headers.get(b"connection", [])).lower()
    expected = headers.get(b"expect", [b"100-continue"])
    if method == b"CONNECT" or is_upgrade or len(headers.get(b"host", [])) > 1:
        raise _Refused
    if b",".join(expected).lower() != b"100-continue":
        raise _Refused


def _path(target: bytes, headers: dict[bytes, list[bytes]]) -> bytes:
    if target.startswith(b"/"):
        return target
    found = re.fullmatch(rb"(?i:https?)://([^/]+)(/.*)?", target, re.DOTALL)
    if found is None or [found[1]] != headers.get(b"host"):
        raise _Refused
    return found[2] or b"/"


def _body(rest: bytes, headers: dict[bytes, list[bytes]], *, is_old: bool) -> tuple[bytes, bytes]:
    lengths, codings = headers.get(b"content-length", []), headers.get(b"transfer-encoding", [])
    if codings:
        if lengths or is_old or [each.lower() for each in codings] != [b"chunked"]:
            raise _Refused
        return _chunks(rest)
    if not lengths:
        return b"", rest
    if len(lengths) > 1 or not _DIGITS(lengths[0]):
        raise _Refused
    length = int(lengths[0])
    if len(rest) < length:
        raise _Unfinished
    return rest[:length], rest[length:]


def _chunks(rest: bytes) -> tuple[bytes, bytes]:
    body = b""
    while True:
        found = _CHUNK.match(rest)
        if found is None:
            raise _Unfinished if b"\r\n" not in rest else _Refused
        size, rest = int(found[1], 16), rest[found.end() :]
        if size == 0:
            break
        if len(rest) < size + 2:
            raise _Unfinished
        if rest[size : size + 2] != b"\r\n":
            raise _Refused
        body, rest = body + rest[:size], rest[size + 2 :]
    if len(rest) < 2:
        raise _Unfinished
    if not rest.startswith(b"\r\n"):
        raise _Refused  # headers after the body
    return body, rest[2:]
