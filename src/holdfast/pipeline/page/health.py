"""The page on service levels: what failed, how fast calls were answered, what is left of the error budgets."""

from collections.abc import Sequence

from holdfast.pipeline.page import charts, parts, words
from holdfast.pipeline.page.parts import Figure, Grid, Row, Section, Slots, Tables, Tile

BUCKETS = 32
LEVELS = "service_levels"


def merged(rows: Sequence[Row]) -> list[int]:
    found = [0] * BUCKETS
    for row in rows:
        for place, count in enumerate(row["latency"]):
            found[place] += count
    return found


def quantile_ms(histogram: Sequence[int], share: float) -> float | None:
    """As publish/histogram.py, for histograms that the page adds up itself."""
    if not sum(histogram):
        return None
    rank, below = max(1.0, share * sum(histogram)), 0
    for place, count in enumerate(histogram):
        if count and below + count >= rank:
            return float(2 ** (place - 1 + (rank - below) / count)) / 1000
        below += count
    raise AssertionError("the last bucket reaches every rank")


def sums(rows: Sequence[Row], column: str) -> int:
    return sum(row[column] for row in rows)


def tiles(tables: Tables) -> list[Tile]:
    rows = tables.of(LEVELS)
    requests, bad = sums(rows, "requests"), sums(rows, "bad")
    if not requests:
        return [Tile("calls", "0", "nothing was asked")]
    target = max(row["target"] for row in rows)
    share = 1 - bad / requests
    slow = quantile_ms(merged(rows), 0.99)
    return [
        Tile("calls", words.short(requests), f"{words.count(requests)} in all"),
        Tile(
            "answered well",
            words.percent(share, 3),
            f"target {words.percent(target, 2)}; {words.count(bad)} failed",
            "good" if share >= target else "bad",
        ),
        Tile("99 of 100 within", words.milliseconds(slow), "from the last byte in to the reply"),
    ]


def section(tables: Tables) -> Section:
    rows, slots = tables.of(LEVELS), Slots(tables.since, tables.until)
    if not rows:
        return Section("levels", "Service levels", "No call was counted.")
    missed = sum(1 for own in parts.grouped(rows, _queue).values() if _budget(own) < 0)
    lead = (
        f"{missed} of {words.some(len(parts.grouped(rows, _queue)), 'queue')} used up their error budget, so far."
        if missed
        else "Every queue is within its error budget."
    )
    failed = [row for row in rows if row["bad"]]
    figures = [_latency(rows, slots)]
    if failed:
        figures.append(
            parts.by_account(
                "Failed calls by account",
                failed,
                tables,
                at="hour",
                account="account",
                value=lambda row: float(row["bad"]),
                say=words.short,
            )
        )
    return Section("levels", "Service levels", lead, figures, [_queues(rows)])


def _latency(rows: Sequence[Row], slots: Slots) -> Figure:
    by_slot = parts.grouped(rows, lambda row: slots.place(row["hour"]))
    histograms = [merged(by_slot.get(place, ())) for place in range(slots.count)]
    shown = [
        charts.Series(name, [quantile_ms(each, share) or 0.0 for each in histograms], colour)
        for colour, (name, share) in enumerate((("median", 0.5), ("95 of 100", 0.95), ("99 of 100", 0.99)))
    ]
    title = "Time to answer"
    return Figure(
        title,
        charts.lines(title, slots.labels, shown, say=words.milliseconds, is_log=True),
        shown,
        parts.series_grid(title, slots, shown, say=words.milliseconds),
    )


def _queue(row: Row) -> tuple[str, str]:
    return row["account"], row["queue"]


def _budget(rows: Sequence[Row]) -> float:
    """What is left at the end, of the action that has least."""
    last: dict[str, Row] = {}
    for row in rows:
        if row["action"] not in last or row["hour"] > last[row["action"]]["hour"]:
            last[row["action"]] = row
    return min(float(row["budget_left"]) for row in last.values())


def _queues(rows: Sequence[Row]) -> Grid:
    groups = sorted(parts.grouped(rows, _queue).items(), key=lambda one: (_budget(one[1]), one[0]))
    lines = []
    for (account, queue), own in groups:
        requests, bad, left = sums(own, "requests"), sums(own, "bad"), _budget(own)
        histogram = merged(own)
        colour = "good" if left > 0.5 else "warn" if left > 0 else "bad"
        lines.append(
            [
                parts.text(account),
                parts.text(queue),
                parts.count(requests),
                parts.count(bad),
                parts.count(sums(own, "throttled")),
                parts.number(words.percent(1 - bad / requests, 3)),
                parts.number(words.percent(left, 0) if left >= 0 else "used up", f"{left:.2f} of the budget is left"),
                parts.text(
                    charts.bar(f"{words.percent(max(left, 0), 0)} of the error budget is left", left, colour=colour)
                ),
                parts.number(words.milliseconds(quantile_ms(histogram, 0.5))),
                parts.number(words.milliseconds(quantile_ms(histogram, 0.99))),
            ]
        )
    headings = [
        "account",
        "queue",
        ">calls",
        ">failed",
        ">throttled",
        ">answered well",
        ">budget left",
        "",
        ">median",
        ">99 %",
    ]
    return Grid("Queues, least error budget first", headings, lines)
