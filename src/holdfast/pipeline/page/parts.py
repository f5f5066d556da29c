"""What the page is made of: sections with figures and grids. Each figure has the grid of what it shows."""

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from markupsafe import Markup

from holdfast.pipeline.page import charts, words

Row = Mapping[str, Any]
Key = TypeVar("Key")

HOURLY_MAX = 72  # hours that a chart shows one by one; above that it shows days
OTHERS = "others"
SERIES_MAX = 5  # with OTHERS as many as there are colours


COMPARED = frozenset({"hot_queues"})  # tables whose rows have shares of all calls


class Tables(NamedTuple):
    """Rows of the report tables, and the time they are about."""

    since: datetime.datetime
    until: datetime.datetime
    rows: Mapping[str, Sequence[Row]]

    def of(self, name: str) -> Sequence[Row]:
        return self.rows.get(name, ())

    def accounts(self) -> list[str]:
        """That there is anything of."""
        return sorted({str(_account(row)) for rows in self.rows.values() for row in rows if _account(row)})

    def only(self, account: str) -> "Tables":
        """What this account may see: its own rows, and none that say how much the others do."""
        own = {
            name: [row for row in rows if _account(row) == account]
            for name, rows in self.rows.items()
            if name not in COMPARED
        }
        return Tables(self.since, self.until, own)

    def with_names(self) -> "Tables":
        """Accounts by the names that bills know, where they have one. Not in costs, which have both."""
        names = {row["BillingAccountId"]: row["BillingAccountName"] for row in self.of("focus_cost")}
        named = {
            table: rows if table == "focus_cost" else [_named(row, names) for row in rows]
            for table, rows in self.rows.items()
        }
        return Tables(self.since, self.until, named)

    def colours(self) -> dict[str, int]:
        """Every account has its colour in all charts: those with most calls get one of their own."""
        calls: dict[str, int] = {}
        for row in self.of("service_levels"):
            calls[row["account"]] = calls.get(row["account"], 0) + row["requests"]
        largest = sorted(calls, key=lambda account: (-calls[account], account))
        return {account: place for place, account in enumerate(largest[:SERIES_MAX])}


def _account(row: Row) -> object:
    """None: it is of nobody, but of the ledger."""
    return row.get("account", row.get("BillingAccountId"))


def _named(row: Row, names: Mapping[str, str]) -> Row:
    return {**row, "account": names.get(row["account"], row["account"])} if "account" in row else row


class Cell(NamedTuple):
    text: str | Markup
    is_number: bool = False
    note: str = ""  # what it is exactly, for the pointer that rests on it


class Grid(NamedTuple):
    caption: str
    headings: Sequence[str]  # one that begins with ">" is of numbers
    rows: Sequence[Sequence[Cell]]
    empty: str = "Nothing."


class Figure(NamedTuple):
    title: str
    picture: Markup
    legend: Sequence[charts.Series]
    grid: Grid


class Section(NamedTuple):
    id: str
    title: str
    lead: str
    figures: Sequence[Figure] = ()
    grids: Sequence[Grid] = ()


class Tile(NamedTuple):
    name: str
    value: str
    note: str
    tone: str = ""  # good, warn, bad


def text(value: object, note: str = "") -> Cell:
    return Cell(value if isinstance(value, Markup) else str(value), note=note)


def when(value: datetime.datetime) -> Cell:
    return Cell(Markup("<time>{}</time>").format(words.moment(value)))


def number(value: str, note: str = "") -> Cell:
    return Cell(value, is_number=True, note=note)


def count(value: float) -> Cell:
    return number(words.count(value))


class Slots:
    """The time of a report cut into hours, or into days when there are many: the labels of its charts."""

    def __init__(self, since: datetime.datetime, until: datetime.datetime) -> None:
        hours = max(1, int((until - since).total_seconds()) // 3600)
        self.step = datetime.timedelta(hours=1 if hours <= HOURLY_MAX else 24)
        self.since = since
        self.count = -(-hours * 3600 // int(self.step.total_seconds()))
        form = "%H:%M" if hours <= 24 else "%d %H:%M" if self.step.days == 0 else "%m-%d"
        self.labels = [f"{since + number * self.step:{form}}" for number in range(self.count)]

    def place(self, at: datetime.datetime) -> int | None:
        place = (at - self.since) // self.step
        return place if 0 <= place < self.count else None

    def sums(self, rows: Iterable[Row], *, at: str, value: Callable[[Row], float]) -> list[float]:
        summed = [0.0] * self.count
        for row in rows:
            place = self.place(row[at])
            if place is not None:
                summed[place] += value(row)
        return summed

    def last(self, rows: Iterable[Row], *, at: str, value: Callable[[Row], float]) -> list[float]:
        """The newest value of each slot."""
        found, seen = [0.0] * self.count, [self.since - self.step] * self.count
        for row in rows:
            place = self.place(row[at])
            if place is not None and row[at] > seen[place]:
                found[place], seen[place] = value(row), row[at]
        return found


def grouped(rows: Iterable[Row], key: Callable[[Row], Key]) -> dict[Key, list[Row]]:
    """In the order in which keys first appear."""
    found: dict[Key, list[Row]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def by_account(
    title: str,
    rows: Sequence[Row],
    tables: Tables,
    *,
    at: str,
    account: str,
    value: Callable[[Row], float],
    say: charts.Say,
) -> Figure:
    """Bars of the largest accounts and of all others together."""
    slots, colours = Slots(tables.since, tables.until), tables.colours()
    groups = grouped(rows, lambda row: str(row[account]) if row[account] in colours else OTHERS)
    shown = sorted(
        (
            charts.Series(name, slots.sums(own, at=at, value=value), colours.get(name, SERIES_MAX))
            for name, own in groups.items()
        ),
        key=lambda each: each.colour,
    )
    return Figure(
        title,
        charts.stacked(title, slots.labels, shown, say=say),
        shown,
        series_grid(title, slots, shown, say=say),
    )


def series_grid(title: str, slots: Slots, shown: Sequence[charts.Series], *, say: charts.Say) -> Grid:
    rows = [
        [text(label), *(number(say(each.values[place])) for each in shown)] for place, label in enumerate(slots.labels)
    ]
    return Grid(title, ["time", *(f">{each.name}" for each in shown)], rows)
