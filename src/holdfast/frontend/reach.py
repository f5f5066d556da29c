"""How a request reached us: under which name, from which address, and whether on an encrypted way.

    base               what QueueUrls begin with: the advertised URL; else the Host that the client used, so that what
                       it is told is what it can reach
    source_ip          aws:SourceIp
    secure_transport   aws:SecureTransport; None, which is absent, on a plain loopback listener, where the usual
                       "enforce SSL" policy would only lock a developer out

What a proxy says of the client (X-Forwarded-For, -Host, -Proto) is believed if its address is one of the trusted. Every
proxy appends whom it heard from, so the list of X-Forwarded-For is read from its end, as far as proxies are trusted.
"""

import ipaddress
from collections.abc import Sequence

from holdfast.frontend.exchange import Exchange

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Reach:
    def __init__(
        self,
        endpoint: str,
        *,
        advertised_url: str | None = None,
        proxies: Sequence[Network] = (),
        secure_transport: bool | None = None,
    ) -> None:
        self._endpoint = endpoint  # for clients that send no Host
        self._scheme = "https" if secure_transport else "http"
        self._advertised_url = advertised_url
        self._proxies = proxies
        self._secure_transport = secure_transport  # of this listener

    def base(self, exchange: Exchange) -> str:
        if self._advertised_url is not None:
            return self._advertised_url
        headers, scheme = exchange.headers, self._scheme
        host = headers.get(b"host", b"")
        if self._is_proxied(exchange):
            host = _last(headers.get(b"x-forwarded-host", b"")) or host
            scheme = "https" if self.secure_transport(exchange) else "http"
        return f"{scheme}://{host.decode('latin-1')}" if host else self._endpoint

    def source_ip(self, exchange: Exchange) -> str:
        peer = exchange.source_ip()
        if not self._is_proxied(exchange):
            return peer
        for hop in reversed(exchange.headers.get(b"x-forwarded-for", b"").split(b",")):
            address = hop.strip().decode("latin-1")
            if not _is_address(address):
                break
            peer = address
            if not self._is_trusted(address):
                break
        return peer

    def secure_transport(self, exchange: Exchange) -> bool | None:
        if not self._secure_transport and self._is_proxied(exchange):
            protocol = _last(exchange.headers.get(b"x-forwarded-proto", b""))
            if protocol:
                return protocol.lower() == b"https"
        return self._secure_transport

    def _is_proxied(self, exchange: Exchange) -> bool:
        return bool(self._proxies) and self._is_trusted(exchange.source_ip())

    def _is_trusted(self, address: str) -> bool:
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(found in network for network in self._proxies)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _last(value: bytes) -> bytes:
    """What the nearest proxy said; those before it may have been anybody."""
    return value.rpartition(b",")[2].strip()
