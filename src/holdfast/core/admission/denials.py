"""Refusals of admission: who are you, and may you? Not part of the SQS model, and answered by every AWS service.

HoldfastError
└── Denial                       the JSON dialect's __type is namespace#code
    ├── MissingAuthenticationToken   no signature at all
    ├── IncompleteSignature          a signature that cannot be read
    ├── InvalidClientTokenId         a key that does not exist, is disabled, or came with a session token
    ├── SignatureDoesNotMatch        a signature that is wrong, too old, or does not cover what it must
    └── AccessDenied                 a good signature, and no right
"""

from typing import ClassVar

from holdfast.core.errors import HoldfastError


class Denial(HoldfastError):
    status = 403
    fault = "Sender"
    namespace: ClassVar[str] = "com.amazon.coral.service"
    text_member: ClassVar[str] = "message"  # where the JSON dialect puts the text


class MissingAuthenticationToken(Denial):
    code = "MissingAuthenticationTokenException"
    query_code = "MissingAuthenticationToken"
    text = "Request is missing Authentication Token"


class IncompleteSignature(Denial):
    code = "IncompleteSignatureException"
    query_code = "IncompleteSignature"
    status = 400


class InvalidClientTokenId(Denial):
    code = "UnrecognizedClientException"
    query_code = "InvalidClientTokenId"
    text = "The security token included in the request is invalid."


class SignatureDoesNotMatch(Denial):
    code = "InvalidSignatureException"
    query_code = "SignatureDoesNotMatch"
    text = (
        "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access "
        "Key and signing method. Consult the service documentation for details."
    )


class AccessDenied(Denial):
    code = "AccessDeniedException"
    query_code = "AccessDenied"
    text = "Access to the resource is denied."
    text_member = "Message"
