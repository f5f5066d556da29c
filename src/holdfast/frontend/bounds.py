"""What a client may cost before anybody knows who it is. Each bound is one line, with its reason.

`Crowd` counts what single connections cannot know: how many come from one address, and how much memory all unfinished
requests take together.
"""

import ipaddress
from collections.abc import Sequence
from typing import Final

HEAD_BYTES_MAX: Final = 16_384  # request line and headers; SigV4 with a session token needs about 3 KiB
HEADERS_MAX: Final = 64
BODY_BYTES_MAX: Final = 8_388_608  # a batch of 1 MiB, every character escaped as \uXXXX, fits
WIRE_BYTES_MAX: Final = BODY_BYTES_MAX + 524_288  # with the marks of its chunks, and what came in one read with it
NAMES_MAX: Final = 500  # of headers, remembered in lower case; all clients together use a few dozen
NAME_BYTES_MAX: Final = 64  # of those
FORMS_MAX: Final = 8  # of heads, remembered; a client needs one for each of its actions
FORM_BYTES_MAX: Final = 4096  # of those
MISSES_MAX: Final = 64  # heads without a known form, for each that is learned when there are so many
ENDINGS_MAX: Final = 1000  # of answers' heads, remembered by length; a few dozen bytes each
CONNECTIONS_MAX: Final = 20_000
CONNECTIONS_PER_ADDRESS_MAX: Final = 1000  # a loopback address may have them all: proxies and tests are there
UNFINISHED_BYTES_MAX: Final = 268_435_456  # bodies that are still arriving, of all connections together
UNSENT_BYTES_MAX: Final = 262_144  # an answer in the socket's buffer; more than this pauses the connection

PREPARED_MAX: Final = 8  # requests whose signatures are checked one after the other, before they are served,
PREPARED_BYTES: Final = 16_384  # and of so many bytes: what was read lately is still in the processor's cache
TURN_S: Final = 0.001  # requests that have come are served for so long, then what came meanwhile is read
BRISK_TURN_S: Final = 0.00007  # the same after a request that is alone for its queue beside a loaded one,
BRISK_S: Final = 0.02  # for so long: it hears of the disk sooner, and its client's next request is noticed sooner

HEAD_TIMEOUT_S: Final = 15  # from the first byte of a request to the end of its head
BODY_GRACE_S: Final = 15  # then a body must have come at this rate since the first byte of its request
BODY_BYTES_PER_S_MIN: Final = 8192  # 64 kbit/s
IDLE_TIMEOUT_S: Final = 300  # clients keep their connections for some minutes
UNREAD_TIMEOUT_S: Final = 20  # a client that does not read its answer for so long is cut
LINGER_TIMEOUT_S: Final = 3  # after a refusal: so long unread bytes are thrown away, else they would destroy the answer
# What a connection is at, and how long it may take for it.
IDLE: Final = 0
HEAD: Final = 1
BODY: Final = 2
LINGER: Final = 3
_TIMEOUT_S: Final = (IDLE_TIMEOUT_S, HEAD_TIMEOUT_S, BODY_GRACE_S, LINGER_TIMEOUT_S)

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_LOOPBACK: Final = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))


def patience_s(phase: int, received: int) -> int:
    """How long a connection may be at this, when so many bytes of a body have come."""
    return _TIMEOUT_S[phase] + received // BODY_BYTES_PER_S_MIN


class Crowd:
    """All clients of one listening socket. `per_address_max`: None keeps CONNECTIONS_PER_ADDRESS_MAX and spares
    loopback addresses; a number is for all but the proxies, who speak for many."""

    def __init__(self, *, per_address_max: int | None = None, proxies: Sequence[Network] = ()) -> None:
        self._per_address_max = CONNECTIONS_PER_ADDRESS_MAX if per_address_max is None else per_address_max
        self._spared = (*proxies, *(_LOOPBACK if per_address_max is None else ()))
        self._connections: dict[str, int] = {}  # by address
        self._unfinished_bytes = 0

    def enter(self, address: str) -> bool:
        """Whether one more connection from there is welcome. If so, `leave` follows."""
        origin = _origin(address)
        present = self._connections.get(origin, 0)
        if present >= self._per_address_max and not self._is_spared(address):
            return False
        self._connections[origin] = present + 1
        return True

    def _is_spared(self, address: str) -> bool:
        parsed = _parsed(address) if address else None
        return parsed is None or any(parsed in network for network in self._spared)

    def leave(self, address: str) -> None:
        origin = _origin(address)
        left = self._connections[origin] - 1
        if left:
            self._connections[origin] = left
        else:
            del self._connections[origin]

    def hold(self, length: int) -> bool:
        """Whether there is room for so many bytes more of an unfinished body. They are counted in any case."""
        self._unfinished_bytes += length
        return self._unfinished_bytes <= UNFINISHED_BYTES_MAX

    def release(self, length: int) -> None:
        self._unfinished_bytes -= length


def _origin(address: str) -> str:
    """Whom an address stands for: an IPv6 client has all of its /64 to choose from."""
    if ":" not in address:
        return address
    parsed = _parsed(address)
    return str(ipaddress.ip_network((parsed, 64), strict=False) if parsed.version == 6 else parsed)


def _parsed(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An IPv4 address that came in through an IPv6 socket is an IPv4 address."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return mapped or parsed
