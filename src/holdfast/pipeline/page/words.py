"""Figures as people read them. What is rounded here is exact in the CSV and JSON files beside the page."""

import datetime
from decimal import ROUND_HALF_UP, Decimal

CENT = Decimal("0.01")


def some(count_of: int, what: str, more: str = "") -> str:
    """1 queue, 2 queues."""
    return f"{count_of:,} {what if count_of == 1 else more or what + 's'}"


def count(value: float) -> str:
    return f"{value:,.0f}"


def short(value: float) -> str:
    """Three digits and a unit, for scales: 1.5 M."""
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}"


def money(value: Decimal, currency: str = "USD") -> str:
    """To the cent; smaller amounts with as many digits as it takes to see them."""
    sign = "$" if currency == "USD" else f"{currency} "
    if value == 0 or abs(value) >= CENT:
        return f"{sign}{value.quantize(CENT, ROUND_HALF_UP):,}"
    return f"{sign}{value.normalize():f}"


def percent(share: float | None, digits: int = 1) -> str:
    """Cut, not rounded: 99.96 % never reads as 100."""
    if share is None:
        return "–"
    scale = 10**digits
    cut = int(share * 100 * scale + 1e-6) / scale
    return f"{cut:.{digits}f} %"


def milliseconds(value: float | None) -> str:
    """0 is what a chart has where nothing was measured."""
    if not value:
        return "–"
    if value >= 1000:
        return f"{value / 1000:.3g} s"
    return f"{value:.3g} ms"


def seconds(value: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if value >= 2 * size:
            return f"{value / size:.0f} {unit}"
    return f"{value:.0f} s"


def size(value: float) -> str:
    for unit, step in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= step:
            return f"{value / step:.3g} {unit}"
    return f"{value:.0f} B"


def hour(value: datetime.datetime) -> str:
    return f"{value:%H:%M}"


def moment(value: datetime.datetime) -> str:
    return f"{value:%Y-%m-%d %H:%M}"
