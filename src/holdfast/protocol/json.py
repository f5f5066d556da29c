"""The JSON dialect's answers, as bytes built once, and its errors.

An error is a body {"__type": …, "message": …}, its HTTP status, and the header x-amzn-query-error, from which clients
take the code of the older Query dialect.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from holdfast.core.admission.denials import Denial
from holdfast.core.errors import HoldfastError
from holdfast.core.limits import SEQUENCE_BASE
from holdfast.core.queue.command import Accepted
from holdfast.protocol.actions import InvalidAction, MalformedRequest, UnknownOperation
from holdfast.protocol.messages import Slip

CONTENT_TYPE: Final = b"application/x-amz-json-1.0"
NOTHING: Final = b"{}"
EMPTY_RECEIVE: Final = b"{}"

_SQS: Final = "com.amazonaws.sqs#"
_SERVICE: Final = "com.amazon.coral.service#"
encode: Final = msgspec.json.Encoder().encode
Failure = tuple[str, HoldfastError]  # of one batch entry: its id, and why


def error_body(error: HoldfastError) -> bytes:
    if isinstance(error, Denial):
        return encode({"__type": f"{error.namespace}#{error.code}", error.text_member: error.message})
    is_ours = isinstance(error, InvalidAction | MalformedRequest | UnknownOperation)
    kind = (_SERVICE if is_ours else _SQS) + error.code
    return encode({"__type": kind, "message": error.message})


def error_header(error: HoldfastError) -> bytes:
    """The value of x-amzn-query-error."""
    return f"{error.query_code};{error.fault}".encode()


def sent(accepted: Accepted, slip: Slip, *, message_id: str, is_fifo: bool) -> str:
    """What the answer to SendMessage says, without its braces; an entry of a batch has an Id in front."""
    text = f'"MessageId":"{message_id}","MD5OfMessageBody":"{slip.body_md5}"'
    if slip.attributes_md5:
        text += f',"MD5OfMessageAttributes":"{slip.attributes_md5}"'
    if slip.system_md5:
        text += f',"MD5OfMessageSystemAttributes":"{slip.system_md5}"'
    if is_fifo:
        text += f',"SequenceNumber":"{SEQUENCE_BASE + accepted.seq}"'
    return text


def batch(successful: Sequence[str], failed: Sequence[Failure]) -> bytes:
    """Both lists, each absent when empty. `successful`: entries as they are shown; ids need no escaping."""
    members = []
    if successful:
        members.append(f'"Successful":[{",".join(successful)}]'.encode())
    if failed:
        members.append(b'"Failed":[' + b",".join([_failed(name, error) for name, error in failed]) + b"]")
    return b"{" + b",".join(members) + b"}"


def batch_of_names(successful: Sequence[str], failed: Sequence[Failure]) -> bytes:
    """As `batch`, where a success says nothing but its id."""
    if not failed:
        return ('{"Successful":[{"Id":"' + '"},{"Id":"'.join(successful) + '"}]}').encode()
    return batch([f'{{"Id":"{name}"}}' for name in successful], failed)


def _failed(name: str, error: HoldfastError) -> bytes:
    entry: dict[str, Any] = {
        "Id": name,
        "SenderFault": error.fault == "Sender",
        "Code": error.query_code,
        "Message": error.message,
    }
    return encode(entry)
