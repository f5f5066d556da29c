"""Requests to the admin port, signed by botocore, or not at all."""

import json
import urllib.error
import urllib.request
from typing import Any

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

Keys = tuple[str, ...]


def ask(
    url: str, *, method: str = "GET", keys: Keys = (), service: str = "holdfast", token: str = ""
) -> tuple[int, bytes]:
    """Status and body."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    if keys:
        request = AWSRequest(method, url, data=b"")
        SigV4Auth(Credentials(*keys), service, "us-east-1").add_auth(request)
        headers = dict(request.headers.items())
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method, headers=headers)) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read()


def asked(url: str, **options: Any) -> Any:
    status, body = ask(url, **options)
    assert status == 200, body
    return json.loads(body)
