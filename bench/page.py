"""One self-contained page of a run: plots first, then the tables they come from."""

import html

from bench.plot import Axis, Bar, bars, curve, decades, from_zero
from bench.report import Rows, circumstances, claim_rows, contender_rows, missing, ratio_rows
from bench.results import OPEN, OURS, Results

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #667085; --paper: #fff; --line: #e3e7ee; --ours: #1668dc;
  --durable: #5b7083; --memory: #c3ccd6; --good: #12805c; --bad: #c0392b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --soft: #98a2b3; --paper: #12161c; --line: #2a313c;
  --ours: #5a9cff; --durable: #8fa3b8; --memory: #46525f; --good: #4cc38a; --bad: #ff7b6b; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 1040px;
  margin: 2rem auto; padding: 0 1rem; }
h1 { margin-bottom: 0; } h2 { margin-top: 2.5rem; font-size: 1.2rem; } h3 { margin: .8rem 0 .4rem; font-size: 1rem; }
p, figcaption { color: var(--soft); max-width: 80ch; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(440px, 1fr)); gap: 1rem 2.5rem; }
figure { margin: 0; } svg { width: 100%; height: auto; overflow: visible; }
svg text { font-size: 12.5px; fill: var(--ink); }
.ours { fill: var(--ours); } .durable { fill: var(--durable); } .memory { fill: var(--memory); }
.grid { stroke: var(--line); }
.curve { fill: none; stroke: var(--ours); stroke-width: 2; } .point { fill: var(--ours); }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .88rem; }
th, td { text-align: left; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line); white-space: nowrap; }
td.goal, td.must { color: var(--good); } td.missed { color: var(--bad); }
.key span { display: inline-block; padding: .1rem .6rem; margin: 0 .6rem .3rem 0; border-radius: 3px; color: #fff; }
"""

_KEY = """<p class="key"><span style="background:var(--ours)">Holdfast: on disk before the reply</span>
<span style="background:var(--durable)">peer, on disk before the reply</span>
<span style="background:var(--memory);color:var(--ink)">peer, not on disk before the reply</span></p>"""


def page(results: Results) -> str:
    parts = ["<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"]
    parts += [f"<title>Holdfast: speed</title><style>{_STYLE}</style><h1>Speed of Holdfast</h1>"]
    parts += [f"<p>{html.escape(circumstances(results))}</p>", _KEY]
    parts += [
        "<h2>Messages per second, one core</h2><div class=plots>",
        *(_rates(results, mode) for mode in results.samples),
    ]
    parts += [
        "</div><h2>CPU of the server per message</h2><div class=plots>",
        *(_costs(results, mode) for mode in results.samples),
    ]
    parts += ["</div><h2>Holdfast alone</h2><div class=plots>", *_curves(results), "</div>"]
    parts += ["<h2>Asked for and measured</h2>", _table(claim_rows(results)), "<h2>Our rate ÷ theirs</h2>"]
    parts += [_table(ratio_rows(results)), "<h2>Who was measured</h2>", _table(contender_rows(results))]
    parts += [f"<p>{html.escape(name)}: {html.escape(why)}</p>" for name, why in missing(results)]
    return "\n".join(parts) + "\n"


def _kind(results: Results, name: str) -> str:
    return "ours" if name in (OURS, OPEN) else "durable" if results.contenders[name].is_durable else "memory"


def _rates(results: Results, mode: str) -> str:
    found = [(name, results.rate(mode, name)) for name in results.samples[mode]]
    rows = [
        Bar(
            name,
            rate.middle,
            f"{'≥ ' * results.is_generator_bound(mode, name)}{rate.middle:,.0f}/s",
            _kind(results, name),
        )
        for name, rate in found
        if rate
    ]
    return _figure(mode, bars(sorted(rows, key=lambda bar: -bar.value)))


def _costs(results: Results, mode: str) -> str:
    """Servers that cost more than some twenty times what we do would leave nothing else to see: they are cut off."""
    found = [(name, results.cpu_us(mode, name)) for name in results.samples[mode]]
    ours = results.cpu_us(mode, OURS)
    longest = 20 * ours.middle if ours else float("inf")
    rows = [
        Bar(
            name,
            min(cost.middle, longest),
            f"{cost.middle:,.0f} µs{' (cut off)' * (cost.middle > longest)}",
            _kind(results, name),
        )
        for name, cost in found
        if cost
    ]
    return _figure(mode, bars(sorted(rows, key=lambda bar: bar.value)))


_COLOURED = ("goal", "must", "missed")
_PERCENTILES = [(1.0, "0"), (10.0, "90 %"), (100.0, "99 %"), (1000.0, "99.9 %"), (10_000.0, "99.99 %")]


def _curves(results: Results) -> list[str]:
    drawn = []
    for name, said in (
        ("send_latency", "send acknowledged, at half load"),
        ("poll_latency", "send → waiting long poll"),
    ):
        if points := results.curves.get(name):
            drawn.append(_figure(said, _latency(points)))
    if points := results.curves.get("depth_cpu_us"):
        across = decades(points[0][0], points[-1][0], name="messages waiting")
        up = from_zero(max(cost for _, cost in points) * 1.2, name="µs of CPU per message, cycle ×10")
        drawn.append(_figure("the depth of the backlog", curve(points, across, up)))
    for name, points in results.curves.items():
        if name.startswith("flat "):
            across = decades(1, points[-1][0], name=name.removeprefix("flat "))
            up = from_zero(max(cost for _, cost in points) * 1.2, name="µs of CPU per message, cycle ×10")
            drawn.append(_figure(f"beside ever more: {name.removeprefix('flat ')}", curve(points, across, up)))
    return drawn


def _latency(points: list[tuple[float, float]]) -> str:
    """Over 1 / (1 - percentile), so that each nine is as wide as the one before."""
    nines = [(1 / (1 - percent / 100), value) for value, percent in points if percent < 100]
    nines = [point for point in nines if point[0] <= _PERCENTILES[-1][0]]
    up = decades(min(value for _, value in nines), max(value for _, value in nines), name="latency", unit=" ms")
    return curve(nines, Axis("percentile", _PERCENTILES), up)


def _figure(title: str, drawing: str) -> str:
    return f"<figure><h3>{html.escape(title)}</h3>{drawing}</figure>"


def _table(rows: Rows) -> str:
    head = "".join(f"<th>{html.escape(cell)}" for cell in rows[0])
    lines = [
        "<tr>" + "".join(f'<td class="{cell if cell in _COLOURED else ""}">{html.escape(cell)}' for cell in row)
        for row in rows[1:]
    ]
    return f"<div class=scroll><table><tr>{head}{''.join(lines)}</table></div>"
