"""Requests that are not SQS, and that tools send to an SQS port first.

    GET /health               is the port open? For load balancers and containers; says nothing else
    GET /_localstack/health   which services are there? Asked by tools that were made for LocalStack
    STS GetCallerIdentity     who am I? Signed for the service `sts`; asked by Terraform and awslocal

Everything else goes on to SQS. The first two are all that is answered without a signature.
"""

from typing import Final

from holdfast import __version__
from holdfast.core.admission.canonical import parameters
from holdfast.core.errors import HoldfastError
from holdfast.frontend.admit import Gate
from holdfast.frontend.exchange import Exchange
from holdfast.frontend.forward import fail, refuse
from holdfast.frontend.server import Serve
from holdfast.protocol import json
from holdfast.protocol.actions import InvalidAction
from holdfast.protocol.xml import Wording

_STS_NAMESPACE: Final = "https://sts.amazonaws.com/doc/2011-06-15/"
_TARGET: Final = b"x-amz-target"  # of SQS in JSON; STS has no such dialect
_STS_SCOPE: Final = b"/sts/aws4_request"
_HEALTH: Final = {
    b"/health": json.encode({"status": "ok"}),
    b"/_localstack/health": json.encode(
        {"services": {"sqs": "running", "sts": "running"}, "edition": "holdfast", "version": __version__}
    ),
}


class Companions:
    def __init__(self, gate: Gate, serve_sqs: Serve, prepare_sqs: Serve) -> None:
        self._gate = gate
        self._serve_sqs = serve_sqs
        self._prepare_sqs = prepare_sqs

    def serve(self, exchange: Exchange) -> None:
        if exchange.method in (b"GET", b"HEAD") and exchange.target in _HEALTH:
            exchange.answer_with(200, _HEALTH[exchange.target])
        elif _TARGET not in exchange.headers and _STS_SCOPE in exchange.headers.get(b"authorization", b""):
            self._serve_sts(exchange)
        else:
            self._serve_sqs(exchange)

    def prepare(self, exchange: Exchange) -> None:
        """Before its turn, what can be done then; of SQS in JSON."""
        if _TARGET in exchange.headers and exchange.target not in _HEALTH:
            self._prepare_sqs(exchange)

    def _serve_sts(self, exchange: Exchange) -> None:
        exchange.wording = Wording("GetCallerIdentity", namespace=_STS_NAMESPACE)
        try:
            caller = self._gate.admit(exchange, service=b"sts")
            action = dict(parameters(exchange.body)).get(b"Action", b"")
            if action != b"GetCallerIdentity":
                name = action.decode("latin-1")
                raise InvalidAction(f"The action {name} is not valid for this endpoint: only GetCallerIdentity is.")
        except HoldfastError as error:
            refuse(exchange, error)
        except Exception:  # noqa: BLE001 - a mistake of ours in one request must not end the others
            fail(exchange)
        else:
            identity = {"Arn": caller.arn, "UserId": caller.user_id, "Account": caller.account}
            exchange.answer(json.encode(identity))
