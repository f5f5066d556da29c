"""What a client says of its signature, read and checked for form: the Authorization header, or the parameters of a
presigned URL. Whether the signature is right is decided in core/admission/signature.py.

    Authorization: AWS4-HMAC-SHA256 Credential=<scope>, SignedHeaders=host;x-amz-date, Signature=<64 hex digits>
    <scope> = access key / YYYYMMDD / region / service / aws4_request

    ?X-Amz-Algorithm=…&X-Amz-Credential=<scope>&X-Amz-Date=…&X-Amz-Expires=…&X-Amz-SignedHeaders=…&X-Amz-Signature=…

Laws
- A field that comes twice is refused, whatever its values.
- SignedHeaders is in lower case, sorted and without repetition, so that there is one way to write it; it has `host`.
- The credential's day is the day of the signature's date. That date is at most 15 minutes off, in either direction; a
  presigned URL lives for X-Amz-Expires seconds instead, or for those 15 minutes if it names none.
"""

from itertools import pairwise
from typing import Final

from holdfast.core import civil
from holdfast.core.admission.canonical import parameters
from holdfast.core.admission.denials import IncompleteSignature, MissingAuthenticationToken, SignatureDoesNotMatch
from holdfast.core.limits import PRESIGNED_MAX_S, SIGNATURE_SKEW_S
from holdfast.core.values import Fact

ALGORITHM: Final = b"AWS4-HMAC-SHA256"
TERMINATOR: Final = b"aws4_request"
PRESIGNED_MARK: Final = b"X-Amz-Algorithm"
PRESIGNED_SIGNATURE: Final = b"X-Amz-Signature"

_FIELDS: Final = (b"Credential", b"SignedHeaders", b"Signature")
_REQUIRED: Final = tuple(
    b"X-Amz-" + each for each in (b"Algorithm", b"Credential", b"Date", b"SignedHeaders", b"Signature")
)
_PARAMETERS: Final = frozenset((*_REQUIRED, b"X-Amz-Expires", b"X-Amz-Security-Token"))


class Claim(Fact, frozen=True):
    """The part of an authorization that a client repeats all day."""

    access_key: str
    region: str
    service: bytes
    day: bytes
    day_s: int
    scope: bytes  # day/region/service/aws4_request
    signed: bytes  # the names of signed headers, joined by semicolons
    names: tuple[bytes, ...]

    def at(self, date: bytes) -> int:
        """The second that a date in basic form names."""
        clock_s = civil.parse_clock(date[9:15])
        if clock_s is None or len(date) != 16 or date[8:9] != b"T" or date[15:] != b"Z":
            raise IncompleteSignature(
                f"Date must be in ISO-8601 'basic format'. Got '{text(date)}'. See http://en.wikipedia.org/wiki/ISO_8601"
            )
        if date[:8] != self.day:
            raise SignatureDoesNotMatch(
                "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: "
                f"'{text(self.day)}' != '{text(date[:8])}', from '{text(date)}'."
            )
        return self.day_s + clock_s


def text(data: bytes) -> str:
    return data.decode("latin-1")


def read_claim(credential: bytes, signed: bytes) -> Claim:
    parts = credential.split(b"/")
    if len(parts) != 5 or not all(parts):
        raise IncompleteSignature(
            "Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term, "
            f"got '{text(credential)}'"
        )
    access_key, day, region, service, terminator = parts
    if terminator != TERMINATOR:
        raise SignatureDoesNotMatch(
            f"Credential should be scoped with a valid terminator: 'aws4_request', not '{text(terminator)}'."
        )
    day_s = civil.parse_day(day)
    if day_s is None:
        raise SignatureDoesNotMatch(f"Date in Credential scope is no date: '{text(day)}'.")
    return Claim(
        access_key=text(access_key),
        region=text(region),
        service=service,
        day=day,
        day_s=day_s,
        scope=b"/".join(parts[1:]),
        signed=signed,
        names=_read_names(signed),
    )


def _read_names(signed: bytes) -> tuple[bytes, ...]:
    names = tuple(signed.split(b";"))
    if signed != signed.lower() or any(one >= other for one, other in pairwise(names)):
        raise IncompleteSignature("SignedHeaders must be in lower case, sorted, and name every header once.")
    if b"host" not in names:
        raise SignatureDoesNotMatch("'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization.")
    return names


def read_header(authorization: bytes) -> tuple[Claim, bytes]:
    """The claim and the signature."""
    algorithm, _, rest = authorization.partition(b" ")
    if not algorithm.startswith(b"AWS4-"):
        raise MissingAuthenticationToken
    _check_algorithm(algorithm)
    fields: dict[bytes, bytes] = {}
    for part in rest.split(b","):
        name, sign, value = part.strip().partition(b"=")
        if not sign or name in fields:
            raise IncompleteSignature(
                f"'{text(part.strip())}' not a valid key=value pair (missing equal-sign, or repeated) in Authorization "
                "header."
            )
        fields[name] = value
    missing = [name for name in _FIELDS if not fields.get(name)]
    if missing:
        raise IncompleteSignature(
            " ".join(f"Authorization header requires '{text(name)}' parameter." for name in missing)
        )
    return read_claim(fields[b"Credential"], fields[b"SignedHeaders"]), fields[b"Signature"]


def read_query(query: bytes) -> dict[bytes, bytes]:
    """The parameters that belong to the signature; all required ones are there."""
    given: dict[bytes, bytes] = {}
    for name, value in parameters(query):
        if name in given:
            raise IncompleteSignature(f"The query-string parameter '{text(name)}' comes more than once.")
        if name in _PARAMETERS:
            given[name] = value
    if not given:
        raise MissingAuthenticationToken
    missing = [name for name in _REQUIRED if not given.get(name)]
    if missing:
        named = " ".join(f"AWS query-string parameters must include '{text(name)}'." for name in missing)
        raise IncompleteSignature(f"{named} Re-examine the query-string parameters.")
    _check_algorithm(given[PRESIGNED_MARK])
    return given


def _check_algorithm(algorithm: bytes) -> None:
    if algorithm != ALGORITHM:
        raise IncompleteSignature(f"Unsupported AWS 'algorithm': '{text(algorithm)}' (only AWS4-HMAC-SHA256).")


def date_of(headers: dict[bytes, bytes]) -> bytes:
    """X-Amz-Date, else Date; in basic form."""
    date = headers.get(b"x-amz-date")
    if date is not None:
        return date
    date = headers.get(b"date")
    if date is None:
        raise IncompleteSignature(
            "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header."
        )
    seconds = civil.parse_http(date)
    return date if seconds is None else civil.basic_text(seconds).encode()


def check_skew(date: bytes, signed_s: int, now_s: int) -> None:
    if -SIGNATURE_SKEW_S <= signed_s - now_s <= SIGNATURE_SKEW_S:
        return
    _check_not_early(date, signed_s, now_s)
    oldest, now = civil.basic_text(now_s - SIGNATURE_SKEW_S), civil.basic_text(now_s)
    raise SignatureDoesNotMatch(
        f"Signature expired: {text(date)} is now earlier than {oldest} ({now} - {SIGNATURE_SKEW_S // 60} min.)"
    )


def check_expiry(date: bytes, signed_s: int, now_s: int, *, expires: bytes | None) -> None:
    """Of a presigned URL."""
    if expires is None:
        check_skew(date, signed_s, now_s)
        return
    _check_not_early(date, signed_s, now_s)
    lifetime_s = int(expires) if expires.isdigit() and len(expires) <= 6 else 0
    if not 1 <= lifetime_s <= PRESIGNED_MAX_S:
        raise IncompleteSignature(
            f"X-Amz-Expires must be a number of seconds from 1 to {PRESIGNED_MAX_S}, got '{text(expires)}'."
        )
    if signed_s + lifetime_s < now_s:
        end, now = civil.basic_text(signed_s + lifetime_s), civil.basic_text(now_s)
        raise SignatureDoesNotMatch(
            f"Signature expired: {end} ({text(date)} + {lifetime_s} s) is now earlier than {now}."
        )


def _check_not_early(date: bytes, signed_s: int, now_s: int) -> None:
    if signed_s > now_s + SIGNATURE_SKEW_S:
        latest, now = civil.basic_text(now_s + SIGNATURE_SKEW_S), civil.basic_text(now_s)
        raise SignatureDoesNotMatch(
            f"Signature not yet current: {text(date)} is still later than {latest} "
            f"({now} + {SIGNATURE_SKEW_S // 60} min.)"
        )
