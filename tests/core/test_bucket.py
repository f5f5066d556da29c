"""Leaky buckets: what they admit, what they say when they do not, and what they forget."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.admission.bucket import Buckets, Claim, Rate, RequestThrottled
from holdfast.core.errors import SqsError

SECOND = 1_000_000
ACCOUNT, QUEUE = ("account", "000000000000"), ("queue", "arn:aws:sqs:us-east-1:000000000000:q")


def admit(buckets: Buckets, now_us: int, *claims: Claim, cost: int = 1) -> int:
    """0, or the microseconds to wait."""
    try:
        buckets.admit(claims, now_us, cost=cost)
    except RequestThrottled as refusal:
        return refusal.retry_after_us
    return 0


def count(buckets: Buckets, now_us: int, *claims: Claim) -> int:
    """How many requests are admitted at once."""
    return next(number for number in itertools.count() if admit(buckets, now_us, *claims))


def test_a_full_bucket_refuses_until_it_has_leaked() -> None:
    buckets, claim = Buckets(), (ACCOUNT, Rate(per_second=10, burst=5))
    assert count(buckets, 0, claim) == 5
    assert admit(buckets, 0, claim) == 100_000
    assert admit(buckets, 99_999, claim) == 1
    assert admit(buckets, 100_000, claim) == 0
    assert count(buckets, 10 * SECOND, claim) == 5


def test_the_refusal_is_sqss_own_with_a_hint() -> None:
    buckets, claim = Buckets(), (QUEUE, Rate(per_second=3, burst=1))
    buckets.admit([claim], 0)
    with pytest.raises(RequestThrottled) as caught:
        buckets.admit([claim], 0)
    refusal = caught.value
    assert isinstance(refusal, SqsError)
    assert (refusal.code, refusal.query_code, refusal.status) == ("RequestThrottled", "RequestThrottled", 403)
    assert refusal.retry_after_us == 333_334
    assert refusal.message == (
        "Request is throttled: the queue may be used 3 times a second, with bursts of 1. Retry after 334 ms."
    )


def test_a_batch_costs_as_much_as_its_entries() -> None:
    buckets, claim = Buckets(), (ACCOUNT, Rate(per_second=10, burst=15))
    assert admit(buckets, 0, claim, cost=10) == 0
    assert admit(buckets, 0, claim, cost=10) == 500_000
    assert admit(buckets, 0, claim, cost=5) == 0


def test_what_costs_more_than_the_burst_never_fits() -> None:
    buckets, claim = Buckets(), (ACCOUNT, Rate(per_second=10, burst=5))
    assert admit(buckets, 0, claim, cost=6)
    assert admit(buckets, 1000 * SECOND, claim, cost=6)


def test_all_buckets_must_have_room_and_a_refusal_pours_into_none() -> None:
    buckets = Buckets()
    wide, narrow = (ACCOUNT, Rate(per_second=1, burst=5)), (QUEUE, Rate(per_second=1, burst=1))
    assert admit(buckets, 0, wide, narrow) == 0
    for _ in range(10):
        assert admit(buckets, 0, wide, narrow) == SECOND
    assert count(buckets, 0, wide) == 4
    assert admit(buckets, 0) == 0


def test_time_that_runs_backwards_leaks_nothing() -> None:
    buckets, claim = Buckets(), (ACCOUNT, Rate(per_second=1, burst=1))
    assert admit(buckets, 10 * SECOND, claim) == 0
    assert admit(buckets, 0, claim) == SECOND
    assert admit(buckets, 10 * SECOND, claim) == SECOND
    assert admit(buckets, 11 * SECOND, claim) == 0


def test_a_changed_rate_counts_from_now_on() -> None:
    buckets = Buckets()
    assert count(buckets, 0, (ACCOUNT, Rate(per_second=1, burst=10))) == 10
    assert admit(buckets, 0, (ACCOUNT, Rate(per_second=1, burst=11))) == 0
    assert admit(buckets, 0, (ACCOUNT, Rate(per_second=100, burst=1))) == 110_000
    assert admit(buckets, 110_000, (ACCOUNT, Rate(per_second=100, burst=1))) == 0


def test_a_rate_must_be_positive() -> None:
    for per_second, burst in ((0, 1), (1, 0), (-1, 1)):
        with pytest.raises(AssertionError):
            Rate(per_second, burst)


def test_drained_buckets_are_forgotten_as_new_ones_come() -> None:
    buckets, rate = Buckets(), Rate(per_second=1, burst=1)
    for number in range(1000):
        buckets.admit([(("queue", str(number)), rate)], number * SECOND)
    assert len(buckets) <= 2


def test_a_refused_request_leaves_no_bucket() -> None:
    buckets, rate = Buckets(), Rate(per_second=1, burst=1)
    buckets.admit([(ACCOUNT, rate)], 0)
    assert admit(buckets, 0, (QUEUE, rate), (ACCOUNT, rate))
    assert len(buckets) == 1


def test_when_all_places_are_taken_a_new_bucket_waits_for_one_to_drain() -> None:
    buckets, rate = Buckets(buckets_max=2), Rate(per_second=10, burst=2)
    one, two, three = ((("queue", name), rate) for name in "abc")
    assert admit(buckets, 0, one) == admit(buckets, 0, two) == admit(buckets, 0, one) == 0
    assert admit(buckets, 0, three) == 100_000  # b holds less
    assert admit(buckets, 99_999, three) == 1
    assert admit(buckets, 100_000, three) == 0
    assert len(buckets) == 2
    assert admit(buckets, 100_000, one) == 0  # those that have a place are not disturbed


def test_a_table_that_is_too_small_for_one_request_refuses_it() -> None:
    rate = Rate(per_second=1, burst=1)
    assert admit(Buckets(buckets_max=1), 0, (ACCOUNT, rate), (QUEUE, rate)) == SECOND


def test_making_room_never_forgets_a_bucket_of_the_same_request() -> None:
    buckets, rate = Buckets(buckets_max=2), Rate(per_second=1, burst=1)
    assert admit(buckets, 0, (ACCOUNT, rate)) == 0
    assert admit(buckets, SECOND, (ACCOUNT, rate), (QUEUE, rate)) == 0
    assert len(buckets) == 2
    assert admit(buckets, SECOND, (ACCOUNT, rate)) == SECOND


RATE = st.builds(Rate, st.integers(1, 50), st.integers(1, 20))
STEPS = st.lists(st.tuples(st.integers(0, 400_000), st.integers(0, 4), st.integers(1, 5)), max_size=80)


@given(RATE, RATE, STEPS, st.integers(2, 6))
def test_no_span_of_time_admits_more_than_burst_and_rate(queue: Rate, account: Rate, steps: object, room: int) -> None:
    """Five queues of one account, and a table that has not always room for all of them."""
    assert isinstance(steps, list)
    buckets, now_us = Buckets(buckets_max=room), 0
    admitted: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    for wait_us, number, cost in steps:
        now_us += wait_us
        claims = [(ACCOUNT, account), (("queue", str(number)), queue)]
        if admit(buckets, now_us, *claims, cost=cost) == 0:
            for name, _ in claims:
                admitted.setdefault(name, []).append((now_us, cost))
        assert len(buckets) <= room
    for bucket, times in admitted.items():
        rate = account if bucket == ACCOUNT else queue
        for first in range(len(times)):
            total = 0
            for when, cost in times[first:]:
                total += cost
                assert total * SECOND <= rate.burst * SECOND + rate.per_second * (when - times[first][0])


@given(RATE, STEPS)
def test_the_hint_is_exact(rate: Rate, steps: object) -> None:
    assert isinstance(steps, list)
    buckets, now_us, claim = Buckets(), 0, (ACCOUNT, rate)
    for wait_us, _, cost in steps:
        now_us += wait_us
        hint_us = admit(buckets, now_us, claim, cost=cost)
        if hint_us and cost <= rate.burst:
            assert admit(buckets, now_us + hint_us - 1, claim, cost=cost) == 1
            now_us += hint_us
            assert admit(buckets, now_us, claim, cost=cost) == 0


# --- several tables that stand for one ----------------------------------------------------------------------


def tell_all(tables: list[Buckets], now_us: int, rate: Rate) -> None:
    told = [table.take_untold() for table in tables]
    for number, table in enumerate(tables):
        for poured in (each for other, each in enumerate(told) if other != number):
            for name, cost in poured:
                table.pour((name, rate), now_us, cost=cost)


def test_one_of_several_tables_admits_the_whole_rate_when_only_it_is_asked() -> None:
    rate = Rate(per_second=10, burst=5)
    tables = [Buckets(is_shared=True) for _ in range(4)]
    assert count(tables[0], 0, (ACCOUNT, rate)) == 5
    tell_all(tables, 0, rate)
    assert admit(tables[0], 100_000, (ACCOUNT, rate)) == 0


def test_what_one_table_admits_is_missing_in_the_others_when_they_are_told() -> None:
    rate = Rate(per_second=10, burst=5)
    one, two = tables = [Buckets(is_shared=True) for _ in range(2)]
    assert count(one, 0, (ACCOUNT, rate)) == count(two, 0, (ACCOUNT, rate)) == 5  # before they are told
    tell_all(tables, 0, rate)
    assert tables[0].take_untold() == []
    for table in tables:
        assert admit(table, 0, (ACCOUNT, rate)) == 600_000  # ten were admitted, one more than the brim has to leak
        assert admit(table, 600_000, (ACCOUNT, rate)) == 0


def test_what_is_told_has_room_in_a_table_that_is_full() -> None:
    table, rate = Buckets(buckets_max=1, is_shared=True), Rate(per_second=1, burst=1)
    assert admit(table, 0, (ACCOUNT, rate)) == 0
    table.pour((QUEUE, rate), 0, cost=1)
    assert admit(table, 0, (QUEUE, rate)) == SECOND
    assert len(table) == 2


@given(RATE, st.lists(st.tuples(st.integers(0, 25_000), st.integers(0, 2)), max_size=120))
def test_no_span_of_time_lets_tables_admit_more_than_their_bursts_and_one_rate(rate: Rate, steps: object) -> None:
    """Three of them, told within 100 ms."""
    assert isinstance(steps, list)
    tables, now_us, told_us = [Buckets(is_shared=True) for _ in range(3)], 0, 0
    admitted: list[int] = []
    for wait_us, number in steps:
        now_us += wait_us
        if now_us - told_us >= 75_000:
            tell_all(tables, now_us, rate)
            told_us = now_us
        if admit(tables[number], now_us, (ACCOUNT, rate)) == 0:
            admitted.append(now_us)
    for first, begin in enumerate(admitted):
        for total, when in enumerate(admitted[first:], start=1):
            assert total * SECOND <= 3 * rate.burst * SECOND + rate.per_second * (when - begin + 2 * 100_000)
