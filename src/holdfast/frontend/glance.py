"""A usual request, read at a glance: it is like one that the parser has read, but for a few places in its head.

    POST / HTTP/1.1\\r\\n … X-Amz-Date: [date] … Signature=[signature] … Content-Length: [digits]\\r\\n\\r\\n body

Clients repeat themselves. Their heads differ from each other in signature, date, length and the id of a try, and to
compare the rest costs a fraction of having it parsed and handed over in pieces (docs/decisions/0034).

Laws
- Whatever is read here the parser would read in the same way: all bytes are those that it has read before, but for
  letters and digits in the value of a header that means nothing to it, and the digits of the length.
- It comes whole and alone, in one piece. Everything else is the parser's business.
- What is remembered is bounded: a few forms, the one used last first.
"""

import re
from typing import Final

from holdfast.frontend.bounds import FORM_BYTES_MAX, FORMS_MAX, MISSES_MAX

Headers = dict[bytes, bytes]  # names in lower case
Usual = tuple[bytes, bytes, Headers, bytes]  # method, target, headers, body

_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"content-length"
_LENGTH_DIGITS_MAX: Final = 7
# A line with a gap: its name, and the end of its value, which is another one every time.
_GAPS: Final = re.compile(
    rb"(?<=\r\n)(?:"
    rb"(authorization): ?[^\r]+=([0-9a-f]{64})|(x-amz-date): ?([0-9]{8}T[0-9]{6}Z)|"
    rb"(amz-sdk-invocation-id): ?([0-9a-f-]{36})|(content-length): ?([0-9]{1,7})"
    rb")(?=\r\n)",
    re.IGNORECASE,
)


class Form:
    """What the heads of some requests have in common. Gaps are numbered in their order."""

    __slots__ = ("_backs", "_end", "_fixed", "_headers", "_method", "_names", "_sizes", "_start", "_target")

    def __init__(self, head: bytes, method: bytes, target: bytes, headers: Headers) -> None:
        self._method = method
        self._target = target
        self._headers = headers
        self._fixed: list[bytes] = []  # what comes before each gap
        self._names: list[bytes] = []  # of the headers that have gaps
        self._sizes: list[int] = []  # of gaps; 0: digits up to the end of the line
        self._backs: list[int] = []  # so many bytes before a gap its header's value begins
        at = 0
        for found in _GAPS.finditer(head):
            group = found.lastindex or 0
            name = found[group - 1].lower()
            self._fixed.append(head[at : found.start(group)])
            self._names.append(name)
            self._sizes.append(0 if name == _LENGTH else len(found[group]))
            self._backs.append(len(headers[name]) - len(found[group]))
            at = found.end(group)
        self._end = head[at:]
        self._start = self._fixed[0] if self._fixed else head

    def read(self, piece: bytes) -> Usual | None:
        if not piece.startswith(self._start):
            return None
        headers = self._headers.copy()
        at = length = 0
        for number, fixed in enumerate(self._fixed):
            start, size = at + len(fixed), self._sizes[number]
            if number and piece[at:start] != fixed:
                return None
            at = start + size
            if not size:
                while at < len(piece) and at < start + _LENGTH_DIGITS_MAX and 48 <= piece[at] <= 57:
                    length = length * 10 + piece[at] - 48
                    at += 1
                if at == start:
                    return None
            elif not _is_plain(piece[start:at]):
                return None
            headers[self._names[number]] = piece[start - self._backs[number] : at]
        body = at + len(self._end)
        if piece[at:body] != self._end or len(piece) != body + length:
            return None
        return self._method, self._target, headers, piece[body:]


class Glance:
    """Belongs to the connections of one server, which it does not tell apart."""

    __slots__ = ("_forms", "_misses")

    def __init__(self) -> None:
        self._forms: list[Form] = []
        self._misses = 0  # since a form was learned

    def read(self, piece: bytes) -> Usual | None:
        forms = self._forms
        for place in range(len(forms)):
            usual = forms[place].read(piece)
            if usual is not None:
                if place:
                    forms.insert(0, forms.pop(place))
                return usual
        return None

    def learn(self, piece: bytes, usual: Usual) -> None:
        """The parser has read this piece, and found one request in it, after which the connection stays. Where too many
        different ones come, few are worth the effort."""
        self._misses += 1
        if len(self._forms) >= FORMS_MAX and self._misses < MISSES_MAX:
            return
        self._misses = 0
        method, target, headers, body = usual
        head = piece[: piece.find(_END) + len(_END)]
        if len(head) > FORM_BYTES_MAX or head + body != piece:
            return
        form = Form(head, method, target, headers.copy())
        if form.read(piece) == usual:  # the gaps are where they seem to be
            self._forms.insert(0, form)
            del self._forms[FORMS_MAX:]


def _is_plain(gap: bytes) -> bool:
    return gap.isalnum() or gap.replace(b"-", b"").isalnum()
