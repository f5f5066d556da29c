"""Tables of a run: for the terminal, and as docs/PERFORMANCE.md."""

from bench.claims import claims
from bench.results import OPEN, OURS, Results

_INTRODUCTION = """# Speed

What Holdfast costs and how it compares, measured by `make bench` and written by it: do not edit.
[How it is measured](../bench/README.md) ·
[plots, to be opened in a browser](../bench/results/host.html) · [raw results](../bench/results/host.json)

"""

Rows = list[tuple[str, ...]]


def markdown(results: Results) -> str:
    parts = [
        _INTRODUCTION,
        circumstances(results),
        "\n## Asked for and measured\n",
        table(claim_rows(results)),
        _VERDICTS,
    ]
    parts += ["\n## Messages per second, and µs of the server's CPU per message\n", table(rate_rows(results))]
    parts += [_RATES, "\n## Our rate ÷ theirs\n", table(ratio_rows(results)), "\n## Who was measured\n"]
    parts += [table(contender_rows(results))]
    if results.absent or results.problems:
        parts += ["\nNot measured:\n", *(f"- {name}: {why}" for name, why in missing(results))]
    return "\n".join(parts) + "\n"


_VERDICTS = """
*must* and *goal*: that bound is reached. Ratios are medians of rounds in which both were measured one after the other,
with the lowest and the highest round. *by CPU*: their CPU time per message ÷ ours, which busy neighbours disturb least.
*both open*: Holdfast with `--no-auth`, since none of the peers checks a signature per request; else it checks them.
"""

_RATES = """
*≥*: the generator used up its core, so the server can do more. *d*: on disk before the reply.
"""


def terminal(results: Results) -> str:
    return "\n\n".join(aligned(rows) for rows in (rate_rows(results), claim_rows(results)))


def circumstances(results: Results) -> str:
    facts = [f"{name}: {value}" for name, value in (results.machine | results.settings).items()]
    took = f"Neighbours took {results.disturbance():.0%} of a core in the median run."
    return f"{results.when}. {results.note} {took}\n\n{' · '.join(facts)}.\n"


def claim_rows(results: Results) -> Rows:
    rows: Rows = [("", "what", "measured", "spread", "by CPU", "must", "goal", "reached")]
    for each in claims(results):
        bounds = (each.bound(each.must), each.bound(each.goal))
        by_cpu = "" if each.by_cpu is None else f"{each.by_cpu:.3g}×"
        rows.append((each.number, each.what, each.shown, each.spread, by_cpu, *bounds, each.verdict))
    return rows


def rate_rows(results: Results) -> Rows:
    modes = list(results.samples)
    rows: Rows = [("server", *modes)]
    for name, facts in results.contenders.items():
        mark = " (d)" if facts.is_durable else ""
        rows.append((f"{name} {facts.version}{mark}", *(_cell(results, mode, name) for mode in modes)))
    return rows


def _cell(results: Results, mode: str, name: str) -> str:
    rate, cpu = results.rate(mode, name), results.cpu_us(mode, name)
    if rate is None or cpu is None:
        return "–"
    bound = "≥ " if results.is_generator_bound(mode, name) else ""
    return f"{bound}{rate.middle:,.0f}/s, {cpu.middle:,.0f} µs"


def ratio_rows(results: Results) -> Rows:
    modes = list(results.samples)
    rows: Rows = [("peer", *modes)]
    for name in results.contenders:
        if name in (OURS, OPEN):
            continue
        ratios = [results.ratio(mode, name) for mode in modes]
        rows.append(
            (name, *(f"{each.middle:.2f} ({each.lowest:.2f}–{each.highest:.2f})" if each else "–" for each in ratios))
        )
    return rows


def contender_rows(results: Results) -> Rows:
    rows: Rows = [("server", "version", "setting", "on disk before the reply")]
    for name, facts in results.contenders.items():
        rows.append((name, facts.version, facts.setting, "yes" if facts.is_durable else "no"))
    return rows


def missing(results: Results) -> list[tuple[str, str]]:
    absent = [(name, f"absent: {why}") for name, why in results.absent.items()]
    return absent + [(name, f"failed: {why}") for name, why in results.problems.items()]


def table(rows: Rows) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def aligned(rows: Rows) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
