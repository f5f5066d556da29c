"""What a receive asks for, and the bytes it gets."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from holdfast.core.errors import InvalidAttributeName, InvalidParameterValue
from holdfast.core.queue import receipt
from holdfast.core.queue.command import Delivered
from holdfast.core.types import Epoch, Group, Header, Instant, Kind, LaneConfig, LaneId, Lsn, Seq, ShardId, WallMs
from holdfast.protocol import actions, content, decoding, messages, receives, texts
from holdfast.runtime.crypto import ReceiptKey
from tests.compatibility.claims import proves

KEY = ReceiptKey(b"k" * 32)
LANE = LaneId(7)
HEADER = Header(Seq(5), Lsn(9), Epoch(2), Lsn(9), Group(0), 5, Instant(1), Instant(1), Instant(0), 0, 0, is_aside=False)
STANDARD = LaneConfig()
FIFO = LaneConfig(kind=Kind.FIFO, content_deduplication=True)


def asked(**members: object) -> actions.ReceiveMessage:
    body = msgspec.json.encode({"QueueUrl": "q", **members})
    request = decoding.decode(b"AmazonSQS.ReceiveMessage", body)
    assert isinstance(request, actions.ReceiveMessage)
    return request


def received(
    config: LaneConfig = STANDARD,
    *,
    sent: Mapping[str, object] | None = None,
    header: Header = HEADER,
    message_id: bytes = b"",
    **members: object,
) -> dict[str, Any]:
    """One message, sent and received."""
    body = msgspec.json.encode({"MessageBody": 'a "b"', **(sent or {})})
    request = decoding.decode(b"AmazonSQS.SendMessage", body)
    send, _ = messages.parcel(request, LANE, config, sender=b"me", is_plain=False)
    handed = receives.Handed(Delivered(header, 3, 4, WallMs(2000)), send.content, WallMs(1000), message_id)
    origin = receives.Origin(ShardId(1), LANE, config.kind, KEY, lambda packed: f"arn:{packed}")
    reply = json.loads(receives.reply([handed], origin, receives.view(asked(**members))))
    (message,) = reply["Messages"]
    assert isinstance(message, dict)
    return message


def text(value: str) -> dict[str, str]:
    return {"DataType": "String", "StringValue": value}


ATTRIBUTES = {"MessageAttributes": {"a.x": text("1"), "a.y": text("2"), "b": text("3")}}


def test_a_message_has_its_body_digest_id_and_receipt_and_nothing_that_was_not_asked_for() -> None:
    message = received(sent=ATTRIBUTES)
    assert sorted(message) == ["Body", "MD5OfBody", "MessageId", "ReceiptHandle"]
    assert message["Body"] == 'a "b"'
    assert message["MessageId"] == receipt.message_id(ShardId(1), Epoch(2), Lsn(9))
    handle = receipt.decode(message["ReceiptHandle"], KEY, lane=LANE)
    assert (handle.seq, handle.epoch, handle.lsn, handle.number) == (5, 2, 9, 3)


def test_an_empty_receive_has_no_messages_key() -> None:
    origin = receives.Origin(ShardId(1), LANE, Kind.STANDARD, KEY, lambda _: "")
    assert receives.reply([], origin, receives.PLAIN) == b"{}"


def test_a_message_that_moved_keeps_its_id() -> None:
    old = receipt.message_id_bytes(ShardId(3), Epoch(4), Lsn(5))
    assert received(message_id=old)["MessageId"] == receipt.message_id(ShardId(3), Epoch(4), Lsn(5))


@pytest.mark.parametrize("wanted", [receives.PLAIN, receives.View(("All",), ("All",))])
def test_messages_that_are_shown_together_look_as_each_alone(wanted: receives.View) -> None:
    """With contents of both versions, and with ids of their own."""
    origin = receives.Origin(ShardId(1), LANE, Kind.STANDARD, KEY, lambda _: "")
    handed = []
    for number in range(6):
        body = msgspec.json.encode({"MessageBody": f'"{number}"' * number or "-", **(ATTRIBUTES if number % 2 else {})})
        request = decoding.decode(b"AmazonSQS.SendMessage", body)
        stored = messages.parcel(request, LANE, STANDARD, sender=b"me", is_plain=False)[0].content
        old = b"".join((b"\1", stored[1:6], content.body_of(stored)[0], stored[22:]))
        header = msgspec.structs.replace(HEADER, seq=Seq(number), lsn=Lsn(number))
        own = receipt.message_id_bytes(ShardId(3), Epoch(4), Lsn(5)) if number == 4 else b""
        delivered = Delivered(header, number + 1, 1, WallMs(1))
        handed.append(receives.Handed(delivered, old if number == 3 else stored, WallMs(1), own))
    for some in (handed[:3], handed[:4], handed):
        alone = [json.loads(receives.reply([each], origin, wanted))["Messages"][0] for each in some]
        assert json.loads(receives.reply(some, origin, wanted)) == {"Messages": alone}


@pytest.mark.parametrize("is_old", [True, False])
def test_all_system_attributes(is_old: bool) -> None:
    message = received(AttributeNames=["All"]) if is_old else received(MessageSystemAttributeNames=["All"])
    assert message["Attributes"] == {
        "SenderId": "me",
        "SentTimestamp": "1000",
        "ApproximateReceiveCount": "4",
        "ApproximateFirstReceiveTimestamp": "2000",
    }


def test_only_the_named_system_attributes_and_both_lists_together() -> None:
    message = received(AttributeNames=["SenderId"], MessageSystemAttributeNames=["SentTimestamp"])
    assert sorted(message["Attributes"]) == ["SenderId", "SentTimestamp"]
    assert "Attributes" not in received(AttributeNames=["AWSTraceHeader"])


def test_a_fifo_message_shows_group_id_and_sequence_number() -> None:
    shown = received(FIFO, sent={"MessageGroupId": "g"}, AttributeNames=["All"])["Attributes"]
    assert shown["MessageGroupId"] == "g"
    assert shown["SequenceNumber"] == "10000000000000000005"
    assert len(shown["MessageDeduplicationId"]) == 64


def test_a_dead_letter_names_its_source() -> None:
    header = msgspec.structs.replace(HEADER, origin=77)
    assert received(header=header, AttributeNames=["All"])["Attributes"]["DeadLetterQueueSourceArn"] == "arn:77"


def test_an_unknown_system_attribute_is_refused() -> None:
    with pytest.raises(InvalidAttributeName, match=r"Unknown Attribute Colour\."):
        received(AttributeNames=["Colour"])


@pytest.mark.parametrize("wanted", ["All", ".*", "*"])
def test_all_message_attributes_with_the_digest_of_the_send(wanted: str) -> None:
    message = received(sent=ATTRIBUTES, MessageAttributeNames=[wanted])
    assert message["MessageAttributes"] == ATTRIBUTES["MessageAttributes"]
    everything = received(sent=ATTRIBUTES, MessageAttributeNames=["a.x", "a.y", "b"])
    assert message["MD5OfMessageAttributes"] == everything["MD5OfMessageAttributes"]


@proves("attribute-filters", "md5")
def test_a_prefix_chooses_and_the_digest_is_of_what_is_returned() -> None:
    message = received(sent=ATTRIBUTES, MessageAttributeNames=["a.*"])
    assert sorted(message["MessageAttributes"]) == ["a.x", "a.y"]
    only = received(sent={"MessageAttributes": {"a.x": text("1"), "a.y": text("2")}}, MessageAttributeNames=["All"])
    assert message["MD5OfMessageAttributes"] == only["MD5OfMessageAttributes"]


@proves("attribute-filters")
def test_names_that_match_nothing_are_no_error() -> None:
    message = received(sent=ATTRIBUTES, MessageAttributeNames=["AWS.", "..foo", "zzz"])
    assert "MessageAttributes" not in message
    assert "MD5OfMessageAttributes" not in message


def test_a_binary_attribute_comes_back() -> None:
    sent = {"MessageAttributes": {"x": {"DataType": "Binary", "BinaryValue": "AAEC"}}}
    assert received(sent=sent, MessageAttributeNames=["x"])["MessageAttributes"] == sent["MessageAttributes"]


def test_defaults_of_a_receive() -> None:
    command = receives.command(asked(), LANE, STANDARD)
    assert (command.count_max, command.visibility_timeout_s, command.attempt_id) == (1, None, "")
    assert receives.wait_s(asked(), 5) == 5
    assert receives.wait_s(asked(WaitTimeSeconds=0), 5) == 0


def check_all(request: actions.ReceiveMessage) -> None:
    receives.command(request, LANE, STANDARD)
    receives.wait_s(request, 0)


OUT_OF_RANGE = {
    ("MaxNumberOfMessages", 0): "Must be between 1 and 10, if provided.",
    ("MaxNumberOfMessages", 11): "Must be between 1 and 10, if provided.",
    ("VisibilityTimeout", -1): "Must be >= 0 and <= 43200, if provided.",
    ("VisibilityTimeout", 43_201): "Must be >= 0 and <= 43200, if provided.",
    ("WaitTimeSeconds", 21): "Must be >= 0 and <= 20, if provided.",
}


@pytest.mark.parametrize(("member", "reason"), OUT_OF_RANGE.items())
def test_what_is_out_of_range_is_refused_with_the_usual_text(member: tuple[str, int], reason: str) -> None:
    name, value = member
    with pytest.raises(InvalidParameterValue) as caught:
        check_all(asked(**{name: value}))
    assert caught.value.message == f"Value {value} for parameter {name} is invalid. Reason: {reason}"


def test_an_attempt_id_is_for_fifo_queues() -> None:
    assert receives.command(asked(ReceiveRequestAttemptId="x"), LANE, FIFO).attempt_id == "x"
    with pytest.raises(InvalidParameterValue):
        receives.command(asked(ReceiveRequestAttemptId="x"), LANE, STANDARD)


def test_contents_packed_together_are_those_packed_one_by_one() -> None:
    bodies = [b"", b"a", b"bb", b"cc", b"a" * 300, b"d", b""]  # some as long as the one before, some not
    sums = [bytes([number]) * 16 for number in range(len(bodies))]
    packed = texts.packed(bodies, sums, b"me")
    assert packed == [content.pack(body, each, sender=b"me") for body, each in zip(bodies, sums, strict=True)]
    assert [content.body_of(each)[1] for each in packed] == bodies


def test_a_plain_reply_without_ids_takes_them_from_the_headers() -> None:
    origin = receives.Origin(ShardId(1), LANE, Kind.STANDARD, KEY, lambda packed: f"arn:{packed}")
    delivered, stored = Delivered(HEADER, 3, 4, WallMs(2000)), content.pack(b"hello", bytes(16), sender=b"me")
    handed = receives.Handed(delivered, stored, WallMs(1000), b"")
    assert receives.plain_reply([delivered], [stored], (), origin) == receives.reply([handed], origin, receives.PLAIN)
