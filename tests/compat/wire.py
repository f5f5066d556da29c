"""Requests as bytes: signed by botocore, sent over a plain connection, so that tests decide about every header."""

import http.client
import json
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.process.guarded import Guarded

JSON = "application/x-amz-json-1.0"
FORM = "application/x-www-form-urlencoded"


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        decoded: dict[str, Any] = json.loads(self.body)
        return decoded


class Wire:
    def __init__(self, server: Guarded) -> None:
        self._endpoint, self._credentials = server.endpoint, Credentials(*server.root)

    def json(self, action: str, path: str = "/", *, headers: dict[str, str] | None = None, **members: Any) -> Reply:
        head = {"Content-Type": JSON, "X-Amz-Target": f"AmazonSQS.{action}", **(headers or {})}
        return self.send("POST", path, json.dumps(members), head)

    def form(self, path: str = "/", **parameters: str) -> Reply:
        return self.send("POST", path, urlencode(parameters), {"Content-Type": FORM})

    def get(self, path: str, **parameters: str) -> Reply:
        return self.send("GET", f"{path}?{urlencode(parameters)}", "", {})

    def presigned(self, path: str, **parameters: str) -> Reply:
        """With the signature in the URL, as a link that can be given away."""
        request = AWSRequest("GET", f"{self._endpoint}{path}?{urlencode(parameters)}")
        SigV4QueryAuth(self._credentials, "sqs", "us-east-1").add_auth(request)
        parts = urlsplit(request.url)
        return self._exchange("GET", f"{parts.path}?{parts.query}", b"", {})

    def send(
        self, method: str, path: str, body: str, headers: dict[str, str], *, region: str = "us-east-1", to: str = "sqs"
    ) -> Reply:
        request = AWSRequest(method, self._endpoint + path, headers=headers, data=body.encode())
        SigV4Auth(self._credentials, to, region).add_auth(request)
        return self._exchange(method, path, body.encode(), dict(request.headers.items()))

    def _exchange(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Reply:
        connection = http.client.HTTPConnection(urlsplit(self._endpoint).netloc, timeout=30)
        try:
            connection.request(method, path, body, headers)
            reply = connection.getresponse()
            return Reply(reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read())
        finally:
            connection.close()
