"""SigV4 against two judges: the examples that AWS publishes with its test suite, and botocore as the signer. Then every
kind of change to a signed request, which must be refused unless it does not change what the request means."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from urllib.parse import parse_qsl, urlsplit

import botocore.auth
import msgspec
import pytest
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.utils import normalize_url_path
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.core import civil
from holdfast.core.admission.authorization import read_claim
from holdfast.core.admission.canonical import canonical_path, canonical_query, decode, encoded_query
from holdfast.core.admission.denials import (
    Denial,
    IncompleteSignature,
    InvalidClientTokenId,
    MissingAuthenticationToken,
    SignatureDoesNotMatch,
)
from holdfast.core.admission.signature import Signed, Signer, SigningKeys, Verifier, derive
from holdfast.core.limits import SIGNED_HEADS_MAX
from holdfast.frontend import head

KEY, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
NOW = 1_750_000_000
HOST = "localhost:9324"
JSON = {"X-Amz-Target": "AmazonSQS.SendMessage", "Content-Type": "application/x-amz-json-1.0"}
FORM = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
SEND = b'{"QueueUrl":"http://localhost:9324/000000000000/q","MessageBody":"hello"}'

Changes = dict[bytes, bytes | None]


def secret_of(access_key: str) -> str | None:
    return SECRET if access_key == KEY else None


def at(seconds: int) -> Callable[[], datetime]:
    return lambda: datetime.fromtimestamp(seconds, UTC)


def sign(
    method: str = "POST",
    target: str = "/",
    *,
    headers: dict[str, str] | None = None,
    body: bytes = b"",
    params: list[tuple[str, str]] | None = None,
    region: str = "us-east-1",
    service: str = "sqs",
    expires: int | None = None,
    token: str | None = None,
    seconds: int = NOW,
) -> Signed:
    """As a client with botocore sends it."""
    request = AWSRequest(method, f"http://{HOST}{target}", headers=headers or {}, data=body, params=params or [])
    credentials = Credentials(KEY, SECRET, token)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.auth, "get_current_datetime", at(seconds))
        if expires is None:
            SigV4Auth(credentials, service, region).add_auth(request)
        else:
            SigV4QueryAuth(credentials, service, region, expires=expires).add_auth(request)
    prepared = request.prepare()
    parts = urlsplit(prepared.url)
    pairs = [(name.encode(), _bytes(value)) for name, value in prepared.headers.items()]
    sent = head.join([(b"Host", HOST.encode()), (b"User-Agent", b"test"), *pairs])
    return Signed(method.encode(), parts.path.encode(), parts.query.encode(), sent, prepared.body or b"")


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def verify(request: Signed, now_s: int = NOW, *, service: bytes = b"sqs") -> Signer:
    return Verifier(secret_of).verify(request, now_s, service=service)


def refused(request: Signed, kind: type[Denial], now_s: int = NOW, *, service: bytes = b"sqs") -> str:
    with pytest.raises(Denial) as caught:
        verify(request, now_s, service=service)
    assert type(caught.value) is kind
    return caught.value.message


def with_headers(request: Signed, changes: Changes) -> Signed:
    headers = {**request.headers, **changes}
    return msgspec.structs.replace(request, headers={name: each for name, each in headers.items() if each is not None})


def with_authorization(request: Signed, before: bytes, after: bytes) -> Signed:
    authorization = request.headers[b"authorization"]
    assert before in authorization
    return with_headers(request, {b"authorization": authorization.replace(before, after, 1)})


def with_query(request: Signed, before: bytes, after: bytes) -> Signed:
    assert before in request.query
    return msgspec.structs.replace(request, query=request.query.replace(before, after, 1))


# --- what AWS publishes -------------------------------------------------------------------------------

UNRESERVED = b"-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
VANILLA = "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
SUITE: dict[str, tuple[bytes, bytes, list[tuple[bytes, bytes]], bytes, str]] = {
    "get-vanilla": (b"GET", b"/", [], b"", VANILLA),
    "get-slash": (b"GET", b"//", [], b"", VANILLA),
    "get-slash-dot-slash": (b"GET", b"/./", [], b"", VANILLA),
    "get-relative": (b"GET", b"/example/..", [], b"", VANILLA),
    "get-relative-relative": (b"GET", b"/example1/example2/../..", [], b"", VANILLA),
    "get-unreserved": (
        b"GET",
        b"/" + UNRESERVED,
        [],
        b"",
        "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f",
    ),
    "get-utf8": (b"GET", "/ሴ".encode(), [], b"", "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"),
    "get-space": (
        b"GET",
        b"/example space/",
        [],
        b"",
        "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741",
    ),
    "get-vanilla-empty-query-key": (
        b"GET",
        b"/?Param1=value1",
        [],
        b"",
        "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb",
    ),
    "get-vanilla-query-order-key-case": (
        b"GET",
        b"/?Param2=value2&Param1=value1",
        [],
        b"",
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
    ),
    "get-vanilla-query-unreserved": (
        b"GET",
        b"/?" + UNRESERVED + b"=" + UNRESERVED,
        [],
        b"",
        "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197",
    ),
    "get-header-key-duplicate": (
        b"GET",
        b"/",
        [(b"My-Header1", each) for each in (b"value2", b"value2", b"value1")],
        b"",
        "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
    ),
    "get-header-value-order": (
        b"GET",
        b"/",
        [(b"My-Header1", each) for each in (b"value4", b"value1", b"value3", b"value2")],
        b"",
        "08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01",
    ),
    "get-header-value-trim": (
        b"GET",
        b"/",
        [(b"My-Header1", b" value1"), (b"My-Header2", b' "a   b   c"')],
        b"",
        "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
    ),
    "post-vanilla": (b"POST", b"/", [], b"", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
    "post-header-key-sort": (
        b"POST",
        b"/",
        [(b"My-Header1", b"value1")],
        b"",
        "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c",
    ),
    "post-header-value-case": (
        b"POST",
        b"/",
        [(b"My-Header1", b"VALUE1")],
        b"",
        "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d",
    ),
    "post-x-www-form-urlencoded": (
        b"POST",
        b"/",
        [(b"Content-Type", b"application/x-www-form-urlencoded")],
        b"Param1=value1",
        "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
    ),
}


@pytest.mark.parametrize("name", SUITE)
def test_the_published_examples_verify(name: str) -> None:
    method, target, extra, body, signature = SUITE[name]
    path, _, query = target.partition(b"?")
    headers = head.join([(b"Host", b"example.amazonaws.com"), (b"X-Amz-Date", b"20150830T123600Z"), *extra])
    scope = "AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
    names = b";".join(sorted(headers)).decode()
    headers[b"authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders={names}, Signature={signature}".encode()
    )
    now_s = civil.parse_extended("2015-08-30T12:36:00Z")
    assert now_s is not None
    signer = verify(Signed(method, path, query, headers, body), now_s, service=b"service")
    assert signer == Signer("AKIDEXAMPLE", "us-east-1")


# --- what botocore signs ------------------------------------------------------------------------------

ODD = [("Action", "SendMessage"), ("MessageBody", "a b+c*~'()/?#[]@!$&=;,%é☃"), ("x", ""), ("x", "2"), ("x", "10")]
ACCEPTED: dict[str, Signed] = {
    "a JSON request": sign(headers=JSON, body=SEND),
    "a JSON request with query mode": sign(headers={**JSON, "x-amzn-query-mode": "true"}, body=SEND),
    "a JSON request to the queue's path": sign(target="/000000000000/q.fifo", headers=JSON, body=SEND),
    "a declared hash": sign(
        headers={**JSON, "X-Amz-Content-SHA256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}
    ),
    "a Query request by POST": sign(headers=FORM, body=b"Action=SendMessage&MessageBody=a+b%2Bc"),
    "a Query request by GET": sign("GET", "/000000000000/q?Action=GetQueueUrl&QueueName=q&Version=2012-11-05"),
    "a GET with parameters in any characters": sign("GET", "/000000000000/q", params=ODD),
    "a GET with a raw query in any characters": sign("GET", "/?b=%7e*&a=x+y&a&&c=%zz&d=1=2"),
    "another region": sign(headers=JSON, body=SEND, region="eu-central-2"),
    "a region that no one has": sign(headers=JSON, body=SEND, region="local%host"),
    "a path with dots, slashes and escapes": sign("GET", "/a//b/./c/../d%20e/~f/*"),
    "a header with spaces": sign(headers={**JSON, "X-Amz-Meta": "  a   b\tc "}, body=SEND),
    "a Date header instead of X-Amz-Date": sign(headers={**JSON, "Date": "later"}, body=SEND),
    "a body of zero bytes": sign(headers=JSON),
    "a presigned GET": sign("GET", "/000000000000/q?Action=ReceiveMessage", expires=60),
    "a presigned GET in any characters": sign("GET", "/000000000000/q", params=ODD[:3], expires=604_800),
    "a presigned JSON request": sign(headers=JSON, body=SEND, expires=3600),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_botocore_signs_is_accepted(name: str) -> None:
    verifier = Verifier(secret_of)
    first = verifier.verify(ACCEPTED[name], NOW)
    assert first.access_key == KEY
    assert first.is_presigned is name.startswith("a presigned")
    assert verifier.verify(ACCEPTED[name], NOW) == first  # and again, with what is remembered


def test_the_region_is_the_one_of_the_credential() -> None:
    assert verify(ACCEPTED["another region"]).region == "eu-central-2"


def test_a_repeated_header_is_signed_as_one() -> None:
    request = sign(headers={**JSON, "X-Amz-Meta": "a,b"}, body=SEND)
    split = [pair for pair in request.headers.items() if pair[0] != b"x-amz-meta"]
    headers = head.join([*split, (b"X-Amz-Meta", b"a"), (b"x-amz-meta", b"b")])
    assert verify(msgspec.structs.replace(request, headers=headers)).access_key == KEY


def test_a_query_that_was_encoded_anew_before_signing_is_accepted() -> None:
    """As the SDKs for Go and JavaScript sign, whatever the URL looks like on the wire."""
    signed = sign("GET", "/?a=x%20y&b=%2A~")
    assert verify(msgspec.structs.replace(signed, query=b"b=*%7E&a=x+y")).access_key == KEY


def test_fields_of_the_header_may_come_in_another_order_and_without_spaces() -> None:
    request = sign(headers=JSON, body=SEND)
    algorithm, _, rest = request.headers[b"authorization"].partition(b" ")
    turned = algorithm + b" " + b",".join(reversed(rest.split(b", ")))
    assert verify(with_headers(request, {b"authorization": turned})).access_key == KEY


def test_sts_requests_are_signed_for_sts() -> None:
    request = sign(headers=FORM, body=b"Action=GetCallerIdentity", service="sts")
    assert verify(request, service=b"sts").access_key == KEY
    assert refused(request, SignatureDoesNotMatch) == "Credential should be scoped to correct service: 'sqs'."


@given(st.text(st.sampled_from("/.ab%*~ +é"), max_size=12))
def test_the_canonical_path_is_botocores(path: str) -> None:
    path = "/" + path
    raw = path.encode()
    expected = botocore.auth.quote(normalize_url_path(path), safe="/~")
    assert canonical_path(raw).decode() == expected


def test_a_path_without_a_slash_in_front_is_botocores_too() -> None:
    for path in ("", ".", "..", "a/..", "a/./b", "a"):
        assert canonical_path(path.encode()).decode() == botocore.auth.quote(normalize_url_path(path), safe="/~")


@given(st.binary(max_size=12).map(lambda data: re.sub(rb"[&=]", b"%+", data)))
def test_decoding_is_that_of_the_query_dialect(data: bytes) -> None:
    [(name, value)] = parse_qsl("x=" + data.decode("latin-1"), keep_blank_values=True, encoding="latin-1")
    assert (name, decode(data).decode("latin-1")) == ("x", value)


# --- refusals -----------------------------------------------------------------------------------------

USUAL = ACCEPTED["a JSON request"]
PRESIGNED = ACCEPTED["a presigned GET"]


def test_a_request_without_a_signature_misses_a_token() -> None:
    for request in (
        with_headers(USUAL, {b"authorization": None}),
        with_headers(USUAL, {b"authorization": b"Bearer abc"}),
        with_headers(USUAL, {b"authorization": b""}),
    ):
        assert refused(request, MissingAuthenticationToken) == "Request is missing Authentication Token"


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (b"AWS4-HMAC-SHA256", b"AWS4-HMAC-SHA1", "Unsupported AWS 'algorithm': 'AWS4-HMAC-SHA1'"),
        (b"AWS4-HMAC-SHA256", b"AWS4-ECDSA-P256-SHA256", "Unsupported AWS 'algorithm'"),
        (b"Signature=", b"Signatur=", "Authorization header requires 'Signature' parameter."),
        (b"Credential=AKIDEXAMPLE/", b"Credential=", "Credential must have exactly 5 slash-delimited elements"),
        (b"AKIDEXAMPLE/", b"/", "Credential must have exactly 5"),
        (b", Signature=", b", Signature", "not a valid key=value pair"),
        (b", Signature=", b", Signature=ab, Signature=", "not a valid key=value pair"),
        (b"content-type;host", b"host;content-type", "SignedHeaders must be in lower case, sorted"),
        (b"content-type;host", b"content-type;host;host", "SignedHeaders must be in lower case, sorted"),
        (b"content-type;host", b"Content-Type;host", "SignedHeaders must be in lower case, sorted"),
    ],
)
def test_a_signature_that_cannot_be_read_is_incomplete(before: bytes, after: bytes, text: str) -> None:
    assert text in refused(with_authorization(USUAL, before, after), IncompleteSignature)


def test_all_missing_fields_are_named() -> None:
    text = refused(with_headers(USUAL, {b"authorization": b"AWS4-HMAC-SHA256 a=b"}), IncompleteSignature)
    for name in ("Credential", "SignedHeaders", "Signature"):
        assert f"'{name}'" in text


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (b"/aws4_request", b"/aws4_reques", "valid terminator: 'aws4_request', not 'aws4_reques'"),
        (b"/sqs/", b"/sns/", "Credential should be scoped to correct service: 'sqs'."),
        (b"content-type;host;", b"content-type;", "'Host' or ':authority' must be a 'SignedHeader'"),
        (b"/20250615/", b"/20250616/", "'20250616' != '20250615', from '20250615T150640Z'"),
        (b"/20250615/", b"/20251315/", "Date in Credential scope is no date: '20251315'"),
        (b"x-amz-date;", b"x-amz-data;", "The header 'x-amz-data' is signed, and the request does not have it."),
        (b"x-amz-date;", b"", "There were headers present in the request which were not signed: 'x-amz-date'"),
        (b";x-amz-target", b"", "There were headers present in the request which were not signed: 'x-amz-target'"),
    ],
)
def test_a_signature_for_something_else_does_not_match(before: bytes, after: bytes, text: str) -> None:
    request = with_authorization(USUAL, before, after)
    if b"x-amz-data" in after:
        request = with_headers(request, {b"x-amz-date": None, b"date": b"Sun, 15 Jun 2025 15:06:40 GMT"})
    assert text in refused(request, SignatureDoesNotMatch)


def test_a_header_named_in_capitals_does_not_escape_the_rule() -> None:
    assert "not signed: 'X-Amz-Target'" in refused(with_headers(USUAL, {b"X-Amz-Target": b"x"}), SignatureDoesNotMatch)


def test_headers_that_are_not_amazons_need_no_signature() -> None:
    extra = {b"x-forwarded-for": b"10.0.0.1", b"x-amzn-trace-id": b"Root=1", b"via": b"1.1 proxy"}
    assert verify(with_headers(USUAL, dict(extra))).access_key == KEY


def test_an_unknown_or_disabled_key_is_an_invalid_token() -> None:
    request = with_authorization(USUAL, b"AKIDEXAMPLE", b"AKIDEXAMPLF")
    assert refused(request, InvalidClientTokenId) == "The security token included in the request is invalid."


def test_a_session_token_with_a_local_key_is_refused_and_the_text_says_why() -> None:
    for expires in (None, 60):
        text = refused(sign(headers=JSON, body=SEND, token="abc", expires=expires), InvalidClientTokenId)
        assert "X-Amz-Security-Token" in text
        assert "AWS_SESSION_TOKEN" in text


def test_an_empty_session_token_is_none() -> None:
    assert verify(sign(headers={**JSON, "X-Amz-Security-Token": ""}, body=SEND)).access_key == KEY


def test_a_request_signed_twice_is_refused() -> None:
    request = msgspec.structs.replace(USUAL, query=b"X-Amz%2DAlgorithm=AWS4-HMAC-SHA256")
    assert refused(request, SignatureDoesNotMatch).startswith("Found both 'X-Amz-Algorithm'")


def test_bodies_must_be_signed() -> None:
    for declared in ("UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "0" * 64, ""):
        request = sign(headers={**JSON, "X-Amz-Content-SHA256": declared}, body=SEND)
        assert "is not the SHA-256 of the body" in refused(request, SignatureDoesNotMatch)


def test_a_line_break_in_a_header_is_refused_even_if_the_text_that_is_hashed_stays_the_same() -> None:
    date, target = USUAL.headers[b"x-amz-date"], USUAL.headers[b"x-amz-target"]
    request = sign(headers={**JSON, "X-Amz-A": "1"}, body=SEND)
    assert verify(request).access_key == KEY
    moved = with_headers(request, {b"x-amz-a": b"1\nx-amz-date:" + date, b"x-amz-date": target})
    refused(moved, IncompleteSignature)
    refused(with_headers(request, {b"host": HOST.encode() + b"\nx"}), SignatureDoesNotMatch)
    refused(msgspec.structs.replace(request, method=b"POST\n"), SignatureDoesNotMatch)


@pytest.mark.parametrize("skew_s", [-900, 0, 900])
def test_clocks_may_differ_by_fifteen_minutes(skew_s: int) -> None:
    assert verify(USUAL, NOW + skew_s).access_key == KEY


def test_an_old_signature_has_expired() -> None:
    expected = "Signature expired: 20250615T150640Z is now earlier than 20250615T150641Z (20250615T152141Z - 15 min.)"
    assert refused(USUAL, SignatureDoesNotMatch, NOW + 901) == expected


def test_a_signature_of_the_future_is_not_yet_current() -> None:
    expected = (
        "Signature not yet current: 20250615T150640Z is still later than 20250615T150639Z (20250615T145139Z + 15 min.)"
    )
    for request in (USUAL, PRESIGNED):
        assert refused(request, SignatureDoesNotMatch, NOW - 901) == expected


@pytest.mark.parametrize(
    "date",
    [b"", b"x", b"20250615", b"20250615T150640", b"20250615T246640Z", b"2025-06-15T15:06Z", b"20250615 150640Z"],
)
def test_a_date_in_another_form_is_refused(date: bytes) -> None:
    refused(with_headers(USUAL, {b"x-amz-date": date}), IncompleteSignature)
    refused(with_headers(USUAL, {b"x-amz-date": None, b"date": date}), IncompleteSignature)


def test_a_request_without_a_date_is_refused() -> None:
    assert "'X-Amz-Date' or a 'Date'" in refused(with_headers(USUAL, {b"x-amz-date": None}), IncompleteSignature)


def test_a_presigned_url_lives_as_long_as_it_says() -> None:
    assert verify(PRESIGNED, NOW + 60).is_presigned
    expected = "Signature expired: 20250615T150740Z (20250615T150640Z + 60 s) is now earlier than 20250615T150741Z."
    assert refused(PRESIGNED, SignatureDoesNotMatch, NOW + 61) == expected
    assert verify(sign("GET", "/?Action=x", expires=604_800), NOW + 604_800).is_presigned


@pytest.mark.parametrize("expires", [0, 604_801, 9_999_999])
def test_a_presigned_url_lives_a_second_at_least_and_seven_days_at_most(expires: int) -> None:
    assert "from 1 to 604800" in refused(sign("GET", "/?Action=x", expires=expires), IncompleteSignature)


def test_a_presigned_url_without_expiry_lives_fifteen_minutes() -> None:
    """Signed by hand: botocore always names an expiry."""
    scope = b"20250615/us-east-1/sqs/aws4_request"
    query = (
        b"Action=x&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIDEXAMPLE%2F" + scope.replace(b"/", b"%2F")
    ) + b"&X-Amz-Date=20250615T150640Z&X-Amz-SignedHeaders=host"
    claim = read_claim(b"AKIDEXAMPLE/" + scope, b"host")
    empty = sha256().hexdigest().encode()
    canonical = b"GET\n/\n" + canonical_query(query) + b"\nhost:h\n\nhost\n" + empty
    hashed = sha256(canonical).hexdigest().encode()
    key = derive(SECRET, claim)
    signature = key.end(key.begin(b"AWS4-HMAC-SHA256\n20250615T150640Z\n" + scope + b"\n"), hashed)
    request = Signed(b"GET", b"/", query + b"&X-Amz-Signature=" + signature, {b"host": b"h"}, b"")
    assert verify(request, NOW + 900).is_presigned
    refused(request, SignatureDoesNotMatch, NOW + 901)


@pytest.mark.parametrize("name", ["Credential", "Date", "SignedHeaders", "Signature", "Algorithm"])
def test_a_presigned_url_needs_all_its_parts_once(name: str) -> None:
    parameter = f"X-Amz-{name}".encode()
    request = with_query(PRESIGNED, parameter, b"X-Amz-Other")
    assert f"must include 'X-Amz-{name}'" in refused(request, IncompleteSignature)
    twice = msgspec.structs.replace(PRESIGNED, query=PRESIGNED.query + b"&" + parameter + b"=x")
    assert "comes more than once" in refused(twice, IncompleteSignature)


def test_a_presigned_url_has_the_same_rules_for_algorithm_and_headers() -> None:
    assert "Unsupported" in refused(with_query(PRESIGNED, b"HMAC-SHA256", b"HMAC-SHA1"), IncompleteSignature)
    assert "not signed" in refused(with_headers(PRESIGNED, {b"x-amz-target": b"AmazonSQS.X"}), SignatureDoesNotMatch)
    assert "correct service" in refused(with_query(PRESIGNED, b"%2Fsqs%2F", b"%2Fsns%2F"), SignatureDoesNotMatch)


# --- what is remembered -------------------------------------------------------------------------------


def test_a_new_secret_counts_at_once_and_a_disabled_key_too() -> None:
    secrets: dict[str, str | None] = {KEY: SECRET}
    verifier = Verifier(secrets.get)
    assert verifier.verify(USUAL, NOW).access_key == KEY
    secrets[KEY] = "another"
    with pytest.raises(SignatureDoesNotMatch):
        verifier.verify(USUAL, NOW)
    secrets[KEY] = None
    with pytest.raises(InvalidClientTokenId):
        verifier.verify(USUAL, NOW)
    secrets[KEY] = SECRET
    assert verifier.verify(USUAL, NOW).access_key == KEY


def test_an_empty_secret_is_a_secret_like_any_other() -> None:
    with pytest.raises(SignatureDoesNotMatch):
        Verifier(lambda _: "").verify(USUAL, NOW)


def test_keys_are_derived_once_per_scope_and_the_oldest_is_forgotten_first() -> None:
    keys = SigningKeys(keys_max=2)
    claims = [read_claim(f"{KEY}/20250615/r{n}/sqs/aws4_request".encode(), b"host") for n in range(3)]
    derived = [keys.get(claim, SECRET) for claim in claims]
    for claim, key in zip(claims, derived, strict=True):
        keys.keep(claim, SECRET, key=key)
    assert keys.get(claims[0], SECRET) is not derived[0]
    assert keys.get(claims[1], SECRET) is derived[1]
    assert keys.get(claims[2], SECRET) is derived[2]
    assert keys.get(claims[2], "another") is not derived[2]
    keys.keep(claims[2], SECRET, key=derived[0])  # replacing needs no room
    assert keys.get(claims[1], SECRET) is derived[1]


def test_only_verified_requests_are_remembered() -> None:
    verifier = Verifier(secret_of)
    bad = with_authorization(USUAL, b"Signature=", b"Signature=0")
    with pytest.raises(SignatureDoesNotMatch):
        verifier.verify(bad, NOW)
    assert not verifier._routines
    assert not verifier._keys._keys
    assert not verifier._heads
    long = sign(headers={**JSON, **{f"X-Amz-{n:064d}": "x" for n in range(20)}}, body=SEND)
    assert verifier.verify(long, NOW).access_key == KEY
    assert not verifier._routines  # too long to be kept
    verifier.verify(USUAL, NOW)
    assert len(verifier._routines) == 1


def test_what_is_remembered_of_a_head_serves_other_bodies_and_nothing_else() -> None:
    verifier = Verifier(secret_of)
    other = sign(headers=JSON, body=SEND + b" ")
    for request in (USUAL, USUAL, other):
        assert verifier.verify(request, NOW).access_key == KEY
    assert len(verifier._heads) == 1
    with pytest.raises(SignatureDoesNotMatch):
        verifier.verify(msgspec.structs.replace(USUAL, body=other.body), NOW)
    for changed in ({"path": b"/x"}, {"method": b"GET"}, {"headers": {**USUAL.headers, b"host": b"elsewhere"}}):
        with pytest.raises(SignatureDoesNotMatch):
            verifier.verify(msgspec.structs.replace(USUAL, **changed), NOW)
    assert len(verifier._heads) == 1


def test_heads_are_bounded() -> None:
    verifier = Verifier(secret_of)
    for number in range(SIGNED_HEADS_MAX + 10):
        verifier.verify(sign("POST", f"/q{number}", headers=JSON, body=SEND), NOW)
    assert len(verifier._heads) == SIGNED_HEADS_MAX


# --- mutations ----------------------------------------------------------------------------------------


NAMELESS = ("", "")  # a parameter without name and value; "&&" and "&=&" both have one, and only the second is parsed


def meaning(request: Signed) -> object:
    """What a signature must bind, read by other code than ours."""
    signed = signed_names(request)
    values = {
        name: b" ".join(value.split())
        for name, value in request.headers.items()
        if name in signed or name.lower().startswith(b"x-amz-")
    }
    authorization = request.headers.get(b"authorization", b"")
    fields = sorted(part.strip() for part in re.split(rb"[ ,]", authorization) if part.strip())
    pairs = parse_qsl(request.query.decode("latin-1"), keep_blank_values=True, encoding="latin-1")
    query = sorted(pair for pair in pairs if pair != NAMELESS)
    empty = pairs.count(NAMELESS) + sum(not part for part in request.query.split(b"&"))
    path = normalize_url_path(request.path.decode("latin-1"))
    return request.method, path, query, empty, values, fields, request.body


def signed_names(request: Signed) -> set[bytes]:
    found = re.search(rb"SignedHeaders=([^,& ]*)", request.headers.get(b"authorization", b"") + b"&" + request.query)
    return set(re.split(rb";|%3B", found[1])) if found else set()


def is_accepted(verifier: Verifier, request: Signed) -> bool:
    try:
        verifier.verify(request, NOW)
    except Denial:
        return False
    return True


WARM = Verifier(secret_of)
for _request in ACCEPTED.values():
    WARM.verify(_request, NOW)


def assert_bound(original: Signed, mutated: Signed) -> None:
    for verifier in (WARM, Verifier(secret_of)):
        if is_accepted(verifier, mutated):
            assert meaning(mutated) == meaning(original)


def places(request: Signed) -> list[str | bytes]:
    """Fields by name, signed headers by their names."""
    names = sorted({*signed_names(request), b"authorization"} & set(request.headers))
    return ["method", "path", "query", "body", *names]


def part(request: Signed, place: str | bytes) -> bytes:
    found = request.headers[place] if isinstance(place, bytes) else getattr(request, place)
    assert isinstance(found, bytes)
    return found


def with_part(request: Signed, place: str | bytes, text: bytes) -> Signed:
    if isinstance(place, bytes):
        return with_headers(request, {place: text})
    return msgspec.structs.replace(request, **{place: text})


@pytest.mark.parametrize("name", ACCEPTED)
def test_no_single_byte_can_be_changed(name: str) -> None:
    """Each byte of each part, in turn: one bit flipped, removed, doubled."""
    request = ACCEPTED[name]
    for place in places(request):
        text = part(request, place)
        for at in range(len(text)):
            for middle in (bytes([text[at] ^ 1]), b"", text[at : at + 1] * 2):
                mutated = with_part(request, place, text[:at] + middle + text[at + 1 :])
                if is_accepted(WARM, mutated):
                    assert meaning(mutated) == meaning(request), (place, at)


TOKENS = [b"/", b"//", b"/./", b"/../", b"%", b"%2F", b"%2f", b"+", b"&", b"=", b";", b",", b"&a=b", b"\0", b"\xff"]
SPACES = [b" ", b"  ", b"\t", b"\n", b"\r\n"]
WORDS = [b"&X-Amz-Signature=" + b"0" * 64, b"X-Amz-Date", b"host", b";x-amz-date"]
PIECE = st.one_of(st.binary(min_size=1, max_size=4), st.sampled_from([*TOKENS, *SPACES, *WORDS]))


@settings(max_examples=600)
@given(st.sampled_from(sorted(ACCEPTED)), st.data())
def test_a_changed_part_is_refused_unless_it_means_the_same(name: str, data: st.DataObject) -> None:
    request = ACCEPTED[name]
    place = data.draw(st.sampled_from(places(request)))
    text = part(request, place)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 4)))
    changed = text[:start] + data.draw(st.one_of(st.just(b""), PIECE)) + text[end:]
    assert_bound(request, with_part(request, place, changed))


def test_a_parameter_without_name_and_value_may_be_written_with_its_sign_or_without() -> None:
    request = ACCEPTED["a GET with a raw query in any characters"]
    for query, is_bound in ((b"&&", True), (b"&=&", True), (b"&", False), (b"&&&", False)):
        changed = with_part(request, "query", request.query.replace(b"&&", query))
        assert is_accepted(WARM, changed) == is_bound
        assert_bound(request, changed)


@given(st.sampled_from(sorted(ACCEPTED)), st.binary(min_size=1, max_size=8), st.binary(max_size=8))
@example("a presigned GET", b"content-sha256", b"UNSIGNED-PAYLOAD")
def test_an_added_amazon_header_is_refused(name: str, suffix: bytes, value: bytes) -> None:
    request, header = ACCEPTED[name], b"x-amz-" + suffix
    if header not in request.headers:
        assert not is_accepted(WARM, with_headers(request, {header: value}))


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_removed_or_swapped_header_is_refused(name: str) -> None:
    request = ACCEPTED[name]
    names = sorted(signed_names(request) & set(request.headers))
    for one in names:
        assert not is_accepted(WARM, with_headers(request, {one: None}))
        for other in names:
            values: Changes = {one: request.headers[other], other: request.headers[one]}
            assert is_accepted(WARM, with_headers(request, values)) is (one == other)


@given(st.sampled_from(sorted(ACCEPTED)), st.integers(-10_000_000, 10_000_000))
def test_time_is_kept_to_the_second(name: str, shift_s: int) -> None:
    request = ACCEPTED[name]
    found = re.search(rb"X-Amz-Expires=(\d+)", request.query)
    life_s = int(found[1]) if found else 900
    try:
        verify(request, NOW + shift_s)
    except SignatureDoesNotMatch:
        assert not -900 <= shift_s <= life_s
    else:
        assert -900 <= shift_s <= life_s


@given(st.text(max_size=20))
def test_another_secret_never_fits(secret: str) -> None:
    if secret != SECRET:
        assert not is_accepted(Verifier(lambda _: secret), USUAL)


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_garbage_is_refused_and_does_no_harm(authorization: bytes, query: bytes) -> None:
    headers = {b"host": b"h", b"authorization": b"AWS4-HMAC-SHA256 " + authorization}
    for request in (
        Signed(b"POST", b"/", query, headers, b""),
        Signed(b"POST", b"/", b"X-Amz-Algorithm=AWS4-HMAC-SHA256&" + query, {b"host": b"h"}, b""),
    ):
        assert not is_accepted(WARM, request)


@given(st.binary(max_size=30))
def test_both_forms_of_a_query_have_the_same_parameters(query: bytes) -> None:
    def pairs(text: bytes) -> list[tuple[bytes, bytes]]:
        return sorted((decode(name), decode(value)) for name, _, value in (p.partition(b"=") for p in text.split(b"&")))

    assert pairs(canonical_query(query)) == pairs(encoded_query(query)) == pairs(query)
