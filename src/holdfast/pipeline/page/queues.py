"""The page on queues: what flows through them, what died in them, which fill up, and which calls could be saved."""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup, escape

from holdfast.pipeline.page import charts, parts, words
from holdfast.pipeline.page.parts import Figure, Grid, Row, Section, Slots, Tables, Tile

FLOW, CAUSES, FORECAST, HOT = "queue_flow", "dead_letter_causes", "capacity_forecast", "hot_queues"

ADVISED_HOURS_MIN = 3
ADVICE = {
    "LONG_POLL": "Let receives wait: WaitTimeSeconds=20 would have saved {saved} calls.",
    "BATCH_SENDS": "Send in batches of ten: {saved} calls fewer.",
    "BATCH_DELETES": "Delete in batches of ten: {saved} calls fewer.",
    "ADD_CONSUMERS": "Consumers do not keep up: add some.",
}


def sums(rows: Sequence[Row], column: str) -> int:
    return sum(row[column] or 0 for row in rows)


def tile(tables: Tables) -> Tile:
    died = sums(tables.of(FLOW), "dead_lettered")
    new = sum(1 for row in tables.of(CAUSES) if row["is_new"])
    return Tile(
        "messages that died",
        words.count(died),
        words.some(new, "new cause") if new else "no new cause",
        "warn" if new else "",
    )


def flow(tables: Tables) -> Section:
    rows, slots = tables.of(FLOW), Slots(tables.since, tables.until)
    sent, deleted = sums(rows, "sent"), sums(rows, "deleted")
    wasted = sums([row for row in rows if row["advice"]], "wasted_requests")
    lead = f"{words.count(sent)} messages were sent and {words.count(deleted)} deleted after work."
    if wasted:
        lead += f" {words.count(wasted)} calls could have been saved."
    groups = sorted(parts.grouped(rows, lambda row: (row["account"], row["queue"])).items())
    lines = [[parts.text(account), parts.text(queue), *_flow_cells(own, slots)] for (account, queue), own in groups]
    headings = [
        *[
            "account",
            "queue",
            ">sent",
            ">deleted",
            ">expired",
            ">redriven",
            ">waiting now",
            "waiting",
            ">oldest",
            ">empty receives",
        ],
        *[">per send"],
    ]
    grids = [Grid("What went through them", headings, lines)]
    advised = [(account, queue, advice(own)) for (account, queue), own in groups]
    if any(said for _, _, said in advised):
        shown = [[parts.text(each) for each in line] for line in advised if line[2]]
        grids.append(Grid("What would help", ["account", "queue", "advice"], shown))
    return Section("queues", "Queues", lead, [], grids)


def _flow_cells(rows: Sequence[Row], slots: Slots) -> list[parts.Cell]:
    last = max(rows, key=lambda row: row["hour"])
    receives = sum(row["empty_receives"] / row["empty_receive_ratio"] for row in rows if row["empty_receive_ratio"])
    calls = sum(row["sent"] / row["batch_size"] for row in rows if row["batch_size"])
    depth = slots.last(rows, at="hour", value=lambda row: float(row["depth"] or 0))
    return [
        parts.count(sums(rows, "sent")),
        parts.count(sums(rows, "deleted")),
        parts.count(sums(rows, "expired")),
        parts.count(sums(rows, "redriven")),
        parts.count(last["depth"] or 0),
        parts.text(charts.spark(f"waiting messages, at most {words.count(max(depth))}", depth)),
        parts.number(words.seconds(last["oldest_age_s"] or 0)),
        parts.number(words.percent(sums(rows, "empty_receives") / receives, 0) if receives else "–"),
        parts.number(f"{sums(rows, 'sent') / calls:.1f}" if calls else "–"),
    ]


def advice(rows: Sequence[Row]) -> str:
    """What was advised for several hours, and what following it would have saved in all of them."""
    groups = parts.grouped([row for row in rows if row["advice"]], lambda row: str(row["advice"]))
    lasting = [(code, own) for code, own in groups.items() if len(own) >= min(ADVISED_HOURS_MIN, len(rows))]
    return " ".join(advice_text(code, own) for code, own in lasting)


def advice_text(code: str, rows: Sequence[Row]) -> str:
    return ADVICE[code].format(saved=words.count(sums(rows, "wasted_requests")))


def causes(tables: Tables) -> Section:
    rows = sorted(tables.of(CAUSES), key=lambda row: (-row["count"], row["fingerprint"]))
    count = sums(rows, "count")
    lead = f"{words.some(count, 'message')} died of {words.some(len(rows), 'cause')}." if rows else "No message died."
    lines = [
        [
            parts.text(_cause(row), "examples: " + ", ".join(row["examples"])),
            parts.text(", ".join(row["queues"]), f"account {row['account']}"),
            parts.text(", ".join(map(_who, row["consumers"])) or "–", ", ".join(row["consumers"])),
            parts.count(row["count"]),
            parts.text(charts.bar(f"{words.percent(row['share'])} of the account's dead letters", row["share"])),
            parts.text(charts.spark("dead letters per hour of the last day", row["trend"], colour=1)),
            parts.when(row["first_seen"]),
            parts.when(row["last_seen"]),
        ]
        for row in rows
    ]
    headings = ["cause", "queues", "given back by", ">messages", "share", "last day", "first seen", "last seen"]
    figures = [_dead_letters(tables)] if count else []
    return Section("dead-letters", "Dead letters", lead, figures, [Grid("Causes", headings, lines, "None.")])


def _who(arn: str) -> str:
    return arn.rpartition("/")[2] or arn


def _cause(row: Row) -> Markup:
    badge = Markup(' <span class="badge">new</span>') if row["is_new"] else Markup()
    return escape(row["title"]) + badge


def _dead_letters(tables: Tables) -> Figure:
    rows = [row for row in tables.of(FLOW) if row["dead_lettered"]]
    return parts.by_account(
        "Messages that died, by account",
        rows,
        tables,
        at="hour",
        account="account",
        value=lambda row: float(row["dead_lettered"]),
        say=words.short,
    )


def capacity(tables: Tables, *, is_compared: bool = True) -> Section:
    """`is_compared`: with the shares that queues have of all calls."""
    rows = [
        row for row in tables.of(FORECAST) if row["status"] != "RIGHT_SIZED" or row["measure"] != "messages in flight"
    ]
    full = [row for row in tables.of(FORECAST) if row["status"] == "UNDER_PROVISIONED"]
    noisy = [row["queue"] for row in tables.of(HOT) if row["is_noisy"]]
    lead = (
        f"{words.some(len(full), 'queue runs', 'queues run')} into a limit soon."
        if full
        else "No queue runs into a limit within three days."
    )
    if noisy:
        lead += f" More than half of all calls of an hour were for one queue: {', '.join(noisy)}."
    grids = [_forecast(rows), *([_hot(tables.of(HOT))] if is_compared else [])]
    return Section("capacity", "Capacity", lead, [], grids)


def _forecast(rows: Sequence[Row]) -> Grid:
    lines = [
        [
            parts.text(row["account"]),
            parts.text(row["queue"]),
            parts.text(row["measure"]),
            parts.count(row["value"]),
            parts.count(row["limit"]),
            parts.number(words.percent(row["fill_ratio"])),
            parts.text(_bar(row)),
            parts.number("–" if row["hours_to_80"] is None else words.seconds(row["hours_to_80"] * 3600)),
            parts.text(row["action"]),
        ]
        for row in sorted(rows, key=lambda row: -row["fill_ratio"])
    ]
    headings = ["account", "queue", "of what", ">now", ">limit", ">full", "", ">to 80 %", "what to do"]
    return Grid("Queues with a limit", headings, lines, "No queue has a limit of its own, or comes near one.")


def _bar(row: Row) -> Any:
    colour = "bad" if row["status"] == "UNDER_PROVISIONED" else "s0"
    return charts.bar(f"{words.percent(row['fill_ratio'])} full", row["fill_ratio"], colour=colour)


def _hot(rows: Sequence[Row]) -> Grid:
    lines = [
        [
            parts.text(row["account"]),
            parts.text(row["queue"]),
            parts.count(row["requests"]),
            parts.number(words.percent(row["share"])),
            parts.text(charts.bar(f"{words.percent(row['share'])} of all calls", row["share"])),
            parts.number(f"{row['peak_per_second']:,.0f}"),
            parts.number(words.percent(row["peak_share"], 0)),
            parts.count(row["throttled"]),
        ]
        for row in sorted(rows, key=lambda row: row["rank"])[:10]
    ]
    headings = ["account", "queue", ">calls", ">of all", "", ">per second at peak", ">of all at peak", ">throttled"]
    return Grid("Busiest queues", headings, lines)
