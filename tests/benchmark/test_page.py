"""Plots are to scale, and the page is one file."""

import re
from xml.etree import ElementTree

import pytest

from bench.page import page
from bench.plot import Bar, bars, curve, decades, from_zero
from bench.results import Results
from tests.benchmark.figures import measured


def test_bars_are_as_long_as_their_values() -> None:
    drawn = ElementTree.fromstring(bars([Bar("a", 10, "10", "ours"), Bar("b", 5, "5", "memory")]))
    first, second = (float(each.attrib["width"]) for each in drawn.iter("rect"))
    assert first == pytest.approx(2 * second)


def test_names_are_escaped() -> None:
    assert "<b>" not in bars([Bar("<b>", 1, "", "ours")])


def test_a_logarithmic_axis_surrounds_its_values_with_powers_of_ten() -> None:
    axis = decades(0.3, 42, name="")
    assert [said for _, said in axis.ticks] == ["0.1", "1", "10", "100"]
    assert axis.share(10) == pytest.approx(2 / 3)


@pytest.mark.parametrize("highest", [0.04, 1, 7, 19.5, 230, 5000])
def test_a_linear_axis_has_few_ticks_and_room_for_the_highest(highest: float) -> None:
    axis = from_zero(highest, name="")
    assert axis.ticks[0][0] == 0
    assert axis.ticks[-1][0] >= highest
    assert 3 <= len(axis.ticks) <= 8


def test_a_curve_starts_at_the_left_and_ends_at_the_right() -> None:
    drawn = ElementTree.fromstring(curve([(1, 1), (10, 2)], decades(1, 10, name="x"), from_zero(2, name="y")))
    (line,) = drawn.iter("polyline")
    first, last = line.attrib["points"].split()
    assert float(first.split(",")[0]) < float(last.split(",")[0])


def test_the_page_needs_nothing_from_elsewhere() -> None:
    results: Results = measured()
    results.curves["send_latency"] = [(1.0, 50.0), (2.0, 99.0), (9.0, 100.0)]
    results.curves["depth_cpu_us"] = [(1000.0, 20.0), (10_000.0, 21.0)]
    made = page(results)
    assert re.search(r"(src|href)=|@import|url\(", made) is None
    assert made.count("<svg") == 4
