"""Which dialect a request is in. X-Amz-Target: JSON, which today's SDKs speak. Without it: Query."""

from typing import Any

from holdfast.frontend.exchange import Exchange
from holdfast.protocol import query
from holdfast.protocol.actions import UnknownOperation
from holdfast.protocol.xml import Wording


def begin(exchange: Exchange) -> None:
    """For a request without X-Amz-Target, before admission: whatever is answered from here on is in Query. One that
    says it is JSON only forgot to name its action."""
    headers, is_post = exchange.headers, exchange.method == b"POST"
    if is_post and headers.get(b"content-type", b"").startswith(b"application/x-amz-json"):
        raise UnknownOperation("Name an action in the header X-Amz-Target, for example AmazonSQS.SendMessage.")
    exchange.wording = Wording(is_json=b"application/json" in headers.get(b"accept", b""))
    has_action = b"Action=" in exchange.target or (is_post and b"Action=" in exchange.body)
    if not has_action or not (is_post or exchange.method == b"GET"):
        raise UnknownOperation("Name an action in the parameter Action of a POST or GET, for example SendMessage.")


def decode(exchange: Exchange) -> Any:
    """The request of an exchange that began in Query."""
    assert exchange.wording is not None
    request = query.decode(exchange.target, exchange.body if exchange.method == b"POST" else b"")
    exchange.wording = Wording(type(request).__name__, exchange.wording.is_json)
    return request
