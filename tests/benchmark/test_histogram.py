"""The histogram against sorting everything."""

import math

from hypothesis import given
from hypothesis import strategies as st

from bench.histogram import Histogram


def filled(values: list[int]) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    return histogram


@given(st.lists(st.integers(0, 1 << 40), min_size=1), st.sampled_from([0, 1, 50, 90, 99, 99.9, 100]))
def test_a_percentile_is_exact_or_less_than_one_percent_too_high(values: list[int], percent: float) -> None:
    exact = sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]
    found = filled(values).percentile(percent)
    assert exact <= found <= exact * (1 + 1 / 128)


def test_small_values_are_kept_as_they_are() -> None:
    histogram = filled([0, 1, 127, 128, 255])
    assert [histogram.percentile(each) for each in (20, 40, 60, 80, 100)] == [0, 1, 127, 128, 255]


def test_steps_end_with_the_highest_value_and_all_entries() -> None:
    assert filled([5, 1_000_003, 7]).steps()[-1] == (1_000_003, 1.0)


def test_an_empty_histogram_has_no_percentiles() -> None:
    assert Histogram().percentile(99) == 0


@given(st.lists(st.lists(st.integers(0, 1 << 40)), max_size=4))
def test_histograms_together_are_the_histogram_of_all(parts: list[list[int]]) -> None:
    whole, together = filled([value for part in parts for value in part]), Histogram.of(map(filled, parts))
    assert (together.count, together.highest) == (whole.count, whole.highest)
    assert [together.percentile(each) for each in (50, 99)] == [whole.percentile(each) for each in (50, 99)]
