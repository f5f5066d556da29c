"""AWS Signature Version 4, the server's side: whose key signed this request, if anyone's.

Laws
- The hash of the body is computed here. UNSIGNED-PAYLOAD and streaming hashes are refused: SQS has no operation whose
  body AWS lets go unsigned. A declared hash that is not the body's is refused as well.
- `host` and every x-amz-* header that is present must be signed; the action is in one of them.
- The service is enforced, the region only used: it goes into the key as the client wrote it.
- No line break gets into what is hashed, except those that divide its parts.
- Signatures are compared in constant time. Nothing is remembered of a request that was refused, and what is remembered
  is found by all that it was made of.
- A key has one secret and no session tokens: a request with X-Amz-Security-Token comes from a client with mixed-up
  credentials, and the refusal says so.

Form, dates and lifetimes: authorization.py. Canonical forms: canonical.py; two paths that differ only in repeated
slashes and dot segments are signed alike, so whoever routes by path must not tell them apart.

Time is seconds since 1970. A usual request costs three hashes: body, canonical request, signature. The second and the
third begin with what clients repeat within a second, which is hashed once.
"""

from collections.abc import Callable
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
from holdfast.core.admission.hashes import EMPTY, Begun, begun
from holdfast.core.limits import AUTHORIZATION_BYTES_MAX, AUTHORIZATIONS_MAX, SIGNED_HEADS_MAX, SIGNING_KEYS_MAX
from holdfast.core.values import Fact, Value

_SIGNATURE_CHARS: Final = 64
# Headers that clients send and nobody has to sign.
_HARMLESS: Final = frozenset(
    b"accept accept-encoding amz-sdk-invocation-id amz-sdk-request authorization connection content-length "
    b"content-type expect transfer-encoding user-agent x-amzn-query-mode x-amzn-trace-id".split()
)

Key = TypeVar("Key")
Held = TypeVar("Held")
SecretOf = Callable[[str], str | None]  # of an access key id; None when there is none or it is disabled
_Mark = tuple[bytes | str | None, ...]  # the secret, and all that is signed but the body


class Signed(Fact, frozen=True):
    """A request as it came: header names in lower case, repeated headers joined by commas; path and query undecoded."""

    method: bytes
    path: bytes
    query: bytes
    headers: dict[bytes, bytes]
    body: bytes


class Signer(Value, frozen=True):
    """Who signed."""

    access_key: str
    region: str
    is_presigned: bool = False


class SigningKey:
    """For one day, region and service: HMAC-SHA-256 in hex, with the two blocks that hold the key hashed beforehand."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, key: bytes) -> None:
        padded = key.ljust(64, b"\0")
        self._inner = bytes(each ^ 0x36 for each in padded)
        self._outer = begun(bytes(each ^ 0x5C for each in padded))

    def begin(self, start: bytes) -> Begun:
        """What `end` needs for all texts that start like this."""
        return begun(self._inner + start)

    def end(self, start: Begun, rest: bytes) -> bytes:
        return self._outer.hex_of(start.sum_of(rest))


class _Head:
    """Requests that differ in nothing but their bodies."""

    __slots__ = ("_key", "_request", "_to_sign")

    def __init__(self, key: SigningKey, to_sign: bytes, canonical: bytes) -> None:
        """Both texts up to the hash that they end with."""
        self._key = key
        self._to_sign = key.begin(to_sign)
        self._request = begun(canonical)

    def signature(self, body_hash: bytes) -> bytes:
        return self._key.end(self._to_sign, self._request.hex_of(body_hash))


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

    __slots__ = ("_canonical", "_date", "_date_s", "_lines", "_to_sign", "claim", "key", "known", "secret", "signer")

    def __init__(self, claim: Claim, *, is_presigned: bool = False) -> None:
        self.claim = claim
        self.known = _HARMLESS.union(claim.names)
        self.signer = Signer(claim.access_key, claim.region, is_presigned)
        self.secret: str | None = None
        self.key: SigningKey
        headers = b"".join([_escape(name) + b":%b\n" for name in claim.names])
        self._canonical = b"%b\n%b\n%b\n" + headers + b"\n" + _escape(claim.signed) + b"\n"
        self._lines = self._canonical.count(b"\n")
        self._to_sign = ALGORITHM + b"\n%b\n" + _escape(claim.scope) + b"\n"
        self._date: bytes | None = None
        self._date_s = 0

    def at(self, date: bytes) -> int:
        """The second of a date; the last one is remembered, as many requests share it."""
        if date != self._date:
            self._date_s = self.claim.at(date)
            self._date = date
        return self._date_s

    def head(self, date: bytes, parts: tuple[bytes, ...]) -> _Head | None:
        """`parts`: method, path, query and values, in canonical form. None when one of them breaks its line."""
        canonical = self._canonical % parts
        if canonical.count(b"\n") != self._lines:
            return None
        return _Head(self.key, self._to_sign % (date,), canonical)


class SigningKeys:
    """Derived keys, which save four of a request's five HMACs. Bounded; the oldest is forgotten first."""

    def __init__(self, *, keys_max: int = SIGNING_KEYS_MAX) -> None:
        self._keys_max = keys_max
        self._keys: dict[tuple[str, bytes], tuple[str, SigningKey]] = {}  # by access key and scope

    def get(self, claim: Claim, secret: str) -> SigningKey:
        known = self._keys.get((claim.access_key, claim.scope))
        return known[1] if known and known[0] == secret else derive(secret, claim)

    def keep(self, claim: Claim, secret: str, *, key: SigningKey) -> None:
        """Only of a verified request, so that nobody fills the table without a secret."""
        _put(self._keys, (claim.access_key, claim.scope), value=(secret, key), entries_max=self._keys_max)


class Verifier:
    """Owns what is remembered between requests; everything else is handed in."""

    def __init__(self, secret_of: SecretOf, *, keys: SigningKeys | None = None) -> None:
        self._secret_of = secret_of
        self._keys = SigningKeys() if keys is None else keys
        self._routines: dict[bytes, _Routine] = {}  # by the Authorization header up to its signature
        self._heads: dict[_Mark, _Head] = {}

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
        for name in headers:
            if name not in routine.known:
                _check_coverage(name)
        secret = self._secret_of(claim.access_key)
        if secret is None:
            raise InvalidClientTokenId
        is_new = secret != routine.secret
        if is_new:
            routine.secret, routine.key = secret, self._keys.get(claim, secret)
        if not self._is_signature(request, routine, date=date, signature=signature):
            raise SignatureDoesNotMatch
        if is_new:
            self._keys.keep(claim, secret, key=routine.key)

    def _is_signature(self, request: Signed, routine: _Routine, *, date: bytes, signature: bytes) -> bool:
        headers, claim = request.headers, routine.claim
        body_hash = EMPTY.hex_of(request.body)
        declared = headers.get(b"x-amz-content-sha256")
        if declared is not None and declared != body_hash:
            raise SignatureDoesNotMatch(
                "The value of the header x-amz-content-sha256 is not the SHA-256 of the body; unsigned and streamed "
                "bodies are not accepted."
            )
        values = _signed_values(headers, claim.names)
        if request.query:
            return _is_query_signed(request, routine, values, date=date, body_hash=body_hash, signature=signature)
        method, path = request.method, request.path
        mark: _Mark = (routine.secret, claim.scope, claim.signed, date, method, path, *values)
        known = self._heads.get(mark)
        if known is not None:
            return compare_digest(known.signature(body_hash), signature)
        head = routine.head(date, (method, canonical_path(path), b"", *_canonical(values)))
        if head is None or not compare_digest(head.signature(body_hash), signature):
            return False
        _put(self._heads, mark, value=head, entries_max=SIGNED_HEADS_MAX)
        return True


def derive(secret: str, claim: Claim) -> SigningKey:
    key = b"AWS4" + secret.encode()
    for part in (*claim.scope.split(b"/")[:-1], TERMINATOR):
        key = digest(key, part, "sha256")
    return SigningKey(key)


def _is_query_signed(
    request: Signed, routine: _Routine, values: list[bytes], *, date: bytes, body_hash: bytes, signature: bytes
) -> bool:
    """A query that can be read in two ways may be signed in either."""
    without = PRESIGNED_SIGNATURE if routine.signer.is_presigned else b""
    as_sent = canonical_query(request.query, without=without)
    anew = encoded_query(request.query, without=without)
    for query in (as_sent,) if as_sent == anew else (as_sent, anew):
        head = routine.head(date, (request.method, canonical_path(request.path), query, *_canonical(values)))
        if head is not None and compare_digest(head.signature(body_hash), signature):
            return True
    return False


def _escape(data: bytes) -> bytes:
    """For use in a template."""
    return data.replace(b"%", b"%%")


def _signed_values(headers: dict[bytes, bytes], names: tuple[bytes, ...]) -> list[bytes]:
    try:
        return [headers[name] for name in names]
    except KeyError as missing:
        name = text(missing.args[0])
        raise SignatureDoesNotMatch(f"The header '{name}' is signed, and the request does not have it.") from None


def _canonical(values: list[bytes]) -> list[bytes]:
    return [canonical_value(value) for value in values]


def _check_coverage(name: bytes) -> None:
    """Of a header that is not signed."""
    if name.lower().startswith(b"x-amz-"):
        raise SignatureDoesNotMatch(
            f"There were headers present in the request which were not signed: '{text(name)}'. Every header whose name "
            "begins with x-amz- must be a 'SignedHeader'."
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
