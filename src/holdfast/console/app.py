"""The admin port as an ASGI application: every request is admitted, then handled, then answered in JSON.

Laws
- What is not marked open in routes.py needs a signature with the right that the row names, or, for metrics alone, the
  token in the data folder's metrics.token.
- Nothing of a request is looked at before that, and a body is bounded.
"""

import hmac
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.console.openapi import describe
from holdfast.console.routes import OPEN, READ, Row
from holdfast.core.errors import HoldfastError
from holdfast.runtime.logs import log

BODY_BYTES_MAX = 65_536  # no request of the API is long


class Asked(NamedTuple):
    """A request as admission sees it."""

    method: bytes
    target: bytes
    headers: Mapping[bytes, bytes]
    body: bytes
    peer: str


FORBIDDEN = 403
TOKEN_HINT = (
    ". Metrics can also be read with the token in the file metrics.token of the data folder, sent as the header"
    " `Authorization: Bearer TOKEN`."
)

Guard = Callable[[Asked, str], None]  # the right that is needed; raises a Denial


def make(rows: list[Row], *, guard: Guard, metrics_token: str) -> Starlette:
    described = Row("GET", "/openapi.json", READ, "This description.", None, _described(rows))
    return Starlette(
        routes=[
            Route(row.path, _endpoint(row, guard, metrics_token=metrics_token), methods=[row.method])
            for row in [*rows, described]
        ]
    )


def _described(rows: list[Row]) -> Any:
    document = msgspec.json.encode(describe(rows))

    async def handle(_: Request) -> Response:
        return Response(document, media_type="application/json")

    return handle


def _endpoint(row: Row, guard: Guard, *, metrics_token: str) -> Any:
    async def endpoint(request: Request) -> Response:
        try:
            body = await _body(request)
            if body is None:
                return _refusal(413, "RequestTooLong", f"The body is longer than {BODY_BYTES_MAX} bytes.")
            if row.right != OPEN and not (row.is_metrics and _has_token(request, metrics_token)):
                guard(_asked(request, body), row.right)
            return _shown(await row.handle(request))
        except HoldfastError as error:
            hint = TOKEN_HINT if row.is_metrics and error.status == FORBIDDEN else ""
            return _refusal(error.status, error.query_code, error.message.rstrip(".") + hint if hint else error.message)
        except Exception as problem:  # noqa: BLE001 - a mistake of ours in one request must not end the others
            log.error("a request to the admin port failed, by a mistake in Holdfast", path=row.path, problem=problem)
            return _refusal(500, "InternalFailure", "Holdfast failed to answer this request; its own log says why.")

    return endpoint


async def _body(request: Request) -> bytes | None:
    """None: it is too long."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > BODY_BYTES_MAX:
            return None
    return body


def _asked(request: Request, body: bytes) -> Asked:
    scope = request.scope
    target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
    headers: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        headers[name] = headers[name] + b"," + value if name in headers else value
    return Asked(request.method.encode(), target, headers, body, request.client.host if request.client else "")


def _has_token(request: Request, token: str) -> bool:
    return hmac.compare_digest(request.headers.get("authorization", "").encode(), f"Bearer {token}".encode())


def _shown(answer: Any) -> Response:
    if isinstance(answer, Response):
        return answer
    return Response(msgspec.json.encode(answer), media_type="application/json")


def _refusal(status: int, code: str, message: str) -> Response:
    content = msgspec.json.encode({"code": code, "message": message})
    return Response(content, status, media_type="application/json")
