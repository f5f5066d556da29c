"""What may be sent, and what it becomes."""

import hashlib
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import (
    HoldfastError,
    InvalidMessageContents,
    InvalidParameterValue,
    MissingParameter,
    UnsupportedOperation,
)
from holdfast.core.queue.columns import SendAll
from holdfast.core.queue.command import Send
from holdfast.core.types import Kind, LaneConfig, LaneId
from holdfast.protocol import actions, content, decoding, messages
from holdfast.protocol.actions import AttributeValue, SendMessage
from tests.compatibility.claims import proves

LANE = LaneId(7)
STANDARD = LaneConfig()
FIFO = LaneConfig(kind=Kind.FIFO)
BY_CONTENT = LaneConfig(kind=Kind.FIFO, content_deduplication=True)


class Made(NamedTuple):
    command: Send
    slip: messages.Slip


def parcel(config: LaneConfig = STANDARD, **members: object) -> Made:
    body = msgspec.json.encode({"QueueUrl": "q", "MessageBody": "hello", **members})
    request = decoding.decode(b"AmazonSQS.SendMessage", body)
    return Made(*messages.parcel(request, LANE, config, sender=b"me", is_plain=b"\\" not in body))


def stored(made: Made) -> content.Content:
    return content.unpack(made.command.content)


def refusal(config: LaneConfig = STANDARD, **members: object) -> HoldfastError:
    with pytest.raises(HoldfastError) as caught:
        parcel(config, **members)
    return caught.value


def string(value: str, data_type: str = "String") -> dict[str, str]:
    return {"DataType": data_type, "StringValue": value}


@pytest.mark.parametrize(
    "body", ["hello", 'say "hi"\n', "tab\tand back\\slash", "grüße 🎉", "\u2028", "\x7f", "a" * 5000]
)
def test_a_body_is_kept_escaped_and_comes_back_as_it_was(body: str) -> None:
    made = parcel(MessageBody=body)
    kept = stored(made)
    assert msgspec.json.decode(b'"' + kept.body + b'"') == body
    assert made.slip.body_md5 == kept.body_md5.decode() == hashlib.md5(body.encode()).hexdigest()
    assert made.command.body == body.encode()
    assert made.command.size == made.slip.size == len(body.encode())
    assert kept.sender == b"me"


@proves("characters")
@pytest.mark.parametrize("body", ["\x00", "a\x0bb", "\ufffe", "x\uffff", "\x1f🎉"])
def test_a_character_that_xml_cannot_carry_is_refused(body: str) -> None:
    assert isinstance(refusal(MessageBody=body), InvalidMessageContents)


@pytest.mark.parametrize("body", [None, ""])
def test_a_body_is_required(body: str | None) -> None:
    error = refusal(MessageBody=body)
    assert isinstance(error, MissingParameter)
    assert error.message == "The request must contain the parameter MessageBody."


@proves("sizes")
def test_exactly_the_limit_is_accepted_and_one_byte_more_is_not() -> None:
    small = LaneConfig(message_bytes_max=1024)
    parcel(small, MessageBody="x" * 1024)
    error = refusal(small, MessageBody="x" * 1025)
    assert error.message == "One or more parameters are invalid. Reason: Message must be shorter than 1024 bytes."


@proves("sizes")
def test_attributes_count_to_the_size_and_system_attributes_do_not() -> None:
    made = parcel(
        MessageBody="12345",
        MessageAttributes={"ab": string("cde"), "f": {"DataType": "Binary", "BinaryValue": "AAAA"}},
        MessageSystemAttributes={"AWSTraceHeader": string("Root=1")},
    )
    assert made.command.size == made.slip.size == 5 + len("abStringcde") + len("fBinary") + 3
    assert stored(made).extras.trace_header == "Root=1"
    assert len(made.slip.system_md5) == len(made.slip.attributes_md5) == 32


def test_attributes_are_kept_as_receive_returns_them() -> None:
    extras = stored(parcel(MessageAttributes={"n": string("1.5e3", "Number.float")})).extras
    assert msgspec.json.decode(extras.attributes) == {"n": {"StringValue": "1.5e3", "DataType": "Number.float"}}


BAD_ATTRIBUTES = {
    "more than ten": {f"a{n}": string("x") for n in range(11)},
    "a reserved name": {"AWS.x": string("x")},
    "a reserved name in another case": {"aMaZoN.x": string("x")},
    "a leading dot": {".x": string("x")},
    "a trailing dot": {"x.": string("x")},
    "a double dot": {"x..y": string("x")},
    "a space": {"x y": string("x")},
    "a long name": {"x" * 257: string("x")},
    "an empty value": {"x": string("")},
    "no value": {"x": {"DataType": "String"}},
    "no type": {"x": {"StringValue": "x"}},
    "an unknown type": {"x": string("x", "Text")},
    "no number": {"x": string("twelve", "Number")},
    "a control character": {"x": string("\x01")},
    "text for binary": {"x": string("x", "Binary")},
}


@proves("message-attributes")
@pytest.mark.parametrize("attributes", BAD_ATTRIBUTES.values(), ids=BAD_ATTRIBUTES)
def test_attributes_that_break_a_rule_are_refused(attributes: dict[str, object]) -> None:
    assert isinstance(refusal(MessageAttributes=attributes), InvalidParameterValue)


def test_an_empty_attribute_value_is_named() -> None:
    assert refusal(MessageAttributes={"X": string("")}).message == (
        "Message (user) attribute 'X' must contain a non-empty value of type 'String'."
    )


def test_lists_are_not_supported() -> None:
    attributes = {"x": {"DataType": "String", "StringListValues": ["a"]}}
    assert isinstance(refusal(MessageAttributes=attributes), UnsupportedOperation)


def test_letters_of_any_script_may_name_an_attribute() -> None:
    assert parcel(MessageAttributes={"größe_1-x.y": string("x")}).slip.attributes_md5


def test_only_the_trace_header_is_a_system_attribute_of_a_send() -> None:
    assert isinstance(refusal(MessageSystemAttributes={"SenderId": string("x")}), InvalidParameterValue)


def test_a_fifo_queue_needs_a_group_and_an_id() -> None:
    error = refusal(FIFO)
    assert isinstance(error, MissingParameter)
    assert error.message == "The request must contain the parameter MessageGroupId."
    error = refusal(FIFO, MessageGroupId="g")
    assert isinstance(error, InvalidParameterValue)
    assert error.message == (
        "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly"
    )


def test_a_batch_to_a_fifo_queue_calls_a_missing_group_an_invalid_value() -> None:
    entry = actions.SendEntry(id="1", message_body="x")
    _, _, refused = messages.parcels(["1"], [entry], LANE, FIFO, sender=b"me", is_plain=True)
    assert [(name, type(error)) for name, error in refused] == [("1", InvalidParameterValue)]


def test_entries_of_a_batch_become_what_they_would_alone() -> None:
    good = {"1": {"message_body": "a"}, "3": {"message_body": 'b"\n', "delay_seconds": 7}, "4": {"message_body": "ü"}}
    bad = {"2": {"message_body": "\0"}, "5": {"message_body": "x" * 1025}, "6": {}}
    names = sorted(good | bad)
    entries = [actions.SendEntry(id=name, **(good | bad)[name]) for name in names]  # type: ignore[arg-type]
    config = LaneConfig(message_bytes_max=1024)
    commands, slips, refused = messages.parcels(names, entries, LANE, config, sender=b"me", is_plain=False)
    alone = [
        messages.parcel(entry, LANE, config, sender=b"me", is_plain=False) for entry in entries if entry.id in good
    ]
    assert commands == [command for command, _ in alone]
    assert slips.names == list(good)
    assert said(slips) == [(slip.size, slip.body_md5, slip.attributes_md5) for _, slip in alone]
    assert [(name, type(error)) for name, error in refused] == [
        ("2", InvalidMessageContents),
        ("5", InvalidParameterValue),
        ("6", MissingParameter),
    ]


def said(slips: messages.Slips) -> list[tuple[int, str, str]]:
    shown = [slips.at(index) for index in range(len(slips.names))]
    return [(slip.size, slip.body_md5, slip.attributes_md5) for slip in shown]


BODIES = st.lists(st.text('aü\\"\n\t€😀', min_size=1, max_size=9), min_size=1, max_size=10)


@given(bodies=BODIES)
def test_entries_with_nothing_but_a_body_become_columns_of_what_they_would_be_alone(bodies: list[str]) -> None:
    names = [str(number) for number in range(len(bodies))]
    entries = [actions.SendEntry(id=name, message_body=body) for name, body in zip(names, bodies, strict=True)]
    is_plain = not any(character in body for body in bodies for character in '\\"\n\t')
    sends, slips, refused = messages.parcels(names, entries, LANE, LaneConfig(), sender=b"me", is_plain=is_plain)
    alone = [messages.parcel(entry, LANE, LaneConfig(), sender=b"me", is_plain=is_plain) for entry in entries]
    assert isinstance(sends, SendAll)
    assert (sends.apart(), slips.names, refused) == ([command for command, _ in alone], names, [])
    assert said(slips) == [(slip.size, slip.body_md5, "") for _, slip in alone]


def test_content_based_deduplication_shows_the_sha256_of_the_body() -> None:
    made = parcel(BY_CONTENT, MessageGroupId="g")
    assert stored(made).extras.deduplication_id == hashlib.sha256(b"hello").hexdigest()
    assert made.command.deduplication_id == ""
    explicit = parcel(BY_CONTENT, MessageGroupId="g", MessageDeduplicationId="d")
    assert stored(explicit).extras.deduplication_id == explicit.command.deduplication_id == "d"


def test_a_delay_on_a_fifo_message_is_refused_and_zero_means_the_queues_own() -> None:
    members = {"MessageGroupId": "g", "MessageDeduplicationId": "d"}
    assert refusal(FIFO, DelaySeconds=2, **members).message == (
        "Value 2 for parameter DelaySeconds is invalid. "
        "Reason: The request include parameter that is not valid for this queue type."
    )
    assert parcel(FIFO, DelaySeconds=0, **members).command.delay_s is None


@pytest.mark.parametrize("delay", [-1, 901])
def test_a_delay_out_of_range_is_refused(delay: int) -> None:
    assert isinstance(refusal(DelaySeconds=delay), InvalidParameterValue)


@pytest.mark.parametrize("name", ["MessageGroupId", "MessageDeduplicationId"])
@pytest.mark.parametrize("value", ["", "x" * 129, "a b", "ü"])
def test_group_and_deduplication_id_are_printable_and_short(name: str, value: str) -> None:
    error = refusal(BY_CONTENT, **{"MessageGroupId": "g", name: value})
    assert isinstance(error, InvalidParameterValue | MissingParameter)


def test_a_deduplication_id_does_not_fit_a_standard_queue() -> None:
    assert isinstance(refusal(MessageDeduplicationId="d"), InvalidParameterValue)
    assert parcel(MessageGroupId="tenant").command.group == "tenant"


def test_content_of_version_1_is_read() -> None:
    data = parcel(MessageAttributes={"a": {"DataType": "String", "StringValue": "b"}}).command.content
    now = content.unpack(data)
    old = b"".join((b"\1", data[1:6], now.body_md5, data[22:]))
    assert content.unpack(old) == now
    assert content.body_of(old) == content.body_of(data) == (now.body_md5, now.body)


def test_content_of_another_version_is_refused() -> None:
    data = parcel().command.content
    with pytest.raises(ValueError, match="version 9"):
        content.unpack(b"\x09" + data[1:])
    with pytest.raises(ValueError, match="content of version 9"):
        content.body_of(b"\x09" + data[1:])


def test_the_trace_header_of_a_request_is_taken_when_the_message_has_none() -> None:
    value = AttributeValue(string_value="Root=own", data_type="String")
    own = SendMessage(message_body="x", message_system_attributes={"AWSTraceHeader": value})
    assert messages.traced(own, b"Root=1") is own
    plain = SendMessage(message_body="x")
    given = messages.traced(plain, b"Root=1").message_system_attributes
    assert given == {"AWSTraceHeader": AttributeValue(string_value="Root=1", data_type="String")}
    for unusable in (b"", b"\x01", b"\xff"):
        assert messages.traced(plain, unusable) is plain
