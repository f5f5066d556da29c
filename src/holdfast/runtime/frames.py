"""The bytes between two processes of a host: commands one way, their outcomes the other, and what is told beside them.

    frame    u32 length of what follows | msgpack of one of: Asked, Cancelled, Answered; Inquired, Reported; Poured

Both ends are the same program, started together by one parent, so there is no version: formats that outlive a process
are in docs/FORMATS.md. Laws: decode(encode(x)) == x; an error arrives as the error that was raised.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, get_args

import msgspec

from holdfast.core import errors
from holdfast.core.errors import HoldfastError
from holdfast.core.queue.command import EMPTY_DELIVERY, Answer, Command, Compact, Delivery, Outcome, Settle, Tick
from holdfast.core.types import ShardId
from holdfast.runtime.letter import Letter

FRAME_BYTES_MAX = 67_108_864  # ten messages of 1 MiB, and what is around them

_LENGTH = struct.Struct("<I")
_AT_HOME = (Compact, Settle, Tick)  # what a shard's own host tells it
COMMANDS: tuple[type, ...] = tuple(each for each in get_args(Command) if each not in _AT_HOME)
_ANSWERS: tuple[type, ...] = get_args(Answer)
_ERROR = len(_ANSWERS)
_command_number = {kind: number for number, kind in enumerate(COMMANDS)}
_answer_number = {kind: number for number, kind in enumerate(_ANSWERS)}
_errors = {
    each.__name__: each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, HoldfastError)
}
_encode = msgspec.msgpack.Encoder().encode
_command_decoders: list[Callable[[msgspec.Raw], Any]] = [msgspec.msgpack.Decoder(kind).decode for kind in COMMANDS]
_answer_decoders: list[Callable[[msgspec.Raw], Any]] = [msgspec.msgpack.Decoder(kind).decode for kind in _ANSWERS]
_error_decoder = msgspec.msgpack.Decoder(tuple[str, str]).decode

_Numbered = tuple[int, msgspec.Raw]


class Asked(msgspec.Struct, frozen=True, array_like=True, tag="asked"):
    """`number` names the answer; it rises with every question of a connection."""

    number: int
    shard: ShardId
    commands: list[_Numbered]
    wait_s: int  # -1: a batch


class Cancelled(msgspec.Struct, frozen=True, array_like=True, tag="cancelled"):
    number: int


class Answered(msgspec.Struct, frozen=True, array_like=True, tag="answered"):
    number: int
    outcomes: list[_Numbered]
    letters: list[Letter]


class Inquired(msgspec.Struct, frozen=True, array_like=True, tag="inquired"):
    """How is it with you?"""

    number: int


class Reported(msgspec.Struct, frozen=True, array_like=True, tag="reported"):
    number: int
    report: bytes


class Poured(msgspec.Struct, frozen=True, array_like=True, tag="poured"):
    """What was admitted here; core/admission/bucket.py."""

    poured: list[tuple[tuple[str, ...], int]]


Frame = Asked | Cancelled | Answered | Inquired | Reported | Poured
_decode = msgspec.msgpack.Decoder(Frame).decode


def asked(number: int, shard: ShardId, commands: Sequence[Command], wait_s: int) -> bytes:
    numbered = [(_command_number[type(each)], msgspec.Raw(_encode(each))) for each in commands]
    return frame(Asked(number, shard, numbered, wait_s))


def commands_of(question: Asked) -> list[Any]:
    return [_command_decoders[kind](raw) for kind, raw in question.commands]


def answered(number: int, outcomes: Sequence[Outcome], letters: Sequence[Letter]) -> bytes:
    return frame(Answered(number, [_numbered(each) for each in outcomes], list(letters)))


def _numbered(outcome: Outcome) -> _Numbered:
    if isinstance(outcome, HoldfastError):
        return _ERROR, msgspec.Raw(_encode((type(outcome).__name__, outcome.message)))
    return _answer_number[type(outcome)], msgspec.Raw(_encode(outcome))


def outcomes_of(answer: Answered) -> list[Outcome]:
    return [_outcome(kind, raw) for kind, raw in answer.outcomes]


def _outcome(kind: int, raw: msgspec.Raw) -> Outcome:
    if kind == _ERROR:
        name, message = _error_decoder(raw)
        return _errors[name](message)
    outcome: Outcome = _answer_decoders[kind](raw)
    return EMPTY_DELIVERY if type(outcome) is Delivery and not outcome.messages else outcome


def frame(value: Frame) -> bytes:
    data = _encode(value)
    return _LENGTH.pack(len(data)) + data


class Frames:
    """Cuts a stream of bytes into frames."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Those that are complete. ValueError: the other end speaks something else."""
        buffer = self._buffer
        buffer += data
        start = 0
        while len(buffer) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(buffer, start)
            if length > FRAME_BYTES_MAX:
                raise ValueError(f"a frame of {length} bytes")
            end = start + _LENGTH.size + length
            if end > len(buffer):
                break
            yield _decode(bytes(memoryview(buffer)[start + _LENGTH.size : end]))
            start = end
        del buffer[:start]
