"""What HTTP itself is refused for, before anybody knows which action is meant: status and text."""

from typing import Final

from holdfast.frontend.bounds import BODY_BYTES_MAX, HEAD_BYTES_MAX, HEADERS_MAX

Refusal = tuple[int, str]

TARGET: Final[Refusal] = (400, "The target of a request is a path, or a URL with the host that the header Host names.")
TWO_HOSTS: Final[Refusal] = (400, "The header Host comes twice.")
CODING: Final[Refusal] = (400, "The only Transfer-Encoding that is understood is chunked, in HTTP/1.1.")
TRAILERS: Final[Refusal] = (400, "Headers after the body are not accepted.")
VERSION: Final[Refusal] = (400, "The request line does not end with HTTP/1.1.")
UPGRADE: Final[Refusal] = (400, "This server speaks HTTP/1.1 only; send the request without the header Upgrade.")
LATE: Final[Refusal] = (408, "The request did not arrive in time.")
LONG_BODY: Final[Refusal] = (413, f"The body of the request is longer than {BODY_BYTES_MAX} bytes.")
EXPECTATION: Final[Refusal] = (417, "The only expectation that is met is 100-continue.")
LONG_HEAD: Final[Refusal] = (
    431,
    f"The head of the request is longer than {HEAD_BYTES_MAX} bytes or {HEADERS_MAX} headers.",
)
FULL: Final[Refusal] = (503, "Too many requests are arriving at once. Nothing was done; retry later.")
CROWDED: Final[Refusal] = (
    503,
    "This address has too many connections. Close some; an operator can raise --connections-per-address, or name a "
    "proxy with --trusted-proxy.",
)


def body(refusal: Refusal) -> bytes:
    return b'{"message":"%b"}' % refusal[1].replace('"', "'").encode()
