"""Counting: what a reply adds, how windows add up, and what a body's shape tells."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import limits, usage
from holdfast.core.admission.bucket import RequestThrottled
from holdfast.core.errors import NoRoom, QueueDoesNotExist
from holdfast.core.types import QueueName
from holdfast.core.usage import LATENCY, WIDTH, Key, Tally, Window, bucket, outcome, shape, units


@dataclass(eq=False)
class Caller:
    account: str
    arn: str


ANN = Caller("000000000001", "arn:ann")
NOBODY = Caller("", "")
ORDERS = QueueName("000000000002", "orders")
KB = 1024


@dataclass
class Given:
    """A reply after so many microseconds."""

    caller: Any = ANN
    queue: QueueName | None = ORDERS
    messages: int = 1
    size: int = 0
    began: float = 0.0


def count(
    action: str, *replies: Given, refusal: usage.Refusal = None, micros: int = 100
) -> list[tuple[Key, list[int]]]:
    tally = Tally(action, lambda: micros / 1e6 + 1e-9)
    for each in replies:
        tally.note(each, refusal)
    found = [(key, cell) for key, _, cell in tally.turn()]
    assert list(tally.turn()) == []
    return found


@pytest.mark.parametrize(
    ("size", "expected"),
    [(0, 1), (1, 1), (64 * KB, 1), (64 * KB + 1, 2), (256 * KB, 4), (1024 * KB, 16), (1024 * KB + 1, 17)],
)
def test_a_unit_is_begun_with_each_64_kilobytes(size: int, expected: int) -> None:
    assert units(size) == expected
    ((_, cell),) = count("SendMessageBatch", Given(messages=10, size=size))
    assert cell[usage.UNITS] == expected


def test_calls_are_counted_by_caller_queue_and_outcome() -> None:
    send = count("SendMessage", Given(size=10), Given(size=20), Given(caller=NOBODY, queue=None))
    assert [key for key, _ in send] == [
        Key("000000000002", "arn:ann", "orders", "SendMessage", "success", ""),
        Key("", "", "", "SendMessage", "success", ""),
    ]
    first = send[0][1]
    assert first[: usage.LATENCY] == [2, 2, 2, 0, 30, 0, 200]
    assert send[0][0].queue_type == "standard"
    assert Key("1", "a", "orders.fifo", "x", "success", "").queue_type == "fifo"
    assert send[1][0].queue_type == ""


def test_a_caller_without_a_queue_is_charged_himself() -> None:
    ((key, cell),) = count("ListQueues", Given(queue=None, messages=1, size=0))
    assert (key.account, cell[usage.UNITS], cell[usage.MESSAGES]) == ("000000000001", 1, 0)


def test_a_receive_counts_bytes_out_and_an_empty_one_costs_a_unit() -> None:
    ((_, cell),) = count("ReceiveMessage", Given(messages=2, size=70 * KB), Given(messages=0))
    assert cell[: usage.MICROS] == [2, 3, 2, 1, 0, 70 * KB]


@pytest.mark.parametrize(
    ("refusal", "expected"), [(QueueDoesNotExist, "refused"), (RequestThrottled, "throttled"), (NoRoom, "failed")]
)
def test_what_is_refused_costs_nothing_and_says_why(refusal: type[Any], expected: str) -> None:
    ((key, cell),) = count("SendMessage", Given(size=10), refusal=refusal)
    assert (key.outcome, key.error_code) == (expected, refusal.code) == (outcome(refusal), refusal.code)
    assert cell[: usage.MICROS] == [1, 0, 0, 0, 0, 0]
    assert sum(cell[LATENCY:]) == 1


@given(st.integers(0, 2**40))
def test_a_latency_is_in_the_bucket_of_its_power_of_two(micros: int) -> None:
    place = bucket(micros)
    assert place == limits.LATENCY_BUCKETS - 1 or micros < 2**place
    assert place == 0 or micros >= 2 ** (place - 1)
    ((_, cell),) = count("SendMessage", Given(), micros=micros)
    assert cell[LATENCY + place] == 1


cells = st.lists(st.integers(0, 1000), min_size=WIDTH, max_size=WIDTH)
keys = st.builds(Key, *(st.sampled_from(["a", "b"]) for _ in range(6)))


@given(st.lists(st.tuples(keys, cells), max_size=30), st.integers(1, 5))
def test_whatever_does_not_fit_is_added_to_its_account(counted: list[tuple[Key, list[int]]], keys_max: int) -> None:
    window = Window(keys_max)
    for each in counted:
        window.add([(each[0], list(each[1]))])
    for account in "ab":
        expected = [sum(each) for each in zip(*(cell for key, cell in counted if key.account == account), strict=True)]
        found = [sum(each) for each in zip(*(cell for key, cell in window if key.account == account), strict=True)]
        assert found == expected
    assert sum(bool(key.principal) for key, _ in window) <= keys_max
    assert len(window) == len(list(window))


def test_bodies_of_one_form_have_one_shape() -> None:
    first = shape(json.dumps({"id": 1, "lines": [{"sku": "a"}, {"sku": "b"}]}).encode())
    assert first == shape(json.dumps({"lines": [{"sku": "z"}], "id": 77}).encode())
    others = [b'{"id":"1","lines":[]}', b'{"id":1}', b"[1]", b"1", b"not json", b'{"other":1}', b"null", b"true"]
    assert len({first, *map(shape, others)}) == 1 + len(others)
    assert shape(b"one text") == shape(b"another {")
    assert shape(b'"' + b"x" * limits.SHAPE_BYTES_MAX + b'"') == ""


def test_a_body_that_is_nested_deeply_has_a_shape_too() -> None:
    deep = b"[" * 2000 + b"]" * 2000
    assert len(shape(deep)) == 16
    assert shape(b"[[[[[1]]]]]") == shape(b'[[[[["a"]]]]]')
