"""SigV4 against botocore: requests that botocore signed, changed in every part, shown to the verifier.

    python -m tests.fuzz --count 1000000 --seed anything

Whatever the verifier accepts, botocore has to have signed: with the secret, the claimed headers and the request as it
stands, botocore must come to the same signature (`judge`). Beyond that the rules hold that botocore cannot know, since
it never breaks them: the hash of the body is that of the body, x-amz-* headers are signed, the time has not passed.

Most changes are wrong; some mean nothing, like another order of headers, and those are accepted and counted, so that a
verifier that refuses everything does not pass.
"""

import random
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

import botocore.auth
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from holdfast.core.admission.denials import Denial
from holdfast.core.admission.signature import Signed, Verifier
from holdfast.frontend import head

KEY, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
NOW = datetime(2025, 6, 15, 15, 6, 40, tzinfo=UTC)
HOST = "localhost:9324"
JSON = {"X-Amz-Target": "AmazonSQS.SendMessage", "Content-Type": "application/x-amz-json-1.0"}
FORM = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
SEND = b'{"QueueUrl":"http://localhost:9324/000000000000/q","MessageBody":"hello"}'
TARGET = "/000000000000/q?Action=SendMessage&MessageBody=a%20b%2Fc&Version=2012-11-05"

Pairs = list[tuple[bytes, bytes]]
Verify = Callable[[Signed, int], object]  # raises a Denial


class Sent(NamedTuple):
    """A request on the wire, and the clock of the server that it reaches."""

    method: bytes
    path: bytes
    query: bytes
    pairs: Pairs
    body: bytes
    now_s: int = int(NOW.timestamp())

    def signed(self) -> Signed:
        """As the front-end hands it to the verifier."""
        trimmed = [(name, value.strip(b" \t")) for name, value in self.pairs]
        return Signed(self.method, self.path, self.query, head.join(trimmed), self.body)


# --- what botocore signs --------------------------------------------------------------------------------


def sign(
    method: str,
    target: str,
    *,
    headers: dict[str, str] | None = None,
    body: bytes = b"",
    service: str = "sqs",
    secret: str = SECRET,
    token: str | None = None,
    expires: int | None = None,
) -> Sent:
    request = AWSRequest(method, f"http://{HOST}{target}", headers=headers or {}, data=body)
    credentials = Credentials(KEY, secret, token)
    clock, botocore.auth.get_current_datetime = botocore.auth.get_current_datetime, lambda: NOW
    try:
        if expires is None:
            SigV4Auth(credentials, service, "us-east-1").add_auth(request)
        else:
            SigV4QueryAuth(credentials, service, "us-east-1", expires=expires).add_auth(request)
    finally:
        botocore.auth.get_current_datetime = clock
    prepared = request.prepare()
    url = urlsplit(prepared.url)
    more = [
        (name.encode(), value if isinstance(value, bytes) else value.encode())
        for name, value in prepared.headers.items()
    ]
    pairs = [(b"Host", HOST.encode()), (b"User-Agent", b"fuzz"), *more]
    return Sent(method.encode(), url.path.encode(), url.query.encode(), pairs, prepared.body or b"")


def signed_requests() -> list[Sent]:
    """All of these are to be accepted as they are."""
    declared = {**JSON, "X-Amz-Content-SHA256": sha256(SEND).hexdigest()}
    return [
        sign("POST", "/", headers=JSON, body=SEND),
        sign("POST", "/000000000000/q", headers={**JSON, "X-Amz-Meta": "a  b,c"}, body=b'{"MessageBody":"hello"}'),
        sign("POST", "/", headers=declared, body=SEND),
        sign("POST", "/", headers=FORM, body=b"Action=SendMessage&QueueUrl=q&MessageBody=a+b%2Bc"),
        sign("GET", TARGET),
        sign("GET", TARGET, expires=60),
        sign("POST", "/", headers=JSON, body=SEND, expires=3600),
    ]


def foreign_requests() -> list[Sent]:
    """Well signed, and still not acceptable."""
    unsigned = {**JSON, "X-Amz-Content-SHA256": "UNSIGNED-PAYLOAD"}
    return [
        sign("POST", "/", headers=JSON, body=SEND, service="sns"),
        sign("POST", "/", headers=JSON, body=SEND, secret="another"),
        sign("POST", "/", headers=JSON, body=SEND, token="token"),
        sign("POST", "/", headers=unsigned, body=SEND),
        sign("GET", TARGET, expires=60, token="token"),
        sign("GET", TARGET, expires=604_801),
    ]


# --- changes --------------------------------------------------------------------------------------------

WORDS = [
    *(
        b"/",
        b"//",
        b"/./",
        b"/../",
        b"%",
        b"%2F",
        b"%2f",
        b"+",
        b"&",
        b"=",
        b";",
        b",",
        b"\0",
        b"\xff",
        b" ",
        b"\t",
        b"\n",
    ),
    *(b"\r\n", b"a", b"A", b"0", b"&a=b", b"X-Amz-Date", b"host", b";x-amz-date", b"UNSIGNED-PAYLOAD", b"sqs", b"sns"),
]
EXTRA: Pairs = [
    (b"X-Amz-Target", b"AmazonSQS.PurgeQueue"),
    (b"X-Amz-Date", b"20250615T150641Z"),
    (b"x-amz-meta", b"more"),
    (b"X-AMZ-Security-Token", b"token"),
    (b"X-Amz-Content-SHA256", b"UNSIGNED-PAYLOAD"),
    (b"Host", b"elsewhere"),
    (b"Date", b"Sun, 15 Jun 2025 15:06:40 GMT"),
    (b"Via", b"1.1 proxy"),
    (b"X-Forwarded-For", b"10.0.0.1"),
]
Chance = random.Random
Change = Callable[[Sent, Chance], Sent]


def edited(text: bytes, chance: Chance) -> bytes:
    """A few bytes removed, replaced, doubled, or added."""
    start = chance.randrange(len(text) + 1)
    end = min(len(text), start + chance.choice((0, 0, 1, 1, 1, 2, 4)))
    piece = chance.choice((b"", chance.choice(WORDS), bytes([chance.randrange(256)]), text[start:end] * 2))
    if start < len(text) and chance.random() < 0.3:
        piece = bytes([text[start] ^ 1 << chance.randrange(8)])
    return text[:start] + piece + text[end:]


def change_line(sent: Sent, chance: Chance) -> Sent:
    match chance.randrange(3):
        case 0:
            return sent._replace(method=edited(sent.method, chance))
        case 1:
            return sent._replace(path=edited(sent.path, chance))
    return sent._replace(query=edited(sent.query, chance))


def change_method(sent: Sent, chance: Chance) -> Sent:
    return sent._replace(method=chance.choice((b"GET", b"POST", b"HEAD", b"PUT", b"post")))


def change_path(sent: Sent, chance: Chance) -> Sent:
    """Other spellings, of which some mean the same."""
    path = sent.path or b"/"
    at = chance.randrange(len(path))
    return sent._replace(
        path=chance.choice(
            (
                path.replace(b"/", b"//", 1),
                b"/." + path,
                b"/x/.." + path,
                path + b"/",
                path.upper(),
                path[:at] + b"%%%02X" % path[at] + path[at + 1 :],
            )
        )
    )


def change_query(sent: Sent, chance: Chance) -> Sent:
    """Parameters that are moved, repeated, left out, encoded in another way."""
    parameters = sent.query.split(b"&")
    at = chance.randrange(len(parameters))
    match chance.randrange(6):
        case 0:
            chance.shuffle(parameters)
        case 1:
            parameters.insert(chance.randrange(len(parameters) + 1), parameters[at])
        case 2:
            del parameters[at]
        case 3:
            parameters.append(
                chance.choice((b"Action=PurgeQueue", b"X-Amz-Expires=604800", b"", b"a", b"X-Amz-Date=1"))
            )
        case 4:
            parameters[at] = parameters[at].replace(b"%20", b"+").replace(b"%2F", b"/").replace(b"%3B", b";")
        case _:
            parameters[at] = parameters[at].lower()
    return sent._replace(query=b"&".join(parameters))


def change_header(sent: Sent, chance: Chance) -> Sent:
    pairs = list(sent.pairs) or list(EXTRA)
    at = chance.randrange(len(pairs))
    name, value = pairs[at]
    match chance.randrange(9):
        case 0:
            pairs[at] = (edited(name, chance), value)
        case 1 | 2:
            pairs[at] = (name, edited(value, chance))
        case 3:
            pairs[at] = (chance.choice((name.upper(), name.lower(), name.title())), value)
        case 4:
            chance.shuffle(pairs)
        case 5:
            pairs.append((name, chance.choice((value, b"", edited(value, chance)))))
        case 6:
            del pairs[at]
        case 7:
            pairs.insert(at, chance.choice(EXTRA))
        case _:
            pairs[at] = (name, chance.choice((b" " + value, value + b"\t ", value.replace(b" ", b"  "), value.upper())))
    return sent._replace(pairs=pairs)


def change_body(sent: Sent, chance: Chance) -> Sent:
    """Sometimes with a hash that fits, or says that none is needed."""
    body = chance.choice((edited(sent.body, chance), sent.body + b" ", sent.body.rstrip(b"}"), b"", SEND))
    pairs = list(sent.pairs)
    if chance.random() < 0.3:
        pairs = [pair for pair in pairs if pair[0].lower() != b"x-amz-content-sha256"]
        declared = chance.choice((sha256(body).hexdigest().encode(), b"UNSIGNED-PAYLOAD"))
        pairs.append((b"X-Amz-Content-SHA256", declared))
    return sent._replace(body=body, pairs=pairs)


def change_claim(sent: Sent, chance: Chance) -> Sent:
    """A field of the authorization, wherever it stands."""
    before, after = chance.choice(
        (
            (b"20250615", chance.choice((b"20250614", b"20250616", b"2025615", b"00000000"))),
            (b"us-east-1", chance.choice((b"us-east-2", b"US-EAST-1", b"", b"us-east-1/us-east-1"))),
            (b"aws4_request", chance.choice((b"aws4_reques", b"aws5_request", b""))),
            (b"/sqs/", b"/sns/"),
            (b"%2Fsqs%2F", b"%2Fsns%2F"),
            (KEY.encode(), chance.choice((b"AKIDEXAMPLF", b"akidexample", b""))),
            (b"AWS4-HMAC-SHA256", chance.choice((b"AWS4-HMAC-SHA1", b"aws4-hmac-sha256", b"AWS4-HMAC-SHA256 "))),
            (b"content-type;", b""),
            (b"host;", b""),
            (b";x-amz-target", chance.choice((b"", b";x-amz-target;x-forwarded-for"))),
            (b"x-amz-date", chance.choice((b"date", b"X-Amz-Date"))),
            (b", ", chance.choice((b",", b" , ", b"; "))),
            (b"X-Amz-Expires=60", chance.choice((b"X-Amz-Expires=61", b"X-Amz-Expires=060", b"X-Amz-Expires=604800"))),
        )
    )
    return _everywhere(sent, before, after)


def change_signature(sent: Sent, chance: Chance) -> Sent:
    found = signature_of(sent)
    if not found:
        return sent
    at = chance.randrange(len(found))
    digit = b"%x" % chance.randrange(16)
    other = chance.choice(
        (found[:at] + digit + found[at + 1 :], found[:at], found + b"0", found.upper(), b"", b"0" * 64, found[::-1])
    )
    return _everywhere(sent, found, other)


def change_time(sent: Sent, chance: Chance) -> Sent:
    """The clock of the server, or the date that the client says."""
    shift_s = chance.choice((-901, -900, -61, -60, 60, 61, 900, 901, 3600, 3601, 86_400, -86_400, 604_800))
    if chance.random() < 0.7:
        return sent._replace(now_s=sent.now_s + shift_s)
    date = (NOW + timedelta(seconds=shift_s)).strftime("%Y%m%dT%H%M%SZ").encode()
    return _everywhere(sent, b"20250615T150640Z", date)


def _everywhere(sent: Sent, before: bytes, after: bytes) -> Sent:
    pairs = [(name, value.replace(before, after)) for name, value in sent.pairs]
    return sent._replace(query=sent.query.replace(before, after), pairs=pairs)


CHANGES: list[Change] = [
    change_line,
    change_method,
    change_path,
    change_query,
    change_header,
    change_header,
    change_body,
    change_claim,
    change_signature,
    change_time,
]


def changed(requests: list[Sent], chance: Chance) -> Sent:
    sent = chance.choice(requests)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        sent = chance.choice(CHANGES)(sent, chance)
    if chance.random() < 0.05:  # parts of two requests
        other = chance.choice(requests)
        field = chance.choice(("method", "path", "query", "pairs", "body"))
        sent = sent._replace(**{field: getattr(other, field)})
    return sent


# --- the judge ------------------------------------------------------------------------------------------


class _Claimed(SigV4Auth):  # type: ignore[misc] # botocore has no types
    """Signs exactly the headers that a request claims to have signed."""

    def __init__(self, scope: list[str], names: list[str]) -> None:
        super().__init__(Credentials(KEY, SECRET), scope[3], scope[2])
        self._names = names

    def headers_to_sign(self, request: AWSRequest) -> object:
        headers = botocore.compat.HTTPHeaders()
        for name, value in request.headers.items():
            if name.lower() in self._names:
                headers[name.lower()] = value
        return headers


def signature_of(sent: Sent) -> bytes:
    found = re.search(rb"Signature=([0-9A-Fa-f]+)", header(sent, b"authorization") + b"&" + sent.query)
    return found[1] if found else b""


def header(sent: Sent, name: bytes) -> bytes:
    return b",".join(value.strip(b" \t") for each, value in sent.pairs if each.lower() == name)


def judge(sent: Sent) -> str:
    """Why nobody with the secret signed this request; empty: botocore would have."""
    authorization = header(sent, b"authorization").decode("latin-1")
    query = dict(parse_qsl(sent.query.decode("latin-1"), keep_blank_values=True))
    is_presigned = not authorization
    if is_presigned:
        fields = {name: query.get(f"X-Amz-{name}", "") for name in ("Credential", "SignedHeaders", "Signature")}
        date = query.get("X-Amz-Date", "")
    else:
        fields = dict(re.findall(r"(Credential|SignedHeaders|Signature)=([^, ]+)", authorization))
        date = header(sent, b"x-amz-date").decode("latin-1")
    scope, names = fields["Credential"].split("/"), fields["SignedHeaders"].split(";")
    if scope[0] != KEY or scope[2:] != [scope[2], "sqs", "aws4_request"] or scope[1] != date[:8]:
        return "the scope is not ours"
    if "host" not in names or any(
        name.lower().startswith(b"x-amz-") and name.lower().decode("latin-1") not in names for name, _ in sent.pairs
    ):
        return "a header is not signed"
    if header(sent, b"x-amz-security-token") or query.get("X-Amz-Security-Token"):
        return "there are no tokens"
    if header(sent, b"x-amz-content-sha256") not in (b"", sha256(sent.body).hexdigest().encode()):
        return "the declared hash is not that of the body"
    return _judge_time(sent, date, query.get("X-Amz-Expires") if is_presigned else None) or _judge_signature(
        sent, scope, names, date=date, signature=fields["Signature"]
    )


def _judge_time(sent: Sent, date: str, expires: str | None) -> str:
    signed_s = datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
    age_s, life_s = sent.now_s - signed_s, 900 if expires is None else int(expires)
    return "" if -900 <= age_s <= life_s <= 604_800 else "the time has passed, or has not come"


def _judge_signature(sent: Sent, scope: list[str], names: list[str], *, date: str, signature: str) -> str:
    signer = _Claimed(scope, names)
    text = re.sub(rb"(^|&)X-Amz-Signature=[^&]*", b"", sent.query).lstrip(b"&").decode("latin-1")
    decoded = parse_qsl(text, keep_blank_values=True)
    for url, params in ((f"?{text}", None), ("", decoded)):  # as it was sent; encoded by botocore
        where = f"http://{HOST}{sent.path.decode('latin-1')}{url}"
        request = AWSRequest(sent.method.decode("latin-1"), where, data=sent.body, params=params or {})
        for name, value in sent.pairs:
            request.headers.add_header(name.decode("latin-1"), value.strip(b" \t").decode("latin-1"))
        request.context["timestamp"] = date
        if signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request) == signature:
            return ""
    return "botocore comes to another signature"


# --- runs -----------------------------------------------------------------------------------------------


class Result(NamedTuple):
    tried: int
    accepted: int
    wrong: list[tuple[Sent, str]]  # accepted, with the judge's reason why they must not be


def is_accepted(verify: Verify, sent: Sent) -> bool:
    try:
        verify(sent.signed(), sent.now_s)
    except Denial:
        return False
    return True


def secret_of(access_key: str) -> str | None:
    return SECRET if access_key == KEY else None


def run(make: Callable[[], Verify], count: int, *, seed: str = "holdfast", wrong_max: int = 1) -> Result:
    """So many changed requests, or as many as it takes to find something wrong. A verifier remembers, so half of them
    are shown to one that has seen the originals, the others to a new one now and then."""
    chance, accepted, wrong = random.Random(seed), 0, list[tuple[Sent, str]]()
    requests = signed_requests()
    everything = requests + foreign_requests()
    warm = make()
    for sent in requests:
        is_accepted(warm, sent)
    for number in range(count):
        sent = everything[number] if number < len(everything) else changed(everything, chance)
        verify = make() if number % 20 == 0 else warm
        if not is_accepted(verify, sent):
            continue
        accepted += 1
        try:
            reason = judge(sent)
        except (KeyError, ValueError, IndexError) as problem:
            reason = f"the judge cannot even read it: {problem!r}"
        if reason:
            wrong.append((sent, reason))
            if len(wrong) >= wrong_max:
                return Result(number + 1, accepted, wrong)
    return Result(count, accepted, wrong)


def real() -> Verify:
    return Verifier(secret_of).verify
