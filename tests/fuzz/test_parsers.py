"""Everything that reads bytes from outside, given anything: an answer or a refusal, never another failure. HTTP and
signatures have their own fuzzers beside this file; forms and policies are in tests/protocol and tests/core."""

import base64
import json
import urllib.parse
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.core.errors import HoldfastError, InvalidAttributeValue, InvalidParameterValue, ReceiptHandleIsInvalid
from holdfast.core.log.segment import Damaged, decode_frame, judge, split_records
from holdfast.core.queue import receipt
from holdfast.core.types import Epoch, LaneId, Lsn, Receipt, Seq
from holdfast.protocol import actions, attributes, dead_letters, decoding, moves, query
from holdfast.runtime.crypto import ReceiptKey
from tests.core.test_segment import EPOCH, frame
from tests.process.wrong_requests import flat

TARGETS = [f"AmazonSQS.{each.__name__}".encode() for each in actions.ACTIONS] + [b"Holdfast.PeekMessages"]
NAMES = sorted({name for each in actions.ACTIONS for name in each.__struct_encode_fields__})
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
ANYTHING = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
)
OBJECTS = st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=8), ANYTHING, max_size=5)


# --- requests in JSON -------------------------------------------------------------------------------------


@given(st.sampled_from(TARGETS), st.binary(max_size=60) | ANYTHING.map(lambda value: json.dumps(value).encode()))
@example(TARGETS[0], b"[" * 100_000)
@example(TARGETS[0], b'{"a":' * 100_000)
def test_any_body_is_a_request_or_a_refusal(target: bytes, body: bytes) -> None:
    try:
        assert isinstance(decoding.decode(target, body), actions.Request)
    except actions.MalformedRequest:
        pass


@given(st.sampled_from(TARGETS), OBJECTS)
def test_members_of_any_kind_are_a_request_or_a_refusal(target: bytes, members: dict[str, Any]) -> None:
    try:
        assert isinstance(decoding.decode(target, json.dumps(members).encode()), actions.Request)
    except actions.MalformedRequest:
        pass


def depth_of(value: Any) -> int:
    if isinstance(value, dict | list):
        return 1 + max(map(depth_of, value.values() if isinstance(value, dict) else value), default=0)
    return 0


def nested(data: st.DataObject) -> Any:
    """Deep, and wide with brackets in its strings."""
    value: Any = data.draw(st.text('[]{}"\\', max_size=60))
    for _ in range(data.draw(st.integers(0, 40))):
        match data.draw(st.integers(0, 2)):
            case 0:
                value = [value]
            case 1:
                value = {data.draw(st.text('[{"\\', max_size=3)): value}
            case _:
                value = [[], {}, value, "[" * 3]
    return value


@given(st.data())
def test_the_depth_of_json_is_counted_as_a_reader_would(data: st.DataObject) -> None:
    body = {"Colour": nested(data)}
    try:
        decoding.decode(b"AmazonSQS.ListQueues", json.dumps(body).encode())
    except actions.MalformedRequest:
        assert depth_of(body) > decoding.DEPTH_MAX
    else:
        assert depth_of(body) <= decoding.DEPTH_MAX


TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=10)
VALUE = st.builds(lambda text: {"DataType": "String", "StringValue": text}, TEXT)
MESSAGE = {
    "MessageBody": TEXT,
    "DelaySeconds": st.integers(-5, 1000),
    "MessageAttributes": st.dictionaries(TEXT, VALUE, min_size=1, max_size=3),
    "MessageGroupId": TEXT,
}


@given(st.fixed_dictionaries({"QueueUrl": TEXT}, optional=MESSAGE))
def test_both_dialects_make_the_same_request(parameters: dict[str, Any]) -> None:
    plain = decoding.decode(b"AmazonSQS.SendMessage", json.dumps(parameters).encode())
    form = {"Action": "SendMessage", **dict(flat("SendMessage", parameters))}
    assert query.decode(b"/", urllib.parse.urlencode(form).encode()) == plain


# --- attributes -------------------------------------------------------------------------------------------

ARN = "arn:aws:sqs:us-east-1:000000000000:dead"
MEMBERS = st.sampled_from(["maxReceiveCount", "deadLetterTargetArn", "redrivePermission", "sourceQueueArns"])
POLICY = st.dictionaries(
    MEMBERS | st.text(max_size=4), ANYTHING | st.sampled_from([1, "1", ARN, [ARN], "byQueue", "denyAll"]), max_size=4
).map(json.dumps)
GIVEN = (
    st.text(max_size=20) | POLICY | st.integers(-1, 10**9).map(str) | st.sampled_from(["true", "False", "queue", ""])
)


@settings(max_examples=300)
@given(POLICY | st.text(max_size=30) | ANYTHING.map(json.dumps))
@example("[" * 100_000)
def test_any_policy_about_dead_letters_is_read_or_refused(text: str) -> None:
    for read in (dead_letters.redrive_policy, dead_letters.allow_policy):
        try:
            read(text)
        except (InvalidAttributeValue, InvalidParameterValue):
            pass


@settings(max_examples=300)
@given(st.dictionaries(st.sampled_from(sorted(attributes._READABLE)) | TEXT, GIVEN, max_size=3), st.booleans())
def test_attributes_that_are_accepted_configure_a_lane(given_ones: dict[str, str], is_fifo: bool) -> None:
    try:
        kept = attributes.merge({}, attributes.check(given_ones, is_fifo=is_fifo))
    except HoldfastError:
        return
    attributes.lane_config(kept, is_fifo=is_fifo, version=1, redrive_to=None, is_strict=True)
    assert attributes.first_difference(kept, kept, is_fifo=is_fifo) == ""


# --- handles ----------------------------------------------------------------------------------------------

KEY = ReceiptKey(bytes(32))
RECEIPT = Receipt(LaneId(3), Seq(5), Epoch(7), Lsn(11), 13)


@given(st.text(max_size=80) | st.binary(min_size=45, max_size=45).map(lambda data: data.hex()[:60]))
def test_nobody_makes_up_a_receipt_handle(text: str) -> None:
    with pytest.raises(ReceiptHandleIsInvalid):
        receipt.decode(text, KEY, lane=LaneId(3))


@given(st.integers(0, 59), st.sampled_from("ABCabc019-_+/= é"))
def test_no_letter_of_a_receipt_handle_can_be_another(at: int, letter: str) -> None:
    handle = receipt.encode(RECEIPT, KEY)
    changed = handle[:at] + letter + handle[at + 1 :]
    try:
        found = receipt.decode(changed, KEY, lane=LaneId(3))
    except ReceiptHandleIsInvalid:
        assert changed != handle
    else:
        assert (found.lane, found.seq, found.epoch, found.lsn, found.number) == (3, 5, 7, 11, 13)
        assert changed.translate(str.maketrans("+/", "-_")) == handle


@given(st.text(max_size=60) | ANYTHING.map(json.dumps))
def test_any_task_handle_is_read_or_refused(text: str) -> None:
    for given_one in (text, base64.b64encode(text.encode(errors="replace")).decode()):
        try:
            moves.decode_handle(given_one)
        except InvalidParameterValue:
            pass


# --- the log ----------------------------------------------------------------------------------------------

FRAMES = frame(100, 3) + frame(103, 1)


@given(st.binary(max_size=200), st.integers(0, 250))
def test_any_bytes_are_a_frame_or_damaged(data: bytes, offset: int) -> None:
    with pytest.raises(Damaged):
        decode_frame(data, offset)


@settings(max_examples=300)
@given(st.data())
def test_a_damaged_frame_is_never_read_as_another(data: st.DataObject) -> None:
    """Whatever is done to it: it is refused, or what was changed are the zeros behind it."""
    whole, changed = decode_frame(FRAMES, 0), bytearray(FRAMES)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(changed) - 1))
        changed[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    try:
        found = decode_frame(bytes(changed), 0)
    except Damaged:
        pass
    else:
        assert found == whole
        assert [lsn for lsn, _, _ in split_records(found)] == [100, 101, 102]
    judge(bytes(changed), start=0, expected=Lsn(100), epoch=EPOCH, floor=Lsn(0))
