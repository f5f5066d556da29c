"""The page on the record itself: what needs attention, who changed what, and whether the ledger's own checks hold."""

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.pipeline.page import parts, queues, words
from holdfast.pipeline.page.parts import Grid, Row, Section, Tables, Tile

ALERTS, AUDIT, DIGEST, CHECKS = "alerts", "audit_ocsf", "audit_digest", "quality_checks"
ORDER = ("critical", "warning", "notice", "saving")
AUDIT_SHOWN = 50
QUEUES_NAMED = 4  # in one line; the table has all of them


class Point(NamedTuple):
    """One line of what should be looked at."""

    severity: str
    when: str
    text: str
    where: str


def points(tables: Tables) -> list[Point]:
    """The same thing at the same time in many queues is one point."""
    groups = parts.grouped(tables.of(ALERTS), lambda row: (row["severity"], row["kind"], row["hour"], row["until"]))
    found = [_alert(own) for own in groups.values()]
    found += [
        Point("warning", "now", row["action"], _named(row))
        for row in tables.of("capacity_forecast")
        if row["status"] == "UNDER_PROVISIONED"
    ]
    advised = parts.grouped([row for row in tables.of("queue_flow") if row["advice"]], lambda row: str(row["advice"]))
    found += [
        Point("notice" if code == "ADD_CONSUMERS" else "saving", "", queues.advice_text(code, own), _where(own))
        for code, own in advised.items()
    ]
    return sorted(found, key=lambda point: (ORDER.index(point.severity), point.when, point.where))


def _alert(rows: Sequence[Row]) -> Point:
    worst = max(rows, key=lambda row: row["value"])
    when = f"{words.hour(worst['hour'])} – {words.hour(worst['until'])}"
    said = worst["title"] if len(rows) == 1 else f"{worst['title']} That is the worst of {len(rows)} queues."
    return Point(worst["severity"], when, said, _where(rows))


def _where(rows: Sequence[Row]) -> str:
    names = sorted({_named(row) for row in rows})
    return ", ".join(names[:QUEUES_NAMED]) + (f" and {len(names) - QUEUES_NAMED} more" if names[QUEUES_NAMED:] else "")


def _named(row: Row) -> str:
    return f"{row['account']} / {row['queue']}"


def tile(tables: Tables) -> Tile:
    checks = tables.of(CHECKS)
    wrong = [row for row in checks if not row["is_good"]]
    if not checks:
        return Tile("ledger", "not checked", "holdfast pipeline check", "warn")
    if wrong:
        return Tile("ledger", f"{len(wrong)} wrong", "see below", "bad")
    return Tile("ledger", "balanced", f"{words.some(len(checks), 'check holds', 'checks hold')}", "good")


def audit(tables: Tables) -> Section:
    rows = sorted(tables.of(AUDIT), key=lambda row: (row["time"], row["uid"]), reverse=True)
    refused = sum(1 for row in rows if row["status_id"] != 1)
    lead = f"{words.some(len(rows), 'management action')}, {words.count(refused)} of them refused."
    if digests := sorted(tables.of(DIGEST), key=lambda row: row["number"]):
        sealed = words.some(len(digests), "file is", "files are")
        lead += f" {sealed} sealed in a chain that ends with {digests[-1]['digest'][:16]}…"
    lines = [
        [
            parts.when(row["time"]),
            parts.text(row["account"]),
            parts.text(row["principal"].rpartition("/")[2], row["principal"]),
            parts.text(row["action"]),
            parts.text(row["queue"]),
            parts.text("done" if row["status_id"] == 1 else row["error_code"]),
            parts.text(row["source_ip"]),
        ]
        for row in rows[:AUDIT_SHOWN]
    ]
    caption = "Who did what" if len(rows) <= AUDIT_SHOWN else f"The last {AUDIT_SHOWN} of {len(rows)} actions"
    headings = ["time", "account", "who", "action", "queue", "outcome", "from"]
    return Section("audit", "Audit", lead, [], [Grid(caption, headings, lines, "Nobody changed anything.")])


def checks(tables: Tables) -> Section:
    rows = sorted(tables.of(CHECKS), key=lambda row: (row["is_good"], row["check"], row["subject"]))
    wrong = sum(1 for row in rows if not row["is_good"])
    lead = f"{wrong} checks failed; figures above may be wrong." if wrong else f"{len(rows)} checks, all of them hold."
    lines = [
        [
            parts.text("holds" if row["is_good"] else "WRONG"),
            parts.text(row["check"]),
            parts.text(row["subject"]),
            parts.number(_grouped(row["expected"])),
            parts.number(_grouped(row["found"])),
        ]
        for row in rows
    ]
    headings = ["", "check", "of what", ">expected", ">found"]
    return Section("ledger", "The ledger itself", lead, [], [Grid("Checks", headings, lines, "None was made.")])


def _grouped(text: str | None) -> str:
    """What a check saw, as people read numbers; some saw words."""
    return f"{int(text):,}" if text and text.isdecimal() else text or ""
