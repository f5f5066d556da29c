"""Answers in the Query dialect. Handlers write JSON; what they wrote is turned into XML at the edge.

    <SendMessageResponse xmlns="…">                     <ErrorResponse xmlns="…">
      <SendMessageResult>                                 <Error>
        <MessageId>…</MessageId>                            <Type/><Code/><Message/><Detail/>
      </SendMessageResult>                                </Error>
      <ResponseMetadata><RequestId/></ResponseMetadata>   <RequestId/>
    </SendMessageResponse>                              </ErrorResponse>

Lists and maps are flat: their members stand side by side, each under the list's name in the singular. A client that
accepts application/json gets the same tree in the JSON that AWS has for it, which is not the JSON dialect.
"""

import re
from typing import Any

import msgspec

from holdfast.core.errors import HoldfastError, QueueDoesNotExist
from holdfast.protocol.actions import UnknownOperation

NAMESPACE = "http://queue.amazonaws.com/doc/2012-11-05/"
WITHOUT_RESULT = frozenset(
    "AddPermission ChangeMessageVisibility DeleteMessage DeleteQueue PurgeQueue RemovePermission "
    "SetQueueAttributes TagQueue UntagQueue".split()
)

# JSON member -> the element of each item. The successful entries of a batch are named after their action.
_LISTS = {
    "BinaryListValues": "BinaryListValue",
    "Failed": "BatchResultErrorEntry",
    "Messages": "Message",
    "QueueUrls": "QueueUrl",
    "Results": "ListMessageMoveTasksResultEntry",
    "StringListValues": "StringListValue",
    "queueUrls": "QueueUrl",
}
# JSON member -> the element of each pair, and of its name
_MAPS = {
    "Attributes": ("Attribute", "Name"),
    "MessageAttributes": ("MessageAttribute", "Name"),
    "Tags": ("Tag", "Key"),
}
_JSON_LISTS = {"Messages": "messages", "QueueUrls": "queueUrls"}
_JSON_EMPTY = {"ReceiveMessage": "messages", "ListQueues": "queueUrls", "ListDeadLetterSourceQueues": "queueUrls"}

_NO_ACTION = b"<UnknownOperationException/>"
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class Wording(msgspec.Struct, frozen=True, gc=False):
    """How the answers of one exchange are written."""

    action: str = ""  # unknown until the request is decoded; refusals do not need it
    is_json: bool = False
    namespace: str = NAMESPACE

    @property
    def content_type(self) -> str:
        return "application/json" if self.is_json else "text/xml"

    def success(self, reply: bytes, request_id: str) -> bytes:
        """`reply` is the JSON dialect's. O(its length)."""
        members = _decode(reply)
        if self.is_json:
            return _json_success(self.action, members, request_id)
        parts = [f'<?xml version="1.0"?><{self.action}Response xmlns="{self.namespace}">']
        if self.action not in WITHOUT_RESULT:
            _write(parts, f"{self.action}Result", members, action=self.action)
        parts.append(
            f"<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata></{self.action}Response>"
        )
        return "".join(parts).encode()

    def refusal(self, error: HoldfastError, request_id: str) -> bytes:
        if isinstance(error, UnknownOperation):
            return _NO_ACTION
        described = {"Type": error.fault, "Code": error.query_code, "Message": _message(error)}
        if self.is_json:
            return _encode({"Error": described | {"Detail": None}, "RequestId": request_id})
        parts = [f'<?xml version="1.0"?><ErrorResponse xmlns="{self.namespace}"><Error>']
        for name, text in described.items():
            parts.append(f"<{name}>{escape(text)}</{name}>")
        parts.append(f"<Detail/></Error><RequestId>{request_id}</RequestId></ErrorResponse>")
        return "".join(parts).encode()


def _message(error: HoldfastError) -> str:
    if isinstance(error, QueueDoesNotExist) and error.message == QueueDoesNotExist.text:
        return "The specified queue does not exist for this wsdl version."
    return error.message


def escape(text: str) -> str:
    """A carriage return is written as a reference, else parsers make a line feed of it and the MD5 is wrong. What XML
    cannot carry at all, which no message may contain, becomes U+FFFD."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\r", "&#xD;")
    return text if text.isascii() and text.isprintable() else _NOT_XML.sub("\ufffd", text)


# XML


def _write(parts: list[str], element: str, value: Any, *, action: str) -> None:
    if isinstance(value, dict):
        if not value:
            parts.append(f"<{element}/>")
            return
        parts.append(f"<{element}>")
        for name, member in value.items():
            _write_member(parts, name, member, action=action)
        parts.append(f"</{element}>")
    elif isinstance(value, bool):
        parts.append(f"<{element}>{'true' if value else 'false'}</{element}>")
    elif value is not None:
        parts.append(f"<{element}>{escape(str(value))}</{element}>")


def _write_member(parts: list[str], name: str, value: Any, *, action: str) -> None:
    if name in _MAPS and value is not None:
        element, key = _MAPS[name]
        for each, inner in value.items():
            parts.append(f"<{element}><{key}>{escape(each)}</{key}>")
            _write(parts, "Value", inner, action=action)
            parts.append(f"</{element}>")
    elif isinstance(value, list):
        element = _LISTS.get(name) or f"{action}ResultEntry"
        for each in value:
            _write(parts, element, each, action=action)
    else:
        _write(parts, name, value, action=action)


# JSON


def _json_success(action: str, members: dict[str, Any], request_id: str) -> bytes:
    response: dict[str, Any] = {"ResponseMetadata": {"RequestId": request_id}}
    if action not in WITHOUT_RESULT:
        empty = {_JSON_EMPTY[action]: None} if action in _JSON_EMPTY else {}
        response = {f"{action}Result": empty | _json_members(members), **response}
    return _encode({f"{action}Response": response})


def _json_members(members: dict[str, Any]) -> dict[str, Any]:
    return {_JSON_LISTS.get(name, name): _json_value(name, value) for name, value in members.items()}


def _json_value(name: str, value: Any) -> Any:
    """Maps are lists of pairs."""
    if name in _MAPS and value is not None:
        key = _MAPS[name][1]
        return [{key: each, "Value": inner} for each, inner in value.items()]
    if isinstance(value, list):
        return [_json_members(each) if isinstance(each, dict) else each for each in value]
    return value
