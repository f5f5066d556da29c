"""AWS Signature Version 4, the server's side: whose key signed this request, if anyone's.

Laws
- The hash of the body is computed here. UNSIGNED-PAYLOAD and streaming hashes are refused: SQS has no operation whose
  body AWS lets go unsigned. A declared hash that is not the body's is refused as well.
- `host` and every x-amz-* header that is present must be signed; the action is in one of them.
- The service is enforced, the region only used: it goes into the key as the client wrote it.
- No line break gets into what is hashed, except those that divide its parts.
- Signatures are compared in constant time. Nothing is remembered of a request that was refused.
- A key has one secret and no session tokens: a request with X-Amz-Security-Token comes from a client with mixed-up
  credentials, and the refusal says so.

Form, dates and lifetimes: authorization.py. Canonical forms: canonical.py; two paths that differ only in repeated
slashes and dot segments are signed alike, so whoever routes by path must not tell them apart.

Time is seconds since 1970. A usual request costs three hashes: body, canonical request, signature.
"""

from collections.abc import Callable, Mapping
from hashlib import sha256
from hmac import compare_digest, digest
from typing import Final, TypeVar

from holdfast.core.admission.authorization import (
    ALGORITHM,
    PRESIGNED_MARK,
    PRESIGNED_SIGNATURE,
    TERMINATOR,
    Claim,
    check_expiry,
    check_skew,
    date_of,
    read_claim,
    read_header,
    read_query,
    text,
)
from holdfast.core.admission.canonical import (
    canonical_path,
    canonical_query,
    canonical_value,
    encoded_query,
    parameters,
)
from holdfast.core.admission.denials import InvalidClientTokenId, SignatureDoesNotMatch
from holdfast.core.limits import AUTHORIZATION_BYTES_MAX, AUTHORIZATIONS_MAX, SIGNING_KEYS_MAX
from holdfast.core.values import Fact, Value

_SIGNATURE_CHARS: Final = 64
_begun: Final = sha256().copy  # quicker than to find the algorithm for each request
# Headers that clients send and nobody has to sign.
_HARMLESS: Final = frozenset(
    b"accept accept-encoding amz-sdk-invocation-id amz-sdk-request authorization connection content-length "
    b"content-type expect transfer-encoding user-agent x-amzn-query-mode x-amzn-trace-id".split()
)

Key = TypeVar("Key")
Held = TypeVar("Held")
SecretOf = Callable[[str], str | None]  # of an access key id; None when there is none or it is disabled
Sign = Callable[[bytes], bytes]


class Signed(Fact, frozen=True):
    """A request as it came: header names in lower case, repeated headers joined by commas; path and query undecoded."""

    method: bytes
    path: bytes
    query: bytes
    headers: Mapping[bytes, bytes]
    body: bytes


class Signer(Value, frozen=True):
    """Who signed."""

    access_key: str
    region: str
    is_presigned: bool = False


class _Routine:
    """A claim, and what can be prepared for checking the requests that make it. Holds a secret, so it has no repr.

    canonical request            string to sign
    method                       AWS4-HMAC-SHA256
    path                         date
    query                        scope
    name:value, one per line     hash of the canonical request
    (empty)
    names
    hash of the body
    """

    __slots__ = ("_date", "_date_s", "canonical", "claim", "known", "lines", "secret", "sign", "signer", "to_sign")

    def __init__(self, claim: Claim, *, is_presigned: bool = False) -> None:
        self.claim = claim
        self.known = _HARMLESS.union(claim.names)
        self.signer = Signer(claim.access_key, claim.region, is_presigned)
        self.secret: str | None = None
        self.sign: Sign
        headers = b"".join([_escape(name) + b":%b\n" for name in claim.names])
        self.canonical = b"%b\n%b\n%b\n" + headers + b"\n" + _escape(claim.signed) + b"\n%b"
        self.lines = self.canonical.count(b"\n")
        self.to_sign = ALGORITHM + b"\n%b\n" + _escape(claim.scope) + b"\n%b"
        self._date: bytes | None = None
        self._date_s = 0

    def at(self, date: bytes) -> int:
        """The second of a date; the last one is remembered, as many requests share it."""
        if date != self._date:
            self._date_s = self.claim.at(date)
            self._date = date
        return self._date_s


class SigningKeys:
    """Derived keys, which save four of a request's five HMACs. Bounded; the oldest is forgotten first."""

    def __init__(self, *, keys_max: int = SIGNING_KEYS_MAX) -> None:
        self._keys_max = keys_max
        self._keys: dict[tuple[str, bytes], tuple[str, Sign]] = {}  # by access key and scope

    def get(self, claim: Claim, secret: str) -> Sign:
        known = self._keys.get((claim.access_key, claim.scope))
        return known[1] if known and known[0] == secret else derive(secret, claim)

    def keep(self, claim: Claim, secret: str, *, sign: Sign) -> None:
        """Only of a verified request, so that nobody fills the table without a secret."""
        _put(self._keys, (claim.access_key, claim.scope), value=(secret, sign), entries_max=self._keys_max)


class Verifier:
    """Owns what is remembered between requests; everything else is handed in."""

    def __init__(self, secret_of: SecretOf, *, keys: SigningKeys | None = None) -> None:
        self._secret_of = secret_of
        self._keys = SigningKeys() if keys is None else keys
        self._routines: dict[bytes, _Routine] = {}  # by the Authorization header up to its signature

    def verify(self, request: Signed, now_s: int, *, service: bytes = b"sqs") -> Signer:
        """Who signed the request, or a Denial."""
        headers = request.headers
        authorization = headers.get(b"authorization")
        if authorization is None:
            return self._verify_presigned(request, now_s, service)
        prefix = authorization[:-_SIGNATURE_CHARS]
        routine = self._routines.get(prefix)
        is_new = routine is None
        if routine is None:
            claim, signature = read_header(authorization)
            routine = _Routine(claim)
        else:
            signature = authorization[-_SIGNATURE_CHARS:]
        if request.query:
            _check_one_form(request.query)
        date = date_of(headers)
        check_skew(date, routine.at(date), now_s)
        self._check(request, routine, service=service, date=date, signature=signature)
        if b"x-amz-security-token" in headers:
            _check_token(headers[b"x-amz-security-token"], routine.claim)
        if is_new and prefix.endswith(b"Signature=") and len(prefix) <= AUTHORIZATION_BYTES_MAX:
            _put(self._routines, prefix, value=routine, entries_max=AUTHORIZATIONS_MAX)
        return routine.signer

    def _verify_presigned(self, request: Signed, now_s: int, service: bytes) -> Signer:
        given = read_query(request.query)
        claim = read_claim(given[b"X-Amz-Credential"], given[b"X-Amz-SignedHeaders"])
        routine = _Routine(claim, is_presigned=True)
        date = given[b"X-Amz-Date"]
        check_expiry(date, claim.at(date), now_s, expires=given.get(b"X-Amz-Expires"))
        self._check(request, routine, service=service, date=date, signature=given[PRESIGNED_SIGNATURE])
        _check_token(given.get(b"X-Amz-Security-Token") or request.headers.get(b"x-amz-security-token"), claim)
        return routine.signer

    def _check(self, request: Signed, routine: _Routine, *, service: bytes, date: bytes, signature: bytes) -> None:
        claim, headers = routine.claim, request.headers
        if claim.service != service:
            raise SignatureDoesNotMatch(f"Credential should be scoped to correct service: '{text(service)}'.")
        if not headers.keys() <= routine.known:
            _check_coverage(headers, claim.names)
        secret = self._secret_of(claim.access_key)
        if secret is None:
            raise InvalidClientTokenId
        is_new = secret != routine.secret
        if is_new:
            routine.secret, routine.sign = secret, self._keys.get(claim, secret)
        if not _is_signature(request, routine, date=date, signature=signature):
            raise SignatureDoesNotMatch
        if is_new:
            self._keys.keep(claim, secret, sign=routine.sign)


def derive(secret: str, claim: Claim) -> Sign:
    """The key for one day, region and service, as the function that signs with it."""
    key = b"AWS4" + secret.encode()
    for part in (*claim.scope.split(b"/")[:-1], TERMINATOR):
        key = digest(key, part, "sha256")
    return _hmac_of(key)


def _hmac_of(key: bytes) -> Sign:
    """HMAC-SHA-256 in hex, with the two blocks that hold the key hashed beforehand."""
    padded = key.ljust(64, b"\0")
    inner, outer = sha256(bytes(each ^ 0x36 for each in padded)), sha256(bytes(each ^ 0x5C for each in padded))

    def sign(message: bytes) -> bytes:
        inside, outside = inner.copy(), outer.copy()
        inside.update(message)
        outside.update(inside.digest())
        return outside.hexdigest().encode()

    return sign


def _is_signature(request: Signed, routine: _Routine, *, date: bytes, signature: bytes) -> bool:
    """A query that can be read in two ways may be signed in either."""
    headers, query = request.headers, request.query
    body_hash = _hash(request.body)
    declared = headers.get(b"x-amz-content-sha256")
    if declared is not None and declared != body_hash:
        raise SignatureDoesNotMatch(
            "The value of the header x-amz-content-sha256 is not the SHA-256 of the body; unsigned and streamed bodies "
            "are not accepted."
        )
    before = (request.method, canonical_path(request.path))
    after = (*_signed_values(headers, routine.claim.names), body_hash)
    if not query:
        return _is_signed(routine, (*before, b"", *after), date=date, signature=signature)
    without = PRESIGNED_SIGNATURE if routine.signer.is_presigned else b""
    as_sent, anew = canonical_query(query, without=without), encoded_query(query, without=without)
    return _is_signed(routine, (*before, as_sent, *after), date=date, signature=signature) or (
        as_sent != anew and _is_signed(routine, (*before, anew, *after), date=date, signature=signature)
    )


def _is_signed(routine: _Routine, parts: tuple[bytes, ...], *, date: bytes, signature: bytes) -> bool:
    canonical = routine.canonical % parts
    if canonical.count(b"\n") != routine.lines:
        return False
    return compare_digest(routine.sign(routine.to_sign % (date, _hash(canonical))), signature)


def _hash(data: bytes) -> bytes:
    sum_of = _begun()
    sum_of.update(data)
    return sum_of.hexdigest().encode()


def _escape(data: bytes) -> bytes:
    """For use in a template."""
    return data.replace(b"%", b"%%")


def _signed_values(headers: Mapping[bytes, bytes], names: tuple[bytes, ...]) -> list[bytes]:
    try:
        values = [headers[name] for name in names]
    except KeyError as missing:
        name = text(missing.args[0])
        raise SignatureDoesNotMatch(f"The header '{name}' is signed, and the request does not have it.") from None
    together = b"".join(values)
    return values if together.split() == [together] else [canonical_value(value) for value in values]


def _check_coverage(headers: Mapping[bytes, bytes], names: tuple[bytes, ...]) -> None:
    for name in headers:
        if name.lower().startswith(b"x-amz-") and name not in names:
            raise SignatureDoesNotMatch(
                f"There were headers present in the request which were not signed: '{text(name)}'. Every header whose "
                "name begins with x-amz- must be a 'SignedHeader'."
            )


def _check_one_form(query: bytes) -> None:
    if any(name == PRESIGNED_MARK for name, _ in parameters(query)):
        raise SignatureDoesNotMatch(
            "Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP header."
        )


def _check_token(token: bytes | None, claim: Claim) -> None:
    if token:
        raise InvalidClientTokenId(
            "The security token included in the request is invalid. Reason: the request carries X-Amz-Security-Token, "
            f"and the access key {claim.access_key} has no session tokens. Unset AWS_SESSION_TOKEN, and AWS_PROFILE if "
            "it names other credentials."
        )


def _put(table: dict[Key, Held], key: Key, *, value: Held, entries_max: int) -> None:
    """The oldest entry makes room."""
    if key not in table and len(table) >= entries_max:
        del table[next(iter(table))]
    table[key] = value
