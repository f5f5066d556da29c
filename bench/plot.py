"""Plots as inline SVG: horizontal bars, and curves over logarithmic axes. Colours come from the page's CSS."""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH = 640
_BAR, _GAP = 20, 6
_LABELS, _VALUES = 190, 120  # room to the left of the bars and to their right
_HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 290, 70, 46, 26, 20


@dataclass(frozen=True)
class Bar:
    label: str
    value: float
    text: str
    kind: str  # a CSS class


def bars(rows: Sequence[Bar]) -> str:
    """From zero, to scale."""
    highest = max((row.value for row in rows), default=0) or 1
    parts = []
    for number, row in enumerate(rows):
        top = number * (_BAR + _GAP)
        length = row.value / highest * (WIDTH - _LABELS - _VALUES)
        middle = top + _BAR * 0.72
        parts += [
            _text(_LABELS - 8, middle, row.label, anchor="end"),
            f'<rect class="{row.kind}" x="{_LABELS}" y="{top}" width="{max(length, 1):.1f}" height="{_BAR}" rx="2"/>',
            _text(_LABELS + length + 6, middle, row.text, anchor="start"),
        ]
    return _svg(parts, len(rows) * (_BAR + _GAP))


@dataclass(frozen=True)
class Axis:
    """`ticks`: where, and what it says there. `is_log`: equal factors are equally far apart."""

    name: str
    ticks: Sequence[tuple[float, str]]
    is_log: bool = True

    def share(self, value: float) -> float:
        """0 at the first tick, 1 at the last."""
        low, high = self.ticks[0][0], self.ticks[-1][0]
        if not self.is_log:
            return (value - low) / (high - low)
        return math.log(max(value, low) / low) / math.log(high / low)


def curve(points: Sequence[tuple[float, float]], x: Axis, y: Axis) -> str:
    def across(value: float) -> float:
        return _LEFT + x.share(value) * (WIDTH - _LEFT - _RIGHT)

    def up(value: float) -> float:
        return _HEIGHT - _BOTTOM - y.share(value) * (_HEIGHT - _BOTTOM - _TOP)

    parts = []
    for value, said in y.ticks:
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{up(value):.1f}" y2="{up(value):.1f}"/>'
        )
        parts.append(_text(_LEFT - 8, up(value) + 4, said, anchor="end"))
    for value, said in x.ticks:
        parts.append(_text(across(value), _HEIGHT - _BOTTOM + 18, said, anchor="middle"))
    path = " ".join(f"{across(a):.1f},{up(b):.1f}" for a, b in points)
    parts.append(f'<polyline class="curve" points="{path}"/>')
    if len(points) < 20:
        parts += [f'<circle class="point" cx="{across(a):.1f}" cy="{up(b):.1f}" r="3.5"/>' for a, b in points]
    parts.append(_text((_LEFT + WIDTH) / 2, _HEIGHT - 6, x.name, anchor="middle"))
    parts.append(_text(_LEFT, _TOP - 12, y.name, anchor="start"))
    return _svg(parts, _HEIGHT)


def decades(lowest: float, highest: float, *, name: str, unit: str = "") -> Axis:
    """A logarithmic axis with a tick at each power of ten that surrounds the values."""
    first = math.floor(math.log10(max(lowest, 1e-9)))
    last = max(math.ceil(math.log10(max(highest, 1e-9))), first + 1)
    return Axis(name, [(10.0**power, f"{10.0**power:,.{max(0, -power)}f}{unit}") for power in range(first, last + 1)])


def from_zero(highest: float, *, name: str) -> Axis:
    """A linear axis with round ticks."""
    step = 10 ** math.floor(math.log10(highest or 1))
    step = next(each for each in (step / 5, step / 2, step, step * 2) if highest / each <= 6)
    count = math.ceil(highest / step)
    return Axis(name, [(number * step, f"{number * step:g}") for number in range(count + 1)], is_log=False)


def _text(x: float, y: float, said: str, *, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(said)}</text>'


def _svg(parts: Sequence[str], height: float) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img">{"".join(parts)}</svg>'
