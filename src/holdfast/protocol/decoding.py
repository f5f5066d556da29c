"""From the bytes of a JSON request to one of the structs of actions.py."""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from holdfast.protocol import texts
from holdfast.protocol.actions import (
    ACTIONS,
    EXTENSIONS,
    InvalidAction,
    MalformedRequest,
    Request,
    UnknownOperation,
)

DEPTH_MAX: Final = 32  # of JSON; the deepest request that means something has five levels
_BRACKETS: Final = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS: Final = bytes(each for each in range(256) if each not in b"[]{}")
_PREFIX, _OWN_PREFIX = b"AmazonSQS.", b"Holdfast."
_DECODERS: Final[dict[bytes, Callable[[bytes], Request]]] = {
    prefix + action.__name__.encode(): msgspec.json.Decoder(action).decode
    for prefix, group in ((_PREFIX, ACTIONS), (_OWN_PREFIX, EXTENSIONS))
    for action in group
}


def decode(target: bytes, body: bytes) -> Any:
    """The request that a JSON body makes for the action named by the header X-Amz-Target."""
    decoder = _DECODERS.get(target)
    if decoder is None:
        raise _unknown(target)
    if texts.brackets(body, DEPTH_MAX) > DEPTH_MAX:
        _check_depth(body)
    try:
        return decoder(body or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise MalformedRequest(str(problem)) from None


def _check_depth(body: bytes) -> None:
    """Members that are not known are skipped, however deep they are; so this is asked first. Brackets within strings do
    not count. O(length), all of it at the speed of C."""
    unescaped = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    brackets = b"".join(unescaped.split(b'"')[::2]).translate(_BRACKETS, _NO_BRACKETS)
    for _ in range(DEPTH_MAX):
        brackets = brackets.replace(b"[]", b"")  # the innermost ones
    if b"[" in brackets:
        raise MalformedRequest(f"The JSON is nested deeper than {DEPTH_MAX} levels, or does not end.")


def _unknown(target: bytes) -> Exception:
    if not target.startswith((_PREFIX, _OWN_PREFIX)):
        return UnknownOperation("Name an action in the header X-Amz-Target, for example AmazonSQS.SendMessage.")
    name = target.partition(b".")[2].decode("latin-1")
    return InvalidAction(f"The action {name} is not valid for this endpoint.")
