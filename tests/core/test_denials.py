"""The refusals of admission have the names and statuses that clients see from AWS, in both dialects."""

import inspect

import pytest

from holdfast.core.admission import denials
from holdfast.core.admission.denials import Denial
from holdfast.core.errors import HoldfastError

# Class: JSON name, Query code, status.
NAMES = {
    "AccessDenied": ("AccessDeniedException", "AccessDenied", 403),
    "IncompleteSignature": ("IncompleteSignatureException", "IncompleteSignature", 400),
    "InvalidClientTokenId": ("UnrecognizedClientException", "InvalidClientTokenId", 403),
    "MissingAuthenticationToken": ("MissingAuthenticationTokenException", "MissingAuthenticationToken", 403),
    "SignatureDoesNotMatch": ("InvalidSignatureException", "SignatureDoesNotMatch", 403),
}


def tree() -> dict[str, type[Denial]]:
    classes = inspect.getmembers(denials, inspect.isclass)
    return {name: cls for name, cls in classes if issubclass(cls, Denial) and cls is not Denial}


def test_every_denial_is_named_here() -> None:
    assert set(tree()) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_denial_is_an_error_of_the_sender_under_the_services_own_namespace(name: str) -> None:
    cls = tree()[name]
    assert (cls.code, cls.query_code, cls.status) == NAMES[name]
    assert (cls.fault, cls.namespace) == ("Sender", "com.amazon.coral.service")
    assert cls.text_member == ("Message" if name == "AccessDenied" else "message")
    assert issubclass(cls, HoldfastError)
    assert cls("why").message == "why"
