"""A client without a library: one connection, JSON requests, no retries. What it was told is what happened."""

import http.client
import json
import urllib.parse
from typing import Any


class Gone(Exception):
    """No answer: nobody knows whether it was done."""


class Refused(Exception):
    """An error was answered."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        super().__init__(f"{status} {body}")
        self.status = status
        self.code = body.get("__type", "").rpartition("#")[2]
        self.message = body.get("message", "")


class Wire:
    def __init__(self, endpoint: str, *, timeout_s: float = 30) -> None:
        address = urllib.parse.urlsplit(endpoint)
        self._connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=timeout_s)

    def close(self) -> None:
        self._connection.close()

    def call(self, action: str, queue: str = "", **parameters: Any) -> Any:
        if queue:
            parameters["QueueUrl"] = f"http://127.0.0.1/000000000000/{queue}"
        headers = {"X-Amz-Target": f"AmazonSQS.{action}", "Content-Type": "application/x-amz-json-1.0"}
        try:
            self._connection.request("POST", "/", json.dumps(parameters), headers)
            response = self._connection.getresponse()
            body = json.loads(response.read() or b"{}")
        except (OSError, http.client.HTTPException, ValueError) as problem:
            raise Gone(str(problem)) from None
        if response.status != 200:
            raise Refused(response.status, body)
        return body
