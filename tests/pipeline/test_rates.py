"""Rates: a price for every unit, exactly; a file that cannot be used says where and what to write instead."""

import datetime
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.pipeline import rates
from holdfast.pipeline.rates import FIFO, STANDARD, RatesError, cost, load, parse, steps

NOW = datetime.datetime(2026, 11, 15, 9, tzinfo=datetime.UTC)
UNITS = st.integers(0, 400_000_000_000)

RATE = """
format = 1
[own]
currency = "USD"
issuer = "me"
source = "here"
[[own.rates]]
sku = "requests-standard"
valid_from = 2026-01-01
tiers = [ { to = 10, price = "0" }, { price = "0.5" } ]
[[own.rates]]
sku = "requests-standard"
valid_from = 2026-06-01
tiers = [ { to = 10, price = "0" }, { price = "0.25" } ]
[sqs]
currency = "USD"
issuer = "AWS"
source = "there"
rates = []
"""


def test_one_request_at_a_small_price_costs_exactly_that() -> None:
    assert cost(load().sqs, STANDARD, at=NOW, low=1_000_000, high=1_000_001) == Decimal("0.0000004")


def test_the_first_million_is_free_and_the_next_is_not() -> None:
    assert cost(load().sqs, FIFO, at=NOW, low=0, high=1_000_000) == 0
    assert cost(load().sqs, FIFO, at=NOW, low=0, high=2_000_000) == Decimal("0.5")


@given(a=UNITS, b=UNITS, c=UNITS)
def test_a_path_costs_the_same_however_it_is_cut_and_whichever_way_it_goes(a: int, b: int, c: int) -> None:
    card = load().sqs

    def of(low: int, high: int) -> Decimal:
        return cost(card, STANDARD, at=NOW, low=low, high=high)

    assert of(a, b) + of(b, c) == of(a, c)
    assert of(a, b) == -of(b, a)


def test_a_rate_is_valid_until_the_next_one_begins() -> None:
    card = parse(RATE, where="here").own
    may = datetime.datetime(2026, 5, 31, 23, 59, tzinfo=datetime.UTC)
    june = datetime.datetime(2026, 6, 1, tzinfo=datetime.UTC)
    assert [cost(card, STANDARD, at=when, low=10, high=12) for when in (may, june)] == [Decimal(1), Decimal("0.5")]


def test_a_day_before_the_first_rate_is_an_error_that_says_what_to_add() -> None:
    early = datetime.datetime(2020, 2, 3, tzinfo=datetime.UTC)
    with pytest.raises(RatesError, match=r"valid_from = 2020-02-03"):
        cost(load().own, STANDARD, at=early, low=0, high=1)


def test_the_tiers_of_every_rate_cover_all_units_once() -> None:
    for card in (load().own, load().sqs):
        for sku in rates.SKUS:
            ladder = [step for step in steps(card) if step.sku == sku]
            assert [step.low for step in ladder] == [0, *(step.high for step in ladder[:-1])]
            assert ladder[-1].high == rates.UNITS_MAX


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"0.5"', "0.5", "Expected `str`"),
        ('"0.5"', '"half"', "is no price"),
        ('"0.5"', '"-1"', "not negative"),
        ('"0.5"', '"0.0000000000001"', "would be rounded"),
        ("to = 10, ", "to = 0, ", "larger than that before it"),
        ('{ price = "0.5" }', '{ to = 20, price = "0.5" }', "the last tier has no `to`"),
        ("2026-06-01", "2026-01-01", "two rates for requests-standard"),
        ('"requests-standard"', '"requests-priority"', "no such sku"),
        ("format = 1", "format = 2", "format 2 is not known"),
        ('source = "here"', "", "missing required field `source`"),
        ("[own]", "[own", "line 3"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(old: str, new: str, said: str) -> None:
    with pytest.raises(RatesError, match=said):
        parse(RATE.replace(old, new, 1), where="my.toml")


def test_a_missing_file_says_where_the_example_is(tmp_path: Path) -> None:
    with pytest.raises(RatesError, match=r"rates\.toml has"):
        load(tmp_path / "none.toml")
