"""Requests in the Query dialect, which SDKs spoke until the end of 2023 and curl speaks today.

    POST /                              Action=SendMessage&QueueUrl=…&MessageBody=hello+world&DelaySeconds=5
    GET  /000000000000/orders?Action=ReceiveMessage&AttributeName.1=All&MaxNumberOfMessages=10

Parameters become the same requests as JSON bodies. Lists and maps are flat: `AttributeName.2`, `Tag.1.Key`,
`SendMessageBatchRequestEntry.1.MessageAttribute.3.Value.DataType`. A list or map of one may leave its number out.

Laws
- What an action may carry is read from its request type; only the names that differ stand here.
- Numbers in names order members and do nothing else: gaps are fine, and a large number costs nothing.
- Everything a client may send is either a request or a refusal. Members that are not known are ignored.
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from typing import Any, get_args, get_origin

import msgspec

from holdfast.core.errors import InvalidParameterValue, MissingParameter, RequestError
from holdfast.protocol import actions, decoding
from holdfast.protocol.actions import InvalidAction, ReceiveMessage, Request, UnknownOperation

PARAMETERS_MAX = 10_000  # ten messages with ten attributes each need some six hundred
_DEPTH_MAX = 8  # parts of a name; the deepest one that means something has six

# JSON member -> its name here. Entries are named after their action.
_NAMES = {
    "AWSAccountIds": "AWSAccountId",
    "Actions": "ActionName",
    "AttributeNames": "AttributeName",
    "Attributes": "Attribute",
    "BinaryListValues": "BinaryListValue",
    "MessageAttributeNames": "MessageAttributeName",
    "MessageAttributes": "MessageAttribute",
    "MessageSystemAttributeNames": "MessageSystemAttributeName",
    "MessageSystemAttributes": "MessageSystemAttribute",
    "StringListValues": "StringListValue",
    "TagKeys": "TagKey",
    "Tags": "Tag",
    "tags": "Tag",
}
_NOT_ON_A_QUEUE = ("CreateQueue", "ListQueues")  # a queue's path is no endpoint for these

_BROKEN = re.compile(rb"%(?![0-9A-Fa-f]{2})").search
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}").fullmatch
_INDEX = re.compile(r"[0-9]{1,18}").fullmatch


class MalformedInput(RequestError):
    """The parameters cannot be read at all."""

    code = "SerializationException"
    query_code = "MalformedInput"


class Parameter:
    """The values given for one name, and the parameters whose names go on with a dot."""

    __slots__ = ("parts", "values")

    def __init__(self) -> None:
        self.values: list[str] = []
        self.parts: dict[str, Parameter] = {}

    def text(self) -> str | None:
        """The last one wins."""
        return self.values[-1] if self.values else None

    def items(self) -> Iterator[tuple[str, "Parameter"]]:
        """The members of a flat list in their order, each with its name's ending. An empty value without a number
        is how some clients write an empty list."""
        if any(self.values) or not all(map(_INDEX, self.parts)):
            yield "", self
        for index in sorted(filter(_INDEX, self.parts), key=int):
            yield "." + index, self.parts[index]


Reader = Callable[[Parameter, str], Any]  # a parameter and its whole name -> what a request holds


# from bytes to parameters


def decode(target: bytes, form: bytes) -> Request:
    """`target` is the request line's; its query string and the form are read as one."""
    path, _, query_string = target.partition(b"?")
    root = _parse(query_string + b"&" + form if query_string else form)
    action = root.parts["Action"].text() if "Action" in root.parts else None
    if not action:
        raise UnknownOperation("Name an action in the parameter Action, for example SendMessage.")
    queue = _queue_path(path)
    if queue and action in _NOT_ON_A_QUEUE:
        raise InvalidAction(f"The action {action} is not valid for this endpoint.")
    if action not in _READERS:
        decoding.decode(b"AmazonSQS." + action.encode(), b"")  # refuses, and knows how
    request: Request = _READERS[action](root, "")
    return _settle(request, queue)


def _settle(request: Request, queue: str) -> Request:
    """What this dialect decides by itself: the path names the queue if nothing else does, and AttributeName hides
    MessageSystemAttributeName."""
    if queue and "queue_url" in request.__struct_fields__ and not getattr(request, "queue_url", None):
        request = msgspec.structs.replace(request, queue_url=queue)
    if isinstance(request, ReceiveMessage) and request.attribute_names:
        request = msgspec.structs.replace(request, message_system_attribute_names=None)
    return request


def _queue_path(path: bytes) -> str:
    """`/account/name`, else nothing."""
    text = _unquote(path)
    return text if len([part for part in text.split("/") if part]) >= 2 else ""


def _parse(form: bytes) -> Parameter:
    pairs = form.split(b"&", PARAMETERS_MAX)
    if len(pairs) > PARAMETERS_MAX:
        raise MalformedInput(f"A request has at most {PARAMETERS_MAX} parameters.")
    root = Parameter()
    for pair in pairs:
        name, _, value = pair.partition(b"=")
        if not name:
            continue
        node = root
        for part in _unquote(name.replace(b"+", b" ")).split(".", _DEPTH_MAX):
            node = node.parts.setdefault(part, Parameter())
        node.values.append(_unquote(value.replace(b"+", b" ")))
    return root


def _unquote(text: bytes) -> str:
    """Quoted-printable is percent-encoding with another sign, and is decoded at the speed of C."""
    try:
        if b"%" in text:
            if _BROKEN(text):
                raise MalformedInput("A percent sign has to be followed by two hexadecimal digits.")
            text = binascii.a2b_qp(text.replace(b"=", b"=3D").replace(b"%", b"="))
        return text.decode()
    except UnicodeDecodeError:
        raise MalformedInput("The parameters are not UTF-8.") from None


# from parameters to requests


def _read_text(parameter: Parameter, _: str) -> str | None:
    return parameter.text()


def _read_integer(parameter: Parameter, name: str) -> int | None:
    text = parameter.text()
    if text is None:
        return None
    if not _INTEGER(text):
        raise InvalidParameterValue(f"Value {text} for parameter {name} is invalid. Reason: Must be an integer.")
    return int(text)


def _read_bytes(parameter: Parameter, name: str) -> bytes | None:
    text = parameter.text()
    if text is None:
        return None
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise InvalidParameterValue(
            f"Value {text} for parameter {name} is invalid. Reason: Must be encoded in base64."
        ) from None


def _list_of(read: Reader) -> Reader:
    def read_list(parameter: Parameter, name: str) -> list[Any]:
        found = []
        for ending, item in parameter.items():
            found += [read(_alone(value), name + ending) for value in item.values if value or ending]
        return found

    return read_list


def _alone(value: str) -> Parameter:
    parameter = Parameter()
    parameter.values.append(value)
    return parameter


def _list_of_structs(read: Reader) -> Reader:
    def read_list(parameter: Parameter, name: str) -> list[Any]:
        return [read(item, name + ending) for ending, item in parameter.items()]

    return read_list


def _map_of(read: Reader, key: str) -> Reader:
    def read_map(parameter: Parameter, name: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for ending, item in parameter.items():
            where = name + ending
            own_name = _required(item, where, key).text()
            if not own_name:
                raise _missing(f"{where}.{key}")
            if own_name in found:
                raise InvalidParameterValue(f"{own_name} is given more than once in {name}.")
            value = read(_required(item, where, "Value"), where + ".Value")
            if value is None:
                raise _missing(where + ".Value")
            found[own_name] = value
        return found

    return read_map


def _required(parameter: Parameter, name: str, part: str) -> Parameter:
    if part not in parameter.parts:
        raise _missing(f"{name}.{part}")
    return parameter.parts[part]


def _missing(name: str) -> MissingParameter:
    return MissingParameter(f"The request must contain the parameter {name}.")


def _struct(kind: type[msgspec.Struct], action: str) -> Reader:
    fields = []
    for field in msgspec.structs.fields(kind):
        name = f"{action}RequestEntry" if field.encode_name == "Entries" else field.encode_name
        name = _NAMES.get(name, name)
        fields.append((field.name, name, _reader(field.type, action, "Key" if name == "Tag" else "Name")))

    def read_struct(parameter: Parameter, name: str) -> msgspec.Struct:
        parts, prefix = parameter.parts, name + "." if name else ""
        return kind(**{field: read(parts[part], prefix + part) for field, part, read in fields if part in parts})

    return read_struct


_SCALARS: dict[Any, Reader] = {str: _read_text, int: _read_integer, bytes: _read_bytes}


def _reader(kind: Any, action: str, key: str) -> Reader:
    """How a member of this type is read; None in a union says only that it may be absent."""
    choices = [each for each in get_args(kind) if each is not type(None)]
    origin = get_origin(kind)
    if origin is list:
        inner = _reader(choices[0], action, key)
        return _list_of(inner) if choices[0] in _SCALARS else _list_of_structs(inner)
    if origin is dict:
        return _map_of(_reader(choices[1], action, key), key)
    if choices:
        return _reader(choices[0], action, key)
    return _SCALARS[kind] if kind in _SCALARS else _struct(kind, action)


_READERS: dict[str, Reader] = {action.__name__: _struct(action, action.__name__) for action in actions.ACTIONS}
