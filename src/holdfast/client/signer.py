"""AWS Signature Version 4, the client's side: the headers that prove who sends a request.

Only what this client sends: a POST to a path without query, with its whole body at hand.
"""

from hashlib import sha256
from hmac import digest

import msgspec

from holdfast.core import civil
from holdfast.core.admission.canonical import canonical_path

ALGORITHM = "AWS4-HMAC-SHA256"
SERVICE = "sqs"
TERMINATOR = "aws4_request"


class Credentials(msgspec.Struct, frozen=True):
    """The secret stays out of every repr."""

    id: str
    secret: str
    token: str = ""  # of temporary credentials; Holdfast's own keys have none

    def __repr__(self) -> str:
        return f"Credentials({self.id})"


def sign(
    headers: dict[str, str], body: bytes, *, path: str, credentials: Credentials, region: str, now_s: int
) -> dict[str, str]:
    """`headers` with date and signature; all of them are signed. `host` must be among them."""
    date = civil.basic_text(now_s)
    signed = {**headers, "x-amz-date": date}
    if credentials.token:
        signed["x-amz-security-token"] = credentials.token
    names = ";".join(sorted(signed))
    lines = "".join(f"{name}:{' '.join(signed[name].split())}\n" for name in sorted(signed))
    where = canonical_path(path.encode()).decode()
    canonical = f"POST\n{where}\n\n{lines}\n{names}\n{sha256(body).hexdigest()}"
    scope = f"{date[:8]}/{region}/{SERVICE}/{TERMINATOR}"
    text = f"{ALGORITHM}\n{date}\n{scope}\n{sha256(canonical.encode()).hexdigest()}"
    key = b"AWS4" + credentials.secret.encode()
    for part in scope.split("/"):
        key = digest(key, part.encode(), "sha256")
    proof = digest(key, text.encode(), "sha256").hex()
    credential = f"{credentials.id}/{scope}"
    return {
        **signed,
        "authorization": f"{ALGORITHM} Credential={credential}, SignedHeaders={names}, Signature={proof}",
    }
