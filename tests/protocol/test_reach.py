"""How a request reached us, directly and through proxies."""

import ipaddress

import pytest

from holdfast.frontend.exchange import Exchange, Heads
from holdfast.frontend.reach import Reach

PROXIES = [ipaddress.ip_network("10.0.0.0/8")]


class Silent:
    heads = Heads("boot-", "date")

    def __init__(self, peer: str) -> None:
        self._peer = peer

    def deliver(self, _: Exchange, __: bytes) -> None:
        raise AssertionError("nothing is answered here")

    def peer(self) -> str:
        return self._peer


def request(peer: str, **headers: str) -> Exchange:
    named = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    return Exchange(Silent(peer), b"POST", b"/", named, b"", is_last=False)


def test_urls_begin_with_the_host_that_the_client_used() -> None:
    assert Reach("http://own:1").base(request("1.2.3.4", host="queues:9324")) == "http://queues:9324"
    assert Reach("http://own:1").base(request("1.2.3.4")) == "http://own:1"
    assert Reach("", secure_transport=True).base(request("1.2.3.4", host="queues")) == "https://queues"


def test_an_advertised_url_wins() -> None:
    reach = Reach("", advertised_url="https://queues.example", proxies=PROXIES)
    assert reach.base(request("10.0.0.1", host="a", x_forwarded_host="b")) == "https://queues.example"


def test_a_trusted_proxy_is_believed() -> None:
    reach = Reach("", proxies=PROXIES, secure_transport=False)
    forwarded = request(
        "10.0.0.1", host="a", x_forwarded_host="public", x_forwarded_proto="https", x_forwarded_for="1.2.3.4"
    )
    assert reach.base(forwarded) == "https://public"
    assert reach.secure_transport(forwarded) is True
    assert reach.source_ip(forwarded) == "1.2.3.4"


def test_anybody_else_is_not() -> None:
    reach = Reach("", proxies=PROXIES, secure_transport=False)
    forged = request("1.2.3.4", host="a", x_forwarded_host="b", x_forwarded_proto="https", x_forwarded_for="10.0.0.9")
    assert reach.base(forged) == "http://a"
    assert reach.secure_transport(forged) is False
    assert reach.source_ip(forged) == "1.2.3.4"


@pytest.mark.parametrize(
    ("hops", "source"),
    [
        ("6.6.6.6, 1.2.3.4", "1.2.3.4"),  # what the client itself wrote is before what the proxy appended
        ("6.6.6.6, 1.2.3.4, 10.0.0.2", "1.2.3.4"),
        ("10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ("", "10.0.0.1"),
        ("6.6.6.6, nonsense", "10.0.0.1"),
    ],
)
def test_the_source_is_the_last_hop_that_is_no_trusted_proxy(hops: str, source: str) -> None:
    assert Reach("", proxies=PROXIES).source_ip(request("10.0.0.1", x_forwarded_for=hops)) == source
