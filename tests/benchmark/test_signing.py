"""The generator's signatures are those of the SDK."""

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from bench.signing import REGION, SERVICE, Signer


def test_a_request_is_signed_as_botocore_signs_it() -> None:
    body = b'{"QueueName":"a"}'
    head, _, sent = (
        Signer("127.0.0.1:9324", key="AKIAEXAMPLE", secret="secret").request("CreateQueue", body).partition(b"\r\n\r\n")
    )
    headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
    theirs = AWSRequest(
        "POST",
        "http://127.0.0.1:9324/",
        data=body,
        headers={"Content-Type": headers["Content-Type"], "X-Amz-Target": headers["X-Amz-Target"]},
    )
    theirs.context["timestamp"] = theirs.headers["X-Amz-Date"] = headers["X-Amz-Date"]
    auth = SigV4Auth(Credentials("AKIAEXAMPLE", "secret"), SERVICE, REGION)
    to_sign = auth.string_to_sign(theirs, auth.canonical_request(theirs))
    assert sent == body
    assert headers["Authorization"].endswith(f"Signature={auth.signature(to_sign, theirs)}")


def test_a_repeated_request_is_made_anew_when_the_date_changes() -> None:
    signer = Signer("127.0.0.1:9324", key="AKIAEXAMPLE", secret="secret")
    made = signer.repeated("ReceiveMessage", b"{}")
    signer._until = float("inf")
    assert signer.repeated("ReceiveMessage", b"{}") == signer.request("ReceiveMessage", b"{}")
    signer._renew()
    signer._date, signer._until = b"20010101T000000Z", float("inf")
    assert signer.repeated("ReceiveMessage", b"{}") == signer.request("ReceiveMessage", b"{}") != made
