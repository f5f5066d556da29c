"""Charts as inline SVG. Colours are classes (s0 … s5) that the page's style sheet knows for light, dark and paper.

A chart is a picture of figures that stand in a table beside it: it has a name, and every mark says its value when the
pointer rests on it.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

WIDTH, HEIGHT = 1060, 230
LEFT, RIGHT, TOP, BOTTOM = 56, 8, 10, 24
COLOURS = 6
TICKS = 4
LABELS_MAX = 9

Say = Callable[[float], str]


class Series(NamedTuple):
    name: str
    values: Sequence[float]
    colour: int = 0


def ceiling(value: float) -> float:
    """The next round figure, for the top of a scale."""
    if value <= 0:
        return 1.0
    size = 10 ** math.floor(math.log10(value))
    return next(float(step * size) for step in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if step * size >= value * 0.999)


def stacked(title: str, labels: Sequence[str], series: Sequence[Series], *, say: Say) -> Markup:
    """Bars upon each other, one per label."""
    sums = [sum(values) for values in zip(*(each.values for each in series), strict=True)]
    top = ceiling(max(sums, default=0))
    step = (WIDTH - LEFT - RIGHT) / max(1, len(labels))
    marks = []
    for place, label in enumerate(labels):
        base = 0.0
        for each in series:
            value = each.values[place]
            height = value / top * _inner()
            if height > 0.05:
                y = HEIGHT - BOTTOM - base - height
                marks.append(
                    f'<rect class="s{each.colour}" x="{LEFT + place * step + step * 0.1:.1f}" y="{y:.1f}" '
                    f'width="{step * 0.8:.1f}" height="{height:.1f}">{_hint(label, each.name, say(value))}</rect>'
                )
            base += height
    return _frame(title, marks, labels=labels, top=top, say=say)


def lines(title: str, labels: Sequence[str], series: Sequence[Series], *, say: Say, is_log: bool = False) -> Markup:
    """One line per series. On a logarithmic scale a line of the grid is ten times the one below, and 0, which has no
    place there, is a gap: nothing was measured."""
    values = [value for each in series for value in each.values]
    low = 10 ** math.floor(math.log10(min((v for v in values if v > 0), default=1.0))) if is_log else 0.0
    top = 10 ** math.ceil(math.log10(max([*values, low * 10]))) if is_log else ceiling(max(values, default=0))
    step = (WIDTH - LEFT - RIGHT) / max(1, len(labels))

    def y(value: float) -> float:
        share = math.log(max(value, low) / low) / math.log(top / low) if is_log else value / top
        return HEIGHT - BOTTOM - share * _inner()

    marks = []
    for each in series:
        points = [(LEFT + (place + 0.5) * step, y(value)) for place, value in enumerate(each.values)]
        for is_shown, run in itertools.groupby(
            zip(points, each.values, strict=True), lambda one: bool(one[1]) or not is_log
        ):
            path = " ".join(f"{x:.1f},{height:.1f}" for (x, height), _ in run)
            marks += [f'<polyline class="line s{each.colour}" points="{path}"/>'] if is_shown else []
        marks += [
            f'<circle class="s{each.colour}" cx="{x:.1f}" cy="{height:.1f}" r="2.6">'
            f"{_hint(label, each.name, say(value))}</circle>"
            for (x, height), label, value in zip(points, labels, each.values, strict=True)
            if value or not is_log
        ]
    return _frame(title, marks, labels=labels, top=top, say=say, low=low, is_log=is_log)


def spark(title: str, values: Sequence[float], *, colour: int = 0) -> Markup:
    """A line without scale, the size of a word or two."""
    width, height, top = 110, 26, max([*values, 1e-9])
    step = width / max(1, len(values) - 1)
    points = [(place * step, height - 3 - value / top * (height - 6)) for place, value in enumerate(values)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return Markup(
        f'<svg class="spark" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="{escape(title)}"><title>{escape(title)}</title>'
        f'<polygon class="area s{colour}" points="0,{height - 3} {path} {width},{height - 3}"/>'
        f'<polyline class="line s{colour}" points="{path}"/></svg>'
    )


def bar(title: str, share: float, *, colour: str = "s0") -> Markup:
    """A part of a whole, from 0 to 1."""
    filled = min(1.0, max(0.0, share)) * 100
    return Markup(
        f'<svg class="bar" viewBox="0 0 100 8" width="100" height="8" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(title)}"><title>{escape(title)}</title>'
        f'<rect class="track" width="100" height="8" rx="4"/>'
        f'<rect class="{escape(colour)}" width="{filled:.1f}" height="8" rx="4"/></svg>'
    )


def _inner() -> int:
    return HEIGHT - TOP - BOTTOM


def _hint(label: str, name: str, value: str) -> str:
    return f"<title>{escape(label)}  {escape(name)}: {escape(value)}</title>"


def _frame(
    title: str,
    marks: list[str],
    *,
    labels: Sequence[str],
    top: float,
    say: Say,
    low: float = 0.0,
    is_log: bool = False,
) -> Markup:
    grid = []
    count = max(1, round(math.log10(top / low))) if is_log else TICKS
    for tick in range(count + 1):
        value = low * 10**tick if is_log else top * tick / count
        y = HEIGHT - BOTTOM - tick / count * _inner()
        grid.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        grid.append(f'<text class="tick" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(say(value))}</text>')
    step = (WIDTH - LEFT - RIGHT) / max(1, len(labels))
    every = math.ceil(len(labels) / LABELS_MAX) or 1
    for place in range(0, len(labels), every):
        x = LEFT + (place + 0.5) * step
        grid.append(
            f'<text class="tick" x="{x:.1f}" y="{HEIGHT - 6}" text-anchor="middle">{escape(labels[place])}</text>'
        )
    return Markup(
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{''.join(grid)}{''.join(marks)}</svg>"
    )
