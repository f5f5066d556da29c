"""Deliberate mistakes in the verifier of signatures. Each has to be noticed by tests/fuzz/signatures.py; this tests the
fuzzer, not the verifier.

A mistake is an edit of the source of core/admission/signature.py, or another function in the place of one that it
imports.
"""

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.core.admission import signature
from holdfast.core.admission.canonical import decode
from tests.fuzz.signatures import Verify, secret_of

Edit = tuple[str, str]
Instead = Mapping[str, Callable[..., Any]]


class Weakening(NamedTuple):
    edits: Sequence[Edit] = ()
    instead: Instead = types.MappingProxyType({})


def _nothing(*_: Any, **__: Any) -> None:
    pass


def _once(query: bytes, *, without: bytes = b"") -> bytes:
    """A canonical query in which a repeated parameter counts once."""
    given = [pair.partition(b"=") for pair in query.split(b"&")]
    kept = {name: value for name, _, value in given if decode(name) != without}
    return b"&".join(name + b"=" + kept[name] for name in sorted(kept))


WEAKENINGS: dict[str, Weakening] = {
    "the hash of the body is the one that the client declares": Weakening(
        [
            (
                "body_hash = EMPTY.hex_of(request.body)",
                'body_hash = headers.get(b"x-amz-content-sha256") or EMPTY.hex_of(request.body)',
            ),
            ("if declared is not None and declared != body_hash:", "if False:"),
        ]
    ),
    "white space at the end of the body does not count": Weakening(
        [("EMPTY.hex_of(request.body)", "EMPTY.hex_of(request.body.rstrip())")]
    ),
    "headers of Amazon need not be signed": Weakening([("if name not in routine.known:", "if False:")]),
    "the date is not checked": Weakening(instead={"check_skew": _nothing}),
    "a presigned URL lives for ever": Weakening(instead={"check_expiry": _nothing}),
    "a signature for another service is as good": Weakening([("if claim.service != service:", "if False:")]),
    "the beginning of a signature is enough": Weakening(
        instead={"compare_digest": lambda right, given: right.startswith(given)}
    ),
    "the method is not signed": Weakening([("= request.method, request.path", '= b"POST", request.path')]),
    "the path may be written in capitals": Weakening(
        [
            ("= request.method, request.path", "= request.method, request.path.lower()"),
            ("canonical_path(request.path)", "canonical_path(request.path.lower())"),
        ]
    ),
    "a repeated parameter counts once": Weakening(instead={"canonical_query": _once}),
    "the host may be written in capitals": Weakening(
        [("[headers[name] for name in names]", "[headers[n].lower() if n == b'host' else headers[n] for n in names]")]
    ),
    "what is remembered of a header is found by its beginning": Weakening(
        [
            ("prefix = authorization[:-_SIGNATURE_CHARS]", "prefix = authorization[:40]"),
            ('prefix.endswith(b"Signature=") and ', ""),
        ]
    ),
    "what is remembered of a head is found without its method": Weakening([("date, method, path,", "date, path,")]),
    "what is remembered of a head is found without its path": Weakening([("date, method, path,", "date, method,")]),
    "what is remembered of a head is found without its headers": Weakening(
        [("method, path, *values)", "method, path)")]
    ),
    "tokens are ignored": Weakening(instead={"_check_token": _nothing}),
}


def weakened(weakening: Weakening) -> Callable[[], Verify]:
    """Makes verifiers with the mistake in them."""
    source = inspect.getsource(signature)
    for before, after in weakening.edits:
        assert before in source, f"core/admission/signature.py no longer says: {before}"
        source = source.replace(before, after)
    module = types.ModuleType("weakened_signature")
    exec(compile(source, "weakened_signature.py", "exec"), module.__dict__)  # noqa: S102 - our own source, edited
    module.__dict__.update(weakening.instead)
    return lambda: module.Verifier(secret_of).verify
